"""Resizing, padding, sampling and patches under their public names."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.errors import warn
from .._engine.entry.arguments import as_int, type_name
from .._engine.entry.bind import NAMESPACES, composite, ops
from .._engine.memory.tensor import Tensor
from .splitting import slice_along

_functional = functools.partial(composite, method=False, namespace="nn.functional")
_top = functools.partial(composite, method=False)

for _name in ("pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "native_channel_shuffle"):
    NAMESPACES.setdefault("nn.functional", {})[_name] = NAMESPACES[""][_name]


# --- padding ------------------------------------------------------------------------------------


def _pad_sizes(pad: Any) -> tuple[int, ...]:
    if not isinstance(pad, list | tuple):
        raise TypeError(f"pad(): argument 'pad' (position 2) must be tuple of ints, not {type_name(pad)}")
    out = []
    for i, p in enumerate(pad):
        n = as_int(p)
        if n is None:
            raise TypeError(
                "pad(): argument 'pad' (position 2) must be tuple of ints, but found element of type "
                f"{type_name(p)} at pos {i}"
            )
        out.append(n)
    return tuple(out)


@_functional
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Pad the last dimensions, the last one first; negative amounts crop."""
    amounts, ndim = _pad_sizes(pad), input._m.ndim
    if len(amounts) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(amounts) > 2 * ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got padding "
            f"length {len(amounts)} and input of dimension {ndim}"
        )
    if mode == "constant":
        fill = 0 if value is None else value
        return ops.constant_pad_nd(input, amounts, float(fill) if fill.__class__ is int else fill)
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    k = len(amounts) // 2
    if k in (1, 2, 3) and ndim in (k + 1, k + 2):
        if mode == "reflect":
            return getattr(ops, f"reflection_pad{k}d")(input, amounts)
        if mode == "replicate":
            return getattr(ops, f"replication_pad{k}d")(input, amounts)
        if mode == "circular":
            return _circular(input, amounts)
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    raise NotImplementedError(
        f"Padding size {len(amounts)} is not supported for {ndim}D input tensor.\n"
        "Supported combinations for non-constant padding:\n"
        "  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
        "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
        "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
    )


def _circular(x: Tensor, amounts: Sequence[int]) -> Tensor:
    """Wrap around: the middle is written first, then each side of each dimension, as in torch."""
    sides = list(zip(amounts[::2], amounts[1::2]))  # from the last dimension on
    axes = [x._m.ndim - 1 - i for i in range(len(sides))]
    shape = list(x._m.shape)
    for d, (lo, hi) in zip(axes, sides):
        n = shape[d]
        if lo > n or hi > n:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if n + lo + hi < 0:
            raise RuntimeError("Negative padding value is resulting in an empty dimension")
        shape[d] = n + lo + hi
    out = x.new_empty(tuple(shape))
    to, source = out, x
    for d, (lo, hi) in zip(axes, sides):
        to = slice_along(to, d, max(lo, 0), shape[d] - max(hi, 0))
        source = slice_along(source, d, max(-lo, 0), x._m.shape[d] - max(-hi, 0))
    ops.copy_(to, source)
    for d, (lo, hi) in zip(axes, sides):
        start, stop = max(lo, 0), shape[d] - max(hi, 0)
        if lo > 0:
            ops.copy_(slice_along(out, d, 0, lo), slice_along(out, d, stop - lo, stop))
        if hi > 0:
            ops.copy_(slice_along(out, d, stop, shape[d]), slice_along(out, d, start, start + hi))
    return out


# --- patches ------------------------------------------------------------------------------------


def _pair(value: Any) -> tuple[int, ...]:
    single = as_int(value)
    return (single, single) if single is not None else tuple(value)


