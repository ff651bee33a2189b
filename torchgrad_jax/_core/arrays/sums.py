"""Sums of two arrays as torch's kernels form them.

torch multiplies the second operand by a factor alpha, and of complex numbers by 1 + 0j where none is given. That
product makes NaN of the other part of an infinity, and turns some negative zeros into positive ones.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..jax.custom_jvp import custom_jvp
from . import shapes


def plus(x: Any, y: Any) -> Any:
    """``x + y`` in the shape of `x`, which may be a wider one than that of `y`; both have one dtype."""
    if x.shape != y.shape:  # the leaf's shape has changed since its first gradient
        both = shapes.broadcast_shapes(x.shape, y.shape)
        if both != x.shape:
            raise RuntimeError(f"output with shape {list(x.shape)} doesn't match the broadcast shape {list(both)}")
        y = jnp.broadcast_to(lax.expand_dims(y, range(x.ndim - y.ndim)), x.shape)
    return _complex_sum(x, y) if _is_complex(x) else lax.add(x, y)


def minus(x: Any, y: Any) -> Any:
    """``x - y`` of two arrays of one shape and dtype."""
    return _complex_difference(x, y) if _is_complex(x) else lax.sub(x, y)


def _is_complex(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, jnp.complexfloating)


def _signed_sum(x: Any, y: Any, sign: int) -> Any:
    re, im = lax.real(y), lax.imag(y)
    over, up = _no_times(im), _no_times(re)
    if sign < 0:
        re, im = -re, -im
    return x + lax.complex(re - over, up + im)


def _no_times(x: Any) -> Any:
    """``0 * x`` without the product, since XLA and NumPy may disagree on its sign."""
    zero = lax.select(x < 0, lax.full_like(x, -0.0), lax.full_like(x, 0.0))
    zero = lax.select(x == 0, x, zero)
    return lax.select(lax.abs(x) < np.inf, zero, lax.full_like(x, np.nan))


@custom_jvp
def _complex_sum(x: Any, y: Any) -> Any:
    return _signed_sum(x, y, 1)


@_complex_sum.defjvp
def _complex_sum_jvp(primals: Any, tangents: Any) -> Any:
    return _complex_sum(*primals), lax.add(*tangents)


@custom_jvp
def _complex_difference(x: Any, y: Any) -> Any:
    return _signed_sum(x, y, -1)


@_complex_difference.defjvp
def _complex_difference_jvp(primals: Any, tangents: Any) -> Any:
    return _complex_difference(*primals), lax.sub(*tangents)
