"""Sampling an image at given places: affine grids and grid sampling."""

from __future__ import annotations

import itertools
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays.kernels import scalar_name, widen
from .._core.host import forms_of_images
from .._core.jax.sizes import value_of
from .._core.random.rounding import spaced
from .helpers import cubic_beyond, cubic_within, is_float
from .registry import Array, Dims, NoGradient, op

ZEROS, BORDER, REFLECTION = range(3)
BILINEAR, NEAREST, BICUBIC = range(3)


# --- affine grids -------------------------------------------------------------------------------


def _ticks(n: int, align: bool, dtype: Any) -> np.ndarray:
    if n <= 1:
        return np.zeros(n, dtype)
    ticks = spaced(dtype.type(-1), dtype.type(1), n)
    return ticks if align else ticks * dtype.type(n - 1) / dtype.type(n)


@op(node="AffineGridGeneratorBackward0", method=False, out=False)
def affine_grid_generator(theta: Array, size: Dims, align_corners: bool) -> Array:
    """Where each pixel of an image of `size` falls under the affine maps `theta`, in [-1, 1]."""
    if len(size) not in (4, 5):
        raise RuntimeError("AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.")
    k = len(size) - 2
    batch = size[0]
    if theta.shape[0] != batch or theta.ndim != 3 or theta.shape[2] != k + 1:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{batch}, {k + 1}] but "
            f"got: {list(theta.shape[::2])}."
        )
    spatial = size[2:]
    kind = np.dtype(np.float32) if theta.dtype.itemsize < 4 else theta.dtype
    axes = np.meshgrid(*[_ticks(n, align_corners, kind) for n in spatial], indexing="ij")
    base = np.stack([*axes[::-1], np.ones(spatial, kind)], -1).reshape(-1, k + 1)
    base = base.astype(theta.dtype)
    grid = jnp.matmul(
        jnp.broadcast_to(jnp.asarray(base), (batch, *base.shape)),
        jnp.swapaxes(theta, 1, 2),
        precision=lax.Precision.HIGHEST,
    )
    return grid.reshape(batch, *spatial, k)


# --- grid sampling ------------------------------------------------------------------------------


def _unnormalize(x: Array, n: int, align: bool) -> Array:
    half = jnp.array(0.5, x.dtype)
    return (x + 1) * half * (n - 1) if align else ((x + 1) * n - 1) * half


def _clip(x: Array, n: int, nan_last: bool) -> Array:
    """Clip into the image; no gradient at or beyond an edge (nor for NaN), as in torch."""
    inside = (x > 0) & (x < n - 1)
    last = (x >= n - 1) | (x != x) if nan_last else x >= n - 1
    fixed = jnp.where(last, jnp.array(n - 1, x.dtype), jnp.zeros((), x.dtype))
    return jnp.where(inside, x, fixed)


def _reflect(x: Array, low2: int, high2: int) -> Array:
    """Reflect until inside [low2 / 2, high2 / 2]."""
    if low2 == high2:
        return jnp.zeros_like(x)
    low, span = low2 / 2, (high2 - low2) / 2
    # torch: the sign of the gradient flips below `low`, but not at it
    d = x - low
    d = jnp.where(x < low, -d, d)
    flips = jnp.floor(d / span)
    extra = d - flips * span
    return jnp.where(jnp.fmod(flips, 2) == 0, extra + low, span - extra + low)


def _padded_coordinates(x: Array, n: int, padding: int, align: bool, k: int) -> Array:
    """Coordinates after the padding mode, which leaves those outside of the image as they are if it is "zeros".

    torch's kernel for two dimensions takes NaN and infinities for the first pixel, that for three for the last.
    """
    if padding == ZEROS:
        return jnp.where(jnp.isfinite(x), x, jnp.array(-100, x.dtype)) if k == 3 else x
    if padding == REFLECTION:
        x = _reflect(x, 0, 2 * (n - 1)) if align else _reflect(x, -1, 2 * n - 1)
    return _clip(x, n, k == 3)


def _read(image: Array, at: list[Array], sizes: tuple[int, ...]) -> Array:
    """image[n, :, at...] with the channels last, zero outside; `at` are float coordinates of shape (N, *out).

    All channels of a pixel lie side by side, so that there is one index for them, and one copy.
    """
    inside: Any = None
    flat: Any = None
    for a, n in zip(at, sizes):
        ok = (a >= 0) & (a <= n - 1)
        inside = ok if inside is None else inside & ok
        i = jnp.clip(jnp.where(ok, a, 0), 0, value_of(n - 1)).astype(jnp.int64)
        flat = i if flat is None else flat * n + i
    pixels = jnp.moveaxis(image, 1, -1).reshape(-1, image.shape[1])
    first = lax.broadcasted_iota(jnp.int64, flat.shape, 0) * math.prod(sizes)
    values = pixels.at[first + flat].get(mode="promise_in_bounds")
    return jnp.where(inside[..., None], values, jnp.zeros((), image.dtype))


