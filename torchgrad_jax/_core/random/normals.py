"""Normals of float32, bit for bit those of torch's AVX2 kernel.

Its polynomials are evaluated with one rounding for a product and a sum. The product of two float32 numbers is exact in
float64, so that NumPy and XLA can do the same, with equal bits. XLA does it six times as fast, in pieces of two sizes,
so that there are two kernels to compile; what is left over, and a few numbers, are NumPy's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..errors.checks import numpy_of

_PIECES = (1 << 16, 1 << 13)
"""Numbers that a kernel makes at once."""
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
    for size in _PIECES if jax.default_backend() == "cpu" else ():
        while len(words) - at >= size:
            out[at : at + size] = np.asarray(_kernel(size)(words[at : at + size]))
            at += size
    for start in range(at, len(words), _SMALL):
        out[start : start + _SMALL] = _block(words[start : start + _SMALL])
    return out


@functools.cache
def _kernel(size: int) -> Any:
    """`_block` compiled. It is no function that a trace under way would take for a part of itself."""
    return jax.jit(_block).lower(jax.ShapeDtypeStruct((size,), np.uint32)).compile()


def _block(words: Any) -> Any:
    """Box and Muller's method for each 8 uniforms and the 8 that follow: a radius, and an angle."""
    np_ = numpy_of(words)
    blocks = ((words & _MANTISSA).astype(np.float32) * _LAST).reshape(-1, 2, 8)
    radius = np_.sqrt(np.float32(-2.0) * _log(np.float32(1.0) - blocks[:, 0]))
    sin, cos = _sin_cos(np.float32(2.0 * math.pi) * blocks[:, 1])
    return np_.stack([radius * cos, radius * sin], 1).reshape(-1)


def _fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c of float32 values rounded once: their product is exact in float64."""
    wide = [x.astype(np.float64) for x in (a, b, c)]
    return (wide[0] * wide[1] + wide[2]).astype(np.float32)


def _horner(x: Any, coefficients: Sequence[float]) -> Any:
    y = numpy_of(x).full_like(x, np.float32(coefficients[0]))
    for coefficient in coefficients[1:]:
        y = _fma(y, x, np.float32(coefficient))
    return y


def _log(x: Any) -> Any:
    """log of positive float32 numbers, rounding as torch's kernel rounds."""
    np_, bits = numpy_of(x), _bits(x, np.int32)
    exponent = (bits >> 23) - np.int32(126)
    mantissa = _bits((bits & np.int32(0x7FFFFF)) | np.int32(0x3F000000), np.float32)
    low = mantissa < np.float32(math.sqrt(0.5))
    x = np_.where(low, mantissa + mantissa, mantissa) - np.float32(1.0)
    power = (exponent - low.astype(np.int32)).astype(np.float32)
    square = x * x
    y = _horner(x, _LOG) * x
    y = _fma(y, square, power * _LN2_LOW)
    y = _fma(square, np.float32(-0.5), y)
    return _fma(power, _LN2_HIGH, x + y)


def _bits(x: Any, dtype: Any) -> Any:
    return x.view(dtype) if isinstance(x, np.ndarray) else jax.lax.bitcast_convert_type(x, jnp.dtype(dtype))


def _sin_cos(x: Any) -> tuple[Any, Any]:
    """sin and cos of float32 numbers in [0, 2 pi], rounding as torch's kernel rounds."""
    np_ = numpy_of(x)
    octant = ((x * np.float32(4.0 / math.pi)).astype(np.int32) + np.int32(1)) & np.int32(~1)
    turns = octant.astype(np.float32)
    for part in _QUARTER_PI:
        x = _fma(turns, np.float32(-part), x)
    square = x * x
    cos = _fma(_horner(square, _COS) * square, square, square * np.float32(-0.5)) + np.float32(1.0)
    sin = _fma(_horner(square, _SIN) * square, x, x)
    swapped = (octant & np.int32(2)) != 0
    one = np.float32(1.0)
    sin_sign = np_.where((octant & np.int32(4)) != 0, -one, one)
    cos_sign = np_.where(((octant + np.int32(2)) & np.int32(4)) != 0, -one, one)
    return np_.where(swapped, cos, sin) * sin_sign, np_.where(swapped, sin, cos) * cos_sign
