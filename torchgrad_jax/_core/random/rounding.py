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
    lower, away = halves(n)
    step = (last - first) / first.dtype.type(n - 1)
    if first.dtype == np.float32:
        move = away.astype(np.float32)
        return np.where(lower, fma32(move, step, first), fma32(move, -step, last))
    a, b, move = float(first), float(last), away.astype(np.float64)
    return np.where(lower, fma64(move, float(step), a), fma64(move, -float(step), b))


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


def block32(uniforms: Array) -> NDArray[np.float32]:
    """As `block64`, with the float32 polynomials that torch's AVX2 kernel evaluates."""
    out = np.empty_like(uniforms)
    for start in range(0, len(uniforms), 16384):  # pieces that stay in the processor's cache
        blocks = uniforms[start : start + 16384].reshape(-1, 2, 8)
        radius = np.sqrt(np.float32(-2.0) * _log32(np.float32(1.0) - blocks[:, 0]))
        sin, cos = _sincos32(np.float32(2.0 * math.pi) * blocks[:, 1])
        piece = out[start : start + 16384].reshape(-1, 2, 8)
        np.multiply(radius, cos, out=piece[:, 0])
        np.multiply(radius, sin, out=piece[:, 1])
    return out


# Coefficients of the Cephes library's logf, sinf and cosf.
_LOG = (
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
    *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
_SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_LN2_LOW, _LN2_HIGH = np.float32(-2.12194440e-4), np.float32(0.693359375)
_QUARTER_PI = (0.78515625, 2.4187564849853515625e-4, 3.77489497744594108e-8)


def _horner32(x: NDArray[np.float32], coefficients: Sequence[float]) -> NDArray[np.float32]:
    y = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        y = fma32(y, x, np.float32(coefficient))
    return y


def _log32(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """log of positive float32 numbers, rounding as torch's kernel rounds."""
    mantissa, exponent = np.frexp(x)
    low = mantissa < np.float32(math.sqrt(0.5))
    x = np.where(low, mantissa + mantissa, mantissa) - np.float32(1.0)
    power = (exponent - low).astype(np.float32)
    square = x * x
    y = _horner32(x, _LOG) * x
    y = fma32(y, square, power * _LN2_LOW)
    y = fma32(square, np.float32(-0.5), y)
    return fma32(power, _LN2_HIGH, x + y)


def _sincos32(x: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """sin and cos of float32 numbers in [0, 2 pi], rounding as torch's kernel rounds."""
    octant = (x * np.float32(4.0 / math.pi)).astype(np.int32) + 1 & ~1
    turns = octant.astype(np.float32)
    for part in _QUARTER_PI:
        x = fma32(turns, np.float32(-part), x)
    square = x * x
    cos = fma32(_horner32(square, _COS) * square, square, square * np.float32(-0.5))
    cos += np.float32(1.0)
    sin = fma32(_horner32(square, _SIN) * square, x, x)
    swapped = octant & 2 != 0
    sin_sign = np.where(octant & 4, np.float32(-1.0), np.float32(1.0))
    cos_sign = np.where(octant + 2 & 4, np.float32(-1.0), np.float32(1.0))
    return np.where(swapped, cos, sin) * sin_sign, np.where(swapped, sin, cos) * cos_sign
