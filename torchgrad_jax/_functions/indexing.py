"""`tensor[index]` and `tensor[index] = value`, as torch turns them into views and index ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import jax
import numpy as np

from .._core.arrays import dtypes
from .._core.arrays.kernels import cpp_name
from .._core.arrays.numbers import check_fits, check_read, flushed_by_kernels, may_not_fit
from .._core.errors import messages as errors, warn
from .._core.errors.checks import Check, fail_if, outside
from .._core.state import GRAD, MODES
from .._engine.entry.bind import ops
from .._engine.graph.deferred import later
from .._engine.graph.history import check_inplace, complain_first, forbid_gradient, requires_grad_of
from .._engine.graph.views import as_strided_view
from .._engine.memory.concrete import concrete, is_traced
from .._engine.memory.strided import check_writable, is_mirrored, places_in, read, warn_of_overlap
from .._engine.memory.tensor import Tensor, wrap_array
from .._engine.modes.belonging import tensor_of_jax
from .._engine.overrides.looking import begin, foreign
from .complex_views import imag, real
from .convert import transfer
from .fresh import from_host
from .splitting import slice_along


def _as_int(value: Any) -> int | None:
    if value.__class__ is int:
        return value
    if value.__class__ in _PLAIN_INDICES:
        return None
    return int(value) if isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_) else None


_PLAIN_INDICES = frozenset((int, slice, type(None), type(Ellipsis), Tensor))
"""Classes of nearly all indices, and of the members of those that are tuples."""


def _tensor_index(value: Any, like: Tensor) -> Tensor:
    """A bool, sequence, array or tensor used as an index."""
    if not isinstance(value, Tensor):
        from .create import tensor

        value = list(value) if isinstance(value, range) else value
        value = tensor(value, device=like._m.device)
        if value._m.numel == 0 and value._m.dtype.is_floating_point:
            value = ops._to_copy(value, dtypes.int64)
    if value._m.dtype.category >= dtypes.FLOATING or value._m.dtype in (dtypes.int8, dtypes.int16):
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    return value


def _is_mask(t: Tensor) -> bool:
    """Return whether a tensor used as an index says of each element if it is wanted."""
    return t._m.dtype in (dtypes.bool_, dtypes.uint8)


def _dims_of_index(t: Tensor) -> int:
    """Return how many dimensions a tensor used as an index stands for; a mask without any stands for a new one."""
    return max(t._m.ndim, 1) if _is_mask(t) else 1


def _width(value: Any) -> int:
    """Return how many dimensions of the source an index consumes."""
    if value.__class__ is int or value.__class__ is slice:
        return 1
    if value is None or value is Ellipsis or isinstance(value, bool | np.bool_):
        return 0
    if isinstance(value, Tensor) and _is_mask(value):
        return value._m.ndim
    if isinstance(value, list | np.ndarray):
        array = np.asarray(value)
        return array.ndim if array.dtype == np.bool_ else 1
    return 1


def _as_tensor(index: jax.Array) -> Any:
    """An array of JAX as an index: an int if it is one number of known value."""
    plain = index.ndim == 0 and not isinstance(index, jax.core.Tracer)
    return index.item() if plain else wrap_array(index)


def _wrap_tuple(index: Any) -> tuple[Any, ...]:
    """The indices as a tuple. A short list that holds more than numbers counts as a tuple, as in older NumPy."""
    if index.__class__ is tuple and _PLAIN_INDICES.issuperset(map(type, index)):
        return index
    if index.__class__ in _PLAIN_INDICES:
        return (index,)
    if isinstance(index, jax.Array):
        index = (index,)
    if isinstance(index, tuple):
        return tuple([_as_tensor(v) if isinstance(v, jax.Array) else v for v in index])
    if isinstance(index, list) and len(index) < 32 and any(isinstance(v, _MANY) for v in index):
        warn.to_user(
            "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in pytorch "
            "2.9; use x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as tensor index, "
            "x[torch.tensor(seq)], which will result either in an error or a different result"
        )
        return _wrap_tuple(tuple(index))
    return (index,)


_MANY = (Tensor, list, tuple, range, str, np.ndarray, jax.Array, slice, type(None), type(Ellipsis))
"""What makes a list of indices count as a tuple of them."""


def _bound(value: Any) -> int | None:
    if value is None or value.__class__ is int:
        return value
    if not isinstance(value, Tensor) and not hasattr(type(value), "__index__"):
        raise TypeError("slice indices must be integers or None or have an __index__ method")
    return value.__index__()


_GATHERED = (Tensor, bool, np.bool_, list, tuple, range, np.ndarray)
"""What of an index becomes a tensor; anything else has to be a number."""


def _dims_of_tensors(items: Sequence[Any]) -> int:
    """Return how many dimensions are indexed by tensors that are indices as they are; 0 if there is anything else."""
    dims = 0
    for t in items:
        m = t._m if t.__class__ is Tensor else None
        if m is None or not m.ndim or (m.dtype is not dtypes.int64 and m.dtype is not dtypes.bool_):
            return 0
        dims += m.ndim if m.dtype is dtypes.bool_ else 1
    return dims


def parse(x: Tensor, index: Any) -> tuple[Tensor, list[Tensor | None]]:
    """Apply ints, slices, None and Ellipsis as views; collect what must be gathered."""
    if index.__class__ is int and x._m.ndim:
        return _select(x, 0, index, x, 0), []
    ndim = x._m.ndim
    if index.__class__ is Tensor or index.__class__ is tuple:
        tensors = [index] if index.__class__ is Tensor else [*index]
        if 0 < _dims_of_tensors(tensors) <= ndim:
            return x, tensors
    items = _wrap_tuple(index)
    used = sum(_width(v) for v in items)
    if used > ndim:
        _refuse_too_many(x, index)
    out, at = x, 0
    gathered: dict[int, Tensor] = {}
    for place, value in enumerate(items):
        number = _as_int(value)
        if number is not None:
            out = _select(out, at, number, x, place)
        elif isinstance(value, slice):
            out = _slice(out, at, value)
            at += 1
        elif value is None:
            out = ops.unsqueeze(out, at)
            at += 1
        elif value is Ellipsis:
            at += ndim - used
        elif not isinstance(value, _GATHERED):
            out = _select(out, at, _number_of_object(value), x, place)
        else:
            t = _tensor_index(value, x)
            if t._m.ndim == 0:
                if _is_mask(t):
                    out = ops.unsqueeze(out, at)
                elif not _is_traced(t):
                    out = _select(out, at, int(concrete(t)), x, place)
                    continue
                elif place != at and MODES.run.may_check_later:
                    # An index of its own for each example.
                    later([t], _entry_check(out._m.shape[at], place))
            gathered[at] = t
            at += _dims_of_index(t)
    return out, _by_dimension(gathered) if gathered else []


def _refuse_too_many(x: Tensor, index: Any) -> NoReturn:
    """More indices than `x` has dimensions."""
    if x._m.ndim == 0:
        if isinstance(index, slice):
            complain_first((x,))
            raise IndexError("slice() cannot be applied to a 0-dim tensor.")
        if not isinstance(index, tuple) and (number := _as_int(index)) is not None:
            raise IndexError(
                f"index {number} is out of bounds for dimension 0 with size 0" if number else errors.NO_INDEX
            )
    raise IndexError(f"too many indices for tensor of dimension {x._m.ndim}")


def _number_of_object(value: Any) -> int:
    """The number that an object with a method `__index__` stands for."""
    try:
        return value.__index__()
    except AttributeError:
        kind = type(value).__name__
        if isinstance(value, str | bytes):  # torch tries to make a tensor of these sequences
            raise TypeError(f"new(): invalid data type '{kind}'") from None
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
            f"indices (got {kind})"
        ) from None


def _by_dimension(gathered: dict[int, Tensor]) -> list[Tensor | None]:
    """The tensors among the indices in order, with None for each dimension in between that has none."""
    indices: list[Tensor | None] = []
    last, d = max(gathered), 0
    while d <= last:
        t = gathered.get(d)
        indices.append(t)
        d += 1 if t is None else _dims_of_index(t)
    return indices


def _is_traced(t: Tensor) -> bool:
    return isinstance(t._st.array, jax.core.Tracer) and not t.is_meta


def _entry_check(n: int, place: int) -> Check:
    """The check that an index of one entry is in range, with the error of `_select`."""

    def check(values: Sequence[Any]) -> None:
        fail_if(
            outside(values[0], n, True),
            lambda: IndexError(f"index {int(values[0])} is out of bounds for dimension {place} with size {n}"),
        )

    return check


def _select(out: Tensor, at: int, number: int, x: Tensor, place: int) -> Tensor:
    """One entry of dimension `at`; errors name the place in the index, as in torch."""
    if out._m.ndim <= at:
        if x._m.ndim == 0:
            raise IndexError(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to "
                "convert a 0-dim tensor to a number"
            )
        raise IndexError(f"too many indices for tensor of dimension {x._m.ndim}")
    n = out._m.shape[at]
    if not -n <= number < n:
        raise IndexError(f"index {number} is out of bounds for dimension {place} with size {n}")
    return ops.select(out, at, number)


def _slice(out: Tensor, at: int, value: slice, always: bool = False) -> Tensor:
    """One slice; a full one is no view of its own unless it is the only index."""
    step = 1 if value.step is None else _bound(value.step)
    if step is None or step == 0:
        raise ValueError("slice step cannot be zero")
    if step < 0:
        raise ValueError("step must be greater than zero")
    start, stop = _bound(value.start), _bound(value.stop)
    n = out._m.shape[at]
    if not always and step == 1 and (start is None or start == 0) and (stop is None or stop >= n):
        return out
    return slice_along(out, at, start, stop, step)


_BYTE_MASK = "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead."


def expand_masks(x: Tensor, indices: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Bool and byte masks replaced by the integer indices of their true elements."""
    here = x._m.device
    for t in indices:
        if t is not None and (_is_mask(t) or t._m.device is not here):
            break
    else:
        return [*indices]
    out: list[Tensor | None] = []
    at = 0
    for t in indices:
        if t is None:
            out.append(None)
            at += 1
            continue
        if not _is_mask(t):
            elsewhere = t._m.device.type == "cpu" and x._m.device.type != "cpu"
            out.append(transfer(t, x._m.device) if elsewhere else t)
            at += 1
            continue
        if t._m.dtype is dtypes.uint8 and t._m.ndim:
            warn.to_user(_BYTE_MASK)
        mask = t._m.shape
        for k, n in enumerate(mask):
            if x._m.shape[at + k] != n:
                raise IndexError(
                    f"The shape of the mask {list(mask)} at index {k} does not match the shape of the indexed tensor "
                    f"{list(x._m.shape)} at index {at + k}"
                )
        values = concrete(t, errors.BATCHED_MASK, "nonzero")
        found = (values if mask else np.atleast_1d(values)).nonzero()
        out += [from_host(np.ascontiguousarray(f), x._m.device) for f in found]
        at += max(len(mask), 1)
    return out


