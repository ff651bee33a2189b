"""Maxima, minima, medians, modes and order statistics that come with an index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays import shapes
from .._core.arrays.division import divide
from .._core.arrays.dtypes import BOOL, COMPLEX
from .._core.arrays.kernels import refuse
from .._core.errors.checks import fail_if, readable
from .._core.host import forms_of_order
from .._core.jax.custom_jvp import NO_TANGENT, custom_jvp
from .._core.jax.sizes import value_of
from .helpers import is_bool, is_complex, is_float
from .inner import inner_op
from .ordering import permutation
from .registry import Array, Compares, Dims, Grad, Scalar, op

Shape = tuple[int, ...]


def _no_complex(x: Array, kernel: str) -> None:
    """Complex numbers are refused, but not where there is nothing to compute: torch runs no kernel then."""
    if x.size:
        refuse(x, kernel, COMPLEX)


def _nonempty(x: Array, dims: Shape, name: str) -> None:
    empty = next((d for d in dims if x.ndim and not x.shape[d]), None)
    if empty is not None:
        raise IndexError(f"{name}: Expected reduction dim {empty} to have non-zero size.")


def _shared(x: Array, dims: Shape, keepdim: bool, largest: bool, nan_hits: bool = False) -> Array:
    """Extremum over `dims`; ties share the gradient evenly."""

    def kept(y: Array) -> Array:
        return lax.expand_dims(y, dims) if keepdim and dims else y

    def f(x: Array) -> Array:
        return kept((lax.reduce_max if largest else lax.reduce_min)(x, axes=dims))

    if is_complex(x):  # only an empty array comes so far
        return jnp.zeros(jax.eval_shape(f, jnp.real(x)).shape, x.dtype)
    if not is_float(x):
        return f(x)
    ruled = custom_jvp(f)

    @ruled.defjvp
    def jvp(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        y = ruled(x)
        full = y if keepdim or not dims else lax.expand_dims(y, dims)
        return y, kept(tie_average(x, full, t, dims, nan_hits))

    return ruled(x)


def tie_average(x: Array, full: Array, t: Array, dims: Shape, nan_hits: bool) -> Array:
    """Mean of `t` over the places along `dims` where x is the result, given with kept dimensions.

    The full reductions count NaN as equal to NaN; the others do not, so that their gradient is NaN.
    Where no element equals the result any more (x was written to), it is NaN as well, or 0 of a full reduction.
    """
    hit = x == full
    if nan_hits:
        hit = hit | (jnp.isnan(x) & jnp.isnan(full))
    mask = hit.astype(t.dtype)
    count = lax.reduce_sum(mask, axes=dims)
    if nan_hits:
        hits = jnp.where(hit, t, jnp.zeros_like(t))
    else:  # as in torch, a product with 0 makes NaN of infinite gradients elsewhere
        none = jnp.where(count == 0, jnp.asarray(jnp.nan, t.dtype), jnp.zeros_like(count))
        hits = t * jnp.where(hit, jnp.ones_like(mask), lax.expand_dims(none, dims))
    return divide(lax.reduce_sum(hits, axes=dims), count)


def _extremum_dims(input: Array, dim: Any, keepdim: bool, largest: bool) -> Array:
    name = "amax()" if largest else "amin()"
    _no_complex(input, "max_values_cpu" if largest else "min_values_cpu")
    dims = shapes.wrap_dims(dim, input.ndim)
    if not input.size:
        if dim is None or dim == ():
            raise RuntimeError(
                f"{name}: Expected reduction dim to be specified for input.numel() == 0. "
                "Specify the reduction dim with the 'dim' argument."
            )
        _nonempty(input, (dim,) if isinstance(dim, int) else tuple(dim), name)
    return _shared(input, dims, keepdim, largest)


@op(compares=Compares.INPUTS, grad=Grad.REAL)
def amax(input: Array, dim: Dims | None = (), keepdim: bool = False) -> Array:
    """Maximum along `dim`; ties share the gradient."""
    return _extremum_dims(input, dim, keepdim, largest=True)


@op(compares=Compares.INPUTS, grad=Grad.REAL)
def amin(input: Array, dim: Dims | None = (), keepdim: bool = False) -> Array:
    """Minimum along `dim`; ties share the gradient."""
    return _extremum_dims(input, dim, keepdim, largest=False)


@op(compares=Compares.INPUTS, returns=("min", "max"))
def aminmax(input: Array, *, dim: int | None = None, keepdim: bool = False) -> tuple[Array, Array]:
    """Minimum and maximum in one call."""
    dims = shapes.wrap_dims(dim, input.ndim)
    if not input.size:
        if dim is None:
            raise RuntimeError(
                "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
            )
        _nonempty(input, dims, "aminmax")
    refuse(input, "aminmax_cpu", COMPLEX)
    return _shared(input, dims, keepdim, False), _shared(input, dims, keepdim, True)


def _full(x: Array, name: str, largest: bool) -> Array:
    _no_complex(x, f"{name}_all")
    if not x.size:
        raise RuntimeError(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
            "Specify the reduction dim with the 'dim' argument."
        )
    return _shared(x, tuple(range(x.ndim)), False, largest, nan_hits=True)


@op(compares=Compares.INPUTS, function=False, method=False, node="MaxBackward1")
def max_full(input: Array) -> Array:
    """The largest element."""
    return _full(input, "max", largest=True)


@op(compares=Compares.INPUTS, function=False, method=False, node="MinBackward1")
def min_full(input: Array) -> Array:
    """The smallest element."""
    return _full(input, "min", largest=False)


# --- a value and its index along one dimension ---


def _pick(x: Array, dim: int, keepdim: bool, name: str, find: Callable[[Array], Array]) -> Any:
    """The elements at the indices ``find(x)`` (kept dimensions) along `dim`, and those indices.

    The gradient goes to those elements through a comparison, which XLA fuses. It would not fuse a scatter.
    """
    axis = shapes.wrap_dim(dim, x.ndim)
    if not x.ndim:
        return x, jnp.zeros((), jnp.int64)
    _nonempty(x, (axis,), name)
    if is_complex(x) and not x.size:
        shape = tuple(1 if d == axis else n for d, n in enumerate(x.shape) if keepdim or d != axis)
        return jnp.zeros(shape, x.dtype), jnp.zeros(shape, jnp.int64)

    def kept(y: Array) -> Array:
        return y if keepdim else lax.squeeze(y, (axis,))

    @custom_jvp
    def f(x: Array) -> tuple[Array, Array]:
        index = find(x)
        values = jnp.take_along_axis(x, index, axis=axis, mode="promise_in_bounds")
        return kept(values), kept(index)

    @f.defjvp
    def jvp(primals: Any, tangents: Any) -> Any:
        (t,) = tangents
        values, index = f(*primals)
        full = index if keepdim else lax.expand_dims(index, (axis,))
        here = lax.broadcasted_iota(index.dtype, t.shape, axis) == full
        chosen = lax.reduce_sum(jnp.where(here, t, jnp.zeros_like(t)), axes=(axis,))
        chosen = lax.expand_dims(chosen, (axis,)) if keepdim else chosen
        return (values, index), (chosen, NO_TANGENT)

    return f(x)


def _arg(x: Array, axis: int, largest: bool) -> Array:
    """Index of the first extremum (a NaN counts as one), dimension kept."""
    x = x.astype(jnp.uint8) if is_bool(x) else x
    index = (lax.argmax if largest else lax.argmin)(x, axis, np.int64)
    return lax.expand_dims(index, (axis,))


def _with_index(x: Array, dim: int, keepdim: bool, name: str, largest: bool) -> Any:
    axis = shapes.wrap_dim(dim, x.ndim)
    _nonempty(x, (axis,), f"{name}()")
    if is_complex(x):
        raise RuntimeError(f"{name}(): does not support complex input")
    return _pick(x, dim, keepdim, f"{name}()", lambda x: _arg(x, axis, largest))


@op(function=False, method=False, returns=("values", "indices"), node="MaxBackward0", nondiff=(1,))
def max_dim(input: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    """Maximum along `dim` and the index of its first occurrence."""
    return _with_index(input, dim, keepdim, "max", largest=True)


@op(function=False, method=False, returns=("values", "indices"), node="MinBackward0", nondiff=(1,))
def min_dim(input: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    """Minimum along `dim` and the index of its first occurrence."""
    return _with_index(input, dim, keepdim, "min", largest=False)


def _arg_op(x: Array, dim: int | None, keepdim: bool, name: str, largest: bool) -> Array:
    for bad, kind in ((is_bool(x), "bool"), (is_complex(x), "complex")):
        if bad:
            raise RuntimeError(f"{name}(): does not support {kind} input")
    if dim is None:
        if not x.size:
            raise IndexError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0.")
        index = _arg(x.reshape(-1), 0, largest)
        return index.reshape((1,) * x.ndim if keepdim else ())
    axis = shapes.wrap_dim(dim, x.ndim)
    _nonempty(x, (axis,), f"{name}()")
    if not x.ndim:
        return jnp.zeros((), jnp.int64)
    index = _arg(x, axis, largest)
    return index if keepdim else lax.squeeze(index, (axis,))


@op(grad=Grad.NO)
def argmax(input: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    """Index of the maximum, of the flattened tensor or along `dim`."""
    return _arg_op(input, dim, keepdim, "argmax", largest=True)


@op(grad=Grad.NO)
def argmin(input: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    """Index of the minimum, of the flattened tensor or along `dim`."""
    return _arg_op(input, dim, keepdim, "argmin", largest=False)


# --- order statistics ---


def _median_place(x: Array, axis: int, ignore_nan: bool) -> Array:
    """Rank of the lower median; the median of anything with a NaN is the first NaN."""
    n = x.shape[axis]
    if not is_float(x):
        return jnp.full((), (n - 1) // 2, jnp.int64)
    missing = lax.reduce_sum(jnp.isnan(x).astype(jnp.int64), axes=(axis,))
    missing = lax.expand_dims(missing, (axis,))
    usable = n - missing
    if ignore_nan:
        return jnp.maximum(usable - 1, 0) // 2
    return jnp.where(missing > 0, usable, value_of((n - 1) // 2))


def _find_median(x: Array, axis: int, ignore_nan: bool) -> Array:
    rank = _median_place(x, axis, ignore_nan)
    shape = tuple(1 if d == axis else n for d, n in enumerate(x.shape))
    rank = jnp.broadcast_to(rank.reshape(shape if rank.ndim else (1,) * x.ndim), shape)
    return jnp.take_along_axis(permutation(x, axis), rank, axis=axis, mode="promise_in_bounds")


def _median_full(x: Array, ignore_nan: bool) -> Array:
    if not x.size and is_bool(x):
        return jnp.ones((), x.dtype)
    refuse(x, "median_cpu", BOOL)
    _no_complex(x, "median_cpu")
    if not x.size:
        if is_float(x) or is_complex(x):
            return jnp.full((), jnp.nan, x.dtype)
        # As an integer NaN is the lowest number, of which the narrow types keep the last bits.
        return jnp.full((), 0 if x.dtype.itemsize < 4 else np.iinfo(x.dtype).min, x.dtype)
    dims = tuple(range(x.ndim))

    def value(x: Array) -> Array:
        flat = x.reshape(-1)
        return flat[permutation(flat, 0)[_median_place(flat, 0, ignore_nan).reshape(())]]

    if not is_float(x):
        return value(x)
    f = custom_jvp(value)

    @f.defjvp
    def jvp(primals: Any, tangents: Any) -> Any:
        y = f(*primals)
        return y, tie_average(primals[0], y, tangents[0], dims, nan_hits=True)

    return f(x)


def _median_dim(x: Array, dim: int, keepdim: bool, ignore_nan: bool) -> Any:
    name = "median()"
    axis = shapes.wrap_dim(dim, x.ndim)
    _nonempty(x, (axis,), name)
    refuse(x, "median_out", BOOL, COMPLEX)
    return _pick(x, dim, keepdim, name, lambda x: _find_median(x, axis, ignore_nan))


@op(compares=Compares.INPUTS, grad=Grad.REAL, function=False, method=False, node="MedianBackward0")
def median_full(input: Array) -> Array:
    """The lower median of all elements; ties share the gradient."""
    return _median_full(input, ignore_nan=False)


@op(compares=Compares.INPUTS, grad=Grad.REAL, function=False, method=False, node="NanmedianBackward0")
def nanmedian_full(input: Array) -> Array:
    """The lower median of the elements that are not NaN."""
    return _median_full(input, ignore_nan=True)


@op(
    function=False,
    method=False,
    returns=("values", "indices"),
    node="MedianBackward1",
    nondiff=(1,),
    host=forms_of_order.middle,
)
def median_dim(input: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    """The lower median along `dim` and an index where it stands."""
    return _median_dim(input, dim, keepdim, ignore_nan=False)


@op(function=False, method=False, returns=("values", "indices"), node="NanmedianBackward1", nondiff=(1,))
def nanmedian_dim(input: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    """The lower median along `dim` of what is not NaN, and an index where it stands."""
    return _median_dim(input, dim, keepdim, ignore_nan=True)


@op(returns=("values", "indices"), nondiff=(1,), host=forms_of_order.kth)
def kthvalue(input: Array, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    """The k-th smallest along `dim` (counted from 1, NaN last) and its index."""
    axis = shapes.wrap_dim(dim, input.ndim)
    _nonempty(input, (axis,), "kthvalue()")
    if not 1 <= k <= (input.shape[axis] if input.ndim else 1):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {axis}")
    refuse(input, "kthvalue_cpu", BOOL, COMPLEX)

    def find(x: Array) -> Array:
        return lax.slice_in_dim(permutation(x, axis), k - 1, k, axis=axis)

    return _pick(input, dim, keepdim, "kthvalue()", find)


def _find_mode(x: Array, axis: int) -> Array:
    """The last place of the smallest among the most frequent values. A NaN is equal to no other."""
    order = permutation(x, axis)
    ranked = jnp.take_along_axis(x, order, axis=axis, mode="promise_in_bounds")
    n = x.shape[axis]
    fresh = jnp.concatenate(
        [
            jnp.ones_like(lax.slice_in_dim(ranked, 0, 1, axis=axis), jnp.bool_),
            lax.slice_in_dim(ranked, 1, n, axis=axis) != lax.slice_in_dim(ranked, 0, n - 1, axis=axis),
        ],
        axis=axis,
    )
    places = lax.broadcasted_iota(np.int64, x.shape, axis)
    start = lax.cummax(jnp.where(fresh, places, 0), axis=axis)
    longest = _arg(places - start, axis, largest=True)  # where the first longest run ends
    return jnp.take_along_axis(order, longest, axis=axis, mode="promise_in_bounds")


@op(returns=("values", "indices"), nondiff=(1,), grad=Grad.REAL)
def mode(input: Array, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    """The most frequent value along `dim`, the smallest of equals, and an index where it stands."""
    axis = shapes.wrap_dim(dim, input.ndim)
    _nonempty(input, (axis,), "mode()")
    _no_complex(input, "mode_cpu")
    return _pick(input, dim, keepdim, "mode()", lambda x: _find_mode(x, axis))


# --- quantiles ---

_ROUND = {"lower": jnp.floor, "higher": jnp.ceil, "nearest": jnp.round, "linear": None, "midpoint": None}


def _check_quantile(x: Array, q: Any, interpolation: str) -> None:
    """torch's complaints of `quantile`, which those of `nanquantile` repeat to the letter."""
    if not x.size:
        raise RuntimeError("quantile() input tensor must be non-empty")
    if jnp.ndim(q) > 1:
        raise RuntimeError("quantile() q must be a scalar or 1D tensor")
    if x.dtype not in (jnp.float32, jnp.float64):
        raise RuntimeError("quantile() input tensor must be either float or double dtype")
    if q.dtype != x.dtype and not q.weak_type:
        raise RuntimeError("quantile() q tensor must be same dtype as the input tensor")
    if interpolation not in _ROUND:
        raise RuntimeError(
            f"quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but "
            f"got {interpolation}"
        )


