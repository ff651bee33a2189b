"""Host arrays from what users pass as data: nested sequences of numbers, NumPy arrays, buffers.

Plain lists go through NumPy in one step. Whatever is not plain (NumPy scalars, tensors or arrays
inside of lists, ragged or non-numeric data) is walked element by element in the order in which torch
walks it, so that the result and the complaint are torch's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from .._core.arrays import dtypes
from .._core.arrays.numbers import c_name, overflow, range_of
from .._core.errors import messages as errors, warn
from .._core.random.rounding import cast
from .._core.state import GRAD, MODES
from .._engine.graph.history import requires_grad_of
from .._engine.memory.concrete import concrete
from .._engine.memory.tensor import Tensor
from .arguments import type_name

_MAX_DIMS = 128
_LISTS = frozenset({list, tuple})
_PLAIN = frozenset({bool, int, float, complex})
_ROUNDED_TWICE = (dtypes.float16, dtypes.bfloat16, *dtypes.FLOAT8)


def array_of(data: Any, dt: dtypes.dtype | None) -> tuple[np.ndarray, dtypes.dtype]:
    """Numbers and nested sequences as a fresh host array, and its dtype (inferred where None)."""
    kind = data.__class__
    if kind in _PLAIN:
        leaves, shape, kinds = [data], (), {kind}
    elif kind in _LISTS:
        leaves, shape, kinds = _flattened(data)
    else:
        kinds = {None}
    if kinds <= _PLAIN:
        dt = dt or _python_dtype(kinds)
        flat = _plain_array(leaves, kinds, dt)
        if flat is not None:
            return flat.reshape(shape), dt
    return _walked(data, dt)


def _flattened(data: Any) -> tuple[list[Any], tuple[int, ...], set[Any]]:
    """The elements of regularly nested lists, their shape, and the set of their types."""
    leaves, shape = data, []
    while True:
        shape.append(len(leaves))
        if len(shape) > 1:
            first = shape[-1] = len(leaves[0])
            if any(len(part) != first for part in leaves):
                return [], (), {None}
            leaves = list(chain.from_iterable(leaves))
        kinds = set(map(type, leaves))
        if not kinds or not kinds <= _LISTS or len(shape) > _MAX_DIMS:
            return leaves, tuple(shape), kinds


def _python_dtype(kinds: set[Any]) -> dtypes.dtype:
    if complex in kinds:
        return dtypes.to_complex(dtypes.get_default_dtype())
    if float in kinds or not kinds:
        return dtypes.get_default_dtype()
    return dtypes.int64 if int in kinds else dtypes.bool_


def _plain_array(leaves: Sequence[Any], kinds: set[Any], dt: dtypes.dtype) -> np.ndarray | None:
    """Python numbers as an array, or None where torch would look at each of them closely."""
    if dt.category < dtypes.FLOATING and dt.category != dtypes.BOOL and not kinds <= {bool, int}:
        return None
    if complex in kinds and not dt.is_complex:
        return None
    try:
        if dt in _ROUNDED_TWICE:
            return _rounded(np.array(leaves, np.float64), dt)
        if dt in (dtypes.float32, dtypes.complex64):
            with np.errstate(all="ignore"):
                return np.array(leaves, np.float64 if dt is dtypes.float32 else np.complex128).astype(dt.np)
        return np.array(leaves, dt.np)
    except OverflowError:
        return None


def _rounded(values: np.ndarray, dt: dtypes.dtype) -> np.ndarray:
    """Numbers in a type of half precision or less, by way of float32."""
    with np.errstate(all="ignore"):
        wide = values.astype(np.float32)
        if dt is dtypes.float8_e4m3fn:
            wide = np.clip(wide, -448.0, 448.0)
        if dt is dtypes.float8_e8m0fnu:
            wide = np.maximum(np.abs(wide), np.float32(2.0**-127))
        return cast(wide, dt.np)


# --- element by element ---------------------------------------------------------------------------


def _walked(data: Any, dt: dtypes.dtype | None) -> tuple[np.ndarray, dtypes.dtype]:
    if isinstance(data, str | bytes):
        raise TypeError(f"new(): invalid data type '{type_name(data)}'")
    shape = _shape(data)
    dt = dt or _inferred(data)
    stored: list[Any] = []
    if 0 not in shape:
        _store(data, shape, 0, functools.partial(_element, dt), stored)
    if dt in _ROUNDED_TWICE:
        return _rounded(np.array(stored, np.float64), dt).reshape(shape), dt
    return np.array(stored, dt.np).reshape(shape), dt


def _is_sequence(value: Any) -> bool:
    if isinstance(value, Tensor | dict | set | frozenset):
        return False
    return not isinstance(value, np.generic) and all(
        any(name in c.__dict__ for c in type(value).__mro__) for name in ("__getitem__", "__len__")
    )


def _shape(data: Any) -> tuple[int, ...]:
    """The shape that the first element of every nesting level suggests."""
    shape: list[int] = []
    while _is_sequence(data):
        shape.append(len(data))
        if len(shape) > _MAX_DIMS:
            raise ValueError(f"too many dimensions '{type_name(data)}'")
        if not shape[-1]:
            break
        try:
            first = data[0]
        except Exception:  # the user's sequence may raise anything
            raise ValueError(f"could not determine the shape of object type '{type_name(data)}'") from None
        data = first
    return tuple(shape)


def _inferred(data: Any) -> dtypes.dtype:
    if isinstance(data, np.ndarray | np.generic) and not isinstance(data, np.str_ | np.bytes_):
        return numpy_dtype(data)
    if isinstance(data, bool):
        return dtypes.bool_
    if isinstance(data, int):
        return dtypes.int64
    if isinstance(data, float):
        return dtypes.get_default_dtype()
    if isinstance(data, complex):
        return dtypes.to_complex(dtypes.get_default_dtype())
    if isinstance(data, Tensor):
        return data._m.dtype
    if isinstance(data, str | bytes):
        raise TypeError(f"new(): invalid data type '{type_name(data)}'")
    if not _is_sequence(data):
        raise RuntimeError(f"Could not infer dtype of {type_name(data)}")
    out = None
    for item in data:
        if item is data:
            raise TypeError("new(): self-referential lists are incompatible")
        kind = _inferred(item)
        out = kind if out is None else dtypes.promote_types(out, kind)
    return out or dtypes.get_default_dtype()


def _store(data: Any, shape: tuple[int, ...], dim: int, element: Any, out: list[Any]) -> None:
    if dim == len(shape):
        out.append(element(data))
        return
    if isinstance(data, np.ndarray):
        warn.once(
            "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider converting the list to "
            "a single numpy.ndarray with numpy.array() before converting to a tensor."
        )
    try:
        items = data if isinstance(data, list | tuple) else list(data)
    except TypeError:
        raise TypeError("not a sequence") from None
    if len(items) != shape[dim]:
        raise ValueError(f"expected sequence of length {shape[dim]} at dim {dim} (got {len(items)})")
    for item in items:
        _store(item, shape, dim + 1, element, out)


def _element(dt: dtypes.dtype, value: Any) -> Any:
    """One element as a Python number that the dtype can hold."""
    if isinstance(value, Tensor):
        value = _tensor_element(value, dt)
    if dt.category == dtypes.BOOL:
        return _truth(value)
    if dt.category == dtypes.INTEGRAL:
        return _integer(dt, value)
    if dt.is_complex:
        if isinstance(value, complex | np.complexfloating):
            return complex(value)
        return complex(_double(value))
    return _double(value)


def _tensor_element(value: Tensor, dt: dtypes.dtype) -> Any:
    if dt.category == dtypes.INTEGRAL:
        return value.__index__()
    if value._m.numel != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    if MODES.bits & GRAD and requires_grad_of(value):
        warn.once(errors.SCALAR_OF_GRAD)
    out = concrete(value).reshape(()).item()
    if isinstance(out, complex) and not dt.is_complex:
        raise RuntimeError("value cannot be converted to type double without overflow")
    return out


def _truth(value: Any) -> bool:
    if not isinstance(value, int | float | complex | np.generic):
        raise TypeError(f"'{type_name(value)}' object cannot be interpreted as an integer")
    return bool(value)


def _double(value: Any) -> float:
    if isinstance(value, complex | list | tuple) or (
        not hasattr(type(value), "__float__") and not hasattr(type(value), "__index__")
    ):
        raise TypeError(f"must be real number, not {type_name(value)}")
    return float(value)


def _integer(dt: dtypes.dtype, value: Any) -> int:
    if dt is dtypes.uint64:
        if not isinstance(value, int):
            raise TypeError("an integer is required")
        if value < 0:
            raise OverflowError("can't convert negative int to unsigned")
        if value >= 2**64:
            raise OverflowError("int too big to convert")
        return int(value)
    if isinstance(value, float):
        return _from_float(dt, value, dt.name)
    try:
        out = value.__index__()
    except (AttributeError, TypeError):
        raise TypeError(f"'{_index_name(value)}' object cannot be interpreted as an integer") from None
    if not -(2**63) <= out < 2**63:
        raise ValueError("Overflow when unpacking long long")
    return wrapped(out, dt, dt.name)


def _index_name(value: Any) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__name__}" if kind.__module__ == "numpy" else kind.__name__


def _from_float(dt: dtypes.dtype, value: float, shown: str) -> int:
    info = np.iinfo(dt.np)
    # 2**63 fits, in doubles; nothing wraps around
    if not math.isfinite(value) or not float(info.min) <= value <= float(info.max):
        raise overflow(shown)
    return int(wrap(int(value), dt))


def wrapped(value: int, dt: dtypes.dtype, shown: str) -> int:
    """An integer in the range of the dtype; unsigned ones let small negative numbers wrap around."""
    least, largest = range_of(dt)
    if not least <= value <= largest:
        raise overflow(shown)
    return wrap(value, dt)


def wrap(value: int, dt: dtypes.dtype) -> int:
    """Modular reduction into the range of the dtype."""
    bits = 8 * dt.itemsize
    value %= 1 << bits
    return value - (1 << bits) if dt.is_signed and value >> (bits - 1) else value


# --- numbers --------------------------------------------------------------------------------------


def number_as(value: Any, dt: dtypes.dtype) -> np.ndarray:
    """A Python number as a 0-dim array, refusing what does not fit as torch's fill does."""
    shown = c_name(dt)
    if dt.category == dtypes.BOOL:
        return np.array(bool(value))
    if dt.is_complex:
        return _checked(complex(value), dt, shown)
    number = value.real
    if value.imag != 0:
        raise overflow(shown)
    if isinstance(number, int) and not -(2**63) <= number < 2**64:
        raise OverflowError("int too big to convert")
    if dt.category == dtypes.INTEGRAL:
        whole = _from_float(dt, number, shown) if isinstance(number, float) else wrapped(int(number), dt, shown)
        return np.array(whole, dt.np)
    return _checked(float(number), dt, shown)


