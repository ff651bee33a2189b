"""Image layouts: pixel and channel shuffles, and patches laid out as columns."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import lax

from .._core.arrays.kernels import scalar_name
from .._core.arrays.layouts import following
from .._core.errors import messages as errors
from .helpers import from_zero, is_bool, is_complex, is_float
from .inner import inner_op
from .registry import Array, Dims, Grad, op

Shape = tuple[int, ...]


@op(out=False, method=False, layout=following())
def pixel_shuffle(input: Array, upscale_factor: int) -> Array:
    r = upscale_factor
    if input.ndim < 3:
        raise RuntimeError(
            f"pixel_shuffle expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    *lead, c, h, w = input.shape
    if c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
            f"upscale_factor, but input.size(-3)={c} is not divisible by {r * r}"
        )
    n = math.prod(lead)
    y = input.reshape(n, c // (r * r), r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
    return y.reshape(*lead, c // (r * r), h * r, w * r)


@op(out=False, method=False, layout=following())
def pixel_unshuffle(input: Array, downscale_factor: int) -> Array:
    r = downscale_factor
    if input.ndim < 3:
        raise RuntimeError(
            f"pixel_unshuffle expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    *lead, c, h, w = input.shape
    for name, size, axis in (("height", h, -2), ("width", w, -1)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but "
                f"input.size({axis})={size} is not divisible by {r}"
            )
    y = input.reshape(math.prod(lead), c, h // r, r, w // r, r).transpose(0, 1, 3, 5, 2, 4)
    return y.reshape(*lead, c * r * r, h // r, w // r)


def _shuffle_channels(x: Array, groups: int) -> Array:
    if x.ndim <= 2:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(x.shape)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    n, c, *rest = x.shape
    if c % groups:
        raise RuntimeError(f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups.")
    return x.reshape(n, groups, c // groups, *rest).swapaxes(1, 2).reshape(x.shape)


@op(out=False, method=False, layout=following())
def channel_shuffle(input: Array, groups: int) -> Array:
    return _shuffle_channels(input, groups)


@op(out=False, method=False, grad=Grad.MISSING, layout=following())
def native_channel_shuffle(input: Array, groups: int) -> Array:
    return _shuffle_channels(input, groups)


# --- patches as columns -------------------------------------------------------------------------


def _columns(x: Array, kernel: Shape, dilation: Shape, padding: Shape, stride: Shape) -> Array:
    """(N, C, H, W) -> (N, C * kernel, blocks)."""
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = kernel, dilation, padding, stride
    oh, ow = _blocks(x.shape[2:], kernel, dilation, padding, stride)
    if ph or pw:
        x = lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0), (0, 0, 0), (ph, ph, 0), (pw, pw, 0)])
    n, c = x.shape[:2]
    parts = [
        lax.slice(
            x, (0, 0, i * dh, j * dw), (n, c, i * dh + (oh - 1) * sh + 1, j * dw + (ow - 1) * sw + 1), (1, 1, sh, sw)
        )
        for i in range(kh)
        for j in range(kw)
    ]
    return jnp.stack(parts, axis=2).reshape(n, c * kh * kw, oh * ow)


def _blocks(size: Shape, kernel: Shape, dilation: Shape, padding: Shape, stride: Shape) -> list[int]:
    return [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, d, p, s in zip(size, kernel, dilation, padding, stride)]


def _check_patches(kernel: Shape, dilation: Shape, padding: Shape, stride: Shape) -> None:
    given = {"kernel_size": kernel, "dilation": dilation, "padding": padding, "stride": stride}
    for name, value in given.items():
        if len(value) != 2:
            raise RuntimeError(f"It is expected {name} equals to 2, but got size {len(value)}")
    for word, label, value in (
        ("kernel size", "kernel", kernel),
        ("stride", "stride", stride),
        ("dilation", "dilation", dilation),
    ):
        if min(value) <= 0:
            raise RuntimeError(
                f"{word} should be greater than zero, but got {label}_height: {value[0]} {label}_width: {value[1]}"
            )
    if min(padding) < 0:
        raise RuntimeError(f"padding should be non-negative, but got pad_height: {padding[0]} pad_width: {padding[1]}")


def _check_kind(label: str, x: Array) -> None:
    if not (is_float(x) or is_complex(x) or is_bool(x)):
        kind = scalar_name(x)
        raise NotImplementedError(f"\"{label}\" not implemented for '{kind}'")


@inner_op(node="Im2ColBackward0")
def im2col(input: Array, kernel_size: Dims, dilation: Dims, padding: Dims, stride: Dims) -> Array:
    if input.ndim < 3:
        raise IndexError(errors.dim_out_of_range(2, input.ndim))
    _check_patches(kernel_size, dilation, padding, stride)
    if input.ndim not in (3, 4) or 0 in input.shape[-3:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(input.shape)}"
        )
    shown = [tuple(v) for v in (input.shape[-2:], kernel_size, dilation, padding)]
    blocks = _blocks(input.shape[-2:], kernel_size, dilation, padding, stride)
    if min(blocks) < 1:
        raise RuntimeError(
            f"Given input with spatial size {shown[0]}, kernel_size={shown[1]}, dilation={shown[2]}, "
            f"padding={shown[3]}, calculated shape of the array of sliding blocks as {tuple(blocks)}, "
            "but its components must be at least one."
        )
    _check_kind("im2col_out_cpu", input)
    x = input if input.ndim == 4 else input[None]
    y = _columns(x, kernel_size, dilation, padding, stride)
    return y if input.ndim == 4 else y[0]


@inner_op(node="Col2ImBackward0")
def col2im(input: Array, output_size: Dims, kernel_size: Dims, dilation: Dims, padding: Dims, stride: Dims) -> Array:
    if len(output_size) != 2:
        raise RuntimeError(f"It is expected output_size equals to 2, but got size {len(output_size)}")
    _check_patches(kernel_size, dilation, padding, stride)
    if input.ndim not in (2, 3) or 0 in input.shape[-2:]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero "
            f"dimensions for input, but got: {list(input.shape)}"
        )
    rows, cols = input.shape[-2:]
    area = math.prod(kernel_size)
    size, kernel, dil, pad, step = (tuple(v) for v in (output_size, kernel_size, dilation, padding, stride))
    if rows % area:
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but "
            f"got input.size(1)={rows} and kernel_size={kernel}."
        )
    h, w = _blocks(size, kernel, dil, pad, step)
    given = f"Given output_size={size}, kernel_size={kernel}, dilation={dil}, padding={pad}, stride={step}"
    if cols != h * w:
        raise RuntimeError(
            f"{given}, expected size of input's dimension 2 to match the calculated number of sliding "
            f"blocks {h} * {w} = {h * w}, but got input.size(2)={cols}."
        )
    if min(h, w) < 1:
        raise RuntimeError(
            f"{given}, calculated shape of the array of sliding blocks as ({h}, {w}), which is too small (non-positive)"
        )
    _check_kind("col2im_out_cpu", input)
    x = input if input.ndim == 3 else input[None]
    if is_bool(x):
        raise NotImplementedError("col2im is not implemented for bool tensors")
    image = jax.ShapeDtypeStruct((x.shape[0], rows // area, *size), x.dtype)
    spread = jax.linear_transpose(lambda y: _columns(y, kernel, dil, pad, step), image)
    y = from_zero(*spread(x))
    return y if input.ndim == 3 else y[0]
