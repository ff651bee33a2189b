"""Functions of complex numbers as C defines them: XLA's lose the sides of branch cuts and the limits at infinity."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax

from .._core.division import divide
from .._core.dtypes import COMPLEX
from .._core.kernels import category
from .registry import Array, with_rule

Function = Callable[[Array], Array]


def _for_complex(real: Function, other: Function) -> Function:
    return lambda x: other(x) if category(x) == COMPLEX else real(x)


def _sided(
    fn: Function, slope: Callable[[Array, Array], Array], across_real: bool = False
) -> Function:
    """`fn` with a cut along an axis, the side of which is the sign of a part, and be it that of a zero.

    Such functions take conjugates to conjugates; those with a cut on the imaginary axis are odd as well.
    """

    def value(z: Array) -> Array:
        re, im = lax.real(z), lax.imag(z)
        if across_real:
            w = fn(lax.complex(lax.abs(re), im))
            return lax.complex(_signed(lax.real(w), re), lax.imag(w))
        w = fn(lax.complex(re, lax.abs(im)))
        return lax.complex(lax.real(w), _signed(lax.imag(w), im))

    return _for_complex(fn, with_rule(value, lambda z, w, t: t * slope(z, w)))


def _signed(x: Array, like: Array) -> Array:
    return lax.select(jnp.signbit(like), -x, x)


def _exp(z: Array) -> Array:
    w = lax.exp(z)
    gone = (lax.real(z) == -jnp.inf) & ~(lax.abs(lax.imag(z)) < jnp.inf)
    return lax.select(gone, jnp.zeros_like(w), w)


exp = _for_complex(lax.exp, with_rule(_exp, lambda z, w, t: t * w))
sqrt = _sided(lax.sqrt, lambda z, w: divide(jnp.full_like(w, 0.5), w))


def rsqrt(x: Array) -> Array:
    """One over the square root."""
    return divide(jnp.ones_like(x), sqrt(x)) if category(x) == COMPLEX else lax.rsqrt(x)


asin = _sided(lax.asin, lambda z, w: rsqrt(1 - z * z))
acos = _sided(lax.acos, lambda z, w: -rsqrt(1 - z * z))
atan = _sided(lax.atan, lambda z, w: divide(jnp.ones_like(z), z * z + 1), across_real=True)
asinh = _sided(lax.asinh, lambda z, w: rsqrt(z * z + 1), across_real=True)
# torch subtracts by adding: of the two zeros it makes the positive one.
acosh = _sided(lax.acosh, lambda z, w: rsqrt(z + -1) * rsqrt(z + 1))
atanh = _sided(lax.atanh, lambda z, w: divide(jnp.ones_like(z), 1 - z * z))


def power(x: Array, y: Array) -> Array:
    """``x ** y``, as torch writes it for complex numbers."""
    return exp(lax.log(x) * y) if category(x) == COMPLEX else lax.pow(x, y)


def size(x: Array) -> Array:
    """The absolute value: infinite where either part is, and be the other one NaN."""
    if category(x) != COMPLEX:
        return lax.abs(x)
    far = (lax.abs(lax.real(x)) == jnp.inf) | (lax.abs(lax.imag(x)) == jnp.inf)
    y = lax.abs(x)
    return lax.select(far, jnp.full_like(y, jnp.inf), y)
