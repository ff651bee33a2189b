"""Histograms of points in several dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.arrays import dtypes
from .._core.arrays.kernels import cpp_name
from .._engine.entry.arguments import as_int
from .._engine.entry.bind import composite, ops
from .._engine.entry.return_types import return_type
from .._engine.memory.tensor import Tensor
from .shape import reshape
from .sort import ends_of_range

_Result = return_type("histogramdd", ("hist", "bin_edges"))


@composite(method=False)
def histogramdd(
    input: Tensor, bins: Any, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> Any:
    """Return how many of the points (the last dimension holds coordinates) fall into each cell of a grid."""
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
    points = reshape(input.detach(), (math.prod(m.shape[:-1]), n))
    even = not (given and isinstance(given[0], Tensor))
    edges = _even_edges(points, given, range) if even else _given_edges(input, given)
    _check_weight(input, weight)
    weights = None if weight is None else reshape(weight.detach(), (-1,))
    return _Result(ops.histogram_of_points(points, edges, weights, density, even), tuple(edges))


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
    return [ops.clone(e.detach()) for e in bins]


def _even_edges(points: Tensor, bins: Sequence[Any], limits: Any) -> list[Tensor]:
    n = points._m.shape[-1]
    if len(bins) != n:
        raise RuntimeError("histogramdd: The size of bins must be equal to the innermost dimension of the input.")
    for d, k in enumerate(bins):
        if k <= 0:
            raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {k} for dimension {d}")
    if limits is not None and len(limits) != 2 * n:
        raise RuntimeError(
            f"torch.histogramdd: for a {n}-dimensional histogram range should have {2 * n} elements, but got "
            f"{len(limits)}"
        )
    ranges = [(None, None) if limits is None else ends_of_range(limits, d) for d in range(n)]
    return [ops.histogram_edges(ops.select(points, 1, d), k, d, *ranges[d]) for d, k in enumerate(bins)]


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
