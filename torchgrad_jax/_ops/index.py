"""Advanced indexing, and whole slices along a dimension at an index vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays import layouts, shapes
from .._core.arrays.dtypes import BOOL, COMPLEX
from .._core.arrays.kernels import refuse, scalar_name
from .._core.errors import warn
from .._core.errors.checks import fail_if, first_outside, outside
from .._core.host import forms
from .helpers import is_bool, is_complex, stays_complex
from .inner import inner_op
from .places import (
    OUT_OF_RANGE,
    Slices,
    add_at,
    check_dim,
    check_selected,
    combine,
    is_index,
    rows,
    size_at,
    touches,
    wrapped,
    write_at,
)
from .registry import (
    Apart,
    Array,
    Arrays,
    Compares,
    Fits,
    Grad,
    InPlace,
    Layout,
    Numbers,
    OptArrays,
    Overlap,
    Scalar,
    op,
)

Shape = tuple[int, ...]


def _check_advanced(input: Any, indices: Any, *args: Any, **kwargs: Any) -> None:
    given = [(index, size) for index, size in zip(indices, input.shape) if index is not None and touches(input, size)]
    for index, size in given:
        if (wrong := outside(index, size, negative=True)) is not False:
            fail_if(wrong, lambda: _first_wrong(given))


def _first_wrong(given: Sequence[tuple[Any, int]]) -> Exception:
    """torch checks all indices of one entry before the next entry, and counts the indexed dimensions alone."""
    wrong = []
    for place, (index, size) in enumerate(given):
        if outside(index, size, negative=True):
            if not size:
                return IndexError("index is out of bounds for dimension with size 0")
            bad = first_outside(index, size, negative=True)
            wrong.append((int(np.argmax(np.asarray(index) == bad)), place, bad, size))
    _, place, bad, size = min(wrong)
    return IndexError(f"index {bad} is out of bounds for dimension {place} with size {size}")


# --- advanced indexing ---


def _selection(shape: Shape, indices: Sequence[Array | None]) -> Slices | None:
    """The slices that integer index tensors select, None entries standing for whole dimensions."""
    if len(indices) > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)} (got {len(indices)})")
    dims = [d for d, i in enumerate(indices) if i is not None]
    given = [i for i in indices if i is not None]
    if any(not is_index(i) for i in given):
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    if not given:
        return None
    try:
        common = shapes.broadcast_shapes(*[i.shape for i in given])
    except RuntimeError:
        listed = ", ".join(str(list(i.shape)) for i in given)
        raise IndexError(
            "shape mismatch: indexing tensors could not be broadcast together with shapes " + listed
        ) from None
    full = [jnp.broadcast_to(wrapped(i, shape[d]), common) for d, i in zip(dims, given)]
    return Slices.of(shape, dims, full)


@inner_op(check=_check_advanced, layout=layouts.indexed, host=forms.indexed)
def index(input: Array, indices: OptArrays) -> Array:
    """Advanced indexing by integer tensors; None takes the whole dimension."""
    places = _selection(input.shape, indices)
    return input if places is None else places.take(input)


@op(
    function=False,
    method=False,
    layout=Layout.PRESERVE,
    check=_check_advanced,
    inplace=InPlace(apart=Apart.WHOLLY),
    keeps={"input": ("indices",)},
    host=forms.written,
)
def index_put(input: Array, indices: OptArrays, values: Array, accumulate: bool = False) -> Array:
    """`values` written to, or added at, what the indices select."""
    places = _selection(input.shape, indices)
    shape = input.shape if places is None else places.shape
    try:
        values = jnp.broadcast_to(values, shape)
    except ValueError:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to "
            f"indexing result of shape {list(shape)}"
        ) from None
    if values.dtype != input.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{scalar_name(input)} for the destination and {scalar_name(values)} for the source."
        )
    if places is None:
        return input + values if accumulate else values
    return (add_at if accumulate else write_at)(input, values, places)


@inner_op(
    name="_index_put_mask",
    node="IndexPutBackward0",
    layout=Layout.PRESERVE,
    inplace=InPlace(apart=Apart.NO),
    keeps={"input": ("indices",)},
    refused=stays_complex,
)
def index_put_mask(input: Array, indices: OptArrays, values: Array, accumulate: bool = False) -> Array:
    """One value written where a mask is true, the only index that is not None. torch fills with it, which casts it."""
    at, mask = next((k, i) for k, i in enumerate(indices) if i is not None)
    wide = lax.broadcast_in_dim(mask, input.shape, range(at, at + mask.ndim))
    if is_complex(values) and not is_complex(input):
        values = jnp.real(values)  # the imaginary part is 0, or was refused
    value = values.reshape(()).astype(input.dtype)
    return lax.select(wide, lax.broadcast(value, input.shape), input)


# --- whole slices along one dimension ---


@op(check=check_selected)
def index_select(input: Array, dim: int, index: Array) -> Array:
    """The slices along `dim` at the entries of a vector `index`."""
    axis = shapes.wrap_dim(dim, input.ndim)
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if not is_index(index):
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    if not input.ndim:
        if index.size != 1:
            raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {index.size} value(s)")
        return input
    return rows(input.shape, axis, index).take(input)


def _check_slices(name: str, x: Array, dim: int, index: Array, source: Array) -> int:
    """Check the arguments of index_add and index_reduce; return the wrapped dimension."""
    axis = shapes.wrap_dim(dim, x.ndim)
    if index.ndim > 1:
        raise IndexError(
            f"{name}: Index is supposed to be a vector, but got dim: {index.ndim} with type: "
            f"{scalar_name(index)} and size: {list(index.shape)}"
        )
    if not is_index(index):
        raise RuntimeError(f"{name}: Expected dtype int32/int64 for index but got: {scalar_name(index)}")
    if x.dtype != source.dtype:
        raise RuntimeError(
            f"{name}: self ({scalar_name(x)}) and source ({scalar_name(source)}) must have the same scalar type"
        )
    if axis and axis >= source.ndim:
        raise RuntimeError(f"{name}: Indexing dim {axis} is out of bounds of the source tensor with dim {source.ndim}")
    length = source.shape[axis] if source.ndim else 1
    if index.size != length:
        raise RuntimeError(
            f"{name}: Number of indices ({index.size}) should be equal to source.size(dim): ({length}), for dim: {axis}"
        )
    drop = 1 if x.ndim and source.ndim else 0
    cut = [s[:axis] + s[axis + drop :] for s in (x.shape, source.shape)]
    if cut[0] != cut[1]:
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {list(x.shape)} source.shape = {list(source.shape)}"
        )
    return axis


_IN_ROWS, _ANYWHERE = check_dim(RuntimeError), check_dim(IndexError, OUT_OF_RANGE)


def _check_index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> None:
    """torch adds whole slices of a matrix if the indices are of int64, and single elements otherwise."""
    if input.size or input.ndim < 2:
        whole = input.ndim > 1 and alpha == 1 and index.dtype == np.int64
        (_IN_ROWS if whole else _ANYWHERE)(input, dim, index)


@op(keeps=("source",), inplace=InPlace(apart=Apart.WHOLLY), check=_check_index_add)
def index_add(input: Array, dim: int, index: Array, source: Array, *, alpha: Scalar = 1) -> Array:
    """`alpha` times the slices of `source` added to the slices of `input` at `index`."""
    axis = _check_slices("index_add_()", input, dim, index, source)
    scale = jnp.asarray(alpha).astype(source.dtype)
    added = source & scale if is_bool(source) else source * scale
    if not input.ndim:
        return input + added.reshape(())
    return add_at(input, added, rows(input.shape, axis, index))


def _check_copied(x: Array, dim: int, index: Array, source: Array) -> int:
    """Check the arguments of index_copy; return the wrapped dimension."""
    axis = shapes.wrap_dim(dim, x.ndim)
    if index.ndim > 1:
        raise IndexError(f"index_copy_(): Index should have dimension 1 or 0 (got {index.ndim})")
    if not source.ndim and index.size != 1:
        raise IndexError(f"index_copy_(): When source is scalar, index should have one element (got {index.size})")
    if source.ndim and x.ndim and source.ndim != x.ndim:
        raise IndexError(
            "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source "
            f"dimensionality ({source.ndim}), destination dimensionality ({x.ndim})"
        )
    if index.dtype != jnp.int64:
        raise RuntimeError(f"index_copy_(): Expected a long tensor for index, but got {scalar_name(index)}")
    if x.dtype != source.dtype:
        raise RuntimeError(
            "index_copy_(): self and source expected to have the same dtype, but got (self) "
            f"{scalar_name(x)} and (source) {scalar_name(source)}"
        )
    cut = [s[:axis] + s[axis + 1 :] for s in (x.shape, source.shape)]
    if cut[0] != cut[1]:
        raise RuntimeError(
            "index_copy_(): Source/destination tensor must have same slice shapes. Destination "
            f"slice shape: {' '.join(map(str, cut[0]))} at dimension {axis} and source slice "
            f"shape: {' '.join(map(str, cut[1]))} at dimension 0."
        )
    if source.ndim and index.size != source.shape[axis]:
        raise IndexError(
            f"index_copy_(): Number of indices ({index.size}) should be equal to source.size(dim) "
            f"({source.shape[axis]})"
        )
    return axis


def _check_index_copy(input: Any, dim: int, index: Any, source: Any) -> None:
    axis, size = _check_copied(input, dim, index, source), size_at(input, dim)
    if touches(input, size):
        where = f"is out of bounds for dimension {axis} with size {size}"
        fail_if(outside(index, size), lambda: IndexError(f"index_copy_(): index {first_outside(index, size)} {where}"))


@op(keeps=("source",), inplace=InPlace(apart=Apart.WHOLLY, overlaps=Overlap.REFUSED_EARLY), check=_check_index_copy)
def index_copy(input: Array, dim: int, index: Array, source: Array) -> Array:
    """The slices of `source` written over the slices of `input` at `index`."""
    axis = _check_copied(input, dim, index, source)
    shape = input.shape
    # The gradient of a number depends on the incoming gradient, too.
    input = input if shape else input.reshape(1)
    places = rows(input.shape, axis, index)
    return write_at(input, jnp.broadcast_to(source, places.shape), places).reshape(shape)


@op(
    inplace=InPlace(overlaps=Overlap.WARNED),
    layout=Layout.PRESERVE,
    check=check_dim(IndexError, negative=True),
    out=False,
    numbers=Numbers(fits=Fits.AND_VALUES),
    refused=stays_complex,
    node=lambda a: f"IndexFillBackward{int(a['value'] == 'tensor')}",
)
def index_fill(input: Array, dim: int, index: Array, value: Array | Scalar) -> Array:
    """The slices of `input` at `index` filled with one value."""
    axis = shapes.wrap_dim(dim, input.ndim)
    value = jnp.asarray(value)
    if value.ndim:
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    if is_complex(value) and not is_complex(input):
        raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
    if index.dtype != jnp.int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if index.ndim > 1:
        raise RuntimeError("Index has to be a vector/scalar")
    value = value.astype(input.dtype)
    shape = input.shape
    input = input if shape else input.reshape(1)
    n = input.shape[axis]
    hit = jnp.zeros(n, jnp.bool_).at[wrapped(index.reshape(-1), n)].set(True)
    others = tuple(d for d in range(input.ndim) if d != axis)
    hit = jnp.broadcast_to(lax.expand_dims(hit, others), input.shape)
    return jnp.where(hit, value, input).reshape(shape)


def _refuse_to_reduce(input: Array, source: Array, reduce: str, include_self: bool) -> None:
    """torch's kernels refuse dtypes: one that fills what is left out, and one for all elements or for each slice."""
    if not include_self:
        refuse(input, "index_reduce_func_exclude_input_init", BOOL, COMPLEX)
    if input.ndim < 2:
        refuse(input, "index_func_", BOOL, COMPLEX)
    elif source.size and reduce in ("amax", "amin"):
        refuse(input, "maximum_cpu" if reduce == "amax" else "minimum_cpu", COMPLEX)
    elif source.size and reduce == "mean":
        refuse(input, "div_floor_cpu", BOOL)


