"""The operators of torchvision's library in C++, as functions of tensors: `nms`, `roi_align`, `deform_conv2d`.

torchvision asks for its library when it is imported, by `torch.ops.load_library`. The others of its operators, which
few programs use, are declared and say so when they are called.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._core.arrays.dtypes import int64
from .._engine.entry.bind import NAMESPACES
from .._engine.memory.tensor import Tensor
from .whole import Kernel, made, refused

_t = NAMESPACES[""]
_MISSING = (
    "qnms", "qroi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "_roi_align_backward", "_ps_roi_align_backward",
    "_roi_pool_backward", "_ps_roi_pool_backward", "_deform_conv2d_backward",
)  # fmt: skip


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """The boxes that overlap with no better one that is kept, best first."""
    boxes, order = dets.detach().cpu().numpy(), scores.detach().argsort(descending=True, stable=True).cpu().numpy()
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    dropped, kept = np.zeros(len(boxes), bool), []
    for i in order:
        if dropped[i]:
            continue
        kept.append(int(i))
        low, high = np.maximum(boxes[i, :2], boxes[:, :2]), np.minimum(boxes[i, 2:], boxes[:, 2:])
        inter = np.prod(np.maximum(high - low, 0), axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            dropped |= inter / (areas[i] + areas - inter) > iou_threshold
    return _t["tensor"](kept, dtype=int64, device=dets.device)


def roi_align(
    input: Any,
    rois: Any,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """Means over the cells of a grid in each region, of values between pixels.

    Regions that are sampled at equally many places are computed together.
    """
    boxes = rois.detach()
    starts = boxes[:, 1:3] * spatial_scale - (0.5 if aligned else 0.0)
    sizes = boxes[:, 3:5] * spatial_scale - (0.5 if aligned else 0.0) - starts
    sizes = sizes if aligned else sizes.clamp(min=1.0)
    cells = sizes / _t["tensor"]([pooled_width, pooled_height], dtype=sizes.dtype, device=sizes.device)
    if sampling_ratio > 0:
        counts = np.full((len(rois), 2), sampling_ratio)
    else:
        counts = np.ceil(cells.cpu().numpy()).astype(np.int64)
    out = input.new_zeros((len(rois), input.shape[1], pooled_height, pooled_width))
    for nx, ny in np.unique(counts, axis=0).tolist():
        of = _t["tensor"](np.nonzero((counts == (nx, ny)).all(1))[0].tolist(), device=input.device)
        if nx > 0 and ny > 0:
            y = _places(starts[of, 1], cells[of, 1], pooled_height, ny)
            x = _places(starts[of, 0], cells[of, 0], pooled_width, nx)
            means = _samples(input, boxes[of, 0].long(), y, x)
            means = means.unflatten(2, (pooled_width, nx)).unflatten(1, (pooled_height, ny)).mean((2, 4))
            out = out.index_put((of,), means.permute(0, 3, 1, 2))
    return out


def _places(start: Tensor, cell: Tensor, cells: int, n: int) -> Tensor:
    """Where each region is sampled along one dimension: `n` places in each of its cells."""
    steps = (
        _t["arange"](cells, dtype=cell.dtype, device=cell.device)[:, None]
        + (_t["arange"](n, dtype=cell.dtype, device=cell.device) + 0.5) / n
    )
    return start[:, None] + cell[:, None] * steps.flatten()


def _samples(input: Any, batch: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Values at the places `y` by `x` of each region, with channels last; nothing lies more than a pixel outside."""
    _, channels, height, width = input.shape
    pixels = input.permute(0, 2, 3, 1).reshape(-1, channels)
    (y0, y1, wy, in_y), (x0, x1, wx, in_x) = _neighbours(y, height), _neighbours(x, width)
    found: Any = 0.0
    for row, by_row in ((y0, 1 - wy), (y1, wy)):
        for column, by_column in ((x0, 1 - wx), (x1, wx)):
            at = (batch[:, None, None] * height + row[:, :, None]) * width + column[:, None, :]
            weight = (by_row * in_y)[:, :, None] * (by_column * in_x)[:, None, :]
            found = found + pixels[at] * weight[..., None]
    return found


