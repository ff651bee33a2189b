"""The regularised incomplete gamma functions, `igamma` and `igammac`.

XLA adds up a series for them. Where both arguments are large and near each other that takes very many terms, which cost
digits (at 1e5 in float32 the first of them is wrong); from 1 / eps on it does not end. There they are computed from the
normal distribution that they approach, and an expansion in powers of the distance between the arguments (DLMF 8.12),
whose coefficients follow from a differential equation.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .._core.arrays.dtypes import BOOL, COMPLEX, INTEGRAL
from .._core.arrays.kernels import half_as_float, refuse
from .._core.jax.custom_jvp import custom_jvp, is_absent
from .helpers import broadcast
from .registry import COMMON, Array, Layout, op

_TERMS = 26
_FROM, _WITHIN = 10.0, 0.4
"""From which `a` on, and for which `x` between `a (1 - within)` and `a (1 + within)`, the expansion is used."""


def _expansion() -> list[float]:
    """Coefficients of eta / (ratio - 1) in powers of eta, where eta**2 / 2 = ratio - 1 - log(ratio).

    With mu = ratio - 1, (mu**2)' / 2 = (1 + mu) eta gives the powers of mu one after the other.
    """
    mu = [Fraction(0), Fraction(1)]
    for n in range(2, _TERMS + 2):  # the coefficient of eta**(n + 1) in mu**2 / 2
        known = sum((mu[i] * mu[n + 1 - i] for i in range(2, n)), Fraction(0))
        mu.append(mu[n - 1] / (n + 1) - known / 2)
    inverse = [Fraction(1)]  # of mu / eta
    for n in range(1, _TERMS + 1):
        inverse.append(-sum((mu[i + 1] * inverse[n - i] for i in range(1, n + 1)), Fraction(0)))
    return [float(c) for c in inverse]


_COEFFICIENTS = _expansion()


def _is_near(a: Array, x: Array) -> Array:
    """Return whether both arguments are large and near each other."""
    return (a >= _FROM) & (a != jnp.inf) & (abs(x - a) < _WITHIN * a)


def _distance(a: Array, x: Array) -> Array:
    """eta: how far x is from a, so that exp(-a eta**2 / 2) is the shape of the density."""
    mu = (x - a) / a
    y = mu / (2 + mu)  # log(1 + mu) = 2 atanh(y); what cancels is taken out of its series
    y2, rest = y * y, jnp.zeros_like(y)
    for k in range(35, 1, -2):
        rest = rest * y2 + 1.0 / k
    # (mu - log(1 + mu)) / mu**2, as y = mu / (2 + mu)
    share = (1 - 2 * y * rest / (2 + mu)) / (2 + mu)
    return mu * lax.sqrt(2 * share)


def _correction(a: Array, eta: Array) -> tuple[Array, Array]:
    """What the expansion adds to the normal distribution, over its density, and how far Stirling's formula is off.

    With T the product of both, T' - a eta T = a (correction of Stirling's formula - eta / (ratio - 1)): the
    coefficients of T in powers of eta follow from the last to the first.
    """
    above, at = jnp.zeros_like(a), jnp.zeros_like(a)
    total = jnp.zeros_like(a)
    for n in range(_TERMS, 0, -1):
        # b[n - 1] from b[n + 1]
        above, at = at, _COEFFICIENTS[n] + (n + 1) * above / a
        total = total * eta + at
    stirling = 1 + above / a
    return total / stirling, stirling


def _near(a: Array, x: Array, sign: float) -> Array:
    """The lower function (sign 1) or the upper one (sign -1) where `_is_near`."""
    eta = _distance(a, x)
    density = lax.exp(-0.5 * a * eta * eta) / lax.sqrt(2 * math.pi * a)
    normal = 0.5 * lax.erfc(-sign * eta * lax.sqrt(0.5 * a))
    return normal - sign * density * _correction(a, eta)[0]


def _split(a: Array, x: Array, near: Callable[..., Array], far: Callable[..., Array]) -> Array:
    """One function where the arguments are near each other and another elsewhere, each of its own elements only."""
    here = _is_near(a, x)
    big, one = jnp.full_like(a, 2 * _FROM), jnp.ones_like(a)
    inside = near(jnp.where(here, a, big), jnp.where(here, x, big))
    return jnp.where(here, inside, far(jnp.where(here, one, a), jnp.where(here, one, x)))


def _limits(a: Array, x: Array, y: Array, small: float, large: float) -> Array:
    """XLA gives nan where one argument is infinite or `a` is 0; torch takes the limit, where there is one."""
    y = jnp.where((a == jnp.inf) & (x == jnp.inf), jnp.nan, y)
    y = jnp.where(((x == jnp.inf) & (a >= 0) & (a != jnp.inf)) | ((a == 0) & (x > 0)), large, y)
    return jnp.where((a == jnp.inf) & (x >= 0) & (x != jnp.inf), small, y)


def _igamma(a: Array, x: Array) -> Array:
    y = _split(a, x, functools.partial(_near, sign=1.0), lax.igamma)
    return _limits(a, x, y, 0, 1)


def _igammac(a: Array, x: Array) -> Array:
    y = _split(a, x, functools.partial(_near, sign=-1.0), lax.igammac)
    return _limits(a, x, y, 1, 0)


def _density(a: Array, x: Array) -> Array:
    def near(a: Array, x: Array) -> Array:
        eta = _distance(a, x)
        shape = lax.exp(-0.5 * a * eta * eta) * lax.sqrt(a / (2 * math.pi)) / x
        return shape / _correction(a, eta)[1]

    return _split(a, x, near, lambda a, x: lax.exp((a - 1) * lax.log(x) - x - lax.lgamma(a)))


def _slope_in_a(a: Array, x: Array) -> Array:
    def near(a: Array, x: Array) -> Array:
        return jax.jvp(lambda a: _near(a, x, 1.0), (a,), (jnp.ones_like(a),))[1]

    return _split(a, x, near, lax.igamma_grad_a)


def _declare(name: str, fn: Callable[[Array, Array], Array], sign: float) -> Any:
    """Declare the row. torch has the slope in the second argument only; the other one is JAX's."""

    @custom_jvp
    def body(a: Array, x: Array) -> Array:
        return half_as_float(fn)(a, x)

    @functools.partial(body.defjvp, symbolic_zeros=True)
    def jvp(primals: Any, tangents: Any) -> Any:
        (a, x), (ta, tx) = primals, tangents
        t = jnp.zeros_like(a)
        if not is_absent(tx):
            t = t + sign * half_as_float(_density)(a, x) * tx
        if not is_absent(ta):
            t = t + sign * half_as_float(_slope_in_a)(a, x) * ta
        return body(a, x), t

    def impl(input: Array, other: Array) -> Array:
        a, x = broadcast(input, other)
        refuse(a, f"{name}_cpu", BOOL, INTEGRAL, COMPLEX)
        return body(a, x)

    impl.__name__ = impl.__qualname__ = name
    impl.__doc__ = "The regularised incomplete gamma function."
    return op(impl, promote=COMMON, inplace=True, layout=Layout.ELEMENTWISE)


igamma = _declare("igamma", _igamma, 1.0)
igammac = _declare("igammac", _igammac, -1.0)