@_functional
def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Sliding blocks of an image, one per column."""
    return ops.im2col(input, *(_pair(v) for v in (kernel_size, dilation, padding, stride)))


@_functional
def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """The image that columns of sliding blocks add up to."""
    return ops.col2im(input, *(_pair(v) for v in (output_size, kernel_size, dilation, padding, stride)))


# --- interpolation ------------------------------------------------------------------------------

_LINEAR = {"linear": 3, "bilinear": 4, "trilinear": 5}
_ROWS = {
    ("nearest", 3): "upsample_nearest1d",
    ("nearest", 4): "upsample_nearest2d",
    ("nearest", 5): "upsample_nearest3d",
    ("nearest-exact", 3): "_upsample_nearest_exact1d",
    ("nearest-exact", 4): "_upsample_nearest_exact2d",
    ("nearest-exact", 5): "_upsample_nearest_exact3d",
    ("linear", 3): "upsample_linear1d",
    ("bilinear", 4): "upsample_bilinear2d",
    ("trilinear", 5): "upsample_trilinear3d",
    ("bicubic", 4): "upsample_bicubic2d",
}
_ANTIALIASED = ("bilinear", "bicubic", "lanczos")
_FORMAT = "Please provide input tensor in (N, C, d1, d2, ...,dK) format and {0} in ({1}1, {1}2, ...,{1}K) format."


def _given_size(size: Any, spatial: list[int]) -> list[int]:
    if not isinstance(size, list | tuple):
        return [size] * len(spatial)
    if len(size) != len(spatial):
        raise ValueError(
            "Input and output must have the same number of spatial dimensions, but got input with spatial "
            f"dimensions of {spatial} and output size of {size}. " + _FORMAT.format("output size", "o")
        )
    if not all(isinstance(n, int | np.integer) or as_int(n) is not None for n in size):
        raise TypeError(
            "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], but "
            f"got size with types {[type(n) for n in size]}"
        )
    return list(size)


def _given_scales(scale: Any, spatial: list[int]) -> list[float]:
    if not isinstance(scale, list | tuple):
        return [scale] * len(spatial)
    if len(scale) != len(spatial):
        raise ValueError(
            "Input and scale_factor must have the same number of spatial dimensions, but got input with "
            f"spatial dimensions of {spatial} and scale_factor of shape {scale}. " + _FORMAT.format("scale_factor", "s")
        )
    return list(scale)


@_functional
def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resize the spatial dimensions of (batch, channels, ...)."""
    if mode in ("nearest", "area", "nearest-exact") and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
        )
    ndim, spatial = input._m.ndim, list(input._m.shape[2:])
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    scales: list[Any] = [None] * len(spatial)
    if size is not None:
        if recompute_scale_factor:
            _given_size(size, spatial)
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        out = _given_size(size, spatial)
    else:
        scales = _given_scales(scale_factor, spatial)
        out = [int(n * float(s)) for n, s in zip(spatial, scales)]
        if recompute_scale_factor or mode == "area":
            scales = [None] * len(spatial)
    if antialias and not (mode in _ANTIALIASED and ndim == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
        )
    if mode == "area" and ndim in (3, 4, 5):
        return NAMESPACES["nn.functional"][f"adaptive_avg_pool{ndim - 2}d"](input, tuple(out))
    if mode == "lanczos" and ndim == 4 and align_corners:
        raise ValueError("Lanczos mode does not support align_corners=True")
    if mode == "lanczos" and ndim == 4 and not antialias:
        raise ValueError("Lanczos mode requires antialias=True")
    if antialias:
        row = getattr(ops, f"_upsample_{mode}2d_aa")
    elif (mode, ndim) in _ROWS:
        row = getattr(ops, _ROWS[mode, ndim])
    elif mode in _LINEAR and ndim in (3, 4, 5):
        raise NotImplementedError(f"Got {ndim}D input, but {mode} mode needs {_LINEAR[mode]}D input")
    else:
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {ndim}D) for the modes: nearest "
            "| linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact "
            f"(got {mode})"
        )
    align = () if mode.startswith("nearest") else (bool(align_corners),)
    return row(input, tuple(out), *align, *scales)


@_functional
def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Tensor:
    """The former name of `interpolate`."""
    warn.to_user("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode, align_corners)


@_functional
def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """The former name of `interpolate` with mode 'nearest'."""
    warn.to_user("`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode="nearest")


@_functional
def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """The former name of `interpolate` with mode 'bilinear' and aligned corners."""
    warn.to_user("`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


# --- sampling -----------------------------------------------------------------------------------

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")
_ALIGN = (
    "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
    "specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for details."
)


@_top
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Sample an image or a volume at the places that `grid` names."""
    row = ops.grid_sampler_3d if input._m.ndim == 5 else ops.grid_sampler_2d
    return row(input, grid, interpolation_mode, padding_mode, align_corners)


@_functional
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Sample an image or a volume at the places that `grid` names, in [-1, 1]."""
    if mode not in _MODES:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in _PADDINGS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', "
            f"but got: '{padding_mode}'"
        )
    if align_corners is None:
        warn.to_user(_ALIGN)
        align_corners = False
    return grid_sampler(input, grid, _MODES.index(mode), _PADDINGS.index(padding_mode), align_corners)


@_functional
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid at which `grid_sample` shows an image under the affine maps `theta`."""
    if align_corners is None:
        warn.to_user(_ALIGN)
        align_corners = False
    m = theta._m
    if not m.dtype.is_floating_point:
        raise ValueError(f"Expected theta to have floating point type, but got {m.dtype}")
    if len(size) not in (4, 5):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got "
            f"size {size}."
        )
    k = len(size) - 2
    if m.ndim != 3 or m.shape[1:] != (k, k + 1):
        raise ValueError(
            f"Expected a batch of {k}D affine matrices of shape Nx{k}x{k + 1} for size {size}. Got "
            f"torch.Size({list(m.shape)})."
        )
    if align_corners and min(size[2:]) == 1:
        warn.to_user(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when "
            "align_corners=True. This is not an intended use case of affine_grid. See the documentation of "
            "affine_grid for details."
        )
    elif min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return ops.affine_grid_generator(theta, tuple(size), align_corners)
