"""Sorting, top-k, binary search, histograms and counts."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays import layouts, shapes
from .._core.arrays.division import divide
from .._core.arrays.dtypes import BOOL, COMPLEX, INTEGRAL
from .._core.arrays.kernels import cpp_name, refuse, scalar_name
from .._core.errors.checks import fail_if, numpy_of, outside, readable
from .._core.host import forms, forms_of_order
from .._core.random.rounding import halves
from .helpers import is_bool, is_complex, is_float
from .ordering import along, permutation, permuting
from .registry import COMMON, Array, Arrays, Grad, Layout, Scalar, op


def _sorted(x: Array, axis: int, descending: bool) -> tuple[Array, Array]:
    """Stable sort with its permutation; NaN counts as the largest value."""
    places = permutation(x, axis, descending)
    return along(x, places, axis), places


def _sort(x: Array, dim: int, descending: bool) -> tuple[Array, Array]:
    axis = shapes.wrap_dim(dim, x.ndim)
    if is_complex(x):
        raise RuntimeError(" Sort does not support complex dtypes on CPU")
    if not x.ndim:
        return x, jnp.zeros((), jnp.int64)
    return permuting(x, axis, lambda x: _sorted(x, axis, descending))


@op(
    returns=("values", "indices"),
    nondiff=(1,),
    layout=Layout.PRESERVE,
    node=lambda a: f"SortBackward{int(a['stable'] is not None)}",
    host=forms_of_order.ordered,
)
def sort(input: Array, dim: int = -1, descending: bool = False, *, stable: bool | None = None) -> tuple[Array, Array]:
    """Sort along `dim`, NaN last; always stable."""
    return _sort(input, dim, descending)


@op(grad=Grad.NO, layout=Layout.PRESERVE, host=forms_of_order.order)
def argsort(input: Array, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Array:
    """The permutation that sorts along `dim`; always stable."""
    return _sort(input, dim, descending)[1]


def _at_least_float32(x: Any) -> Any:
    return x.dtype if is_float(x) and x.dtype.itemsize >= 4 else jnp.float32


def _top(x: Array, k: int, axis: int, largest: bool) -> tuple[Array, Array]:
    key = jnp.moveaxis(x, axis, -1)
    if is_float(key) or key.dtype.itemsize < 4:  # XLA's selection is fast for float32 only
        key = key.astype(_at_least_float32(key))
        # XLA orders NaNs by their sign bit; torch counts every NaN as the largest.
        top = lax.abs(jnp.asarray(jnp.nan, key.dtype))
        # XLA also tells the two zeros apart, and torch does not.
        ahead = jnp.where(jnp.isnan(key), top, jnp.where(key == 0, jnp.zeros_like(key), key))
        key = ahead if largest else -ahead
    elif not largest:
        key = ~key
    index = jnp.moveaxis(lax.top_k(key, k)[1], -1, axis).astype(jnp.int64)
    return along(x, index, axis), index


@op(returns=("values", "indices"), nondiff=(1,), host=forms_of_order.largest)
def topk(input: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Array, Array]:
    """The k largest or smallest elements along `dim`, in order; of equals the first."""
    axis = shapes.wrap_dim(dim, input.ndim)
    if not 0 <= k <= (input.shape[axis] if input.ndim else 1):
        raise RuntimeError("selected index k out of range")
    if is_complex(input):
        raise RuntimeError(" topk does not support complex dtypes on CPU")
    if is_bool(input):
        raise RuntimeError("topk does not support bool dtypes on CPU")
    if not input.ndim:
        return input, jnp.zeros((), jnp.int64)
    return permuting(input, axis, lambda x: _top(x, k, axis, largest))


# --- binary search ---


def _search(edges: Array, x: Array, sorter: Array | None, right: bool) -> Array:
    """Index of the first edge that is not below (or, to the right, is above) each value.

    It is the same bisection as torch's, so that edges which are not sorted, or NaN, give the same.
    """
    n = edges.shape[-1]
    if edges.ndim > 1:
        row = math.prod(x.shape[:-1])
        base = lax.broadcasted_iota(np.int64, (row, x.shape[-1]), 0).reshape(x.shape) * n
    else:
        base = jnp.zeros(x.shape, jnp.int64)
    flat = edges.reshape(-1)
    order = None if sorter is None else sorter.reshape(-1)

    def step(_: Any, state: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = state
        mid = (low + high) // 2
        at = base + jnp.minimum(mid, n - 1)
        if order is not None:
            at = base + order[at]
        edge = flat[at]
        below = ~(edge > x) if right else ~(edge >= x)
        going = low < high
        return jnp.where(going & below, mid + 1, low), jnp.where(going & ~below, mid, high)

    low, high = jnp.zeros(x.shape, jnp.int64), jnp.full(x.shape, n, jnp.int64)
    if not n or not x.size:
        return low
    return lax.fori_loop(0, n.bit_length(), step, (low, high))[0]


def _check_sorter(sorted_sequence: Any, sorter: Any = None, **kwargs: Any) -> None:
    if sorter is None or not sorter.size:
        return
    fail_if(
        outside(sorter, sorted_sequence.shape[-1]),
        lambda: RuntimeError("torch.searchsorted(): sorter index out of range"),
    )


def _check_search(edges: Array, x: Array, right: bool, side: str | None, sorter: Array | None) -> None:
    refuse(x, "searchsorted_out_cpu", BOOL, COMPLEX)
    if side not in (None, "left", "right"):
        raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if right and side == "left":
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        )
    if not x.ndim and edges.ndim != 1:
        raise RuntimeError(
            "torch.searchsorted(): input value can be a scalar only when boundaries tensor "
            f"dimension is 1, but we got boundaries tensor dim({edges.ndim}) and input value's "
            f"dim({x.ndim}) numel({x.size})"
        )
    if edges.ndim != 1 and (edges.ndim != x.ndim or edges.shape[:-1] != x.shape[:-1]):
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
            "dimensions of boundaries tensor and input value tensor must match, but we got "
            f"boundaries tensor {list(edges.shape)} and input value tensor {list(x.shape)}"
        )
    if sorter is None:
        return
    if sorter.shape != edges.shape:
        raise RuntimeError(
            "torch.searchsorted(): boundary and sorter must have the same size, but got boundary "
            f"tensor {list(edges.shape)}and got sorter tensor {list(sorter.shape)}"
        )
    if sorter.dtype != jnp.int64:
        raise RuntimeError(
            f"torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {scalar_name(sorter)}"
        )


@op(
    grad=Grad.NO,
    method=False,
    promote=COMMON,
    promoted=("sorted_sequence", "input"),
    check=_check_sorter,
    host=forms.searched,
)
def searchsorted(
    sorted_sequence: Array,
    input: Array | Scalar,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Array | None = None,
) -> Array:
    """Where each value of `input` would be inserted to keep the sequence sorted."""
    x = jnp.asarray(input)
    _check_search(sorted_sequence, x, right, side, sorter)
    found = _search(sorted_sequence, x, sorter, right or side == "right")
    return found.astype(jnp.int32) if out_int32 else found


@op(grad=Grad.NO, method=False, promote=COMMON)
def bucketize(input: Array | Scalar, boundaries: Array, *, out_int32: bool = False, right: bool = False) -> Array:
    """Index of the bucket, between sorted boundaries, that each value falls into."""
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    _check_search(boundaries, jnp.asarray(input), right, None, None)
    found = _search(boundaries, jnp.asarray(input), None, right)
    return found.astype(jnp.int32) if out_int32 else found


def _check_rows(input: Any, size: int, **kwargs: Any) -> None:
    if input.size:
        fail_if(
            outside(input, size),
            lambda: RuntimeError(f"torch._convert_indices_from_coo_to_csr(): a row is not in the range [0, {size})"),
        )


@op(grad=Grad.NO, method=False, check=_check_rows)
def _convert_indices_from_coo_to_csr(input: Array, size: int, *, out_int32: bool = False) -> Array:
    """Where each of `size` rows begins in a sorted vector of rows, and at last where the last one ends."""
    if input.ndim != 1:
        raise RuntimeError(f"Input is supposed to be a vector, but got {input.ndim} dimensional tensor.")
    if not jnp.issubdtype(input.dtype, jnp.signedinteger):
        name = scalar_name(input)
        raise NotImplementedError(f"\"convert_indices_from_coo_to_csr_cpu\" not implemented for '{name}'")
    found = _search(input, jnp.arange(size + 1, dtype=input.dtype), None, False)
    return found.astype(jnp.int32) if out_int32 else found


@op(grad=Grad.NO, method=False)
def _convert_indices_from_csr_to_coo(
    crow_indices: Array, col_indices: Array, *, out_int32: bool = False, transpose: bool = False
) -> Array:
    """The row and the column of each element, from where rows begin and end."""
    if crow_indices.ndim != 1 or col_indices.ndim != 1:
        raise NotImplementedError("torch._convert_indices_from_csr_to_coo() takes vectors, not batches of them")
    at = jnp.arange(col_indices.shape[-1], dtype=crow_indices.dtype)
    rows = _search(crow_indices, at, None, True) - 1
    pair = (col_indices, rows) if transpose else (rows, col_indices)
    return jnp.stack([x.astype(jnp.int32 if out_int32 else crow_indices.dtype) for x in pair])


# --- histograms ---


def _not_finite(low: Any, high: Any) -> Any:
    finite = numpy_of(low).isfinite
    return ~(finite(low) & finite(high))


def _sums(flat: Array, place: Array, low: Array, high: Array, bins: int, weight: Array | None = None) -> Array:
    """Sum of weights per bin [a, b), of which the last one is closed. Numbers outside of all bins are left out."""
    inside = (flat >= low) & (flat <= high)
    place = jnp.where(inside, jnp.clip(place, 0, bins - 1), bins)
    each = jnp.ones_like(flat) if weight is None else weight.reshape(-1)
    return jnp.zeros(bins, each.dtype).at[place].add(each, mode="drop")


def _extent(x: Array) -> tuple[Array, Array]:
    dims = tuple(range(x.ndim))
    return lax.reduce_min(x, axes=dims), lax.reduce_max(x, axes=dims)


def _part_of_range(flat: Array, low: Array, high: Array, bins: int) -> Array:
    """The bin that a number falls into where the range is divided evenly; 0 where the range has no extent."""
    place = divide((flat - low) * bins, high - low)
    return jnp.where(place == place, place, 0).astype(jnp.int64)


def _linspace(low: Array, high: Array, n: int, dtype: Any) -> Array:
    """The numbers of `linspace`, which counts from both ends and rounds float32 once."""
    low, high = low.astype(dtype), high.astype(dtype)
    lower, away = halves(n)
    step = divide(high - low, max(n - 1, 1))
    wide = jnp.float64 if dtype == jnp.float32 else dtype
    low, high, move = low.astype(wide), high.astype(wide), step.astype(wide) * away.astype(wide)
    return jnp.where(lower, low + move, high - move).astype(dtype)


def _check_histc(input: Any, bins: int = 100, min: Any = 0, max: Any = 0) -> None:
    x, low, high = (readable(v).astype(np.float64) for v in (input, min, max))
    if x.size:
        same, where = low == high, numpy_of(x).where
        low, high = where(same, x.min(), low), where(same, x.max(), high)
    fail_if(_not_finite(low, high), lambda: RuntimeError(f"torch.histc: range of [{low:g}, {high:g}] is not finite"))
    fail_if(low > high, lambda: RuntimeError("torch.histc: max must be larger than min"))


@op(grad=Grad.NO, check=_check_histc, host=forms.histogram)
def histc(input: Array, bins: int = 100, min: Scalar = 0, max: Scalar = 0) -> Array:
    """Counts of the elements in equal bins between `min` and `max`."""
    refuse(input, "histogram_cpu", BOOL, INTEGRAL, COMPLEX)
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    dtype = _at_least_float32(input)
    x = input.astype(dtype)
    low, high = (jnp.asarray(v).astype(dtype) for v in (min, max))
    if x.size:
        low, high = (jnp.where(low == high, v, w) for v, w in zip(_extent(x), (low, high)))
    point, flat = low == high, x.reshape(-1)
    # A single value gets a range around it: 1 to each side, or the next numbers where 1 is too little.
    low, high = (
        jnp.where(point, lax.min(low - 1, jnp.nextafter(low, -jnp.inf)), low),
        jnp.where(point, lax.max(high + 1, jnp.nextafter(high, jnp.inf)), high),
    )
    place = _part_of_range(flat, low, high, bins)
    return _sums(flat, place, low, high, bins).astype(input.dtype)


def _check_histogram(input: Any, low: Any = None, dim: int = 0, **kwargs: Any) -> None:
    x = readable(input)
    if low is None and x.size:
        low, high = x.min(), x.max()
        fail_if(
            _not_finite(low, high),
            lambda: RuntimeError(f"torch.histogramdd: dimension {dim}'s range [{low:g}, {high:g}] is not finite"),
        )


def _range_with_extent(low: Array, high: Array) -> tuple[Array, Array]:
    """A range without extent becomes one of extent 1 around the same number."""
    point, half = low == high, jnp.asarray(0.5, low.dtype)
    return jnp.where(point, low - half, low), jnp.where(point, high + half, high)


def _edges_of_equal_bins(input: Array, low: Any, high: Any, bins: int) -> Array:
    """The edges of equal bins over the given range, or else over the extent of the input."""
    given = tuple(jnp.asarray(0 if v is None else v).astype(input.dtype) for v in (low, high))
    if low is None:
        given = _extent(input) if input.size else (given[0], given[1] + 1)
    return _linspace(*_range_with_extent(*given), bins + 1, input.dtype)


@op(function=False, method=False, out=False, grad=Grad.NO, check=_check_histogram)
def histogram_edges(input: Array, bins: int, dim: int, low: Scalar | None = None, high: Scalar | None = None) -> Array:
    """The edges of equal bins along one dimension of points: over their extent, or over the given range."""
    return _edges_of_equal_bins(input, low, high, bins)


@op(function=False, method=False, out=False, grad=Grad.NO)
def histogram_of_points(input: Array, edges: Arrays, weight: Array | None, density: bool, even: bool) -> Array:
    """Return how many of the points (rows) fall into each cell, or the sums of their weights."""
    shape = tuple(e.shape[0] - 1 for e in edges)
    cell, inside = jnp.zeros(input.shape[0], jnp.int64), jnp.ones(input.shape[0], bool)
    for e, x in zip(edges, input.T):
        place = _places(x, e, even) - 1
        inside &= (x >= e[0]) & (x <= e[-1])
        cell = cell * (e.shape[0] - 1) + jnp.clip(place, 0, e.shape[0] - 2)
    size = math.prod(shape)
    each = jnp.ones(input.shape[0], input.dtype) if weight is None else weight
    hist = jnp.zeros(size, each.dtype).at[jnp.where(inside, cell, size)].add(each, mode="drop")
    hist = hist.reshape(shape)
    if not density:
        return hist
    total = jnp.sum(hist)
    for d, e in enumerate(edges):
        hist = hist / jnp.expand_dims(e[1:] - e[:-1], [k for k in range(len(edges)) if k != d])
    return hist / total


def _places(x: Array, edges: Array, even: bool) -> Array:
    """Return how many edges lie before each number."""
    place, bins = _search(edges, x, None, right=True), edges.shape[0] - 1
    if not even:
        return place
    # torch searches among the nearest edges only, which matters where several edges are equal
    near = _part_of_range(x, edges[0], edges[-1], bins)
    return lax.clamp(lax.max(near - 1, jnp.zeros_like(near)), place, lax.min(near + 2, bins + 1 + 0 * near))


def _same_size(x: Array, weight: Array | None) -> None:
    if weight is not None and weight.shape != x.shape:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the "
            f"input tensor excluding its innermost dimension, but got input with shape "
            f"[{x.size}, 1] and weight with shape [{weight.size}]"
        )
    if weight is not None and weight.dtype != x.dtype:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should"
            f" have the same dtype, but got input({cpp_name(x)}), and weight({cpp_name(weight)})"
        )


def _histogram(x: Array, edges: Array, weight: Array | None, density: bool, even: bool) -> tuple[Array, Array]:
    if x.dtype not in (jnp.float32, jnp.float64):
        raise NotImplementedError(f"\"histogramdd\" not implemented for '{scalar_name(x)}'")
    _same_size(x, weight)
    flat, bins = x.reshape(-1), edges.shape[0] - 1
    hist = _sums(flat, _places(flat, edges, even) - 1, edges[0], edges[-1], bins, weight)
    if density:
        hist = hist / (lax.reduce_sum(hist, axes=(0,)) * (edges[1:] - edges[:-1]))
    return hist, edges


@op(function=False, method=False, grad=Grad.MISSING, check=_check_histogram, returns=("hist", "bin_edges"))
def histogram_bin_ct(
    input: Array,
    bins: int,
    low: Scalar | None = None,
    high: Scalar | None = None,
    weight: Array | None = None,
    density: bool = False,
) -> tuple[Array, Array]:
    """Histogram over `bins` equal bins."""
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    refuse(input, "histogramdd", BOOL, INTEGRAL, COMPLEX)
    edges = _edges_of_equal_bins(input, low, high, bins)
    return _histogram(input, edges, weight, density, even=True)


@op(function=False, method=False, grad=Grad.MISSING, returns=("hist", "bin_edges"))
def histogram_bins_tensor(
    input: Array, bins: Array, weight: Array | None = None, density: bool = False
) -> tuple[Array, Array]:
    """Histogram over bins with the given edges."""
    if bins.ndim != 1:
        raise RuntimeError(
            f"torch.histogramdd: bins tensor should have one dimension, but got {bins.ndim} "
            "dimensions in the bins tensor for dimension 0"
        )
    if bins.dtype != input.dtype:
        kinds = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}
        got, want = (kinds.get(np.dtype(x.dtype), str(x.dtype)) for x in (bins, input))
        raise RuntimeError(
            "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got "
            f"input with dtype {want} and bins for dimension 0 with dtype {got}"
        )
    if not bins.size:
        raise RuntimeError(
            "torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements in the bins tensor "
            "for dimension 0"
        )
    if bins.size == 1:
        raise RuntimeError("torch.histogram(): bins must be > 0, but got 0 for dimension 0")
    return _histogram(input, bins, weight, density, even=False)


@op(function=False, method=False, grad=Grad.MISSING, host=forms.counted)
def bincount_sized(input: Array, weights: Array | None, size: int) -> Array:
    """Sum of weights (or count) per value, for values below `size`."""
    index = input.astype(jnp.int64)
    if weights is None:
        return jnp.zeros(size, jnp.int64).at[index].add(1)
    each = weights if weights.dtype == jnp.float32 else weights.astype(jnp.float64)
    return jnp.zeros(size, each.dtype).at[index].add(each)


def _gathered(input: Array, positions: Array, dim: int | None) -> Array:
    if dim is None:
        return input.reshape(-1)[positions]
    return jnp.take(input, positions, axis=dim, mode="clip")


@layouts.with_statics
def _slices_first(metas: Any, shape: tuple[int, ...], statics: dict[str, Any]) -> tuple[int, ...]:
    """torch moves the dimension to the front to find distinct slices, and moves it back in the result."""
    dim = statics.get("dim")
    if dim is None:
        return shapes.contiguous_strides(shape)
    first, *rest = shapes.contiguous_strides((shape[dim], *shape[:dim], *shape[dim + 1 :]))
    return (*rest[:dim], first, *rest[dim:])


for _name in ("_unique", "_unique2", "unique_dim", "unique_consecutive"):
    # The positions are computed from concrete values; torch has no derivative for these either.
    def _impl(input: Array, positions: Array, dim: int | None = None) -> Array:
        """The elements (or slices along `dim`) at the given positions."""
        return _gathered(input, positions, dim)

    _node = f"{''.join(part.capitalize() for part in _name.split('_'))}Backward0"
    op(_impl, name=f"{_name}_at", function=False, method=False, grad=Grad.MISSING, node=_node, layout=_slices_first)
