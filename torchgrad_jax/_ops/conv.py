"""Convolutions of any number of spatial dimensions, transposed ones included."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays import dtypes, shapes
from .._core.arrays.kernels import cpp_name, scalar_name, widen
from .._core.arrays.layouts import following, with_statics
from .._core.errors.messages import legacy_type
from .._core.jax.custom_jvp import custom_jvp, is_absent
from .._core.jax.products import precision
from .._core.jax.sizes import pinned
from .._core.jax.target import platform
from .._core.jax.unsplit import unsplit
from .helpers import is_bool, is_complex
from .registry import Array, Dims, NoGradient, op

Shape = tuple[int, ...]
Pads = Sequence[tuple[int, int]]

_MAX_SPLIT = 32
"""Groups up to which a grouped convolution runs as that many plain ones."""
_MAX_TAPS = 64
"""Kernel elements up to which a depthwise convolution runs as shifted products."""
_FEW_TAPS = 4
"""Kernel elements along the depth of a volume up to which it is a sum of convolutions of planes, each compiled."""


_following_either = following(0, 1)


@with_statics
def _laid_out(metas: Sequence[Any], out: Shape, statics: dict[str, Any]) -> Shape:
    """Channels last if the input or the weight has them last; torch multiplies an empty input by a number."""
    x, w = metas[:2]
    if not x.numel:
        return x.strides if x.shape == out else shapes.contiguous_strides(out)
    if x.ndim == 5 and not _is_for_onednn(x, w, statics["groups"]):
        return shapes.contiguous_strides(out)
    return _following_either(metas, out)


def _is_for_onednn(x: Any, w: Any, groups: int) -> bool:
    """Return whether torch leaves volumes to oneDNN (with several threads); its own kernels for them are row-major."""
    if x.dtype.itemsize == 2:
        return True
    large = min(w.shape[-2:]) > 3 or x.shape[0] > 1 or math.prod(x.shape[:4]) > 20480
    return x.dtype.np == np.float32 and (groups > 1 or large)


@op(
    name="convolution",
    node="ConvolutionBackward0",
    no_gradient={NoGradient.NOTHING: ("input", "weight")},
    out=False,
    method=False,
    layout=_laid_out,
    keeps={"weight": ("weight",)},
)
def convolution(
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: Dims,
    padding: Dims,
    dilation: Dims,
    transposed: bool,
    output_padding: Dims,
    groups: int,
) -> Array:
    """The convolution that all public ones call; `weight` is (out, in / groups, ...),
    or (in, out / groups, ...) when transposed."""
    k = weight.ndim - 2
    _check_dimensions(input, weight)
    stride, padding, dilation, output_padding = _spatial_arguments(
        k, stride=stride, padding=padding, dilation=dilation, output_padding=output_padding
    )
    _check_dtypes(input, weight, bias, transposed, k)
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    _check_shapes(input, weight, bias, padding, dilation, transposed, groups)
    if transposed:
        _check_transposed(input, weight, stride, padding, dilation, output_padding)
    x, w = input, weight
    # Accelerators multiply halves in units of their own, and add up in float32.
    if platform() == "cpu":
        x, w = widen(x), widen(w)
    if transposed:
        y = _transposed(x, w, stride, padding, dilation, output_padding, groups)
    else:
        y = _convolved(x, w, stride, tuple((p, p) for p in padding), (1,) * k, dilation, groups)
    if bias is not None:
        y = y + jnp.expand_dims(bias.astype(y.dtype), (0, *range(2, 2 + k)))
    return y.astype(input.dtype)


def _spatial_arguments(k: int, **given: Shape) -> list[Shape]:
    for name, value in given.items():
        if len(value) not in (1, k):
            raise RuntimeError(
                f"expected {name} to be a single integer value or a list of {k} values to match "
                f"the convolution dimensions, but got {name}={list(value)}"
            )
    out = {name: tuple(value) * k if len(value) == 1 else tuple(value) for name, value in given.items()}
    for name in ("padding", "output_padding", "stride"):
        if any(v < 0 or (v == 0 and name == "stride") for v in out[name]):
            raise RuntimeError(f"{'non-positive' if name == 'stride' else 'negative'} {name} is not supported")
    if any(v <= 0 for v in out["dilation"]):
        raise RuntimeError(f"dilation should be greater than zero, but got {list(out['dilation'])}")
    return list(out.values())


def _check_dtypes(input: Array, weight: Array, bias: Array | None, transposed: bool, k: int) -> None:
    """Refuse what differs from the input, in the words of the kernel that torch takes for its dtype."""
    apart = bias is not None and bias.dtype != input.dtype
    if bias is not None and apart and not transposed:
        names = [cpp_name(a) for a in (input, bias)]
        raise RuntimeError(f"Input type ({names[0]}) and bias type ({names[1]}) should be the same")
    if is_bool(input):
        kernel = f"slow_conv_transpose{max(k, 2)}d_out" if transposed else f"slow_conv{max(k, 2)}d"
        raise NotImplementedError(f"\"{kernel}_cpu\" not implemented for 'Bool'")
    kind = dtypes.from_np(input.dtype)
    if kind is dtypes.bfloat16 or kind.is_complex:
        for name, other in (("weight", weight), ("bias", bias)):
            if other is not None and other.dtype != input.dtype:
                raise RuntimeError(_types_differ(input, name, other, kind is dtypes.bfloat16))
    other = bias if bias is not None and apart and k == 3 else weight
    if input.dtype != weight.dtype or other is bias:
        expected, found = (scalar_name(a) for a in (input, other))
        raise RuntimeError(f"expected scalar type {expected} but found {found}")
    if bias is not None and apart and not dtypes.can_cast(dtypes.from_np(bias.dtype), kind):
        raise dtypes.not_castable(dtypes.from_np(bias.dtype), kind)


def _types_differ(input: Array, name: str, other: Array, mkldnn: bool) -> str:
    types = [legacy_type("torch." + dtypes.from_np(a.dtype).type_name) for a in (input, other)]
    or_else = f" or input should be a MKLDNN tensor and {name} is a dense tensor" if mkldnn else ""
    return f"Input type ({types[0]}) and {name} type ({types[1]}) should be the same{or_else}"


def _check_dimensions(input: Array, weight: Array) -> None:
    if weight.ndim < 3:
        raise RuntimeError("weight should have at least three dimensions")
    if input.ndim != weight.ndim:
        raise RuntimeError(
            f"Expected {weight.ndim}-dimensional input for {weight.ndim}-dimensional weight "
            f"{list(weight.shape)}, but got {input.ndim}-dimensional input of size "
            f"{list(input.shape)} instead"
        )


def _check_shapes(
    input: Array, weight: Array, bias: Array | None, padding: Shape, dilation: Shape, transposed: bool, groups: int
) -> None:
    ws, size, k = list(weight.shape), list(input.shape), weight.ndim - 2
    if ws[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but "
            f"got weight of size {ws} instead"
        )
    if ws[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            f"but got weight of size [{ws}] instead"
        )
    inner, outer = (ws[0], ws[1] * groups) if transposed else (ws[1] * groups, ws[0])
    if size[1] != inner:
        given = "transposed=1" if transposed else f"groups={groups}"
        raise RuntimeError(
            f"Given {given}, weight of size {ws}, expected input{size} to have {inner} channels, "
            f"but got {size[1]} channels instead"
        )
    if bias is not None and bias.shape != (outer,):
        given = "Given transposed=1, weight" if transposed else "Given weight"
        raise RuntimeError(
            f"{given} of size {ws}, expected bias to be 1-dimensional with {outer} elements, but "
            f"got bias of size {list(bias.shape)} instead"
        )
    if transposed:
        return
    padded = [n + 2 * p for n, p in zip(size[2:], padding)]
    kernel = [d * (n - 1) + 1 for n, d in zip(ws[2:], dilation)]
    if any(n == 0 for n in ws[2:]):
        names = ("kernel_time", "kernel_height", "kernel_width")[3 - k :]
        sizes = " ".join(f"{n}: {v}" for n, v in zip(names, ws[2:]))
        raise RuntimeError(f"kernel size should be greater than zero, but got {sizes}")
    if any(n < m for n, m in zip(padded, kernel)) or 0 in size[2:]:
        raise RuntimeError(
            f"Calculated padded input size per channel: ({_cross(padded)}). Kernel size: "
            f"({_cross(ws[2:] if 0 in size[2:] else kernel)}). Kernel size can't be greater than "
            "actual input size"
        )


def _cross(sizes: list[int]) -> str:
    return " x ".join(map(str, sizes))


def _check_transposed(
    input: Array, weight: Array, stride: Shape, padding: Shape, dilation: Shape, output_padding: Shape
) -> None:
    k = input.ndim - 2
    if any(o >= s and o >= d for o, s, d in zip(output_padding, stride, dilation)):
        axes = ("depth", "height", "width")[3 - max(k, 2) :]
        values = {"output_padding": output_padding, "stride": stride, "dilation": dilation}
        if k == 1:  # torch runs 1-D as 2-D of height 1
            values = {"output_padding": (0, *output_padding), "stride": (1, *stride), "dilation": (1, *dilation)}
        shown = " ".join(f"{n}_{a}: {v}" for n, vs in values.items() for a, v in zip(axes, vs))
        raise RuntimeError(f"output padding must be smaller than either stride or dilation, but got {shown}")
    sizes = [
        (n - 1) * s - 2 * p + d * (w - 1) + o + 1
        for n, w, s, p, d, o in zip(input.shape[2:], weight.shape[2:], stride, padding, dilation, output_padding)
    ]
    if any(n < 1 for n in sizes):
        given = list(input.shape[2:])
        if k == 1:
            given, sizes = [1, *given], [1, *sizes]
        raise RuntimeError(
            f"Given input size per channel: ({_cross(given)}). Calculated output size per channel: "
            f"({_cross(sizes)}). Output size is too small"
        )


def _transposed(
    x: Array, w: Array, stride: Shape, padding: Shape, dilation: Shape, output_padding: Shape, groups: int
) -> Array:
    """A convolution of the stretched input with the flipped kernel."""
    k = w.ndim - 2
    w = lax.rev(w, tuple(range(2, 2 + k)))
    per_in, per_out = w.shape[0] // groups, w.shape[1]
    w = w.reshape(groups, per_in, per_out, *w.shape[2:]).swapaxes(1, 2)
    w = w.reshape(groups * per_out, per_in, *w.shape[3:])
    pads = tuple(
        (d * (n - 1) - p, d * (n - 1) - p + o) for d, n, p, o in zip(dilation, w.shape[2:], padding, output_padding)
    )
    return _convolved(x, w, (1,) * k, pads, stride, dilation, groups)


def _convolved(x: Array, w: Array, stride: Shape, pads: Pads, stretch: Shape, dilation: Shape, groups: int) -> Array:
    """A convolution of a stretched input; on a CPU in the form whose gradients XLA is fast with."""
    grows = any(lo + hi > d * (n - 1) for (lo, hi), d, n in zip(pads, dilation, w.shape[2:]))
    slow = (grows or any(s != 1 for s in stretch)) and all(s == 1 for s in stride)
    if x.size == 0 or w.size == 0 or not slow or platform() != "cpu":
        return _convolve(x, w, stride, pads, stretch, dilation, groups)
    return _stretched(x, w, stretch, pads, dilation, groups)


@functools.partial(custom_jvp, nondiff_argnums=(2, 3, 4, 5))
def _stretched(x: Array, w: Array, stretch: Shape, pads: Pads, dilation: Shape, groups: int) -> Array:
    return _convolve(x, w, (1,) * len(stretch), pads, stretch, dilation, groups)


@functools.partial(_stretched.defjvp, symbolic_zeros=True)
def _stretched_jvp(stretch: Shape, pads: Pads, dilation: Shape, groups: int, primals: Any, tangents: Any) -> Any:
    # The same sum in two forms: the transpose in w of the first one, over an input that XLA has to stretch
    # itself, or to pad until the result is larger, is 20 to 40 times slower on CPU than over one that is so already.
    x, w = primals
    tx, tw = tangents
    ones = (1,) * len(stretch)
    out = _stretched(x, w, stretch, pads, dilation, groups)
    t = None
    if not is_absent(tx):
        t = _stretched(tx, w, stretch, pads, dilation, groups)
    if not is_absent(tw):
        config = [(0, 0, 0), (0, 0, 0)] + [(lo, hi, e - 1) for (lo, hi), e in zip(pads, stretch)]
        wide = lax.pad(x, jnp.zeros((), x.dtype), config)
        part = _convolve(wide, tw, ones, ((0, 0),) * len(ones), ones, dilation, groups)
        t = part if t is None else t + part
    return out, t


def _convolve(x: Array, w: Array, stride: Shape, pads: Pads, stretch: Shape, dilation: Shape, groups: int) -> Array:
    """Convolution of an input stretched by `stretch`, whichever way XLA runs fastest.

    XLA's CPU backend has a fast kernel for plain convolutions only: grouped ones, and the weight
    gradients of grouped ones above all, are up to a hundred times slower than the same work
    written as several plain convolutions or, for depthwise ones, as sums of shifted products.
    """
    if x.size == 0 or w.size == 0:
        # Torch: without input channels there are no output channels.
        outer = w.shape[0] if x.shape[1] else 0
        return jnp.zeros((x.shape[0], outer, *_out_sizes(x, w, stride, pads, stretch, dilation)), x.dtype)
    if groups > 1 and platform() == "cpu":
        if w.shape[1] == 1 and math.prod(w.shape[2:]) <= _MAX_TAPS:
            return _depthwise(x, w, stride, pads, stretch, dilation, groups)
        if groups <= _MAX_SPLIT:
            n, m = x.shape[1] // groups, w.shape[0] // groups
            parts = [
                _plain(x[:, g * n : (g + 1) * n], w[g * m : (g + 1) * m], stride, pads, stretch, dilation)
                for g in range(groups)
            ]
            return lax.concatenate(parts, 1)
        return _batched(x, w, stride, pads, stretch, dilation, groups)
    if groups > 1:
        return _lax(x, w, stride, pads, stretch, dilation, groups)
    return _plain(x, w, stride, pads, stretch, dilation)


def _plain(x: Array, w: Array, stride: Shape, pads: Pads, stretch: Shape, dilation: Shape) -> Array:
    """A convolution of one group. XLA's CPU backend has a fast kernel for two dimensions, and for one of float32."""
    if platform() == "cpu":
        if all(v == 1 for v in (*w.shape[2:], *stretch)) and not any(map(any, pads)):
            return _pointwise(x, w, stride)
        slow = w.ndim == 5 or (w.ndim == 3 and x.dtype != np.float32)
        if slow and w.shape[2] <= _MAX_TAPS:
            return _flattened(x, w, stride, pads, stretch, dilation)
    return _lax(x, w, stride, pads, stretch, dilation, 1)


