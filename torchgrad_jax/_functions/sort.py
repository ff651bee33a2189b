"""Sorting helpers, and counting functions whose output shape depends on values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._core.arrays import dtypes, shapes
from .._core.errors import messages as errors
from .._core.state import MODES
from .._engine.entry.arguments import as_int, type_name
from .._engine.entry.bind import composite, ops
from .._engine.memory.concrete import concrete
from .._engine.memory.strided import read
from .._engine.memory.tensor import Tensor
from .create import from_host


@composite(out=True)
def msort(input: Tensor) -> Tensor:
    """Sort along the first dimension."""
    return ops.sort(input, 0)[0]


@composite
def bincount(input: Tensor, weights: Any = None, minlength: int = 0) -> Tensor:
    """Count, or sum of weights, of each value in a vector of non-negative integers."""
    m = input._m
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if m.dtype.category != dtypes.INTEGRAL:
        raise NotImplementedError(f"\"bincount_cpu\" not implemented for '{dtypes.scalar_type_name(m.dtype)}'")
    values = _of_all_examples(input)
    if m.ndim != 1 or (values.size and values.min() < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if not m.numel:  # torch: whatever the weights are
        weights = None
    if weights is not None and weights._m.shape != m.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    rows = values if values.ndim > m.ndim else values[None]
    sizes = [max(int(r.max()) + 1 if r.size else 0, minlength) for r in rows]
    for k, size in enumerate(sizes):
        if size != sizes[0]:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got [{sizes[0]}] at entry 0 and [{size}] at entry {k}"
            )
    return ops.bincount_sized(input, weights, sizes[0] if sizes else minlength)


def _of_all_examples(t: Tensor) -> np.ndarray:
    """The values of a tensor. If it stands for one example of a batch, there is a row for each different example."""
    run = MODES.run
    if run.tape is None or not run.varies(t) or not run.tape.holds(read(t)):
        return concrete(t)
    (whole,) = run.whole([t])
    with run.outside():
        return concrete(whole)


def _limits(limits: Any) -> tuple[float, float]:
    """The two ends of a range that was given."""
    if len(limits) != 2:
        raise RuntimeError(
            f"torch.histogramdd: for a 1-dimensional histogram range should have 2 elements, but got {len(limits)}"
        )
    return ends_of_range(limits, 0)


def ends_of_range(limits: Any, d: int) -> tuple[float, float]:
    """The two ends that were given for a dimension."""
    low, high = float(limits[2 * d]), float(limits[2 * d + 1])
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"torch.histogramdd: dimension {d}'s range [{low:g}, {high:g}] is not finite")
    if low > high:
        raise RuntimeError(
            f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} for dimension {d}"
        )
    return low, high


@composite(out=True)
def histogram(input: Tensor, bins: Any = 100, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    """Histogram over a number of equal bins, or over bins with given edges."""
    if isinstance(bins, Tensor):
        return ops.histogram_bins_tensor(input, bins, weight, density)
    low, high = (None, None) if range is None else _limits(range)
    return ops.histogram_bin_ct(input, bins, low, high, weight, density)


# --- distinct values ------------------------------------------------------------------------------


def _host(array: Any, like: Tensor) -> Tensor:
    return from_host(np.asarray(array, np.int64), like._m.device)


def _answer(values: Tensor, inverse: Any, counts: Any, like: Tensor, wanted: tuple[bool, bool]) -> Any:
    extra = [_host(a, like) for a, want in zip((inverse, counts), wanted) if want]
    return (values, *extra) if extra else values


def _no_complex(input: Tensor) -> None:
    if input._m.dtype.is_complex:
        raise NotImplementedError(f"\"unique\" not implemented for '{dtypes.scalar_type_name(input._m.dtype)}'")


def _rows_of(input: Tensor, dim: int, what: str) -> tuple[np.ndarray, int]:
    """The slices along `dim`, flattened, as rows."""
    shape = input._m.shape
    axis = shapes.wrap_dim(dim, len(shape), scalar=False)
    if any(n == 0 for d, n in enumerate(shape) if d != axis) and shape[axis]:
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    array = np.moveaxis(_plain(input, what), axis, 0)
    return array.reshape(shape[axis], -1 if array.size else 0), axis


def _plain(input: Tensor, what: str = "") -> np.ndarray:
    """The values in a dtype that NumPy can sort; `what` is torch's name of the operation, for its complaint."""
    batched = errors.BATCHED_SHAPE.format(name=what) if what else ""
    array = concrete(input, batched, what or "_local_scalar_dense")
    return array.astype(np.float32) if input._m.dtype is dtypes.bfloat16 else array


