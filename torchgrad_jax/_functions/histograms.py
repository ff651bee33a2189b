"""Histograms of points in several dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core import dtypes
from .._core.kernels import cpp_name
from .._engine.arguments import as_int
from .._engine.bind import NAMESPACES, composite
from .._engine.concrete import concrete
from .._engine.return_types import return_type
from .._engine.tensor import Tensor
from .create import from_host

_Result = return_type("histogramdd", ("hist", "bin_edges"))


@composite(method=False)
def histogramdd(
    input: Tensor, bins: Any, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> Any:
    """How many of the points (the last dimension holds coordinates) fall into each cell of a grid."""
    m = input._m
    if not m.ndim:
        raise IndexError("Dimension specified as -1 but tensor has no dimensions")
    if m.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    if not m.dtype.is_floating_point or m.dtype not in (dtypes.float32, dtypes.float64):
        name = dtypes.scalar_type_name(m.dtype)
        raise NotImplementedError(f"\"histogramdd\" not implemented for '{name}'")
    n = m.shape[-1]
    count = as_int(bins)
    given: tuple[Any, ...] = (count,) * n if count is not None else tuple(bins)
    points = concrete(input).reshape(-1, n)
    if given and isinstance(given[0], Tensor):
        edges = _given_edges(input, given)
    else:
        edges = _even_edges(input, points, given, range)
    _check_weight(input, weight)
    weights = None if weight is None else concrete(weight).reshape(-1)
    hosts = [concrete(e) for e in edges]
    hist = _counted(points, hosts, weights)
    if density:
        total = hist.sum()
        for d, e in enumerate(hosts):
            shape = [1] * n
            shape[d] = -1
            hist = hist / np.diff(e).reshape(shape)
        hist = (hist / total).astype(m.dtype.np)
    return _Result(from_host(np.ascontiguousarray(hist), m.device), tuple(edges))


def _given_edges(input: Tensor, bins: Sequence[Tensor]) -> list[Tensor]:
    n = input._m.shape[-1]
    if len(bins) != n:
        raise RuntimeError(
            f"torch.histogramdd: expected {n} sequences of bin edges for a {n}-dimensional histogram but got "
            f"{len(bins)}"
        )
    for d, e in enumerate(bins):
        if e._m.dtype is not input._m.dtype:
            raise RuntimeError(
                "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype "
                f"{_cpp(input)} and bins for dimension {d} with dtype {_cpp(e)}"
            )
        if e._m.ndim != 1:
            raise RuntimeError(
                f"torch.histogramdd: bins tensor should have one dimension, but got {e._m.ndim} dimensions in the bins "
                f"tensor for dimension {d}"
            )
        if not e._m.numel:
            raise RuntimeError(
                f"torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements in the bins tensor "
                f"for dimension {d}"
            )
    return [from_host(concrete(e).copy(), e._m.device) for e in bins]


def _even_edges(
    input: Tensor, points: np.ndarray, bins: Sequence[Any], limits: Any
) -> list[Tensor]:
    n = input._m.shape[-1]
    if len(bins) != n:
        raise RuntimeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input."
        )
    for d, k in enumerate(bins):
        if k <= 0:
            raise RuntimeError(
                f"torch.histogram(): bins must be > 0, but got {k} for dimension {d}"
            )
    if limits is not None and len(limits) != 2 * n:
        raise RuntimeError(
            f"torch.histogramdd: for a {n}-dimensional histogram range should have {2 * n} elements, but got "
            f"{len(limits)}"
        )
    out = []
    for d, k in enumerate(bins):
        low, high = 0.0, 1.0
        if limits is not None:
            low, high = float(limits[2 * d]), float(limits[2 * d + 1])
        elif len(points):
            low, high = float(points[:, d].min()), float(points[:, d].max())
        if not (math.isfinite(low) and math.isfinite(high)):
            raise RuntimeError(
                f"torch.histogramdd: dimension {d}'s range [{low:g}, {high:g}] is not finite"
            )
        if low > high:
            raise RuntimeError(
                f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} for dimension {d}"
            )
        if low == high:
            low, high = low - 0.5, high + 0.5
        out.append(
            NAMESPACES[""]["linspace"](
                low, high, k + 1, dtype=input._m.dtype, device=input._m.device
            )
        )
    return out


def _check_weight(input: Tensor, weight: Tensor | None) -> None:
    if weight is None:
        return
    if weight._m.dtype is not input._m.dtype:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same "
            f"dtype, but got input({_cpp(input)}), and weight({_cpp(weight)})"
        )
    if weight._m.shape != input._m.shape[:-1]:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor "
            f"excluding its innermost dimension, but got input with shape {list(input._m.shape)} and weight with shape "
            f"{list(weight._m.shape)}"
        )


def _cpp(t: Tensor) -> str:
    return cpp_name(np.zeros(0, t._m.dtype.np))


def _counted(
    points: np.ndarray, edges: Sequence[np.ndarray], weights: np.ndarray | None
) -> np.ndarray:
    """Counts, or sums of weights; the last cell of a dimension is closed on both sides."""
    out = np.zeros([len(e) - 1 for e in edges], points.dtype)
    inside = np.ones(len(points), bool)
    cells = []
    for x, e in zip(points.T, edges):
        inside &= (x >= e[0]) & (x <= e[-1])
        at = np.searchsorted(e, x, side="right") - 1
        cells.append(np.where(x == e[-1], len(e) - 2, at))
    kept = tuple(c[inside] for c in cells)
    np.add.at(out, kept, 1 if weights is None else weights[inside])
    return out