def _pointwise(x: Array, w: Array, stride: Shape) -> Array:
    """A convolution with a kernel of one element, which is a matrix product over the channels."""
    x = lax.slice(x, (0,) * x.ndim, x.shape, (1, 1, *stride))
    rows = x.reshape(*x.shape[:2], -1)
    y = jnp.einsum("oc,ncp->onp", w.reshape(w.shape[:2]), rows, precision=precision(x.dtype))
    return jnp.moveaxis(y, 0, 1).reshape(x.shape[0], w.shape[0], *x.shape[2:])


def _flattened(x: Array, w: Array, stride: Shape, pads: Pads, stretch: Shape, dilation: Shape) -> Array:
    """A convolution of one dimension less: the first one is that of more examples, for each element of the kernel along
    it. If these are many, they become channels."""
    n, outer = x.shape[0], w.shape[0]
    size, *rest = _out_sizes(x, w, stride, pads, stretch, dilation)
    config = [(0, 0, 0)] * x.ndim
    config[2] = (*pads[0], stretch[0] - 1)
    x = lax.pad(x, jnp.zeros((), x.dtype), config)
    reach = (size - 1) * stride[0] + 1
    starts = [i * dilation[0] for i in range(pinned(w.shape[2]))]
    parts = [jnp.moveaxis(lax.slice_in_dim(x, at, at + reach, stride[0], axis=2), 2, 1) for at in starts]
    if rest and len(parts) <= _FEW_TAPS:
        rows = [part.reshape(n * size, *part.shape[2:]) for part in parts]
        terms = [
            _lax(row, w[:, :, i], stride[1:], pads[1:], stretch[1:], dilation[1:], 1) for i, row in enumerate(rows)
        ]
        y = functools.reduce(lax.add, terms)
    else:
        together = jnp.stack(parts, 3).reshape(n * size, -1, *parts[0].shape[3:])
        w = w.reshape(outer, -1, *w.shape[3:])
        if rest:
            y = _lax(together, w, stride[1:], pads[1:], stretch[1:], dilation[1:], 1)
        else:
            y = jnp.matmul(together, w.T, precision=precision(x.dtype))
    return jnp.moveaxis(y.reshape(n, size, outer, *rest), 1, 2)