def _check_bools(name: str, **given: Any) -> None:
    for argument, value in given.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name}(): argument '{argument}' must be bool, not {type_name(value)}")


def _check_dim(where: str, dim: Any) -> None:
    if dim is not None and as_int(dim) is None:
        raise TypeError(f"{where} must be int, not {type_name(dim)}")


def _distinct(
    input: Tensor, what: str, inverse: bool, counts: bool
) -> tuple[Tensor, np.ndarray | None, np.ndarray | None]:
    """Where each of the distinct elements is, which of them each element is, and how often each comes, if wanted."""
    flat = _plain(input, what).reshape(-1)
    _, first, *others = np.unique(flat, True, inverse, counts, equal_nan=False)
    found = others.pop(0).reshape(input._m.shape) if inverse else None
    return _host(first, input), found, others[0] if counts else None


@composite(method=False)
def _unique(input: Tensor, sorted: bool = True, return_inverse: bool = False) -> tuple[Tensor, Tensor]:
    """The distinct elements in ascending order, and which of them each element is if `return_inverse`."""
    _check_bools("_unique", sorted=sorted, return_inverse=return_inverse)
    _no_complex(input)
    first, inverse, _ = _distinct(input, "_unique", return_inverse, False)
    return ops._unique_at(input, first), _host(() if inverse is None else inverse, input)


@composite(method=False)
def _unique2(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """`_unique`, and how often each element comes if `return_counts`."""
    bools = {"sorted": sorted, "return_inverse": return_inverse, "return_counts": return_counts}
    _check_bools("_unique2", **bools)
    _no_complex(input)
    first, inverse, counts = _distinct(input, "_unique2", return_inverse, return_counts)
    values = ops._unique2_at(input, first)
    found, often = (_host(() if given is None else given, input) for given in (inverse, counts))
    return values, found, often


@composite
def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> Any:
    """The distinct elements, or slices along `dim`, in ascending order."""
    bools = {"sorted": sorted, "return_inverse": return_inverse, "return_counts": return_counts}
    _check_bools("_unique2" if dim is None else "unique_dim", **bools)
    _check_dim("unique_dim(): argument 'dim' (position 2)", dim)
    _no_complex(input)
    wanted = (return_inverse, return_counts)
    if dim is None:
        first, inverse, counts = _distinct(input, "_unique2", *wanted)
        return _answer(ops._unique2_at(input, first), inverse, counts, input, wanted)
    rows, axis = _rows_of(input, dim, "unique_dim")
    if not rows.shape[1]:  # slices without elements are all equal
        n = min(rows.shape[0], 1)
        first, inverse, counts = np.arange(n), np.zeros(rows.shape[0]), np.full(n, rows.shape[0])
    else:
        _, first, inverse, counts = np.unique(rows, True, True, True, axis=0, equal_nan=False)
    values = ops.unique_dim_at(input, _host(first, input), axis)
    return _answer(values, np.reshape(inverse, -1), counts, input, wanted)


@composite
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> Any:
    """The elements, or slices along `dim`, that differ from the one before."""
    bools = {"return_inverse": return_inverse, "return_counts": return_counts}
    _check_bools("unique_consecutive", **bools)
    _check_dim("unique_consecutive(): argument 'dim'", dim)
    _no_complex(input)
    axis = None
    if dim is None:
        rows = _plain(input, "unique_consecutive").reshape(-1, 1)
    else:
        rows, axis = _rows_of(input, dim, "unique_consecutive")
    n = rows.shape[0]
    fresh = np.ones(n, bool)
    fresh[1:] = np.any(rows[1:] != rows[:-1], axis=1)
    first = np.flatnonzero(fresh)
    inverse = np.cumsum(fresh) - 1
    counts = np.diff(np.append(first, n))
    values = ops.unique_consecutive_at(input, _host(first, input), axis)
    shape = input._m.shape if dim is None else (n,)
    return _answer(values, inverse.reshape(shape), counts, input, (return_inverse, return_counts))