def _check_q(input: Any, q: Any, interpolation: str, ignore_nan: bool) -> None:
    if isinstance(q, float):
        if not 0 <= q <= 1:
            raise RuntimeError(f"quantile() q must be in the range [0, 1] but got {q:g}")
        return
    x = readable(q)
    fail_if(~((x >= 0) & (x <= 1)).all(), lambda: RuntimeError("quantile() q values must be in the range [0, 1]"))


@inner_op(check=_check_q, nondiff=(0, 1))
def quantile_places(
    input: Array, q: Array | Scalar, interpolation: str, ignore_nan: bool
) -> tuple[Array, Array, Array]:
    """Where quantiles lie in the sorted last dimension: the places below and above, and the weight of the second."""
    q = jnp.asarray(q)
    _check_quantile(input, q, interpolation)
    x = input
    each = jnp.broadcast_to(q.astype(x.dtype), (*x.shape[:-1], q.size))
    gaps = lax.reduce_sum((~jnp.isnan(x)).astype(x.dtype), axes=(x.ndim - 1,))
    gaps = lax.expand_dims(gaps, (x.ndim - 1,)) - 1
    last = jnp.asarray(x.shape[-1] - 1, x.dtype)
    if ignore_nan:
        rank = each * jnp.maximum(gaps, 0)
    else:
        rank = jnp.where(gaps < last, last, each * last)  # NaN is sorted last, so this picks it
    if (rounded := _ROUND[interpolation]) is not None:
        rank = rounded(rank)
    low = lax.stop_gradient(jnp.floor(rank))
    weight = jnp.full_like(rank, 0.5) if interpolation == "midpoint" else rank - low
    below = low.astype(jnp.int64)
    return below, below + (rank > low).astype(jnp.int64), weight