def getitem(self: Tensor, index: Any) -> Tensor:
    """`tensor[index]`."""
    if index.__class__ is int and self._m.ndim:
        return _select(self, 0, index, self, 0)
    if index.__class__ is slice and self._m.ndim:
        return _slice(self, 0, index, always=True)
    if self._x is not None and self._x.inner.__class__ in (dict, list, tuple):
        return self._x.inner[index]  # a row of blocks of a Jacobian, as JAX builds it
    try:
        out, indices = parse(self, index)
    except (IndexError, TypeError):
        if foreign((index,)):
            return begin(Tensor.__getitem__, (self, index), {})
        raise
    if not indices:
        return ops.alias(out) if out is self else out
    return ops.index(out, tuple(expand_masks(out, indices)))


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """`tensor[index] = value`."""
    try:
        _set(self, index, value)
    except (IndexError, TypeError):
        if not foreign((index, value)):
            raise
        begin(Tensor.__setitem__, (self, index, value), {})


def _set(self: Tensor, index: Any, value: Any) -> None:
    parsed = None
    if value.__class__ is not Tensor:
        if _fills_with(value, self):
            parsed = out, indices = parse(self, index)
            if not indices:
                # Torch copies the number, which refuses overlapping elements; a fill would not.
                check_writable(out)
                ops.fill_value_(out, value)  # no tensor is made for a plain number
                return
        value = _assigned(value, self)
    if index is False:
        return
    if index is True:
        copy_to(ops.unsqueeze(self, 0), value)
        return
    out, indices = parsed or parse(self, index)
    if not indices:
        copy_to(out, value)
        return
    index_put_(out, indices, _trim(value), fills=value._m.numel == 1 and not _is_one_flag(index))