def _lax(x: Array, w: Array, stride: Shape, pads: Pads, stretch: Shape, dilation: Shape, groups: int) -> Array:
    y = lax.conv_general_dilated(
        unsplit(x, 2),
        unsplit(w, 2),
        stride,
        pads,
        lhs_dilation=stretch,
        rhs_dilation=dilation,
        feature_group_count=groups,
        precision=None if is_complex(x) else precision(x.dtype),
    )
    return unsplit(y, 2)


def _out_sizes(x: Array, w: Array, stride: Shape, pads: Pads, stretch: Shape, dilation: Shape) -> list[int]:
    return [
        (max(0, (n - 1) * e + 1) + lo + hi - d * (m - 1) - 1) // s + 1
        for n, m, s, (lo, hi), e, d in zip(x.shape[2:], w.shape[2:], stride, pads, stretch, dilation)
    ]


def _taps(x: Array, w: Array, stride: Shape, pads: Pads, stretch: Shape, dilation: Shape) -> list[tuple[Shape, Array]]:
    """For each kernel element, its index and the input that it multiplies."""
    sizes = _out_sizes(x, w, stride, pads, stretch, dilation)
    config = [(0, 0, 0), (0, 0, 0)] + [(lo, hi, e - 1) for (lo, hi), e in zip(pads, stretch)]
    if any(c != (0, 0, 0) for c in config):
        x = lax.pad(x, jnp.zeros((), x.dtype), config)
    taps = []
    for at in np.ndindex(*map(pinned, w.shape[2:])):
        start = (0, 0, *(i * d for i, d in zip(at, dilation)))
        stop = x.shape[:2] + tuple(b + (n - 1) * s + 1 for b, n, s in zip(start[2:], sizes, stride))
        taps.append((at, lax.slice(x, start, stop, (1, 1, *stride))))
    return taps


