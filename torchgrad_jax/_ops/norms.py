"""Norms of many tensors at once."""

from __future__ import annotations

import jax.numpy as jnp

from .registry import Array, Arrays, op


@op(out=False, method=False, function=False)
def _total_norm(tensors: Arrays, norm_type: float) -> Array:
    """The p-norm (p > 0 or infinite) of the p-norms of tensors of one dtype."""

    def norm(x: Array) -> Array:
        size = jnp.abs(x)
        if norm_type == float("inf"):
            return jnp.max(size, initial=0)
        if norm_type == 1.0:
            return jnp.sum(size, dtype=size.dtype)
        if norm_type == 2.0:
            return jnp.sqrt(jnp.sum(size * size, dtype=size.dtype))
        return jnp.sum(size**norm_type, dtype=size.dtype) ** (1.0 / norm_type)

    return norm(jnp.stack([norm(x) for x in tensors]))
