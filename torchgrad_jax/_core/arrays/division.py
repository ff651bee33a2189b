"""Division as IEEE 754 defines it, and as torch does it.

XLA multiplies by the reciprocal of a divisor that it can tell to be repeated (a number, a row), which is up to an ulp
away. The primitive of this module is lowered for the CPU in a form that does not let it tell: where the dividend is
NaN the divisor is replaced by NaN, which changes no quotient.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..jax.custom_jvp import custom_jvp, is_absent
from ..jax.own_kernels import jit


def divide(x: Any, y: Any) -> Any:
    """``x / y`` in the dtype of `x`, broadcast."""
    y = jnp.asarray(y, x.dtype)
    shape = jnp.broadcast_shapes(x.shape, y.shape)
    x, y = jnp.broadcast_to(x, shape), jnp.broadcast_to(y, shape)
    if jnp.issubdtype(x.dtype, jnp.floating):
        return _primitive().bind(x, y)
    return _complex_quotient(x, y) if jnp.issubdtype(x.dtype, jnp.complexfloating) else lax.div(x, y)


def averaged(total: Any, n: int) -> Any:
    """``total / n``, or NaN for the total of nothing, whose gradients, of which there are none, add up to 0."""
    return divide(total, n) if n else total + math.nan


@custom_jvp
def _complex_quotient(x: Any, y: Any) -> Any:
    """By Smith's formula, which decides what becomes of infinities; XLA has other limits."""
    (a, b), (c, d) = ((lax.real(z), lax.imag(z)) for z in (x, y))
    wide, none = lax.abs(c) >= lax.abs(d), (c == 0) & (d == 0)
    one = jnp.ones_like(c)
    high, low = lax.select(wide, c, d), lax.select(wide, d, c)
    ratio = lax.div(low, lax.select(none, one, high))
    scale = lax.div(one, lax.select(none, one, high + low * ratio))
    re = lax.select(wide, a + b * ratio, a * ratio + b) * scale
    im = lax.select(wide, b - a * ratio, b * ratio - a) * scale
    # Nothing else is divided by 0, on the way back either.
    zero = lax.select(none, jnp.zeros_like(c), one)
    return lax.complex(lax.select(none, a / zero, re), lax.select(none, b / zero, im))


@functools.partial(_complex_quotient.defjvp, symbolic_zeros=True)
def _complex_quotient_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (tx, ty) = primals, tangents
    terms = [] if is_absent(tx) else [_complex_quotient(tx, y)]
    terms += [] if is_absent(ty) else [ty * divide_twice(x, y)]
    return _complex_quotient(x, y), functools.reduce(operator.add, terms)


def divide_twice(x: Any, y: Any) -> Any:
    """``-x / y / y``, the slope of a quotient; without the sign XLA makes ``x / (y * y)`` of it, which overflows."""
    return divide(lax.neg(divide(x, y)), y)


def _abstract(x: Any, y: Any) -> Any:
    return jax.core.ShapedArray(x.shape, x.dtype)


def _guarded(x: Any, y: Any) -> Any:
    return lax.div(x, lax.select(x == x, y, jnp.full_like(y, jnp.nan)))


def _batched(args: Any, dims: Any) -> tuple[Any, int]:
    x, y = (a[None] if d is None else jnp.moveaxis(a, d, 0) for a, d in zip(args, dims))
    return divide(x, y), 0


@functools.cache
def _primitive() -> Any:
    """The primitive. It is made with the first quotient, because its imports are slow."""
    from jax.extend.core import Primitive
    from jax.interpreters import ad, batching, mlir

    def transposed(ct: Any, x: Any, y: Any) -> list[Any]:
        return [ct if isinstance(ct, ad.Zero) else divide(ct, y), None]

    p = Primitive("divide")
    p.made_by = _primitive  # so another process makes it, which reads a trace with this step
    p.def_abstract_eval(_abstract)
    p.def_impl(jit(_guarded))
    ad.defjvp(p, lambda t, x, y: divide(t, y), lambda t, x, y: lax.mul(t, divide_twice(x, y)))
    ad.primitive_transposes[p] = transposed
    batching.primitive_batchers[p] = _batched
    mlir.register_lowering(p, mlir.lower_fun(lax.div, multiple_results=False))
    mlir.register_lowering(p, mlir.lower_fun(_guarded, multiple_results=False), platform="cpu")
    return p