_BETA = "index_reduce() is in beta and the API may change at any time."


def _check_index_reduce(input: Any, dim: int, index: Any, *args: Any, **kwargs: Any) -> None:
    warn.once(_BETA)
    size, axis = size_at(input, dim), shapes.wrap_dim(dim, input.ndim)
    if index.size and not size and input.ndim > 1:
        # torch takes a first slice before it looks at the index.
        raise IndexError(f"select(): index 0 out of range for tensor of size {list(input.shape)} at dimension {axis}")
    fail_if(outside(index, size), lambda: IndexError(OUT_OF_RANGE))


@op(
    inplace=InPlace(apart=Apart.WHOLLY),
    check=_check_index_reduce,
    compares=Compares.IN_GRADIENTS,
    keeps={"input": ("input", "index", "source", "result"), "source": ("input", "index", "source", "result")},
)
def index_reduce(
    input: Array, dim: int, index: Array, source: Array, reduce: str, *, include_self: bool = True
) -> Array:
    """The slices of `source` reduced into the slices of `input` at `index`."""
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    axis = _check_slices("index_reduce_()", input, dim, index, source)
    try:
        _refuse_to_reduce(input, source, reduce, include_self)
    except NotImplementedError:
        warn.once(_BETA)  # the check that complains comes after this
        raise
    if not input.ndim:
        wide, src = input.reshape(1), source.reshape(1)
        return combine(wide, src, rows((1,), 0, index), reduce, include_self).reshape(())
    if not source.size:
        return input
    return combine(input, source, rows(input.shape, axis, index), reduce, include_self)


