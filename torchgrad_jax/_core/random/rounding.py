"""numpy arithmetic that rounds as torch's compiled kernels do, and the normals made with it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]


def fma32(a: Any, b: Any, c: Any) -> NDArray[np.float32]:
    """a * b + c of float32 values rounded once: their product is exact in float64."""
    out = np.multiply(a, b, dtype=np.float64)
    out += c
    return out.astype(np.float32)


def fma64(a: Array, b: float, c: float) -> NDArray[np.float64]:
    """a * b + c rounded once.

    The three exact parts of the sum are added so that the small ones, rounded to odd, cannot put
    the last addition onto a tie (Boldo and Melquiond).
    """
    # There is nothing to add, or the number is too large to split.
    if c == 0.0 or abs(b) > 2.0**900 or math.isinf(c):
        return a * b + c
    product = np.asarray(a * b)
    a_high, b_high = _upper_half(a), _upper_half(np.float64(b))
    a_low, b_low = a - a_high, b - b_high
    product_error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    middle, smallest = _sum_and_error(np.float64(c), product_error)
    total, error = _sum_and_error(product, middle)
    rest, lost = _sum_and_error(smallest, error)
    bits = np.atleast_1d(rest).view(np.int64)
    towards_truth = np.where((lost > 0) == (rest > 0), 1, -1)
    bits += np.where((lost != 0) & (bits & 1 == 0), towards_truth, 0)
    return total + bits.view(np.float64).reshape(rest.shape)


@functools.lru_cache(64)
def halves(n: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which of n evenly spaced elements are counted from the start, and how far each is from its end; to be read."""
    i = np.arange(n)
    lower = i < n // 2
    return lower, np.where(lower, i, n - 1 - i)


def spaced(first: Any, last: Any, n: int) -> Array:
    """n >= 2 evenly spaced float32 or float64 values, counted from both ends."""
    step, half, out = (last - first) / first.dtype.type(n - 1), n // 2, np.empty(n, first.dtype)
    move: Any = np.arange(n - half).astype(first.dtype)
    if first.dtype == np.float32:
        out[:half], out[half:] = fma32(move[:half], step, first), fma32(move, -step, last)[::-1]
    else:
        a, b, step = float(first), float(last), float(step)
        out[:half], out[half:] = fma64(move[:half], step, a), fma64(move, -step, b)[::-1]
    return out


def _sum_and_error(x: Any, y: Any) -> tuple[Any, Any]:
    """x + y, and what rounding took from it."""
    total = x + y
    of_y = total - x
    return total, (x - (total - of_y)) + (y - of_y)


def _upper_half(x: Any) -> Any:
    scaled = x * 134217729.0  # 2**27 + 1
    return scaled - (scaled - x)


@functools.cache
def is_half(dtype: np.dtype) -> bool:
    return dtype.name in ("float16", "bfloat16")


def cast(x: Array, dtype: np.dtype) -> Array:
    """Round as C++ does, to the half types by way of float32; out-of-range values do not warn."""
    if x.dtype == dtype:
        return x
    with np.errstate(all="ignore"):
        return rounded(x, dtype)


def rounded(x: Array, dtype: np.dtype) -> Array:
    """`cast` of values that are in the range of the dtype."""
    return x.astype(np.float32).astype(dtype) if is_half(dtype) else x.astype(dtype, copy=False)


def exactly(function: Callable[[float], float], x: Array) -> NDArray[np.float64]:
    """Few values through the C library, whose rounding torch shares and numpy's SIMD does not."""
    return np.array([function(value) for value in x.tolist()], np.float64)


def normal_pair(angle: float, depth: float) -> tuple[float, float]:
    """Box and Muller's two normals from two uniforms, in doubles."""
    radius = math.sqrt(-2.0 * math.log1p(-depth))
    angle *= 2.0 * math.pi
    return radius * math.cos(angle), radius * math.sin(angle)


def normal_pairs(uniforms: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """`normal_pair` of each two successive uniforms; at most 16 of them may be numbers of Python."""
    if not isinstance(uniforms, np.ndarray):
        draws, normals = iter(uniforms), []
        for angle, depth in zip(draws, draws):
            normals += normal_pair(angle, depth)
        return np.array(normals, np.float64)
    # The last ones as well, since a generator's state may keep the very last.
    exact = normal_pairs(uniforms[-16:].tolist())
    uniforms = uniforms[:-16]
    radius = np.sqrt(-2.0 * np.log1p(-uniforms[1::2]))
    angle = 2.0 * math.pi * uniforms[0::2]
    pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    return np.concatenate([pairs.reshape(-1), exact])


def block64(uniforms: Array) -> NDArray[np.float64]:
    blocks = uniforms.reshape(-1, 2, 8)
    radius = np.sqrt(-2.0 * np.log(1.0 - blocks[:, 0]))
    angle = 2.0 * math.pi * blocks[:, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)