def _neighbours(at: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The pixels before and after each place, the share of the later one, and whether the place counts."""
    counts = (at >= -1) & (at <= n)
    at = at.clamp(min=0)
    before = at.long().clamp(max=n - 1)
    after = (before + 1).clamp(max=n - 1)
    return before, after, (at - before).clamp(0, 1) * (before < n - 1), counts.to(at.dtype)


def deform_conv2d(
    input: Any,
    weight: Any,
    offset: Any,
    mask: Tensor,
    bias: Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Tensor:
    """A convolution whose kernel looks at pixels moved by `offset`, and weighs them by `mask`."""
    n, channels, height, width = input.shape
    out_channels, _, kh, kw = weight.shape
    oh = (height + 2 * pad_h - dilation_h * (kh - 1) - 1) // stride_h + 1
    ow = (width + 2 * pad_w - dilation_w * (kw - 1) - 1) // stride_w + 1
    moved = offset.view(n, offset_groups, kh * kw, 2, oh, ow)
    base_y = _kernel_places(input, oh, stride_h, pad_h, kh, dilation_h)
    base_x = _kernel_places(input, ow, stride_w, pad_w, kw, dilation_w)
    y = moved[:, :, :, 0] + base_y.repeat_interleave(kw, 0)[:, :, None]
    x = moved[:, :, :, 1] + base_x.repeat(kh, 1)[:, None, :]
    taken = _between(input.view(n, offset_groups, channels // offset_groups, height * width), y, x, height, width)
    if use_mask:
        taken = taken * mask.view(n, offset_groups, 1, kh * kw, oh, ow)
    columns = taken.reshape(n, groups, channels // groups * kh * kw, oh * ow)
    kernel = weight.reshape(groups, out_channels // groups, channels // groups * kh * kw)
    out = _t["einsum"]("gok,ngkp->ngop", kernel, columns).reshape(n, out_channels, oh, ow)
    return out + bias.view(1, -1, 1, 1)


def _kernel_places(input: Any, n: int, stride: int, pad: int, k: int, dilation: int) -> Tensor:
    """Where each element of a kernel looks along one dimension, before it is moved: one row for each element."""
    at = np.arange(k)[:, None] * dilation + np.arange(n)[None] * stride - pad
    return _t["tensor"](at.tolist(), dtype=input.dtype, device=input.device)


def _between(pixels: Any, y: Any, x: Any, height: int, width: int) -> Tensor:
    """Values between pixels, for each group of channels; zero outside."""
    low_y, low_x = y.detach().floor(), x.detach().floor()
    n, groups, channels = pixels.shape[:3]
    found: Any = 0.0
    for row, by_row in ((low_y, 1 - (y - low_y)), (low_y + 1, y - low_y)):
        for column, by_column in ((low_x, 1 - (x - low_x)), (low_x + 1, x - low_x)):
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            at = (row.clamp(0, height - 1) * width + column.clamp(0, width - 1)).long().flatten(2)
            values = pixels.gather(3, at[:, :, None].expand(-1, -1, channels, -1)).view(
                n, groups, channels, *y.shape[2:]
            )
            found = found + values * (by_row * by_column * inside)[:, :, None]
    return found


_SCHEMAS: dict[str, Kernel] = {
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor": nms,
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor": roi_align,
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, "
    "SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, "
    "SymInt offset_groups, bool use_mask) -> Tensor": deform_conv2d,
    "_cuda_version() -> int": lambda: -1,
}


def operators() -> Iterator[object]:
    """The operators of the namespace `torchvision`."""
    for schema, fn in _SCHEMAS.items():
        yield made(f"torchvision::{schema}", fn)
    for name in _MISSING:
        yield refused("torchvision", name, "nms, roi_align and deform_conv2d")
