"""Array helpers shared by several families."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays import dtypes, shapes
from .._core.arrays.meta import Meta
from .._core.jax.custom_jvp import custom_jvp

Array = jax.Array


@jax.custom_batching.custom_vmap
def anywhere(mask: Array) -> Array:
    """Return whether any element is true; under `jax.vmap`, of any example.

    A `lax.cond` on the result stays a `cond` under `vmap`. With a predicate for each example JAX would compute both
    branches, and could not transpose them.
    """
    return jnp.any(mask)


@anywhere.def_vmap
def _anywhere_of_all(size: int, batched: Any, mask: Array) -> tuple[Array, bool]:
    del size, batched
    return anywhere(mask), False


@custom_jvp
def erf(x: Array) -> Array:
    """The error function between -1 and 1: XLA's float32 kernel oversteps them by two units in the last place."""
    return lax.clamp(jnp.array(-1, x.dtype), lax.erf(x), jnp.array(1, x.dtype))


@erf.defjvp
def _erf_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return erf(x), t * (2 / math.sqrt(math.pi) * jnp.exp(-x * x))


def softplus(x: Array) -> Array:
    """log(1 + exp(x)), also where exp(x) is infinite."""
    return lax.max(x, jnp.zeros_like(x)) + lax.log1p(lax.exp(-lax.abs(x)))


softplus_with_rule = custom_jvp(softplus)


@softplus_with_rule.defjvp
def _softplus_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return softplus_with_rule(x), t * lax.logistic(x)


def numel_along(x: Array, dims: Sequence[int]) -> int:
    """The number of elements along these dimensions together."""
    return math.prod(x.shape[d] for d in dims)


def cubic_within(x: Any, a: float) -> Any:
    """The cubic kernel of interpolation at distances of up to 1."""
    return ((a + 2) * x - (a + 3)) * x * x + 1


def cubic_beyond(x: Any, a: float) -> Any:
    """The cubic kernel of interpolation at distances from 1 to 2."""
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


def tangent_with_own_gradients(
    push: Callable[..., Array], back: Callable[..., Sequence[Array]], kept: Any, *tangents: Array
) -> Array:
    """The tangent ``push(kept, *tangents)``, shaped like the first of those, in a rule of a derivative.

    Gradients go through it as ``back(kept, gradient)`` says: torch's formulas of the two modes are not always each
    other's transposes.
    """
    from .._core.jax.linear_maps import Linear, tangents_along  # when first needed: its imports are slow

    arrays, tree = jax.tree.flatten(kept)
    linear = Linear(
        lambda k, gradients: back(jax.tree.unflatten(tree, k), *gradients),
        lambda k, given: [push(jax.tree.unflatten(tree, k), *given)],
    )
    return tangents_along(linear, arrays, tangents, (jax.typeof(tangents[0]),))[0]


@custom_jvp
def from_zero(x: Array) -> Array:
    """0 in place of -0, as in torch's sums, which start at 0. XLA would leave an addition of 0 out."""
    if is_complex(x):
        return lax.complex(from_zero(lax.real(x)), from_zero(lax.imag(x)))
    return jnp.where(x == 0, jnp.zeros((), x.dtype), x)


from_zero.defjvp(lambda primals, tangents: (from_zero(*primals), *tangents))


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
    """Return whether an array or dtype is floating (not complex)."""
    return jnp.issubdtype(getattr(x, "dtype", x), jnp.floating)


def is_complex(x: Any) -> bool:
    """Return whether an array or dtype is complex."""
    return jnp.issubdtype(getattr(x, "dtype", x), jnp.complexfloating)


def is_bool(x: Any) -> bool:
    """Return whether an array or dtype is bool."""
    return getattr(x, "dtype", x) == jnp.bool_


def is_integral(x: Any) -> bool:
    """Return whether an array or dtype is an integer type, bool excluded."""
    return jnp.issubdtype(getattr(x, "dtype", x), jnp.integer)


def has_zeros(input: Array) -> bool:
    """Return whether any number in an array at hand is 0."""
    return bool((np.asarray(input) == 0).any())


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
    if dtype == jnp.float8_e4m3fn:  # torch saturates, XLA overflows to NaN
        wide = x.astype(jnp.float32)
        x = jnp.where(jnp.isnan(wide), wide, jnp.clip(wide, -448.0, 448.0))
    # This dtype has no sign and no zero: torch keeps the magnitude, and takes the least number for zero.
    if dtype == jnp.float8_e8m0fnu:
        size = jnp.abs(x.astype(jnp.float32))
        least = jax.lax.bitcast_convert_type(jnp.uint8(0), jnp.float8_e8m0fnu)
        return jnp.where(size == 0, least, jax.lax.convert_element_type(size, dtype))
    return jax.lax.convert_element_type(x, dtype)


def _truncate(x: Array, dtype: Any) -> Array:
    """Floats to integers as x86 converts them, on which torch relies; XLA would saturate instead.

    The conversion is to int32 or int64, whose least number stands for whatever does not fit (NaN too);
    smaller types keep its low bits. uint32 and uint64 move their upper half down by 2**31 or 2**63
    before, and up again after.
    """
    wide = jnp.dtype(jnp.int64 if dtype.itemsize == 8 or dtype == jnp.uint8 else jnp.int32)
    limit = 2.0 ** (8 * wide.itemsize - 1)
    if x.dtype.itemsize < 4:
        x = x.astype(jnp.float32)
    least = jnp.array(jnp.iinfo(wide).min, wide)
    upper = None
    if dtype in (jnp.uint32, jnp.uint64):
        upper = x >= limit
        x = jnp.where(upper, x - limit, x)
    fits = (x >= -limit) & (x < limit)
    out = jnp.where(fits, x.astype(wide), least)
    if upper is not None:
        out = jnp.where(upper, out ^ least, out)
    return jax.lax.convert_element_type(out, dtype)


def diagonal_of(x: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    """The diagonal as a slice; jnp's reads its input again for the gradient of a square matrix."""
    x = jnp.moveaxis(x, (dim1, dim2), (-2, -1))
    rows, columns = x.shape[-2:]
    count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    flat = x.reshape(*x.shape[:-2], rows * columns)
    start = offset if offset >= 0 else -offset * columns
    stop = start + (count - 1) * (columns + 1) + 1
    if not count:
        return flat[..., :0]
    return lax.slice_in_dim(flat, start, stop, columns + 1, axis=flat.ndim - 1)


def stays_complex(metas: dict[str, Any], outs: Sequence[Any], wanted: set[str]) -> Any:
    """torch's formula does not take the real part of a gradient that a real argument gets, if it is asked for."""
    given = [m for m in metas.values() if isinstance(m, Meta) and m.dtype is not dtypes.bool_]
    real = [n for n in wanted if not metas[n].dtype.is_complex]
    if not (real and len(given) > 1 and outs[0].dtype.is_complex):
        return None
    said = (
        "Expected isFloatingType(grad.scalar_type()) || (input_is_complex == grad_is_complex) to be true, but got "
        "false.  (Could this error message be improved?  If so, please report an enhancement request to PyTorch.)"
    )
    return (said, real[0]) if len(real) == 1 else said
