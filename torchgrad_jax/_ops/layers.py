"""Rows behind layers of nn.functional: three-way products and the fused dropout."""

from __future__ import annotations

import jax.numpy as jnp

from .._core.jax.products import precision
from .helpers import is_complex, is_float
from .inner import inner_op
from .registry import Array, Dims, op


@op(node="TrilinearBackward0", out=False, method=False)
def _trilinear(
    i1: Array, i2: Array, i3: Array, expand1: Dims, expand2: Dims, expand3: Dims, sumdim: Dims, unroll_dim: int = 1
) -> Array:
    """The product of three arrays, each expanded at its own dims, summed over `sumdim`."""
    total = i1.ndim + len(expand1)
    names = [[d for d in range(total) if d not in expand] for expand in (expand1, expand2, expand3)]
    kept = [d for d in range(total) if d not in sumdim]
    args = [part for pair in zip((i1, i2, i3), names) for part in pair]
    return jnp.einsum(*args, kept, precision=precision(i1.dtype))


@inner_op(node="NativeDropoutBackward0")
def _native_dropout(input: Array, mask: Array, scale: float) -> Array:
    """Return what a bool mask keeps, scaled."""
    if not is_float(input):
        raise RuntimeError("result type Float can't be cast to the desired output type Long")
    return jnp.where(mask, input * jnp.array(scale, input.dtype), jnp.zeros((), input.dtype))


@inner_op(node="NativeDropoutBackwardBackward0")
def _native_dropout_backward(input: Array, mask: Array, scale: float) -> Array:
    """A gradient times a mask and a factor."""
    dtype = input.dtype if is_float(input) or is_complex(input) else jnp.float32
    return input.astype(dtype) * (mask.astype(dtype) * jnp.array(scale, dtype))
