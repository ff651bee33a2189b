"""Division as IEEE 754 says, and torch does.

XLA multiplies by the reciprocal of a divisor that it can tell to be repeated (a number, a row), which is up to an ulp
away. The primitive of this module is lowered for the CPU in a form that does not let it tell: where the dividend is
NaN the divisor is replaced by NaN, which changes no quotient.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def divide(x: Any, y: Any) -> Any:
    """``x / y`` in the dtype of `x`, broadcast."""
    y = jnp.asarray(y, x.dtype)
    shape = jnp.broadcast_shapes(x.shape, y.shape)
    x, y = jnp.broadcast_to(x, shape), jnp.broadcast_to(y, shape)
    return _primitive().bind(x, y) if jnp.issubdtype(x.dtype, jnp.floating) else lax.div(x, y)


def _abstract(x: Any, y: Any) -> Any:
    return jax.core.ShapedArray(x.shape, x.dtype)


def _guarded(x: Any, y: Any) -> Any:
    return lax.div(x, lax.select(x == x, y, jnp.full_like(y, jnp.nan)))


def _batched(args: Any, dims: Any) -> tuple[Any, int]:
    x, y = (a[None] if d is None else jnp.moveaxis(a, d, 0) for a, d in zip(args, dims))
    return divide(x, y), 0


@functools.cache
def _primitive() -> Any:
    """Made with the first quotient: what it takes is slow to import."""
    from jax.extend.core import Primitive
    from jax.interpreters import ad, batching, mlir

    def transposed(ct: Any, x: Any, y: Any) -> list[Any]:
        return [ct if isinstance(ct, ad.Zero) else divide(ct, y), None]

    p = Primitive("divide")
    p.def_abstract_eval(_abstract)
    p.def_impl(jax.jit(_guarded))
    ad.defjvp(
        p,
        lambda t, x, y: divide(t, y),
        lambda t, x, y: lax.neg(lax.mul(t, divide(divide(x, y), y))),
    )
    ad.primitive_transposes[p] = transposed
    batching.primitive_batchers[p] = _batched
    mlir.register_lowering(p, mlir.lower_fun(lax.div, multiple_results=False))
    mlir.register_lowering(p, mlir.lower_fun(_guarded, multiple_results=False), platform="cpu")
    return p
