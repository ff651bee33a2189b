"""Norms of many tensors at once."""

from __future__ import annotations

import jax.numpy as jnp

from .inner import inner_op
from .registry import Array, Arrays, op


@inner_op()
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


@op(name="_weight_norm_interface", out=False, method=False, nondiff=(1,))
def weight_norm_interface(v: Array, g: Array, dim: int = 0) -> tuple[Array, Array]:
    """`v` with the norms `g` of all dimensions but the first or last one, and the norms that `v` had."""
    others = tuple(d for d in range(v.ndim) if d != dim % v.ndim)
    norms = jnp.sqrt(jnp.sum(v * v, axis=others, keepdims=True, dtype=v.dtype))
    return v * jnp.broadcast_to(g / norms, v.shape), norms