# --- indices that a mask switches off ---


def _masked_selection(x: Array, mask: Array, indices: Sequence[Array | None]) -> Slices | None:
    """The slices that the indices select; where the mask is false, the index is 0."""
    if not is_bool(mask):
        raise RuntimeError("tensors used as masks must be bool tensors")
    return _selection(x.shape, [None if i is None else jnp.where(mask, i, 0) for i in indices])


@op(name="_unsafe_masked_index", node="UnsafeMaskedIndexBackward0", method=False, out=False)
def unsafe_masked_index(input: Array, mask: Array, indices: Arrays, fill: Scalar) -> Array:
    """Advanced indexing without bounds checks; `fill` where the mask is false."""
    places = _masked_selection(input, mask, indices)
    taken = input if places is None else places.take(input)
    return jnp.where(mask, taken, jnp.asarray(fill).astype(input.dtype))


@op(
    name="_unsafe_masked_index_put_accumulate",
    node="UnsafeMaskedIndexPutAccumulateBackward0",
    method=False,
    out=False,
    layout=Layout.PRESERVE,
)
def unsafe_masked_index_put_accumulate(input: Array, mask: Array, indices: Arrays, values: Array) -> Array:
    """`values` added where the mask is true at what the indices select, without bounds checks."""
    if not input.size:
        return input
    places = _masked_selection(input, mask, indices)
    added = jnp.where(mask, values, jnp.zeros_like(values))
    if places is None:
        return input + added
    return add_at(input, jnp.broadcast_to(added, places.shape), places)