def _is_half(dtype: dtypes.dtype) -> bool:
    return dtype.itemsize == 2 and dtype.is_floating_point


def _fills_with(value: Any, self: Tensor) -> bool:
    """Return whether a number that is assigned need not become a tensor.

    For a half type the number becomes a tensor first, so that it may overflow to infinity. So does a subnormal number,
    which a kernel would flush to 0.
    """
    if value.__class__ not in (int, float, bool) or _is_half(self._m.dtype) or flushed_by_kernels(value):
        return False
    return not (MODES.bits & GRAD and requires_grad_of(self))


_PLAIN_FLOATS = (dtypes.float32, dtypes.float64)
_SAFE = 1e30
"""Smaller numbers are in the range of these dtypes."""


def _assigned(value: Any, self: Tensor) -> Tensor:
    """The tensor that an assigned value is."""
    if isinstance(value, jax.Array):
        value = tensor_of_jax(value, self)
    if isinstance(value, Tensor):
        return value
    from .create import from_data, tensor

    dtype = self._m.dtype
    if dtype in _PLAIN_FLOATS and value.__class__ in (float, int) and -_SAFE < value < _SAFE:  # as nearly always
        return from_host(np.asarray(value, dtype.np), self._m.device)
    if not isinstance(value, int | float | complex | bool | np.generic):
        given = "numpy.ndarray" if isinstance(value, np.ndarray) else type(value).__name__
        raise TypeError(f"can't assign a {given} to a torch.{dtype.type_name}")
    if isinstance(value, complex):
        check_fits(value, dtypes.float64 if _is_half(dtype) else dtype)
        if not dtype.is_complex:
            return tensor(value)
    return from_data(value, dtype, self._m.device, False)


