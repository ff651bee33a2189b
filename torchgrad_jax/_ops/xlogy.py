"""``x * log(y)``. Its gradient is such a product, too."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from .._core.arrays.dtypes import COMPLEX
from .._core.arrays.kernels import half_as_float, refuse, where
from .helpers import broadcast
from .logarithms import times_log
from .registry import FLOAT, Array, Compares, Scalar, elementwise_op, with_rule


def _xlogy(x: Array, y: Array) -> Array:
    refuse(x, "xlogy_cpu", COMPLEX)

    def body(x: Array, y: Array) -> Array:
        return where((x == 0) & (y == y), 0, x * lax.log(where((x == 0) & (y == y), 1, y)))

    return half_as_float(body)(x, y)


def _xlogy_rule(x: Array, y: Array, out: Array, tx: Array, ty: Array) -> Array:
    flat = (x == 0) & (y <= 0)
    # at 0 the logarithm stays, as 0 times its slope is NaN in torch's second gradients
    logarithm = where(flat & (y < 0), jnp.ones_like(y), y)
    along = times_log(where(flat, jnp.zeros_like(tx), tx), logarithm)
    return along + ty * x / y


_xlogy_ruled = with_rule(_xlogy, _xlogy_rule)


@elementwise_op(
    promote=FLOAT,
    inplace=True,
    compares=Compares.IN_GRADIENTS,
    node=lambda a: (
        "XlogyBackward1"
        if a.get("input") == "scalar"
        else "XlogyBackward2"
        if a.get("other") == "scalar"
        else "XlogyBackward0"
    ),
)
def xlogy(input: Array | Scalar, other: Array | Scalar) -> Array:
    """``input * log(other)``, 0 where the input is 0."""
    return _xlogy_ruled(*broadcast(jnp.asarray(input), jnp.asarray(other)))
