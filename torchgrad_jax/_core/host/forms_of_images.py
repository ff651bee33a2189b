"""Norms, windows and samples of images as functions of NumPy's that were written by hand: see `forms`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .forms import Keys, any_of, floats, refuse_if
from .inline import Step

# --- norms ----------------------------------------------------------------------------------------


def _standardising(rows: int, n: int, eps: float) -> Step:
    """The rows of a matrix of float32 with mean 0 and variance 1, the means, and 1 / std, all in float64.

    A sum of float32 numbers is exact in float64, unless they are of very different size: equal numbers come out as 0.
    """
    ones, share, epsilon = np.ones((n, 1)), np.full((n, 1), 1 / n), np.array(eps)
    wide_type, count, shape = ones.dtype, np.array(float(n)), (rows, n)

    def standardised(x: Any) -> tuple[Any, Any, Any]:
        wide = x.reshape(shape).astype(wide_type)
        mean = wide.dot(ones)
        mean /= count
        wide -= mean
        inverse = np.square(wide).dot(share)
        inverse += epsilon
        np.sqrt(inverse, inverse)
        np.reciprocal(inverse, inverse)
        wide *= inverse
        return wide, mean, inverse

    return standardised


def _normed(
    keys: Keys,
    rows: int,
    stats: Any,
    affine: tuple[int, ...],
    spread: tuple[int, ...],
    eps: float,
    *,
    adds_zero: bool = True,
) -> Any:
    """A norm of matrices with so many rows, whose weight and bias are spread over the result.

    Where there is no bias, 0 may stand for it: then no element of the result is -0.0.
    """
    x, given = keys["input"], [keys[name] for name in ("weight", "bias")]
    present = [k for k in given if k is not None]
    if any(k.dtype is not x.dtype or k.numel != math.prod(affine) for k in present) or x.dtype.np != np.float32:
        return None
    standardised, narrow, shape = _standardising(rows, x.numel // rows, eps), x.dtype.np, x.shape
    has_weight, has_bias = (k is not None for k in given)

    def norm(x: Any, *params: Any) -> Any:
        y, mean, inverse = standardised(x)
        y = y.reshape(spread)
        if has_weight:
            y *= params[0].reshape(affine)
        if has_bias:
            y += params[-1].reshape(affine)
        elif adds_zero:
            y += 0.0
        return [v.reshape(form).astype(narrow) for v, form in ((y, shape), (mean, stats), (inverse, stats))]

    return norm


def normed_rows(keys: Keys, normalized_shape: tuple[int, ...], eps: float) -> Step | None:
    """A norm of the last dimensions."""
    x = keys["input"]
    if not x.numel:
        return None
    lead = x.shape[: x.ndim - len(normalized_shape)]
    n, rows = math.prod(normalized_shape), math.prod(lead)
    return _normed(keys, rows, (*lead, *[1] * len(normalized_shape)), (n,), (rows, n), eps)


def normed_groups(keys: Keys, N: int, C: int, HxW: int, group: int, eps: float) -> Step | None:
    """A norm of groups of channels."""
    if not keys["input"].numel:
        return None
    return _normed(keys, N * group, (N, group), (C, 1), (N, C, HxW), eps, adds_zero=False)


def normed_channels(keys: Keys, training: bool, eps: float) -> Step | None:
    """A norm of each channel over all examples, without running statistics."""
    x = keys["input"]
    if not training or not x.numel or keys["running_mean"] is not None or keys["running_var"] is not None:
        return None
    channels, examples = x.shape[1], x.shape[0]
    n = x.numel // channels
    moved = (channels, examples, n // examples)
    norm = _normed(keys, channels, (channels,), (channels, 1), (channels, n), eps)

    def by_channel(x: Any, *given: Any) -> Any:
        form = x.shape
        if examples > 1:
            x = x.reshape(examples, channels, -1).transpose(1, 0, 2)
        y, mean, inverse = norm(x, *given[:-1])  # the last one is the momentum of running statistics
        if examples > 1:
            y = y.reshape(moved).transpose(1, 0, 2)
        return y.reshape(form), mean, inverse

    return norm and by_channel


# --- windows --------------------------------------------------------------------------------------


def largest_of_windows(
    keys: Keys, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Step | None:
    """The largest element of each window of a plane, and where it is, for windows that lie in the plane."""
    x = keys["input"]
    sizes = [(v, v) if isinstance(v, int) else tuple(v) * (2 // max(len(v), 1)) for v in (kernel_size, stride, padding)]
    (kernel, step, pad), planes = sizes, math.prod(x.shape[:-2])
    apart = (dilation,) * 2 if isinstance(dilation, int) else tuple(dilation) * (2 // len(dilation))
    if not floats(keys) or any(pad) or ceil_mode:
        return None
    firsts = [np.arange(0, n - (k - 1) * a, s) for n, k, a, s in zip(x.shape[-2:], kernel, apart, step or kernel)]
    inside = [np.arange(k) * a for k, a in zip(kernel, apart)]
    down, across = (i[:, None] + f for i, f in zip(inside, firsts))
    found = len(firsts[0]) * len(firsts[1])
    at = (down[:, None, :, None] * x.shape[-1] + across[:, None, :]).reshape(-1, found)
    area, window, shape = math.prod(x.shape[-2:]), np.arange(found), (*x.shape[:-2], *map(len, firsts))
    rows = np.arange(planes).reshape(-1, 1) * area

    def largest(x: Any) -> Any:
        which = x.reshape(planes, area).take(at, 1).argmax(1)
        which = at.ravel().take(which * found + window)
        values = x.take(which + rows)
        refuse_if(any_of(values != values))
        return values.reshape(shape), which.reshape(shape)

    return largest


def sampled(keys: Keys, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Step | None:
    """Between four pixels each, with zeros around the image."""
    image, grid = keys["input"], keys["grid"]
    if not floats(keys) or interpolation_mode or padding_mode or image.ndim != 4:
        return None
    kind = image.dtype.np.type
    (examples, channels, *size), found = image.shape, grid.shape[1:3]
    area, many, down = math.prod(size), math.prod(found), size[1]
    ends, one, half = np.array([*size[::-1]], kind), kind(1), kind(0.5)  # across, down
    last, none, whole = ends - one, np.zeros((), image.dtype.np), np.dtype(np.int64)
    planes, outside = (np.arange(examples) * area).reshape(examples, 1), examples * area

    def sample(image: Any, grid: Any) -> Any:
        pixels = np.empty((outside + 1, channels), kind)
        pixels[:outside].reshape(examples, area, channels)[...] = image.reshape(examples, channels, area).swapaxes(1, 2)
        pixels[outside] = 0
        at = grid.reshape(examples, many, 2) + one
        at = at * half * (ends - one) if align_corners else (at * ends - one) * half
        corners = np.empty((2, *at.shape), kind)  # (which, example, place, across or down)
        low, high = np.floor(at, corners[0]), corners[1]
        np.add(low, one, high)
        weights = np.empty_like(corners)
        np.subtract(high, at, weights[0])
        np.subtract(at, low, weights[1])
        places = corners.clip(none, last)
        inside = places == corners
        refuse_if(any_of(places != places))
        places = places.astype(whole)
        across, below = (None, ..., 0), (slice(None), None, ..., 1)
        flat = np.where(inside[below] & inside[across], places[below] * down + places[across] + planes, outside)
        values = pixels.take(flat.reshape(4, -1), 0)
        values *= (weights[below] * weights[across]).reshape(4, -1, 1)
        out = np.add(values[0], values[1])
        out += values[2]
        out += values[3]
        return out.reshape(examples, many, channels).swapaxes(1, 2).reshape(examples, channels, *found)

    return sample