def _is_one_flag(index: Any) -> bool:
    """Whether a bool, or a tensor of one, is among the indices, which torch takes for the index of a new dimension."""
    return any(
        isinstance(i, bool) or (isinstance(i, Tensor) and not i._m.ndim and _is_mask(i))
        for i in (index if isinstance(index, tuple) else (index,))
    )


def set_real(self: Tensor, value: Any) -> None:
    """`tensor.real = value`."""
    _set_part(self, real(self), value)


def set_imag(self: Tensor, value: Any) -> None:
    """`tensor.imag = value`."""
    _set_part(self, imag(self), value)


def _set_part(self: Tensor, part: Tensor, value: Any) -> None:
    if isinstance(value, Tensor):
        ops.copy_(part, value)
        return
    from .create import tensor

    dtype = part._m.dtype
    if not isinstance(value, int | float | complex | bool | np.generic):
        raise TypeError(f"can't assign a {type(value).__name__} to a torch.{dtype.type_name}")
    if isinstance(value, complex) and not dtype.is_complex:
        name = {dtypes.int64: "int64_t"}.get(dtype) or cpp_name(np.zeros(0, dtype.np))
        raise RuntimeError(f"value cannot be converted to type {name} without overflow")
    ops.copy_(part, tensor(value, dtype=dtype, device=self._m.device))


def fills_masked(indices: Sequence[Any], values: Tensor, accumulate: bool) -> bool:
    """Return whether torch runs `masked_fill_` for this write, which accepts a value on any device."""
    given = [t for t in indices if t is not None]
    return (
        len(given) == 1
        and given[0]._m.dtype in (dtypes.bool_, dtypes.uint8)
        and values._m.numel == 1
        and not accumulate
    )


def refuse_byte_mask(given: Sequence[Any]) -> None:
    """Refuse to write one value by a mask of bytes."""
    if any(t is not None and t._m.dtype is dtypes.uint8 and t._m.ndim for t in given):
        raise RuntimeError("masked_fill_ only supports boolean masks, but got mask with dtype unsigned char")


