"""The logarithm of 2, and products with logarithms, as gradients have them."""

from __future__ import annotations

import math

import jax.numpy as jnp
from jax import lax

from .._core.arrays.kernels import where
from .registry import Array, with_rule

LN2 = math.log(2.0)
_log_or_one = with_rule(
    lambda y: where(y == 0, jnp.ones_like(y), lax.log(y)), lambda y, out, t: t * where(y == 0, -1 / y, 1 / y)
)
# This is -0.0 everywhere: adding it changes nothing, not even the sign of a zero.
_slope_only = with_rule(lambda y: jnp.full_like(y, -0.0), lambda y, out, t: t / y)


def times_log(t: Array, y: Array) -> Array:
    """``xlogy(t, y)``, torch's gradient. It is 0 for `t` of 0 also without a logarithm: masked losses stay finite.

    It has to be linear in `t` for JAX: where the logarithm is no number, factors that overflow make an infinity, or
    NaN, of everything but 0. They stand in an order that reads the same from both ends, as the transpose does.
    """
    one, high = jnp.ones_like(y), jnp.full_like(y, jnp.finfo(y.dtype).max)
    below = y < 0
    none = below | (y == jnp.inf)  # at infinity the slope is 0
    beside = where(none, one, y)
    huge = where(beside == 0, high, one)
    sign = where(beside == 0, -one, one)
    along = t * huge * huge * sign * _log_or_one(beside) * huge * huge
    huge = where(none, high, one)
    nothing = t * huge * huge * where(below, jnp.zeros_like(y), one) * huge * huge
    steep = where(below, t, jnp.zeros_like(t)) * _slope_only(where(below, y, one))
    return where(none, nothing, along) + steep
