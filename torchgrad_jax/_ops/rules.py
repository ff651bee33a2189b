"""Derivative rules where torch's convention differs from JAX's. Each is linear in the tangent."""

from __future__ import annotations

import jax
import jax.numpy as jnp

Array = jax.Array


def abs_(x: Array, y: Array, t: Array) -> Array:
    """torch: slope 0 at 0; JAX: 1."""
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        safe = jnp.where(y == 0, 1, y)
        unit = jnp.where(y == 0, 0, x / safe)
        return jnp.real(unit) * jnp.real(t) + jnp.imag(unit) * jnp.imag(t)
    return jnp.sign(x) * t
