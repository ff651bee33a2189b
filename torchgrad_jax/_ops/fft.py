"""Discrete Fourier transforms: the three primitives that every torch.fft function is made of."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays import layouts, shapes
from .._core.arrays.kernels import scalar_name
from .._core.jax.sizes import of_sizes
from .helpers import is_complex, is_float, numel_along
from .inner import inner_op
from .registry import Array, Dims, op

NONE, BY_ROOT_N, BY_N = range(3)
"""How a transform is scaled, numbered as torch's `normalization` argument."""

_MOST = 3  # how many dimensions one transform of XLA covers


def _transform(x: Array, dims: tuple[int, ...], kind: Any, lengths: tuple[int, ...]) -> Array:
    """Transform `dims`, moved to the end for XLA and back; at most three of them."""
    n = len(dims)
    last = tuple(range(x.ndim - n, x.ndim))
    if dims == last:
        return lax.fft(x, kind, lengths)
    return jnp.moveaxis(lax.fft(jnp.moveaxis(x, dims, last), kind, lengths), last, dims)


def _complex(x: Array, dims: tuple[int, ...], forward: bool) -> Array:
    kind = lax.FftType.FFT if forward else lax.FftType.IFFT
    for i in range(0, len(dims), _MOST):
        part = dims[i : i + _MOST]
        x = _transform(x, part, kind, tuple(x.shape[d] for d in part))
    return x


def _scaled(x: Array, normalization: int, n: int, inverse: bool) -> Array:
    """The transform, scaled by `norm`. XLA's inverse transforms are divided by n already."""
    if not n or n == 1 or normalization == (BY_N if inverse else NONE):
        return x
    return x * jnp.asarray(of_sizes(functools.partial(_factor, normalization, inverse), n), x.dtype)


def _factor(normalization: int, inverse: bool, n: int) -> float:
    factor = {NONE: 1.0, BY_ROOT_N: 1 / math.sqrt(n), BY_N: 1 / n}[normalization] if n else 1.0
    return factor * n if inverse else factor


def _dims(x: Array, dim: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(shapes.wrap_dim(d, x.ndim) for d in dim)


def _arranged(shape: Sequence[int], strides: Sequence[int], inner: Sequence[int]) -> tuple[int, ...]:
    """Strides with `inner` innermost, and the others in the order in which they lie in memory."""
    outer = [d for d in range(len(shape)) if d not in inner]
    order = [*sorted(outer, key=lambda d: -strides[d]), *inner]
    dense = shapes.contiguous_strides([shape[d] for d in order])
    return tuple(dense[order.index(d)] for d in range(len(shape)))


@layouts.with_statics
def _innermost(m: Any, shape: tuple[int, ...], statics: dict[str, Any]) -> tuple[int, ...]:
    """Layout of a transform: torch puts the transformed dimensions innermost, in the order that they had in memory."""
    inner = [d % len(shape) for d in statics["dim"]]
    last = inner.pop() if statics.get("onesided") else None
    inner = sorted(inner, key=lambda d: -m[0].strides[d])
    return _arranged(shape, m[0].strides, inner if last is None else [*inner, last])


@layouts.with_statics
def _last_innermost(m: Any, shape: tuple[int, ...], statics: dict[str, Any]) -> tuple[int, ...]:
    """The same for a transform that follows one of the other dimensions."""
    *before, last = [d % len(shape) for d in statics["dim"]]
    strides = m[0].strides
    if before:
        strides = _innermost(m, m[0].shape, {"dim": before})
    return _arranged(shape, strides, [last])


@op(node="FftC2CBackward0", out=False, method=False, layout=_innermost)
def _fft_c2c(input: Array, dim: Dims, normalization: int, forward: bool) -> Array:
    """Complex to complex."""
    if not is_complex(input):
        raise RuntimeError(f"Only supports complex dtypes, but found: {scalar_name(input)}")
    dims = _dims(input, dim)
    out = _complex(input, dims, forward) if 0 not in input.shape else input
    return _scaled(out, normalization, numel_along(input, dims), not forward)


@op(node="FftR2CBackward0", out=False, method=False, keeps=("input",), layout=_innermost)
def _fft_r2c(input: Array, dim: Dims, normalization: int, onesided: bool) -> Array:
    """Real to complex: all frequencies, or the half that determines them, of the last of `dim`."""
    if not is_float(input):
        raise RuntimeError(f"Only supports floating-point dtypes, but found: {scalar_name(input)}")
    dims = _dims(input, dim)
    n = numel_along(input, dims)
    dtype = jnp.complex128 if input.dtype == jnp.float64 else jnp.complex64
    if not onesided or 0 in input.shape:
        out = input.astype(dtype)
        if onesided:
            keep = input.shape[dims[-1]] // 2 + 1
            out = jnp.zeros([keep if d == dims[-1] else s for d, s in enumerate(out.shape)], dtype)
        out = out if 0 in input.shape else _complex(out, dims, True)
    else:
        out = _transform(input, dims[-1:], lax.FftType.RFFT, (input.shape[dims[-1]],))
        out = _complex(out, dims[:-1], True)
    return _scaled(out, normalization, n, False)


@op(node="FftC2RBackward0", out=False, method=False, layout=_last_innermost)
def _fft_c2r(input: Array, dim: Dims, normalization: int, last_dim_size: int) -> Array:
    """Complex to real, from the half of the frequencies that determines them."""
    if not is_complex(input):
        raise RuntimeError(f"Only supports complex dtypes, but found: {scalar_name(input)}")
    dims = _dims(input, dim)
    half = last_dim_size // 2 + 1
    x = lax.slice_in_dim(input, 0, min(half, input.shape[dims[-1]]), axis=dims[-1])
    if 0 in input.shape:
        dtype = jnp.finfo(input.dtype).dtype
        return jnp.zeros([last_dim_size if d == dims[-1] else s for d, s in enumerate(x.shape)], dtype)
    x = _complex(x, dims[:-1], False)
    out = _transform(x, dims[-1:], lax.FftType.IRFFT, (last_dim_size,))
    return _scaled(out, normalization, numel_along(out, dims), True)


def _places_of_frames(count: int, size: int, step: int) -> np.ndarray:
    return (np.arange(count)[:, None] * step + np.arange(size)).reshape(-1)


@inner_op(node="UnfoldBackwardBackward0")
def overlap_add(input: Array, length: int, step: int) -> Array:
    """Frames along dimension 1, each `step` after the one before, added up to one signal per row."""
    count, size = input.shape[1:]
    at = of_sizes(_places_of_frames, count, size, step, shape=(count * size,), dtype=np.int64)
    out = jnp.zeros((input.shape[0], length), input.dtype)
    return out.at[:, at].add(input.reshape(input.shape[0], -1))
