"""What a summary says about arrays, in NumPy alone: the numbers of a histogram, the pixels of a picture."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._core import dtypes
from ..._engine.tensor import Tensor


def make_np(x: Any) -> np.ndarray[Any, Any]:
    """An array of what was handed over: an array, a tensor or a number."""
    if isinstance(x, np.ndarray):
        return x
    if np.isscalar(x):
        return np.array([x])
    if isinstance(x, Tensor):
        wide: Any = x.to(dtypes.float16) if x.dtype is dtypes.bfloat16 else x
        return np.asarray(wide.detach().cpu().numpy())
    raise NotImplementedError(f"Got {type(x)}, but numpy array or torch tensor are expected.")


def default_bins() -> list[float]:
    """Edges of a histogram that grow by a tenth, on both sides of zero."""
    edges, edge = [], 1e-12
    while edge < 1e20:
        edges.append(edge)
        edge *= 1.1
    return [*(-e for e in reversed(edges)), 0, *edges]


def histogram_numbers(
    values: np.ndarray[Any, Any], bins: Any, max_bins: int | None = None
) -> dict[str, Any]:
    """The fields of a histogram: its bins from an empty one to the last that is not, each by its upper edge."""
    if values.size == 0:
        raise ValueError("The input has no element.")
    flat = values.reshape(-1)
    counts, edges = np.histogram(flat, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        counts, edges = _coarser(counts, edges, len(counts) // max_bins)
    filled = np.flatnonzero(counts)
    # One bin without values is shown as it is; several are refused.
    first, last = (int(filled[0]), int(filled[-1])) if filled.size else (len(counts), 0)
    limits = edges[first : last + 2]
    if limits.size == 0:
        raise ValueError("The histogram is empty, please file a bug report.")
    before = counts[first - 1 : first] if first else np.zeros(1, counts.dtype)
    return {
        "min": flat.min(),
        "max": flat.max(),
        "num": len(flat),
        "sum": flat.sum(),
        "sum_squares": flat.dot(flat),
        "bucket_limit": limits.tolist(),
        "bucket": np.concatenate([before, counts[first : last + 1]]).tolist(),
    }


def _coarser(counts: Any, edges: Any, every: int) -> tuple[Any, Any]:
    """Bins joined, the last of them with what is left."""
    # Short by a full group where only the number of bins that are left over matters, as torch pads.
    left = len(counts) % every
    padded = np.pad(counts, (0, every - left)) if left else counts
    return padded.reshape(-1, every).sum(axis=-1), np.append(edges[:-1:every], edges[-1])


def picture(x: Any, dataformats: str) -> np.ndarray[Any, Any]:
    """Bytes by height, width and channel; floating numbers are between 0 and 1, several pictures stand in a grid."""
    laid = convert_to_HWC(make_np(x), dataformats)
    scale = 1 if laid.dtype == np.uint8 else 255
    return (laid.astype(np.float32) * scale).clip(0, 255).astype(np.uint8)


def convert_to_HWC(tensor: np.ndarray[Any, Any], input_format: str) -> np.ndarray[Any, Any]:
    """Pictures with their dimensions in another order, or without channels; one channel becomes three."""
    if len(set(input_format)) != len(input_format):
        raise AssertionError(
            f"You can not use the same dimension shorthand twice. input_format: {input_format}"
        )
    if tensor.ndim != len(input_format):
        raise AssertionError(
            f"size of input tensor and input format are different. tensor shape: {tensor.shape}, "
            f"input_format: {input_format}"
        )
    order = {4: "NCHW", 3: "HWC", 2: "HW"}[len(input_format)]
    turned = tensor.transpose([input_format.upper().find(c) for c in order])
    if len(order) == 4:
        return make_grid(turned).transpose(1, 2, 0)
    if len(order) == 2:
        turned = turned[..., None]
    return np.repeat(turned, 3, axis=2) if turned.shape[2] == 1 else turned


def make_grid(images: np.ndarray[Any, Any], ncols: int = 8) -> np.ndarray[Any, Any]:
    """Pictures side by side in rows, the rest of the last row black."""
    if images.shape[1] == 1:
        images = np.repeat(images, 3, axis=1)
    if images.ndim != 4 or images.shape[1] != 3:
        raise AssertionError("Input should be a 4D numpy array with 3 channels")
    n, _, height, width = images.shape
    ncols = min(n, ncols)
    nrows = math.ceil(n / ncols)
    cells = np.zeros((nrows * ncols, 3, height, width), images.dtype)
    cells[:n] = images
    grid = cells.reshape(nrows, ncols, 3, height, width).transpose(2, 0, 3, 1, 4)
    return grid.reshape(3, nrows * height, ncols * width)
