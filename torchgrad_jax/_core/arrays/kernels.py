"""Helpers for kernels of several families: they refuse dtypes and compute half types in float32."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from . import dtypes, shapes

_CPP_NAMES = {
    "bool": "bool",
    "uint8": "unsigned char",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long int",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float32": "float",
    "float64": "double",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}
_FLOAT16, _BFLOAT16 = _HALF = (np.dtype(jnp.float16), np.dtype(jnp.bfloat16))


def category(x: Any) -> int:
    """BOOL, INTEGRAL, FLOATING or COMPLEX of an array."""
    return dtypes.from_np(x.dtype).category


def scalar_name(x: Any) -> str:
    """``'Float'``, ``'ComplexDouble'``: an array's dtype as torch's messages print it."""
    return dtypes.scalar_type_name(dtypes.from_np(x.dtype))


def cpp_name(x: Any) -> str:
    """``float``, ``long int``: an array's dtype as C++ prints it."""
    name = dtypes.from_np(x.dtype).name
    return _CPP_NAMES.get(name, name)


def refuse(x: Any, kernel: str, *categories: int) -> None:
    """Raise torch's complaint if `x` has a dtype of one of these categories."""
    if category(x) in categories:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{scalar_name(x)}'")


def refusing(fn: Callable[..., Any], kernel: str, *categories: int) -> Callable[..., Any]:
    """`fn` of arrays, which raises torch's complaint about its `kernel` where the first has such a dtype."""

    def checked(x: Any, *rest: Any) -> Any:
        refuse(x, kernel, *categories)
        return fn(x, *rest)

    return checked


def refusing_complex(
    fn: Callable[..., Any], message: str, error: type[Exception] = NotImplementedError
) -> Callable[..., Any]:
    """`fn` of arrays, which raises `error` where the first is complex."""

    def checked(x: Any, *rest: Any) -> Any:
        if category(x) == dtypes.COMPLEX:
            raise error(message)
        return fn(x, *rest)

    return checked


def is_half(x: Any) -> bool:
    """Return whether torch would compute this dtype in float32."""
    return x.dtype in _HALF


def widen(x: Any) -> Any:
    """Half types in float32, everything else as it is."""
    return x.astype(jnp.float32) if is_half(x) else x


def half_as_float(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` with half-type arrays computed in float32 and rounded once at the end, as torch does."""

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        half = next((a.dtype for a in args if hasattr(a, "dtype") and is_half(a)), None)
        if half is None:
            return fn(*args, **kwargs)
        out = fn(*[widen(a) if hasattr(a, "dtype") else a for a in args], **kwargs)
        return out.astype(half)

    return wrapped


def round_half(wide: Any, dtype: Any) -> Any:
    """float32 values rounded to a half type. XLA can't leave that out, as it would with two conversions."""
    if dtype == _BFLOAT16:
        return lax.reduce_precision(wide, 8, 7)
    if dtype == _FLOAT16:  # reduce_precision would flush its subnormal numbers
        return lax.optimization_barrier(wide.astype(_FLOAT16)).astype(np.float32)
    return wide


def where(condition: Any, x: Any, y: Any) -> Any:
    """``jnp.where`` as one primitive, and one that keeps derivatives connected for empty arrays too."""
    dtype = next(a.dtype for a in (x, y) if hasattr(a, "dtype"))
    shape = shapes.broadcast_shapes(*[np.shape(a) for a in (condition, x, y)])
    parts = [a if hasattr(a, "dtype") else jnp.asarray(a, dtype) for a in (condition, x, y)]
    return lax.select(*[a if a.shape == shape else jnp.broadcast_to(a, shape) for a in parts])


def nextafter(x: Any, y: Any) -> Any:
    """The neighbour of `x` towards `y`, by counting bits: XLA's own takes subnormal numbers for zeros."""
    whole = np.dtype(f"int{8 * x.dtype.itemsize}")
    most, sign = whole.type(np.iinfo(whole).max), whole.type(np.iinfo(whole).min)

    def place(bits: Any) -> Any:
        return jnp.where(bits < 0, -(bits & most), bits)

    bits = lax.bitcast_convert_type(x, whole)
    start, end = place(bits), place(lax.bitcast_convert_type(y, whole))
    moved = start + (end > start).astype(whole) - (end < start).astype(whole)
    negative = jnp.where(moved == 0, bits, moved) < 0  # a step to zero keeps the sign, as in C
    out = lax.bitcast_convert_type(jnp.where(negative, abs(moved) | sign, moved), x.dtype)
    return jnp.where(jnp.isnan(x) | jnp.isnan(y), x + y, jnp.where(start == end, y, out))
