"""Array helpers shared by several families."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .._core import shapes

Array = jax.Array


def broadcast(*xs: Array) -> tuple[Array, ...]:
    """Broadcast arrays to their common shape, with torch's complaint where there is none."""
    if all(x.shape == xs[0].shape for x in xs):
        return xs
    shape = shapes.broadcast_shapes(*[x.shape for x in xs])
    return tuple(_broadcast_to(x, shape) for x in xs)


def _broadcast_to(x: Array, shape: tuple[int, ...]) -> Array:
    """Broadcast; half types through float32, so that the gradient sums in float32 as torch's does."""
    if x.shape == shape:
        return x
    if x.dtype in (jnp.float16, jnp.bfloat16):
        return jnp.broadcast_to(x.astype(jnp.float32), shape).astype(x.dtype)
    return jnp.broadcast_to(x, shape)


def is_float(x: Any) -> bool:
    """Whether an array or dtype is floating (not complex)."""
    return jnp.issubdtype(getattr(x, "dtype", x), jnp.floating)


def is_complex(x: Any) -> bool:
    """Whether an array or dtype is complex."""
    return jnp.issubdtype(getattr(x, "dtype", x), jnp.complexfloating)


def is_bool(x: Any) -> bool:
    """Whether an array or dtype is bool."""
    return getattr(x, "dtype", x) == jnp.bool_


def is_integral(x: Any) -> bool:
    """Whether an array or dtype is an integer type, bool excluded."""
    return jnp.issubdtype(getattr(x, "dtype", x), jnp.integer)


def zero_tangent(x: Array) -> Array:
    """Zeros shaped like the tangent of `x`."""
    return jnp.zeros(x.shape, x.dtype)


def convert(x: Array, dtype: Any) -> Array:
    """`x` cast the way torch casts: complex drops its imaginary part, floats truncate to ints."""
    if x.dtype == dtype:
        return x
    if is_complex(x) and not jnp.issubdtype(dtype, jnp.complexfloating):
        if dtype == jnp.bool_:
            return x != 0
        x = jnp.real(x)
    if dtype == jnp.bool_:
        return x != 0
    if is_float(x) and is_integral(dtype):
        return _truncate(x, jnp.dtype(dtype))
    return jax.lax.convert_element_type(x, dtype)


def _truncate(x: Array, dtype: Any) -> Array:
    """Floats to integers as x86 does it, which torch leaves it to.

    Small signed types go by way of int32, all others by way of int64; what does not fit there (NaN too)
    becomes the least number. XLA would saturate instead.
    """
    wide = jnp.dtype(jnp.int32 if dtype.kind == "i" and dtype.itemsize < 8 else jnp.int64)
    limit = 2.0 ** (8 * wide.itemsize - 1)
    if x.dtype.itemsize < 4:
        x = x.astype(jnp.float32)
    fits = (x >= -limit) & (x < limit)
    least = jnp.array(jnp.iinfo(wide).min, wide)
    return jax.lax.convert_element_type(jnp.where(fits, x.astype(wide), least), dtype)


def expanded_gradient(ct: Any, m: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
    """Strides of the gradient of a sum: torch expands the incoming one, so summed dims get 0."""
    if dim is None or dim == ():
        return (0,) * m.ndim if m.numel > 1 else None
    dims = shapes.wrap_dims(dim, m.ndim)
    given = iter(ct.strides)
    out = []
    for d in range(m.ndim):
        if d in dims:
            stride = next(given) if keepdim else 1
            out.append(stride if m.shape[d] == 1 else 0)
        else:
            out.append(next(given))
    return tuple(out)