# --- segments ---


@inner_op(name="segment_reduce_rows", node="SegmentReduceBackward0")
def segment_reduce_rows(input: Array, segment: Array, count: int, reduce: str, initial: Scalar | None) -> Array:
    """Rows reduced into the segment that `segment` names for each; `count` names none.

    `segment` has the leading dimensions of `input`; segments run along the last of them.
    """
    axis = segment.ndim - 1
    outer, inner = input.shape[:axis], input.shape[axis + 1 :]
    shape = (*outer, count + 1, *inner)
    own = [lax.broadcasted_iota(jnp.int64, segment.shape, d) for d in range(axis)]
    places = Slices.of(shape, tuple(range(axis + 1)), [*own, segment])
    kind = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    add = kind in ("sum", "mean")
    first = 0 if initial is None else initial
    if kind in ("amax", "amin"):
        first = -jnp.inf if kind == "amax" else jnp.inf
    elif kind == "prod":
        first = 1 if initial is None else initial
    start = jnp.full(shape, jnp.asarray(first).astype(input.dtype))
    out = combine(start, input, places, "sum" if add else kind, True)
    out = lax.slice_in_dim(out, 0, count, axis=axis)
    if kind == "mean":
        n = add_at(jnp.zeros(shape, input.dtype), jnp.ones_like(input), places)
        n = lax.slice_in_dim(n, 0, count, axis=axis)
        empty = jnp.nan if initial is None else initial
        return jnp.where(n > 0, out / jnp.maximum(n, 1), jnp.asarray(empty).astype(out.dtype))
    if kind in ("amax", "amin") and initial is not None:
        bound = jnp.asarray(initial).astype(out.dtype)
        beyond = bound > out if kind == "amax" else bound < out
        return jnp.where(beyond, bound, out)
    return out


@op(grad=Grad.NO)
def nonzero_static(input: Array, *, size: int, fill_value: int = -1) -> Array:
    """Coordinates of the first `size` nonzero elements, with rows of `fill_value` where there are fewer."""
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    if not input.size or not input.ndim or not size:
        return jnp.full((size, input.ndim), fill_value, jnp.int64)
    return jnp.stack(jnp.nonzero(input, size=size, fill_value=fill_value), 1).astype(jnp.int64)
