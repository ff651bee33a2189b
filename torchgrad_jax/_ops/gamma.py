"""The sigmoid, error functions, the gamma function with its derivatives, and a Bessel function."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
from jax import lax

from .._core.arrays.division import divide
from .._core.arrays.dtypes import COMPLEX
from .._core.arrays.kernels import category, half_as_float, refuse, refusing, where
from .._core.jax.custom_jvp import custom_jvp
from .._core.jax.target import platform
from . import complexes
from .helpers import erf, from_zero, tangent_with_own_gradients
from .registry import FLOAT, Array, InPlace, Layout, elementwise_op, unary, with_rule


def _logit_rule(x: Array, t: Array, eps: float | None) -> Array:
    low, high = (0.0, 1.0) if eps is None else (eps, 1.0 - eps)
    inside = (x >= low) & (x <= high)
    slope = _logit_slope(low, high, x)
    if eps is None:
        return t * where(inside, slope, jnp.asarray(jnp.nan, x.dtype))
    slope = where(x == x, slope, x)
    # The slope is 0 outside, also for an infinite tangent.
    return where(inside | (x != x), t * slope, 0)


@functools.partial(custom_jvp, nondiff_argnums=(0, 1))
def _logit_slope(low: float, high: float, x: Array) -> Array:
    """The slope, and 1 outside."""
    return where((x >= low) & (x <= high), 1 / (x * (1 - x)), jnp.ones_like(x))


@_logit_slope.defjvp
def _logit_slope_jvp(low: float, high: float, primals: Any, tangents: Any) -> Any:
    """Tangents are 0 outside. Gradients are 0 times those of the true slope, as in torch: NaN where it is infinite."""

    def steeper(x: Array) -> Array:
        square = lax.square(1 / (x * (1 - x)))
        return square * x - square * (1 - x)

    def pushed(x: Array, t: Array) -> Array:
        return where((x >= low) & (x <= high), t * steeper(x), 0)

    def back(x: Array, g: Array) -> tuple[Array]:
        return (where((x >= low) & (x <= high), g, g * 0) * steeper(x),)

    (x,), (t,) = primals, tangents
    return _logit_slope(low, high, x), tangent_with_own_gradients(pushed, back, x, t)


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _logit(x: Array, eps: float | None) -> Array:
    def body(x: Array) -> Array:
        z = x if eps is None else jnp.clip(x, eps, 1.0 - eps)
        return lax.log(z / (1 - z))

    return half_as_float(body)(x)


@_logit.defjvp
def _logit_jvp(eps: float | None, primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _logit(x, eps), _logit_rule(x, t, eps)


@elementwise_op(promote=FLOAT, inplace=True)
def logit(input: Array, eps: float | None = None) -> Array:
    """The inverse of sigmoid, on ``[eps, 1 - eps]`` when `eps` is given."""
    refuse(input, "logit_cpu", COMPLEX)
    return _logit(input, eps)


def _digamma(x: Array) -> Array:
    """torch: the poles at 0 and -0 are infinite with opposite signs; XLA: nan."""
    return where(x == 0, -lax.div(jnp.ones_like(x), x), lax.digamma(x))


def _trigamma(x: Array) -> Array:
    """Stirling's series at a place six steps to the right, with as many terms as torch has: ten digits are correct. How
    high a pole is depends on the sine of a rounded multiple of pi, as in torch."""
    left = x < 0.5
    z = where(left, 1 - x, x)
    y = jnp.zeros_like(x)
    for _ in range(6):
        y, z = y + 1 / lax.square(z), z + 1
    w = 1 / lax.square(z)
    y += (1 + 0.5 / z + w * (1 / 6 - w * (1 / 30 - w / 42))) / z
    pole = math.pi**2 / lax.square(lax.sin(jnp.asarray(math.pi, x.dtype) * x))
    return where(left, pole - y, y)


def _cot_derivative(n: int) -> np.ndarray:
    """Coefficients, highest first, of the n-th derivative of cot as a polynomial in cot."""
    p = np.array([1.0, 0.0])
    for _ in range(n):
        p = np.polymul(-np.polyder(p), [1.0, 0.0, 1.0])
    return p


@functools.partial(custom_jvp, nondiff_argnums=(0,))
def _polygamma(n: int, x: Array) -> Array:
    """Left of 0 it is computed by reflection, since XLA's zeta loses all digits there."""
    if n < 2:
        return _trigamma(x) if n else _digamma(x)
    if x.dtype != jnp.float64:  # float32 would lose digits where terms cancel
        return _polygamma(n, x.astype(jnp.float64)).astype(x.dtype)
    sign = 1.0 if n % 2 else -1.0
    left = x < 0
    y = sign * math.gamma(n + 1) * lax.zeta(jnp.full_like(x, n + 1), where(left, 1 - x, x))
    # Torch: NaN, not its limit 0.
    y = where(x == 0, sign * jnp.inf, where(x == jnp.inf, jnp.nan, y))
    turn = x - lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
    cot = 1 / lax.tan(jnp.pi * where(left, turn, 0.5))
    wave = math.pi ** (n + 1) * jnp.polyval(jnp.asarray(_cot_derivative(n), x.dtype), cot)
    pole = left & ((turn == 0) | (x == -jnp.inf))
    return where(pole, sign * jnp.inf, where(left, -sign * y - wave, y))