def _checked(value: float | complex, dt: dtypes.dtype, shown: str) -> np.ndarray:
    limit = range_of(dt)[1]
    for part in (value.real, value.imag):
        if abs(part) > limit and math.isfinite(part) and dt not in dtypes.FLOAT8:
            raise overflow(shown)
    return _rounded(np.array(value), dt) if dt in _ROUNDED_TWICE else np.array(value, dt.np)


# --- NumPy ----------------------------------------------------------------------------------------


def numpy_dtype(array: Any) -> dtypes.dtype:
    """The dtype of a NumPy array or scalar, or torch's complaint."""
    if not array.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders is "
            "currently not supported."
        )
    found = dtypes.BY_NP.get(array.dtype)
    if found is None:
        raise TypeError(
            f"can't convert np.ndarray of type numpy.{array.dtype.type.__name__}. The only supported types are: "
            "float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, "
            "uint8, and bool."
        )
    return found


def numpy_strides(array: np.ndarray) -> tuple[int, ...]:
    """The strides of a NumPy array in elements, where torch can express them."""
    out = []
    for step in array.strides:
        if step < 0:
            raise ValueError(
                "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
                "currently supported. (You can probably work around this by making a copy of your array  with "
                "array.copy().) "
            )
        if step % array.itemsize:
            raise ValueError(
                "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate "
                "the memory."
            )
        out.append(step // array.itemsize)
    return tuple(out)


def convert(array: np.ndarray, dt: dtypes.dtype) -> np.ndarray:
    """A fresh array of another dtype, cast as torch casts tensors."""
    if array.dtype == dt.np:
        return np.array(array)
    if array.dtype.kind == "c" and not dt.is_complex and dt.category != dtypes.BOOL:
        array = array.real
    if dt.category == dtypes.BOOL:
        return array != 0
    if array.dtype.kind == "f" and dt.category == dtypes.INTEGRAL:
        return _truncated(array, dt)
    if dt in _ROUNDED_TWICE:
        return _rounded(array, dt)
    with np.errstate(all="ignore"):
        return array.astype(dt.np)


def _truncated(array: np.ndarray, dt: dtypes.dtype) -> np.ndarray:
    """Floats to integers, as `_ops.helpers.convert` does it on a device."""
    wide = np.int64 if dt.itemsize == 8 or dt is dtypes.uint8 else np.int32
    limit = float(2 ** (8 * np.dtype(wide).itemsize - 1))
    x = array.astype(np.float64)
    upper = x >= limit if dt in (dtypes.uint32, dtypes.uint64) else np.zeros(x.shape, bool)
    x = np.where(upper, x - limit, x)
    fits = (x >= -limit) & (x < limit)
    out = np.where(fits, np.where(fits, x, 0).astype(wide), np.iinfo(wide).min)
    return np.where(upper, out ^ np.iinfo(wide).min, out).astype(dt.np)