def _depthwise(x: Array, w: Array, stride: Shape, pads: Pads, stretch: Shape, dilation: Shape, groups: int) -> Array:
    many = w.shape[0] // groups
    if many > 1:
        x = jnp.repeat(x, many, axis=1)
    k = w.ndim - 2
    out: Any = None
    for at, part in _taps(x, w, stride, pads, stretch, dilation):
        scale = lax.slice(w, (0, 0, *at), (w.shape[0], 1, *(i + 1 for i in at)))
        term = part * scale.reshape(1, w.shape[0], *(1,) * k)
        out = term if out is None else out + term
    return out


def _batched(x: Array, w: Array, stride: Shape, pads: Pads, stretch: Shape, dilation: Shape, groups: int) -> Array:
    """A convolution with many groups: patches laid out as columns, and a matrix product for each group."""
    n, outer = x.shape[0], w.shape[0]
    sizes = _out_sizes(x, w, stride, pads, stretch, dilation)
    parts = [part for _, part in _taps(jnp.swapaxes(x, 0, 1), w, stride, pads, stretch, dilation)]
    rows = w.shape[1] * len(parts)
    cols = jnp.stack(parts, axis=1).reshape(groups, rows, n * math.prod(sizes))
    y = jnp.matmul(w.reshape(groups, outer // groups, rows), cols, precision=precision(x.dtype))
    return jnp.swapaxes(y.reshape(outer, n, *sizes), 0, 1)


@op(node="ConvTbcBackward0", method=False)
def conv_tbc(input: Array, weight: Array, bias: Array, pad: int = 0) -> Array:
    """1-D convolution over (time, batch, channels); `weight` is (kernel, in, out)."""
    if input.ndim != 3:
        raise RuntimeError("Input must have 3 dims: time, batch, in_channel")
    if weight.ndim != 3:
        raise RuntimeError("Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.")
    if bias.ndim != 1:
        raise RuntimeError("Bias must be 1-D")
    if input.shape[2] != weight.shape[1]:
        raise RuntimeError("Input dim 2 (input channels) is not == dim 1 in the weight tensor")
    if weight.shape[2] != bias.shape[0]:
        raise RuntimeError("Bias size must equal dim 2 in the weight tensor (output channels).")
    x, w = jnp.transpose(input, (1, 2, 0)), jnp.transpose(weight, (2, 1, 0))
    y = _convolve(x, w, (1,), [(pad, pad)], (1,), (1,), 1)
    return jnp.transpose(y, (2, 0, 1)) + bias[None, None, :]