def index_put_(
    out: Tensor, given: Sequence[Any], values: Tensor, accumulate: bool = False, fills: bool = True
) -> Tensor:
    """`index_put_`. Where `out` overlaps itself, the later of two writes stays.

    With `fills` a mask and one value are a `masked_fill_`, which casts the value.
    """
    m = out._m
    if fills := fills and fills_masked(given, values, accumulate):
        refuse_byte_mask(given)
        if may_not_fit(values._m.dtype, m.dtype):
            if MODES.bits & GRAD:
                check_inplace(out, requires_grad_of(out) or requires_grad_of(values))
            check_read(read(values), m.dtype)
        if fits_as_mask(given, out) and not m.overlaps:
            if values._m.dtype is not m.dtype and values._m.dtype.category < dtypes.FLOATING:
                values = ops._to_copy(values, m.dtype)  # the node has an edge for what can have a gradient
            return ops._index_put_mask_(out, tuple(given), values)
        values = ops.clone(values) if values._m.dtype is m.dtype else ops._to_copy(values, m.dtype)
    elif not accumulate and _put_where_traced(out, given, values):
        return out
    indices = tuple(expand_masks(out, given))
    recorded = MODES.bits & GRAD and m.overlaps
    if recorded:
        check_inplace(out, requires_grad_of(out) or requires_grad_of(values))
    if is_mirrored(out):
        check_writable(out)
    if not warn_of_overlap(out, "index_put", "tensor[indices] = tensor"):
        return ops.index_put_(out, indices, values, accumulate)
    if fills:
        warn_of_overlap(out, "masked_fill")
    from .create import tensor

    places = ops.index(tensor(places_in(m.shape, m.strides), device=m.device), indices)
    flat = as_strided_view(out, (m.extent,), (1,), None)
    ops.index_put_(flat, (places,), values, accumulate)
    if recorded and requires_grad_of(out):
        forbid_gradient(out)
    return out


def fits_as_mask(given: Sequence[Any], out: Tensor) -> bool:
    """Return whether the only index is a mask of some dimensions of `out`, on its device."""
    at = next(k for k, t in enumerate(given) if t is not None)
    mask, shape = given[at]._m, out._m.shape
    return mask.ndim > 0 and mask.shape == shape[at : at + mask.ndim] and mask.device is out._m.device


def _put_where_traced(out: Tensor, given: Sequence[Any], values: Tensor) -> bool:
    """Write by a mask whose values are being traced, if what is written does not depend on how many are true."""
    mask, m = given[-1] if given else None, out._m
    if mask is None or mask._m.dtype is not dtypes.bool_ or not is_traced(mask):
        return False
    at = len(given) - 1
    if any(t is not None for t in given[:at]):
        return False
    chosen, after = mask._m.ndim, m.ndim - at - mask._m.ndim
    if not chosen or mask._m.shape != m.shape[at : at + chosen]:
        return False
    shape = values._m.shape
    counted = len(shape) - 1 - after  # the dimension of `values` that lies along the true elements
    if counted >= 0:
        if shape[counted] != 1:
            return False
        values = ops.view(values, (*shape[:counted], *[1] * chosen, *shape[counted + 1 :]))
    if values._m.dtype is not m.dtype:
        return False
    mask = ops.view(mask, (*mask._m.shape, *[1] * after))
    ops.copy_(out, ops.where(mask, values, out))
    return True


def _trim(value: Tensor) -> Tensor:
    """torch drops leading dimensions of size 1 from an assigned value."""
    shape = value._m.shape
    lead = 0
    while lead < len(shape) and shape[lead] == 1:
        lead += 1
    return ops.view(value, shape[lead:]) if lead else value


def copy_to(out: Tensor, value: Tensor) -> None:
    """Assign `value` to a view: leading dimensions of size 1 are dropped, the rest is broadcast."""
    if value._m.device is not out._m.device:
        value = transfer(value, out._m.device)
    shape = value._m.shape
    if shape == out._m.shape:
        ops.copy_(out, value)
        return
    if not shape:
        ops.fill_tensor_(out, value)
        return
    lead = 0
    while lead < len(shape) and shape[lead] == 1:
        lead += 1
    value = ops.view(value, shape[lead:])
    if value._m.shape != out._m.shape:
        value = ops.expand(value, out._m.shape)
    ops.copy_(out, value)
