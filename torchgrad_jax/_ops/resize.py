"""Interpolation to another size: nearest, linear and cubic, with and without antialiasing.

Every mode is separable: along each axis a result is a weighted sum of a few positions, which
depend on sizes alone and are worked out in numpy, in the precision in which torch does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays.kernels import scalar_name
from .._core.arrays.layouts import following
from .._core.jax.sizes import decided, of_sizes
from .helpers import cubic_beyond, cubic_within, is_float
from .inner import inner_op
from .registry import Array, Dims, op

_FOLLOWING = following()

Taps = tuple[np.ndarray, np.ndarray]
"""Positions and weights, both of shape (results, taps)."""


def _scale(n: int, out: int, align: bool, given: float | None, kind: Any) -> Any:
    if align:
        return kind(n - 1) / kind(out - 1) if out > 1 else kind(0)
    if given is not None and given > 0:
        return kind(1.0 / given)
    return kind(n) / kind(out)


def _nearest_taps(n: int, out: int, given: float | None, exact: bool, kind: Any) -> np.ndarray:
    """torch rounds down in float32, whatever the dtype, and fuses the multiplication of the exact mode."""
    scale = _scale(n, out, False, given, kind)
    i = np.arange(out)
    if exact:
        centre = ((i + 0.5) * np.float64(scale) - 0.5).astype(kind)
        at = np.floor(centre.astype(np.float32) + np.float32(0.5))
    else:
        at = np.floor((i.astype(kind) * scale).astype(np.float32))
    return np.minimum(at.astype(np.int64), n - 1)


def _source(n: int, out: int, align: bool, given: float | None, kind: Any) -> np.ndarray:
    scale = _scale(n, out, align, given, kind)
    i = np.arange(out, dtype=kind)
    return i * scale if align else scale * (i + kind(0.5)) - kind(0.5)


def _linear_taps(n: int, out: int, align: bool, given: float | None, kind: Any) -> Taps:
    if n == out:
        at = np.arange(n)[:, None]
        return at, np.ones((n, 1), kind)
    x = np.maximum(_source(n, out, align, given, kind), 0)
    low = np.minimum(np.floor(x).astype(np.int64), n - 1)
    t = np.clip(x - low.astype(kind), 0, 1).astype(kind)
    return np.stack([low, np.minimum(low + 1, n - 1)], 1), np.stack([kind(1) - t, t], 1)


def _cubic_taps(n: int, out: int, align: bool, given: float | None, kind: Any) -> Taps:
    x = _source(n, out, align, given, kind)
    low = np.floor(x).astype(np.int64)
    t = np.clip(x - low.astype(kind), 0, 1).astype(kind)
    a, one = kind(-0.75), kind(1)
    weights = [cubic_beyond(t + one, a), cubic_within(t, a), cubic_within(one - t, a), cubic_beyond(kind(2) - t, a)]
    at = np.clip(low[:, None] + np.arange(-1, 3), 0, n - 1)
    return at, np.stack(weights, 1).astype(kind)


def _triangle(x: np.ndarray) -> np.ndarray:
    return np.maximum(1 - np.abs(x), 0)


def _cubic_filter(x: np.ndarray) -> np.ndarray:
    x = np.abs(x)
    return np.where(x < 1, cubic_within(x, -0.5), np.where(x < 2, cubic_beyond(x, -0.5), 0))


def _lanczos_filter(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)


_FILTERS = {"bilinear": (2, _triangle), "bicubic": (4, _cubic_filter), "lanczos": (6, _lanczos_filter)}


def _antialias_taps(mode: str, n: int, out: int, align: bool, given: float | None, kind: Any) -> Taps:
    width, kernel = _FILTERS[mode]
    scale = _scale(n, out, align, given, kind)
    shrink = max(scale, kind(1))
    support = kind(width / 2) * shrink
    centre = scale * (np.arange(out, dtype=kind) + kind(0.5))
    low = np.maximum((centre - support + kind(0.5)).astype(np.int64), 0)
    high = np.minimum((centre + support + kind(0.5)).astype(np.int64), n)
    at = low[:, None] + np.arange(max(int((high - low).max()), 1))
    weights = kernel((at.astype(kind) - centre[:, None] + kind(0.5)) / shrink)
    weights = np.where(at < high[:, None], weights, 0)
    total = weights.sum(1, keepdims=True)
    weights = np.where(total != 0, weights / np.where(total == 0, 1, total), weights)
    return np.minimum(at, n - 1), weights.astype(kind)


def _repeats(at: np.ndarray, n: int) -> bool:
    return len(at) % n == 0 and (at == np.arange(len(at)) // (len(at) // n)).all()


def _pick(x: Array, axis: int, out: int, places: Callable[[int, int], np.ndarray]) -> Array:
    """The given positions along an axis, as a broadcast where each is repeated equally often."""
    n = x.shape[axis]
    repeats, first, step = decided(functools.partial(_way, places), n, out)
    if repeats:
        if out == n:
            return x
        y = jnp.broadcast_to(jnp.expand_dims(x, axis + 1), (*x.shape[: axis + 1], out // n, *x.shape[axis + 1 :]))
        return y.reshape(*x.shape[:axis], out, *x.shape[axis + 1 :])
    if step:
        return lax.slice_in_dim(x, first, first + (out - 1) * step + 1, step, axis=axis)
    return jnp.take(x, of_sizes(places, n, out, shape=(out,), dtype=np.int64), axis=axis, mode="clip")


def _way(places: Callable[[int, int], np.ndarray], n: int, out: int) -> tuple[bool, int, int]:
    """Whether positions repeat each element equally often; else the first and the step if they are evenly spaced."""
    at = places(n, out)
    if n and out % n == 0 and _repeats(at, n):
        return True, 0, 0
    step = np.diff(at)
    even = out > 1 and step[0] > 0 and (step == step[0]).all()
    return False, int(at[0]) if even else 0, int(step[0]) if even else 0


def _combine(x: Array, axis: int, out: int, taps: Callable[[int, int], Taps]) -> Array:
    n = x.shape[axis]
    many = decided(functools.partial(_taps, taps), n, out)
    if many == 1 and is_float(x):
        return _pick(x, axis, out, functools.partial(_tap, taps, 0))
    shape = (1,) * axis + (out,) + (1,) * (x.ndim - axis - 1)
    total: Any = None
    for j in range(many):
        weights = of_sizes(functools.partial(_weights, taps, j, x.dtype), n, out, shape=(out,), dtype=x.dtype)
        term = _pick(x, axis, out, functools.partial(_tap, taps, j)) * jnp.asarray(weights.reshape(shape))
        total = term if total is None else total + term
    return total


def _taps(taps: Callable[[int, int], Taps], n: int, out: int) -> int:
    return taps(n, out)[0].shape[1]


def _tap(taps: Callable[[int, int], Taps], j: int, n: int, out: int) -> np.ndarray:
    return taps(n, out)[0][:, j]


def _weights(taps: Callable[[int, int], Taps], j: int, dtype: Any, n: int, out: int) -> np.ndarray:
    return taps(n, out)[1][:, j].astype(dtype)


def _fixed_point(taps: Taps) -> tuple[np.ndarray, np.ndarray, int]:
    """Taps with 16-bit weights, and how many bits of those are a fraction.

    Taps at one position count as one tap. The largest weight decides how many bits are the fraction.
    """
    at, weights = taps[0], taps[1].copy()
    for j in range(1, at.shape[1]):
        for i in range(j):
            same = (at[:, i] == at[:, j]) & (weights[:, j] != 0)
            weights[:, i] += np.where(same, weights[:, j], 0)
            weights[same, j] = 0
    largest = weights.max()
    bits = next((b for b in range(22) if int(0.5 + largest * (1 << (b + 1))) >= 1 << 15), 22)
    scaled = weights * (1 << bits)
    return at, np.trunc(np.where(scaled < 0, scaled - 0.5, scaled + 0.5)).astype(np.int32), bits


def _resampled_bytes(x: Array, size: tuple[int, ...], taps_of: Callable[[int, int, int], Taps]) -> Array:
    """An image of bytes, resampled with integers and rounded after each axis, as in torch."""
    for k in (1, 0):
        axis = 2 + k
        if x.shape[axis] != size[k]:
            taps = functools.partial(_in_fixed_point, taps_of, k)
            bits = decided(functools.partial(_bits, taps_of, k), x.shape[axis], size[k])
            total = _combine(x.astype(jnp.int32), axis, size[k], taps)
            x = jnp.clip((total + (1 << bits >> 1)) >> bits, 0, 255).astype(jnp.uint8)
    return x


def _in_fixed_point(taps_of: Callable[[int, int, int], Taps], k: int, n: int, out: int) -> Taps:
    return _fixed_point(taps_of(k, n, out))[:2]


def _bits(taps_of: Callable[[int, int, int], Taps], k: int, n: int, out: int) -> int:
    return _fixed_point(taps_of(k, n, out))[2]


def _sizes(x: Array, k: int, size: tuple[int, ...]) -> None:
    if len(size) != k:
        raise RuntimeError(f"It is expected output_size equals to {k}, but got size {len(size)}")
    if x.ndim != k + 2:
        raise RuntimeError(f"It is expected input_size equals to {k + 2}, but got size {x.ndim}")
    if any(n < 1 for n in (*x.shape[2:], *size)):
        names = "DHW"[3 - k :]
        given = ", ".join(f"{a}: {n}" for a, n in zip(names, x.shape[2:]))
        wanted = ", ".join(f"{a}: {n}" for a, n in zip(names, size))
        joint = " and output" if k == 1 else " output"
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input ({given}){joint} ({wanted})"
        )
    if x.shape[1] == 0:
        raise RuntimeError(f"Non-empty {k + 2}D data tensor expected but got a tensor with sizes {list(x.shape)}")


def _precision(x: Array) -> Any:
    return np.float64 if x.dtype == jnp.float64 else np.float32


def _refuse(label: str, x: Array) -> None:
    kind = scalar_name(x)
    raise NotImplementedError(f"\"{label}\" not implemented for '{kind}'")


def _nearest(x: Array, size: tuple[int, ...], scales: tuple[float | None, ...], exact: bool) -> Array:
    k = len(scales)
    _sizes(x, k, size)
    if not is_float(x) and x.dtype != jnp.uint8:
        _refuse(f"upsample_nearest{k}d_channels_last" if k > 1 else "compute_indices_weights_nearest", x)
    for axis, out, given in zip(range(2, 2 + k), size, scales):
        places = functools.partial(_nearest_taps, given=given, exact=exact, kind=_precision(x))
        x = _pick(x, axis, out, places)
    return x


def _linear(x: Array, size: tuple[int, ...], align: bool, scales: tuple[float | None, ...]) -> Array:
    k = len(scales)
    name = ("linear1d", "bilinear2d", "trilinear3d")[k - 1]
    _sizes(x, k, size)
    if x.dtype == jnp.uint8 and k == 2:
        return _resampled_bytes(x, size, lambda i, n, out: _linear_taps(n, out, align, scales[i], np.float64))
    if not is_float(x):
        bare = k == 1 or x.dtype == jnp.uint8
        _refuse("compute_indices_weights_linear" if bare else f"upsample_{name}_channels_last", x)
    kind = _precision(x)
    y = x.astype(kind)
    for axis, out, given in reversed(list(zip(range(2, 2 + k), size, scales))):
        y = _combine(y, axis, out, functools.partial(_linear_taps, align=align, given=given, kind=kind))
    return y.astype(x.dtype)


def _cubic(x: Array, size: tuple[int, ...], align: bool, scales: tuple[float | None, ...]) -> Array:
    _sizes(x, 2, size)
    if x.dtype == jnp.uint8:
        return _resampled_bytes(x, size, lambda i, n, out: _cubic_taps(n, out, align, scales[i], np.float64))
    if not is_float(x):
        _refuse("compute_indices_weights_cubic", x)
    if tuple(size) == x.shape[2:]:
        return x
    kind = _precision(x)
    y = x.astype(kind)
    for axis, out, given in reversed(list(zip((2, 3), size, scales))):
        y = _combine(y, axis, out, functools.partial(_cubic_taps, align=align, given=given, kind=kind))
    return y.astype(x.dtype)


def _antialiased(mode: str, x: Array, size: tuple[int, ...], align: bool, scales: tuple[float | None, ...]) -> Array:
    _sizes(x, 2, size)
    if x.dtype == jnp.uint8:
        return _resampled_bytes(x, size, lambda i, n, out: _antialias_taps(mode, n, out, align, scales[i], np.float64))
    if not is_float(x):
        _refuse("compute_index_ranges_weights", x)
    kind = _precision(x)
    y = x.astype(kind)
    for axis, out, given in reversed(list(zip((2, 3), size, scales))):
        if out != x.shape[axis]:
            taps = functools.partial(_antialias_taps, mode, align=align, given=given, kind=kind)
            y = _combine(y, axis, out, taps)
    return y.astype(x.dtype)


@inner_op(node="UpsampleNearest1DBackward0", layout=_FOLLOWING)
def upsample_nearest1d(input: Array, output_size: Dims, scales: float | None = None) -> Array:
    return _nearest(input, output_size, (scales,), False)


@inner_op(node="UpsampleNearestExact1DBackward0", layout=_FOLLOWING)
def _upsample_nearest_exact1d(input: Array, output_size: Dims, scales: float | None = None) -> Array:
    return _nearest(input, output_size, (scales,), True)


@inner_op(node="UpsampleNearest2DBackward0", layout=_FOLLOWING)
def upsample_nearest2d(
    input: Array, output_size: Dims, scales_h: float | None = None, scales_w: float | None = None
) -> Array:
    return _nearest(input, output_size, (scales_h, scales_w), False)


@inner_op(node="UpsampleNearestExact2DBackward0", layout=_FOLLOWING)
def _upsample_nearest_exact2d(
    input: Array, output_size: Dims, scales_h: float | None = None, scales_w: float | None = None
) -> Array:
    return _nearest(input, output_size, (scales_h, scales_w), True)


@inner_op(node="UpsampleNearest3DBackward0", layout=_FOLLOWING)
def upsample_nearest3d(
    input: Array,
    output_size: Dims,
    scales_d: float | None = None,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Array:
    return _nearest(input, output_size, (scales_d, scales_h, scales_w), False)


@inner_op(node="UpsampleNearestExact3DBackward0", layout=_FOLLOWING)
def _upsample_nearest_exact3d(
    input: Array,
    output_size: Dims,
    scales_d: float | None = None,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Array:
    return _nearest(input, output_size, (scales_d, scales_h, scales_w), True)


@inner_op(node="UpsampleLinear1DBackward0", layout=_FOLLOWING)
def upsample_linear1d(input: Array, output_size: Dims, align_corners: bool, scales: float | None = None) -> Array:
    return _linear(input, output_size, align_corners, (scales,))


@inner_op(node="UpsampleBilinear2DBackward0", layout=_FOLLOWING)
def upsample_bilinear2d(
    input: Array, output_size: Dims, align_corners: bool, scales_h: float | None = None, scales_w: float | None = None
) -> Array:
    return _linear(input, output_size, align_corners, (scales_h, scales_w))


@inner_op(node="UpsampleTrilinear3DBackward0", layout=_FOLLOWING)
def upsample_trilinear3d(
    input: Array,
    output_size: Dims,
    align_corners: bool,
    scales_d: float | None = None,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Array:
    return _linear(input, output_size, align_corners, (scales_d, scales_h, scales_w))


@inner_op(node="UpsampleBicubic2DBackward0", layout=_FOLLOWING)
def upsample_bicubic2d(
    input: Array, output_size: Dims, align_corners: bool, scales_h: float | None = None, scales_w: float | None = None
) -> Array:
    return _cubic(input, output_size, align_corners, (scales_h, scales_w))


def _declare_antialiased(mode: str) -> None:
    def impl(
        input: Array,
        output_size: Dims,
        align_corners: bool,
        scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> Array:
        return _antialiased(mode, input, output_size, align_corners, (scales_h, scales_w))

    name = f"_upsample_{mode}2d_aa"
    impl.__name__ = impl.__qualname__ = name
    node = f"Upsample{mode.capitalize()}2DAaBackward0"
    op(impl, name=name, node=node, layout=_FOLLOWING, method=False, function=False, out=False)


for _mode in _FILTERS:
    _declare_antialiased(_mode)
