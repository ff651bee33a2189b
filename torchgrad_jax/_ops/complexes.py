"""Functions of complex numbers as C defines them. XLA's ignore the side of a branch cut, and have NaN at infinity."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax

from .._core.arrays.division import divide
from .._core.arrays.dtypes import COMPLEX
from .._core.arrays.kernels import category
from .registry import Array, with_rule

Function = Callable[[Array], Array]


def _for_complex(real: Function, other: Function) -> Function:
    return lambda x: other(x) if category(x) == COMPLEX else real(x)


def _with_cut(fn: Function, slope: Callable[[Array, Array], Array], across_real: bool = False) -> Function:
    """`fn` with a branch cut along an axis. The sign of a part says on which side a number is, even if the part is 0.

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


Part = Callable[[Array, Array], Array]


def _with_zeros_of_c(fn: Function, real: Part | None = None, imag: Part | None = None) -> Function:
    """`fn` with zeros of the sign that C gives them, which is that of `real` and `imag` of the argument's parts."""

    def value(z: Array) -> Array:
        parts, w = (lax.real(z), lax.imag(z)), fn(z)

        def settled(x: Array, zero: Part | None) -> Array:
            if zero is None:
                return x
            y = zero(*parts)
            return lax.select((x == 0) & (y == 0), y, x)

        return lax.complex(settled(lax.real(w), real), settled(lax.imag(w), imag))

    return _for_complex(fn, value)


def _without_cuts(
    fn: Function, slope: Callable[[Array, Array], Array], real: Part | None = None, imag: Part | None = None
) -> Function:
    """A function without branch cuts, whose zeros have the signs that they have in C. For real numbers it is `fn`."""
    return _for_complex(fn, with_rule(_with_zeros_of_c(fn, real, imag), lambda z, w, t: t * slope(z, w)))


def _re(re: Array, im: Array) -> Array:
    return re


def _im(re: Array, im: Array) -> Array:
    return im


def _exp(z: Array) -> Array:
    w = lax.exp(z)
    gone = (lax.real(z) == -jnp.inf) & ~(lax.abs(lax.imag(z)) < jnp.inf)
    return lax.select(gone, jnp.zeros_like(w), w)


exp = _for_complex(lax.exp, with_rule(_with_zeros_of_c(_exp, imag=_im), lambda z, w, t: t * w))
expm1 = _without_cuts(lax.expm1, lambda z, w: w + 1, _re, _im)
log1p = _without_cuts(lax.log1p, lambda z, w: divide(jnp.ones_like(z), z + 1), real=_re)
sin = _without_cuts(lax.sin, lambda z, w: lax.cos(z), _re, lambda re, im: lax.cos(re) * im)
cos = _without_cuts(lax.cos, lambda z, w: -lax.sin(z), imag=lambda re, im: -(lax.sin(re) * im))
tan = _without_cuts(lax.tan, lambda z, w: w * w + 1, _re, _im)
sinh = _without_cuts(lax.sinh, lambda z, w: lax.cosh(z), lambda re, im: lax.cos(im) * re, _im)
cosh = _without_cuts(lax.cosh, lambda z, w: lax.sinh(z), imag=lambda re, im: re * lax.sin(im))
tanh = _without_cuts(lax.tanh, lambda z, w: 1 - w * w, _re, _im)
sqrt = _with_cut(lax.sqrt, lambda z, w: divide(jnp.full_like(w, 0.5), w))


def rsqrt(x: Array) -> Array:
    """One over the square root."""
    return divide(jnp.ones_like(x), sqrt(x)) if category(x) == COMPLEX else lax.rsqrt(x)


asin = _with_cut(lax.asin, lambda z, w: rsqrt(1 - z * z))


def _acos_slope(z: Array, w: Array) -> Array:
    return -rsqrt(1 - z * z)


acos = _without_cuts(  # torch takes asin from pi / 2, which leaves no negative zero
    _with_cut(lax.acos, _acos_slope), _acos_slope, imag=lambda re, im: jnp.zeros_like(im)
)
atan = _with_cut(
    _with_zeros_of_c(lax.atan, imag=_im), lambda z, w: divide(jnp.ones_like(z), z * z + 1), across_real=True
)
asinh = _with_cut(lax.asinh, lambda z, w: rsqrt(z * z + 1), across_real=True)
# torch adds -1, which makes the positive one of the two zeros.
acosh = _with_cut(lax.acosh, lambda z, w: rsqrt(z + -1) * rsqrt(z + 1))
atanh = _with_cut(_with_zeros_of_c(lax.atanh, real=_re), lambda z, w: divide(jnp.ones_like(z), 1 - z * z))


def power(x: Array, y: Array) -> Array:
    """``x ** y``, as torch writes it for complex numbers."""
    return exp(lax.log(x) * y) if category(x) == COMPLEX else lax.pow(x, y)


def size(x: Array) -> Array:
    """The absolute value. It is infinite where either part is, even if the other one is NaN."""
    if category(x) != COMPLEX:
        return lax.abs(x)
    far = (lax.abs(lax.real(x)) == jnp.inf) | (lax.abs(lax.imag(x)) == jnp.inf)
    y = lax.abs(x)
    return lax.select(far, jnp.full_like(y, jnp.inf), y)
