"""``x * log(y)``, and its gradient, which is one again."""

from __future__ import annotations

import functools

import jax.numpy as jnp
from jax import lax

from .._core.dtypes import COMPLEX
from .._core.kernels import half_as_float, refuse, where
from .helpers import broadcast
from .registry import FLOAT, Array, Layout, Scalar, op, with_rule

_elementwise = functools.partial(op, layout=Layout.ELEMENTWISE)


def _xlogy(x: Array, y: Array) -> Array:
    refuse(x, "xlogy_cpu", COMPLEX)

    def body(x: Array, y: Array) -> Array:
        return where((x == 0) & (y == y), 0, x * lax.log(where((x == 0) & (y == y), 1, y)))

    return half_as_float(body)(x, y)


_log_or_one = with_rule(
    lambda y: where((y == 0) | (y == jnp.inf), jnp.ones_like(y), lax.log(y)),
    lambda y, out, t: t * where(y == 0, -1 / y, 1 / y),
)
# Adding it changes nothing, not even a zero's sign.
_slope_only = with_rule(lambda y: jnp.full_like(y, -0.0), lambda y, out, t: t / y)


def _times_log(t: Array, y: Array) -> Array:
    """``xlogy(t, y)``, torch's gradient: 0 for 0 where there is no logarithm, too, so that a masked loss stays finite.

    It has to be linear in `t` for JAX: where the logarithm is no number, factors that overflow make an infinity, or
    NaN, of everything but 0. They stand in an order that reads the same from both ends, as the transpose does.
    """
    one, high = jnp.ones_like(y), jnp.full_like(y, jnp.finfo(y.dtype).max)
    none = y < 0
    beside = where(none, one, y)
    huge = where((beside == 0) | (beside == jnp.inf), high, one)
    sign = where(beside == 0, -one, one)
    along = t * huge * huge * sign * _log_or_one(beside) * huge * huge
    huge = where(none, high, one)
    nothing = t * huge * huge * where(none, jnp.zeros_like(y), one) * huge * huge
    steep = where(none, t, jnp.zeros_like(t)) * _slope_only(where(none, y, one))
    return where(none, nothing, along) + steep


def _xlogy_rule(x: Array, y: Array, out: Array, tx: Array, ty: Array) -> Array:
    flat = (x == 0) & (y <= 0)
    along = _times_log(where(flat, jnp.zeros_like(tx), tx), where(flat, jnp.ones_like(y), y))
    return along + ty * x / y


_xlogy_ruled = with_rule(_xlogy, _xlogy_rule)


@_elementwise(promote=FLOAT, inplace=True, tags=frozenset({"compares"}),
              node=lambda a: "XlogyBackward1" if a.get("input") == "scalar"
              else "XlogyBackward2" if a.get("other") == "scalar" else "XlogyBackward0")  # fmt: skip
def xlogy(input: Array | Scalar, other: Array | Scalar) -> Array:
    """``input * log(other)``, 0 where the input is 0."""
    return _xlogy_ruled(*broadcast(jnp.asarray(input), jnp.asarray(other)))
