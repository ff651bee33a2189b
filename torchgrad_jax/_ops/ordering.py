"""The permutation that sorts an array, found by sorting single integers.

XLA compares several operands at a time by calling back for every pair, which takes some fifteen times as long as
sorting integers alone. So a key of 32 bits and the place where it was are one integer of 64; wider keys are sorted
by their lower half first, then by the upper one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.jax.custom_jvp import NO_TANGENT, custom_jvp
from .registry import Array

_HALF = 32
_PLACES = 2**_HALF - 1


def permutation(x: Array, axis: int, descending: bool = False) -> Array:
    """Where the elements along `axis` come from when sorted; equals stay in order, NaN is the largest."""
    places = lax.broadcasted_iota(np.int64, x.shape, axis)

    def by(digit: Array) -> Array:
        packed = lax.shift_left(digit, np.int64(_HALF)) | places
        return lax.sort(packed, dimension=axis) & _PLACES

    lowest, *higher = _digits(x, descending)
    order = by(lowest)
    for digit in higher:
        order = along(order, by(along(digit, order, axis)), axis)
    return order


def along(x: Array, index: Array, axis: int) -> Array:
    """The elements of `x` along `axis` at places that are known to be there."""
    return jnp.take_along_axis(x, index, axis=axis, mode="promise_in_bounds")


def permuting(x: Array, axis: int, find: Callable[[Array], tuple[Array, Array]]) -> tuple[Array, Array]:
    """(values, indices) = find(x), where the gradient goes back along the indices."""

    @custom_jvp
    def f(x: Array) -> tuple[Array, Array]:
        return find(x)

    @f.defjvp
    def jvp(primals: Any, tangents: Any) -> Any:
        values, index = f(*primals)
        moved = along(tangents[0], index, axis)
        return (values, index), (moved, NO_TANGENT)

    return f(x)


def _digits(x: Array, descending: bool) -> list[Array]:
    """Integers of 32 bits, in int64, that sort as `x` does: the least significant ones come first."""
    if x.dtype.kind in "iub" and x.dtype.itemsize <= 4:
        key = x.astype(np.int64)
        if x.dtype == np.uint32:
            key = key - 2 ** (_HALF - 1)
        return [~key if descending else key]
    if x.dtype.kind in "iu":
        key = x if x.dtype == np.int64 else lax.bitcast_convert_type(x ^ np.uint64(2**63), np.int64)
    else:
        key = _of_float(x if x.dtype.itemsize >= 4 else x.astype(np.float32))
    key = ~key if descending else key
    if key.dtype.itemsize == 4:
        return [key.astype(np.int64)]
    return [(key & _PLACES) - 2 ** (_HALF - 1), lax.shift_right_arithmetic(key, np.int64(_HALF))]


def _of_float(x: Array) -> Array:
    """The bits of floats as signed integers of the same order; both zeros are one number, and all NaN are."""
    whole = np.dtype(f"int{8 * x.dtype.itemsize}")
    least, most = np.iinfo(whole).min, np.iinfo(whole).max
    # Comparing the floats would take subnormal ones for zeros.
    bits = lax.bitcast_convert_type(x, whole)
    bits = jnp.where(bits == least, 0, bits)
    key = jnp.where(bits < 0, bits ^ most, bits)
    return jnp.where(jnp.isnan(x), most, key)
