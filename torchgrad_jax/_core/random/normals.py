"""Normals of float32, bit for bit those of torch's AVX2 kernel.

Its polynomials are evaluated with one rounding for a product and a sum. The product of two float32 numbers is exact in
float64, so that NumPy and XLA can do the same, with equal bits. On most processors XLA makes one instruction of a
product and a sum anyway, which is three times as fast; whether it does, and nowhere else, is tried out once. XLA's
kernels work in pieces of two sizes, so that there are two of them to compile; a few numbers are NumPy's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..errors.checks import numpy_of
from ..jax.own_kernels import jit

_PIECES = (1 << 16, 1 << 13)
"""Numbers that a kernel makes at once."""
_FEW = 1 << 11
"""Numbers below which no kernel is worth to be compiled."""
_SMALL = 1 << 14
"""Numbers that NumPy makes at once, so that they stay in the processor's cache."""
_MANTISSA, _LAST = np.uint32(2**24 - 1), np.float32(2.0**-24)

# Coefficients of the Cephes library's logf, sinf and cosf.
_LOG = (
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
    *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
_SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_LN2_LOW, _LN2_HIGH = np.float32(-2.12194440e-4), np.float32(0.693359375)
_QUARTER_PI = (0.78515625, 2.4187564849853515625e-4, 3.77489497744594108e-8)


def normals_of_words(words: NDArray[np.uint32]) -> NDArray[np.float32]:
    """Normals of words of the generator, whose number is a multiple of 16; each 16 words make 16 numbers."""
    out, at = np.empty(len(words), np.float32), 0
    if jax.default_backend() != "cpu" or len(words) < _FEW:
        for start in range(0, len(words), _SMALL):
            out[start : start + _SMALL] = _block(words[start : start + _SMALL])
        return out
    while at < len(words):
        size = _PIECES[len(words) - at < _PIECES[0]]
        piece = words[at : at + size]
        if len(piece) < size:
            piece = np.concatenate([piece, np.zeros(size - len(piece), np.uint32)])
        out[at : at + size] = np.asarray(_kernel(size)(piece))[: len(words) - at]
        at += size
    return out


@functools.cache
def _kernel(size: int) -> Any:
    """`_block` compiled. It is no function that a trace under way would take for a part of itself."""
    words = np.random.RandomState(size).randint(0, 1 << 32, size, np.uint32)
    fast = _compiled(_joined, size)
    return fast if np.array_equal(np.asarray(fast(words)), _block(words)) else _compiled(_fma, size)


def _compiled(fma: Fma, size: int) -> Any:
    def block(words: Any) -> Any:
        return _block(words, fma)

    return jit(block).lower(jax.ShapeDtypeStruct((size,), np.uint32)).compile()


Fma = Callable[[Any, Any, Any], Any]
"""Makes a * b + c of float32 values."""


def _fma(a: Any, b: Any, c: Any) -> Any:
    """The sum rounded once: the product is exact in float64."""
    wide = [x.astype(np.float64) for x in (a, b, c)]
    return (wide[0] * wide[1] + wide[2]).astype(np.float32)


def _joined(a: Any, b: Any, c: Any) -> Any:
    """The same where XLA makes one instruction of it."""
    return a * b + c


def _block(words: Any, fma: Fma = _fma) -> Any:
    """Box and Muller's method for each 8 uniforms and the 8 that follow: a radius, and an angle."""
    np_ = numpy_of(words)
    blocks = ((words & _MANTISSA).astype(np.float32) * _LAST).reshape(-1, 2, 8)
    radius = np_.sqrt(np.float32(-2.0) * _log(np.float32(1.0) - blocks[:, 0], fma))
    angle = np.float32(2.0 * math.pi) * blocks[:, 1]
    if np_ is jnp:  # it is rounded before anything is added
        angle = jax.lax.reduce_precision(angle, 8, 23)
    sin, cos = _sin_cos(angle, fma)
    return np_.stack([radius * cos, radius * sin], 1).reshape(-1)


def _horner(x: Any, coefficients: Sequence[float], fma: Fma) -> Any:
    y = numpy_of(x).full_like(x, np.float32(coefficients[0]))
    for coefficient in coefficients[1:]:
        y = fma(y, x, np.float32(coefficient))
    return y


def _log(x: Any, fma: Fma) -> Any:
    """log of positive float32 numbers, rounding as torch's kernel rounds."""
    np_, bits = numpy_of(x), _bits(x, np.int32)
    exponent = (bits >> 23) - np.int32(126)
    mantissa = _bits((bits & np.int32(0x7FFFFF)) | np.int32(0x3F000000), np.float32)
    low = mantissa < np.float32(math.sqrt(0.5))
    x = np_.where(low, mantissa + mantissa, mantissa) - np.float32(1.0)
    power = (exponent - low.astype(np.int32)).astype(np.float32)
    square = x * x
    y = _horner(x, _LOG, fma) * x
    y = fma(y, square, power * _LN2_LOW)
    y = fma(square, np.float32(-0.5), y)
    return fma(power, _LN2_HIGH, x + y)


def _bits(x: Any, dtype: Any) -> Any:
    return x.view(dtype) if isinstance(x, np.ndarray) else jax.lax.bitcast_convert_type(x, jnp.dtype(dtype))


def _sin_cos(x: Any, fma: Fma) -> tuple[Any, Any]:
    """sin and cos of float32 numbers in [0, 2 pi], rounding as torch's kernel rounds."""
    np_ = numpy_of(x)
    octant = ((x * np.float32(4.0 / math.pi)).astype(np.int32) + np.int32(1)) & np.int32(~1)
    turns = octant.astype(np.float32)
    for part in _QUARTER_PI:
        x = fma(turns, np.float32(-part), x)
    square = x * x
    cos = fma(_horner(square, _COS, fma) * square, square, square * np.float32(-0.5)) + np.float32(1.0)
    sin = fma(_horner(square, _SIN, fma) * square, x, x)
    swapped = (octant & np.int32(2)) != 0
    one = np.float32(1.0)
    sin_sign = np_.where((octant & np.int32(4)) != 0, -one, one)
    cos_sign = np_.where(((octant + np.int32(2)) & np.int32(4)) != 0, -one, one)
    return np_.where(swapped, cos, sin) * sin_sign, np_.where(swapped, sin, cos) * cos_sign