def _weighted(image: Array, at: list[list[Array]], weights: list[list[Array]]) -> Array:
    """The sum over all combinations of one coordinate per axis, each read and weighted by its axes' weights.

    They are read at once, with the combinations as one more dimension: a gather and a scatter for each of them would
    take a second derivative a minute to compile.
    """
    corners = list(itertools.product(*[range(len(a)) for a in at]))
    together = [jnp.stack([a[corner[d]] for corner in corners], 1) for d, a in enumerate(at)]
    values = _read(image, together, image.shape[2:])  # (N, corners, *out, C)
    weight: Any = None
    for d, w in enumerate(weights):
        each = jnp.stack([w[corner[d]] for corner in corners], 1)
        weight = each if weight is None else weight * each
    return jnp.moveaxis(jnp.sum(values * weight[..., None], 1), -1, 1)


def _sample(image: Array, grid: Array, mode: int, padding: int, align: bool) -> Array:
    sizes = image.shape[2:]
    k = len(sizes)
    # the last coordinate of the grid is that of the first axis
    places = [_unnormalize(grid[..., k - 1 - d], n, align) for d, n in enumerate(sizes)]
    if mode == BICUBIC:
        return _bicubic(image, places, padding, align)
    places = [_padded_coordinates(x, n, padding, align, k) for x, n in zip(places, sizes)]
    if mode == NEAREST:
        return jnp.moveaxis(_read(image, [jnp.round(lax.stop_gradient(x)) for x in places], sizes), -1, 1)
    lows = [jnp.floor(lax.stop_gradient(x)) for x in places]
    at = [[low, low + 1] for low in lows]
    return _weighted(image, at, [[(low + 1) - x, x - low] for x, low in zip(places, lows)])


def _cubic_weights(t: Array) -> list[Array]:
    a = -0.75
    return [cubic_beyond(t + 1, a), cubic_within(t, a), cubic_within(1 - t, a), cubic_beyond(2 - t, a)]


def _bicubic(image: Array, places: list[Array], padding: int, align: bool) -> Array:
    sizes = image.shape[2:]
    lows = [jnp.floor(lax.stop_gradient(x)) for x in places]
    weights = [_cubic_weights(x - low) for x, low in zip(places, lows)]
    settled = [
        [_padded_coordinates(low + (i - 1), n, padding, align, 2) for i in range(4)] for low, n in zip(lows, sizes)
    ]
    return _weighted(image, settled, weights)


def _check(input: Array, grid: Array, mode: int, k: int) -> None:
    shapes = f"input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
    if input.shape[0] != grid.shape[0]:
        raise RuntimeError(f"grid_sampler(): expected grid and input to have same batch size, but got {shapes}")
    if grid.shape[-1] != input.ndim - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {input.ndim - 2} in last dimension, but got "
            f"grid with sizes {list(grid.shape)}"
        )
    for axis in range(2, input.ndim):
        if input.shape[axis] == 0:
            raise RuntimeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but input has "
                f"sizes {list(input.shape)} with dimension {axis} being empty"
            )
    if input.ndim != k + 2 or grid.ndim != input.ndim:
        raise RuntimeError(
            f"grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got {shapes}"
        )
    if k == 3 and mode == BICUBIC:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if input.dtype != grid.dtype:
        names = [scalar_name(a) for a in (input, grid)]
        raise RuntimeError(f"expected scalar type {names[0]} but found {names[1]}")
    if not is_float(input):
        kind = scalar_name(input)
        raise NotImplementedError(f"\"grid_sampler_{k}d_cpu_kernel_impl\" not implemented for '{kind}'")


def _grid_sampler(input: Array, grid: Array, mode: int, padding: int, align: bool, k: int) -> Array:
    _check(input, grid, mode, k)
    if input.size == 0 or grid.size == 0:
        return jnp.zeros((*input.shape[:2], *grid.shape[1:-1]), input.dtype)
    return _sample(widen(input), widen(grid), mode, padding, align).astype(input.dtype)


@op(
    node="GridSampler2DBackward0",
    no_gradient={NoGradient.NOTHING: ("input", "grid")},
    method=False,
    out=False,
    keeps=("input",),
    host=forms_of_images.sampled,
)
def grid_sampler_2d(
    input: Array, grid: Array, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Array:
    return _grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners, 2)


@op(
    node="GridSampler3DBackward0",
    no_gradient={NoGradient.NOTHING: ("input", "grid")},
    method=False,
    out=False,
    keeps=("input",),
)
def grid_sampler_3d(
    input: Array, grid: Array, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Array:
    return _grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners, 3)