@_polygamma.defjvp
def _polygamma_jvp(n: int, primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _polygamma(n, x), t * _polygamma(n + 1, x)


def _sigmoid(x: Array) -> Array:
    if category(x) != COMPLEX:
        return lax.logistic(x)
    return divide(jnp.ones_like(x), 1 + complexes.exp(-x))


def _rounded_polygamma(n: int, x: Array) -> Array:
    """`_polygamma` in half types as an operator of its own: torch rounds it before it multiplies by it."""
    return half_as_float(functools.partial(_polygamma, n))(x)


_log_gamma = with_rule(lax.lgamma, lambda x, y, t: t * _polygamma(0, x))


@half_as_float
def _lgamma(x: Array) -> Array:
    if platform() == "cpu":  # where `compiled_curves` has a better one
        return lax.lgamma(x)
    # in float64, as XLA's float32 kernel has few correct digits next to the zeros at 1 and 2
    return lax.lgamma(x.astype(jnp.float64)).astype(x.dtype)


@custom_jvp
def _i1(x: Array) -> Array:
    return from_zero(jsp.i1(x))


@_i1.defjvp
def _i1_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    y, small = _i1(x), ~(lax.abs(x) > jnp.finfo(x.dtype).eps)  # torch: nan included
    return y, t * where(small, 0.5, jsp.i0(x) - y / where(small, 1, x))


sigmoid = unary("sigmoid", _sigmoid, promote=FLOAT, rule=half_as_float(lambda x, y, t: t * (y * (1 - y))))


@half_as_float
def _slope_of_erf(x: Array) -> Array:
    return (2 / math.sqrt(math.pi)) * lax.exp(-lax.square(x))


erf_ = unary(
    "erf",
    refusing(half_as_float(erf), "erf_vml_cpu", COMPLEX),
    promote=FLOAT,
    rule=lambda x, y, t: t * _slope_of_erf(x),
)
erfc = unary(
    "erfc",
    refusing(half_as_float(lax.erfc), "erfc_vml_cpu", COMPLEX),
    promote=FLOAT,
    rule=lambda x, y, t: -t * _slope_of_erf(x),
)


def _slope_of_erf_inv(y: Array) -> Array:
    return (0.5 * math.sqrt(math.pi)) * lax.exp(lax.square(y))


def _improved_erf_inv(x: Array) -> Array:
    """The inverse of `erf` by one of Newton's steps: XLA's has 6 right digits near 1 in float32, and 9 in float64."""
    y = lax.erf_inv(x)
    size = jnp.abs(x)
    beyond = jnp.where(size < 0.5, lax.erf(jnp.abs(y)) - size, (1 - size) - lax.erfc(jnp.abs(y)))
    return jnp.where((size < 1) & (size > 0), y - jnp.sign(x) * beyond * _slope_of_erf_inv(y), y)


_erf_inv = with_rule(_improved_erf_inv, lambda x, y, t: t * _slope_of_erf_inv(y))
erfinv = unary(
    "erfinv",
    refusing(half_as_float(_erf_inv), "erfinv_vml_cpu", COMPLEX),
    promote=FLOAT,
    # the slope reads the input and not the result, since torch saves the input
    rule=lambda x, y, t: t * _slope_of_erf_inv(_erf_inv(x)),
)
lgamma = unary(
    "lgamma",
    refusing(_lgamma, "lgamma_vml_cpu", COMPLEX),
    promote=FLOAT,
    rule=lambda x, y, t: t * _rounded_polygamma(0, x),
)
digamma = unary(
    "digamma",
    refusing(half_as_float(lambda x: _polygamma(0, x)), "digamma", COMPLEX),
    promote=FLOAT,
    rule=lambda x, y, t: t * _rounded_polygamma(1, x),
)
# JAX's slope of i0 at 0 is not 0
i0 = unary(
    "i0",
    refusing(half_as_float(jsp.i0), "i0_vml_cpu", COMPLEX),
    promote=FLOAT,
    rule=half_as_float(lambda x, y, t: t * _i1(x)),
)


@elementwise_op(promote=FLOAT, function=False, method=False, inplace=InPlace(node="PolygammaBackward1"))
def polygamma(input: Array, n: int) -> Array:
    """The `n`-th derivative of digamma."""
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    refuse(input, {0: "digamma", 1: "trigamma"}.get(n, "polygamma"), COMPLEX)
    return half_as_float(lambda x: _polygamma(n, x))(input)


@elementwise_op(promote=FLOAT, inplace=True, layout=Layout.CONTIGUOUS)
def mvlgamma(input: Array, p: int) -> Array:
    """The logarithm of the multivariate gamma function of dimension `p`."""
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    refuse(input, "mvlgamma", COMPLEX)

    def body(x: Array) -> Array:
        total = jnp.full_like(x, p * (p - 1) / 4 * math.log(math.pi))
        for j in range(p):
            total += _log_gamma(x - j / 2)
        return total

    return half_as_float(body)(input)
