"""Max, average, adaptive and fractional pooling, and max unpooling."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays.division import divide
from .._core.arrays.dtypes import BOOL, COMPLEX, INTEGRAL
from .._core.arrays.kernels import refuse, scalar_name, widen
from .._core.arrays.layouts import following
from .._core.errors import messages as errors
from .._core.errors.checks import fail_if, first_outside, outside
from .._core.host import forms_of_images
from .._core.jax.custom_jvp import NO_TANGENT, custom_jvp
from .._core.jax.sizes import decided, of_sizes, pinned
from .helpers import from_zero, is_bool, is_complex, is_float
from .inner import inner_op
from .registry import Array, Dims, NoGradient, op

Shape = tuple[int, ...]
Window = tuple[int, int, int, int, bool]  # size, stride, padding, dilation, ceil_mode

_WORDS = {1: "one int", 2: "two ints", 3: "three ints"}
_UNROLL = 32
"""Window sizes up to which a pooling is a chain of strided slices; longer ones are gathered."""


# --- arguments ----------------------------------------------------------------------------------


def _per_axis(name: str, what: str, value: Shape, k: int, omitted: bool = False) -> Shape:
    if len(value) not in (1, k):
        verb = "must be" if name == "avg_pool3d" else "must either be"
        verb = "must be either" if what == "dilation" else verb
        ways = "omitted, a single int" if omitted else "a single int"
        raise RuntimeError(f"{name}: {what} {verb} {ways}, or a tuple of {_WORDS[k]}")
    return tuple(value) * k if len(value) == 1 else tuple(value)


def _out_size(n: int, window: Window) -> int:
    """Output positions along an axis; a window that would start in the right padding is dropped."""
    size, stride, pad, dilation, ceil_mode = window
    span = n + 2 * pad - dilation * (size - 1) - 1
    out = (span + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (out - 1) * stride >= n + pad:
        out -= 1
    return out


def _windows(
    name: str, x: Array, k: int, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool
) -> list[Window]:
    """The window along each spatial axis, after torch's checks."""
    kernel = _per_axis(name, "kernel_size", kernel, k)
    stride = _per_axis(name, "stride", stride, k, omitted=True) if stride else kernel
    padding = _per_axis(name, "padding", padding, k)
    dilation = _per_axis(name, "dilation", dilation, k)
    if x.ndim not in (k + 1, k + 2):
        raise RuntimeError(f"non-empty {k + 1}D or {k + 2}D (batch mode) tensor expected for input")
    if any(s == 0 for s in stride):
        raise RuntimeError("stride should not be zero")
    if any(n <= 0 for n in kernel):
        shown = " ".join(f"k{a}: {n}" for a, n in zip("DHW"[3 - k :], kernel))
        raise RuntimeError(f"kernel size should be greater than zero, but got {shown}")
    if any(s < 0 for s in stride):
        shown = " ".join(f"d{a}: {n}" for a, n in zip("DHW"[3 - k :], stride))
        raise RuntimeError(f"stride should be greater than zero, but got {shown}")
    if any(d <= 0 for d in dilation):
        shown = " ".join(f"dilation{a}: {n}" for a, n in zip("THW"[3 - k :], dilation))
        raise RuntimeError(f"dilation should be greater than zero, but got {shown}")
    for p, n, d in zip(padding, kernel, dilation):
        if p < 0:
            raise RuntimeError(f"pad must be non-negative, but got pad: {p}")
        if p > ((n - 1) * d + 1) // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={p}, "
                f"kernel_size={n} and dilation={d}"
            )
    _check_filled(name, x, k)
    image = x.shape[-k:]
    if name == "avg_pool3d" and any(n + 2 * p < m for n, p, m in zip(image, padding, kernel)):
        sizes = " ".join(f"{a}: {n}" for a, n in zip("THW", image))
        kernels = " ".join(f"k{a}: {n}" for a, n in zip("THW", kernel))
        raise RuntimeError(f"input image ({sizes}) smaller than kernel size ({kernels})")
    windows = [(n, s, p, d, ceil_mode) for n, s, p, d in zip(kernel, stride, padding, dilation)]
    sizes = [_out_size(n, w) for n, w in zip(image, windows)]
    if any(n < 1 for n in sizes):
        c = x.shape[-k - 1]
        raise RuntimeError(
            f"Given input size: ({'x'.join(map(str, (c, *x.shape[-k:])))}). Calculated output size: "
            f"({'x'.join(map(str, (c, *sizes)))}). Output size is too small"
        )
    return windows


def _check_filled(name: str, x: Array, k: int) -> None:
    if k == 2 and 0 in x.shape[-3:]:
        raise RuntimeError(
            f"Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:{list(x.shape)}"
        )
    if k == 3 and 0 in x.shape[-4:]:
        label = "max_pool3d_with_indices_out_cpu_template" if "max" in name else name
        raise RuntimeError(
            f"{label}(): Expected input's non-batch dimensions to have positive length, but input has "
            f"a shape of {list(x.shape)} and non-batch dimension 0 has length zero!"
        )


def _refuse(name: str, x: Array, *, integers: bool = False, only_long: bool = False) -> None:
    """torch's complaint about dtypes that its kernel does not have."""
    bad = is_bool(x) or is_complex(x) or not (integers or only_long or is_float(x))
    if bad or (only_long and not is_float(x) and x.dtype != jnp.int64):
        kind = scalar_name(x)
        raise NotImplementedError(f"\"{name}\" not implemented for '{kind}'")


# --- windows along one axis ---------------------------------------------------------------------


def _slices(x: Array, axis: int, window: Window, out: int, fill: Array) -> list[Array]:
    """The j-th element of every window along `axis`, for each j."""
    size, stride, pad, dilation, _ = window
    after = max(0, (out - 1) * stride + (size - 1) * dilation + 1 - x.shape[axis] - pad)
    if pad or after:
        config = [(0, 0, 0)] * x.ndim
        config[axis] = (pad, after, 0)
        x = lax.pad(x, fill, config)
    stop = (out - 1) * stride + 1
    return [lax.slice_in_dim(x, j * dilation, j * dilation + stop, stride, axis=axis) for j in range(pinned(size))]


def _fixed_index(n: int, window: Window) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the elements of each window, real ones first, and which of them are real."""
    size, stride, pad, dilation, _ = window
    index = np.arange(_out_size(n, window))[:, None] * stride - pad + np.arange(size) * dilation
    valid = (index >= 0) & (index < n)
    order = np.argsort(~valid, axis=1, kind="stable")
    index, valid = (np.take_along_axis(a, order, 1) for a in (index, valid))
    return np.clip(index, 0, n - 1), valid


def _adaptive_index(n: int, out: int) -> tuple[np.ndarray, np.ndarray]:
    """The positions of `_fixed_index` for adaptive windows, which divide n positions among `out` results."""
    start = np.arange(out) * n // max(out, 1)
    stop = -(-(np.arange(out) + 1) * n // max(out, 1))
    index = start[:, None] + np.arange((stop - start).max(initial=1))
    return np.clip(index, 0, n - 1), index < stop[:, None]


def _along(values: Any, axis: int, ndim: int) -> Array:
    """A constant in a shape that broadcasts: its first axis is `axis`, and its others are those that follow."""
    return jnp.asarray(values.reshape((1,) * axis + values.shape + (1,) * (ndim - axis - values.ndim)))


def _gathered(x: Array, axis: int, index: np.ndarray) -> Array:
    """All windows along `axis` at once: the axis becomes (windows, elements)."""
    y = jnp.take(x, index.reshape(-1), axis=axis, mode="clip")
    return y.reshape(*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])


# --- max ----------------------------------------------------------------------------------------


def _lowest(dtype: np.dtype) -> Array:
    return jnp.array(-np.inf if is_float(dtype) else np.iinfo(dtype).min, dtype)


def _sliced_max(x: Array, at: Array | None, axis: int, step: int, window: Window) -> tuple[Array, Array]:
    """Maxima over short windows: torch keeps the first maximum, but the last NaN.

    A place of -1 marks padding, which any real element replaces even where all are -inf.
    """
    _, stride, pad, dilation, _ = window
    n = x.shape[axis]
    out = _out_size(n, window)
    parts = _slices(x, axis, window, out, _lowest(x.dtype))
    inner = None if at is None else _slices(at, axis, window, out, jnp.array(-1, at.dtype))
    best: Any = None
    place: Any = None
    for j, part in enumerate(parts):
        find, sizes = functools.partial(_places_of, pad, j * dilation), (stride, out, n, step)
        here = of_sizes(find, *sizes, shape=(out,), dtype=np.int32)
        if inner is None:
            where = jnp.broadcast_to(_along(here, axis, x.ndim), part.shape)
        else:
            inside = of_sizes(functools.partial(_places_or_0, find), *sizes, shape=(out,), dtype=np.int32)
            where = inner[j] + _along(inside, axis, x.ndim)
            if decided(functools.partial(_any_outside, find), *sizes):
                where = jnp.where(inner[j] < 0, inner[j], where)
        if best is None:
            best, place = part, where
            continue
        take = part > best
        if is_float(part):
            take = take | (part != part)
        if pad:
            take = take | (place < 0)
        best, place = jnp.where(take, part, best), jnp.where(take, where, place)
    return best, place


def _places_of(pad: int, offset: int, stride: int, out: int, n: int, step: int) -> np.ndarray:
    """The flat place of one element of each window, -1 in the padding."""
    pos = np.arange(out) * stride - pad + offset
    return np.where((pos >= 0) & (pos < n), pos * step, -1).astype(np.int32)


def _places_or_0(find: Callable[..., np.ndarray], *sizes: int) -> np.ndarray:
    return np.maximum(find(*sizes), 0)


def _any_outside(find: Callable[..., np.ndarray], *sizes: int) -> bool:
    return bool((find(*sizes) < 0).any())


def _gathered_max(
    x: Array, at: Array | None, axis: int, step: int, index: np.ndarray, valid: np.ndarray
) -> tuple[Array, Array]:
    """The maxima over windows that are given as lists of positions, with those outside of the padding first."""
    wide = _gathered(x, axis, index)
    if not valid.all():
        wide = jnp.where(_along(valid, axis, wide.ndim), wide, _lowest(x.dtype))
    place = jnp.broadcast_to(_along((index * step).astype(np.int32), axis, wide.ndim), wide.shape)
    if at is not None:
        place = place + _gathered(at, axis, index)
    axis += 1
    pos = lax.argmax(wide, axis, np.int32)  # the first NaN, if there is one
    if is_float(wide):
        nan = wide != wide
        last = wide.shape[axis] - 1 - lax.argmax(lax.rev(nan, (axis,)), axis, np.int32)
        pos = jnp.where(jnp.any(nan, axis=axis), last, pos)
    pos = jnp.expand_dims(pos, axis)
    best, place = (jnp.take_along_axis(a, pos, axis, mode="clip").squeeze(axis) for a in (wide, place))
    return best, place


def _max_places(x: Array, plans: Sequence[Window | int]) -> tuple[Array, Array]:
    """Maxima and their flat places in the pooled axes; an int in `plans` is an adaptive size.

    Axes are reduced from the last to the first, which keeps torch's row-major order among equals.
    """
    at: Any = None
    step = 1
    for axis, plan in zip(range(x.ndim - 1, -1, -1), reversed(plans)):
        n = x.shape[axis]
        if isinstance(plan, int) and plan and n % plan == 0:
            plan = (n // plan, n // plan, 0, 1, False)
        if isinstance(plan, int):
            x, at = _gathered_max(x, at, axis, step, *_adaptive_index(n, plan))
        elif plan[0] <= _UNROLL:
            x, at = _sliced_max(x, at, axis, step, plan)
        else:
            x, at = _gathered_max(x, at, axis, step, *_fixed_index(n, plan))
        step *= n
    return x, at.astype(jnp.int64)


def _take_places(x: Array, at: Array, k: int) -> Array:
    """The elements of the last k axes of x at flat places, which is the way that gradients of maxima take."""
    lead = at.shape[: at.ndim - k]
    planes, size = math.prod(lead), math.prod(x.shape[len(lead) :])
    flat = at.reshape(planes, math.prod(at.shape[len(lead) :])) + lax.broadcasted_iota(at.dtype, (planes, 1), 0) * size
    return x.reshape(-1).at[flat].get(mode="promise_in_bounds").reshape(at.shape)


def _with_places(fn: Callable[..., Any], k: int) -> Callable[..., Any]:
    """``fn(x, ...) -> (values, places)`` with the tangent of x picked at those places."""
    ruled = custom_jvp(fn, nondiff_argnums=(1,))

    @ruled.defjvp
    def jvp(rest: Any, primals: Any, tangents: Any) -> Any:
        y, at = ruled(*primals, rest)
        return (y, at), (_take_places(tangents[0], at, k), NO_TANGENT)

    return lambda x, rest: ruled(x, rest) if is_float(x) else fn(x, rest)


_MAX = {k: _with_places(_max_places, k) for k in (1, 2, 3)}


def _max_pool(
    name: str, x: Array, k: int, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool
) -> tuple[Array, Array]:
    windows = _windows(name, x, k, kernel, stride, padding, dilation, ceil_mode)
    _refuse(name, x, integers=True)
    return _MAX[k](x, tuple(windows))


@inner_op(
    node="MaxPool2DWithIndicesBackward0",
    no_gradient={NoGradient.ZEROS: ("input",)},
    nondiff=(1,),
    layout=following(),
    keeps=("input",),
    host=forms_of_images.largest_of_windows,
)
def max_pool2d_with_indices(
    input: Array,
    kernel_size: Dims,
    stride: Dims = (),
    padding: Dims = 0,  # type: ignore[assignment] - made tuples when called
    dilation: Dims = 1,  # type: ignore[assignment] - made tuples when called
    ceil_mode: bool = False,
) -> tuple[Array, Array]:
    return _max_pool("max_pool2d", input, 2, kernel_size, stride, padding, dilation, ceil_mode)


@inner_op(node="MaxPool2DWithIndicesBackwardBackward0", layout=following(1))
def _max_pool2d_with_indices_backward(input: Array, source: Array, indices: Array) -> Array:
    """A gradient of maxima, sent to where these were in `source`."""
    _refuse("max_pool2d_backward", input)
    planes, size = math.prod(source.shape[:-2]), math.prod(source.shape[-2:])
    at = indices.reshape(planes, -1)
    row = lax.broadcasted_iota(at.dtype, at.shape, 0)
    sent = jnp.zeros((planes, size), input.dtype).at[row, at].add(input.reshape(at.shape), mode="promise_in_bounds")
    return sent.reshape(source.shape)


@inner_op(
    node="MaxPool3DWithIndicesBackward0",
    no_gradient={NoGradient.ZEROS: ("input",)},
    nondiff=(1,),
    layout=following(),
    keeps=("input",),
)
def max_pool3d_with_indices(
    input: Array,
    kernel_size: Dims,
    stride: Dims = (),
    padding: Dims = 0,  # type: ignore[assignment] - made tuples when called
    dilation: Dims = 1,  # type: ignore[assignment] - made tuples when called
    ceil_mode: bool = False,
) -> tuple[Array, Array]:
    return _max_pool("max_pool3d", input, 3, kernel_size, stride, padding, dilation, ceil_mode)


def _adaptive_sizes(name: str, x: Array, k: int, size: Shape, colon: str) -> Shape:
    """The sizes of the results. torch looks at the channels of a batch, but not with `adaptive_avg_pool2d`."""
    if x.ndim not in (k + 1, k + 2):
        raise RuntimeError(f"{name}(): Expected {k + 1}D or {k + 2}D tensor, but got{colon} {list(x.shape)}")
    if len(size) != k:
        inner = "(): internal error: output_size.size()" if "max" in name else ": output_size"
        raise RuntimeError(f"{name}{inner} must be {k}")
    for axis in range(x.ndim - k if name == "adaptive_avg_pool2d" else 1, x.ndim):
        if x.shape[axis] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input "
                f"has sizes {list(x.shape)} with dimension {axis} being empty"
            )
    return tuple(size)


def _adaptive_max(name: str, x: Array, k: int, size: Shape) -> tuple[Array, Array]:
    size = _adaptive_sizes(name, x, k, size, ":")
    if any(n < 0 for n in size):
        shape = [*x.shape[:-k], *size]
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {shape}")
    _refuse(name, x)
    return _MAX[k](x, size)


@inner_op(
    node="AdaptiveMaxPool2DBackward0",
    no_gradient={NoGradient.ZEROS: ("input",)},
    nondiff=(1,),
    layout=following(),
    keeps=("input",),
)
def adaptive_max_pool2d(input: Array, output_size: Dims) -> tuple[Array, Array]:
    return _adaptive_max("adaptive_max_pool2d", input, 2, output_size)


@inner_op(node="AdaptiveMaxPool3DBackward0", no_gradient={NoGradient.ZEROS: ("input",)}, nondiff=(1,), keeps=("input",))
def adaptive_max_pool3d(input: Array, output_size: Dims) -> tuple[Array, Array]:
    return _adaptive_max("adaptive_max_pool3d", input, 3, output_size)


# --- average ------------------------------------------------------------------------------------


def _sum_axis(x: Array, axis: int, window: Window) -> Array:
    size, stride, pad, _, _ = window
    n, zero = x.shape[axis], jnp.zeros((), x.dtype)
    out = _out_size(n, window)
    if size <= 8:
        return functools.reduce(jnp.add, _slices(x, axis, window, out, zero))
    if size == stride and pad == 0 and out * size <= n:
        x = lax.slice_in_dim(x, 0, out * size, axis=axis)
        return jnp.sum(x.reshape(*x.shape[:axis], out, size, *x.shape[axis + 1 :]), axis=axis + 1, dtype=x.dtype)
    dims, strides, pads = [1] * x.ndim, [1] * x.ndim, [(0, 0)] * x.ndim
    dims[axis], strides[axis] = size, stride
    pads[axis] = (pad, (out - 1) * stride + size - n - pad)
    return lax.reduce_window(x, np.zeros((), x.dtype), lax.add, dims, strides, pads)


def _divide(total: Array, count: Callable[..., np.ndarray], sizes: Shape, shape: Shape, dtype: np.dtype) -> Array:
    """Sums over windows divided by how many elements each has (integers: towards zero)."""
    common = decided(functools.partial(_common, count), *sizes)
    if common is not None:
        divisor = jnp.full((), common, total.dtype)
    else:
        counts = of_sizes(count, *sizes, shape=shape, dtype=np.int64)
        divisor = jnp.asarray(counts.reshape((1,) * (total.ndim - len(shape)) + shape), total.dtype)
    return divide(from_zero(total), divisor).astype(dtype)


def _common(count: Callable[..., np.ndarray], *sizes: int) -> int | None:
    """Return what all numbers of a table are, if they are equal."""
    found = count(*sizes)
    return int(found.flat[0]) if found.size and (found == found.flat[0]).all() else None


def _avg_pool(
    name: str,
    x: Array,
    k: int,
    kernel: Shape,
    stride: Shape,
    padding: Shape,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Array:
    if divisor_override == 0 and x.ndim in (k + 1, k + 2):
        raise RuntimeError("divisor must be not zero")
    windows = _windows(name, x, k, kernel, stride, padding, (1,), ceil_mode)
    _refuse(name, x, only_long=True)
    total, image = widen(x), x.shape[x.ndim - k :]
    for axis, window in reversed(list(zip(range(x.ndim - k, x.ndim), windows))):
        total = _sum_axis(total, axis, window)
    if divisor_override is not None:
        return _divide(total, lambda: np.array(divisor_override), (), (), x.dtype)
    shape = tuple(_out_size(n, w) for n, w in zip(image, windows))
    return _divide(total, functools.partial(_counts, windows, count_include_pad), image, shape, x.dtype)


def _counts(windows: Sequence[Window], count_include_pad: bool, *image: int) -> np.ndarray:
    """Return how many elements each window has."""
    counts = []
    for n, window in zip(image, windows):
        size, step, pad, _, _ = window
        start = np.arange(_out_size(n, window)) * step - pad
        stop = np.minimum(start + size, n + pad)
        counts.append(stop - start if count_include_pad else np.minimum(stop, n) - np.maximum(start, 0))
    return functools.reduce(np.multiply.outer, counts)


@op(
    node="AvgPool2DBackward0",
    no_gradient={NoGradient.ZEROS: ("input",)},
    layout=following(),
    method=False,
    namespace="nn.functional",
    keeps=("input",),
)
def avg_pool2d(
    input: Array,
    kernel_size: Dims,
    stride: Dims | None = None,
    padding: Dims = 0,  # type: ignore[assignment] - made a tuple when called
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    if input.ndim < 3:
        raise IndexError(errors.dim_out_of_range(-3, input.ndim))
    return _avg_pool(
        "avg_pool2d", input, 2, kernel_size, stride or (), padding, ceil_mode, count_include_pad, divisor_override
    )


@op(
    node="AvgPool3DBackward0",
    no_gradient={NoGradient.ZEROS: ("input",)},
    method=False,
    namespace="nn.functional",
    keeps=("input",),
)
def avg_pool3d(
    input: Array,
    kernel_size: Dims,
    stride: Dims | None = None,
    padding: Dims = 0,  # type: ignore[assignment] - made a tuple when called
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    return _avg_pool(
        "avg_pool3d", input, 3, kernel_size, stride or (), padding, ceil_mode, count_include_pad, divisor_override
    )


def _adaptive_avg(x: Array, k: int, size: Shape) -> Array:
    total, image = widen(x), x.shape[x.ndim - k :]
    for axis, out in zip(range(x.ndim - k, x.ndim), size):
        n = x.shape[axis]
        if out and n % out == 0:
            total = _sum_axis(total, axis, (n // out, n // out, 0, 1, False))
            continue
        taps = decided(_adaptive_width, n, out)
        index = of_sizes(_adaptive_places, n, out, shape=(out, taps), dtype=np.int64)
        valid = of_sizes(_adaptive_valid, n, out, shape=(out, taps), dtype=bool)
        wide = _gathered(total, axis, index)
        wide = jnp.where(_along(valid, axis, wide.ndim), wide, jnp.zeros((), wide.dtype))
        total = jnp.sum(wide, axis=axis + 1, dtype=wide.dtype)
    return _divide(total, functools.partial(_adaptive_counts, k), (*image, *size), tuple(size), x.dtype)


def _adaptive_places(n: int, out: int) -> np.ndarray:
    return _adaptive_index(n, out)[0]


def _adaptive_valid(n: int, out: int) -> np.ndarray:
    return _adaptive_index(n, out)[1]


def _adaptive_width(n: int, out: int) -> int:
    return _adaptive_index(n, out)[0].shape[1]


def _adaptive_counts(k: int, *sizes: int) -> np.ndarray:
    """Return how many elements each window has; the sizes are those of the image, then those of the result."""
    return functools.reduce(np.multiply.outer, [_adaptive_valid(n, out).sum(1) for n, out in zip(sizes[:k], sizes[k:])])


def _adaptive_avg_pool(name: str, label: str, x: Array, k: int, size: Shape) -> Array:
    size = _adaptive_sizes(name, x, k, size, "")
    if any(n < 0 for n in size):
        shown = ", ".join(map(str, size))
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received {{{shown}}}"
        )
    _refuse(label, x)
    return _adaptive_avg(x, k, size)


@op(
    node="AdaptiveAvgPool2DBackward0",
    no_gradient={NoGradient.ZEROS: ("input",)},
    layout=following(),
    out=False,
    method=False,
    keeps=("input",),
)
def _adaptive_avg_pool2d(input: Array, output_size: Dims) -> Array:
    return _adaptive_avg_pool("adaptive_avg_pool2d", "adaptive_avg_pool2d", input, 2, output_size)


@op(
    node="AdaptiveAvgPool3DBackward0",
    no_gradient={NoGradient.ZEROS: ("input",)},
    out=False,
    method=False,
    keeps=("input",),
)
def _adaptive_avg_pool3d(input: Array, output_size: Dims) -> Array:
    return _adaptive_avg_pool("adaptive_avg_pool3d", "adaptive_avg_pool3d_cpu", input, 3, output_size)


# --- fractional max -----------------------------------------------------------------------------


def _fractional_starts(sample: Array, n: int, out: int, size: int) -> Array:
    """First position of each window, from one random number in [0, 1) per plane."""
    if out == 1:
        return jnp.full((*sample.shape, 1), n - size, jnp.int64)
    alpha = jnp.array((n - size) / (out - 1), sample.dtype)
    steps = jnp.arange(out - 1, dtype=sample.dtype).reshape((1,) * sample.ndim + (-1,))
    moved = ((steps + sample[..., None]) * alpha).astype(jnp.int64)
    start = moved - (sample[..., None] * alpha).astype(jnp.int64)
    last = jnp.full((*sample.shape, 1), n - size, jnp.int64)
    return jnp.concatenate([start, last], -1)


def _fractional_places(x: Array, rest: tuple[Array, Shape, Shape]) -> tuple[Array, Array]:
    sample, kernel, size = rest
    k = len(kernel)
    at: Any = None
    step = 1
    for d in range(k - 1, -1, -1):
        axis, n = x.ndim - k + d, x.shape[x.ndim - k + d]
        # torch reads (width, height) in two dimensions but (time, height, width) in three.
        start = _fractional_starts(sample[..., k - 1 - d if k == 2 else d], n, size[d], kernel[d])
        start = jnp.expand_dims(start, tuple(i for i in range(2, x.ndim) if i != axis))
        best: Any = None
        place: Any = None
        for j in range(kernel[d]):
            shape = (*x.shape[:axis], size[d], *x.shape[axis + 1 :])
            pos = jnp.broadcast_to(start + j, shape)
            part = jnp.take_along_axis(x, pos, axis, mode="clip")
            where = pos * step + (0 if at is None else jnp.take_along_axis(at, pos, axis, mode="clip"))
            take: Any = None if best is None else (part > best) | (part != part)
            best, place = (
                (part, where) if best is None else (jnp.where(take, part, best), jnp.where(take, where, place))
            )
        x, at, step = best, place, step * n
    return x, at


def _fractional(x: Array, kernel: Shape, size: Shape, samples: Array, k: int) -> tuple[Array, Array]:
    name = f"fractional_max_pool{k}d"
    if x.ndim not in (k + 1, k + 2):
        raise RuntimeError(f"{name}(): Expected {k + 1}D or {k + 2}D tensor, but got: {list(x.shape)}")
    if len(kernel) not in (1, k):
        raise RuntimeError(f"{name}: kernel_size must either be a single Int or tuple of Ints")
    if len(size) not in (1, k):
        raise RuntimeError(f"{name}: output_size must either be a single Int or tuple of Ints")
    refuse(x, f"{name}_out_frame", BOOL, INTEGRAL, COMPLEX)
    kernel = tuple(kernel) * k if len(kernel) == 1 else tuple(kernel)
    size = tuple(size) * k if len(size) == 1 else tuple(size)
    for word, n, m, out in zip(("time", "height", "width")[3 - k :], x.shape[-k:], kernel, size):
        if out + m - 1 > n:
            label = f"{name}_out" if k == 3 else name
            raise RuntimeError(f"{label}(): pool {word} {m} too large relative to input {word} {n}")
    batched = x.ndim == k + 2
    if samples.dtype != x.dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    y = x if batched else x[None]
    if samples.ndim != 3:
        raise RuntimeError(f"Expect _random_samples to have 3 dimensions got {samples.ndim}")
    if samples.shape[0] < y.shape[0]:
        raise RuntimeError("Expect _random_samples.size(0) no less then input batch size.")
    for dim, want, what in ((1, y.shape[1], "input channel size"), (2, k, str(k))):
        if samples.shape[dim] != want:
            raise RuntimeError(f"Expect _random_samples.size({dim}) equals to {what}; got {samples.shape[dim]}.")

    ruled = custom_jvp(lambda y, u: _fractional_places(y, (u, kernel, size)))

    @ruled.defjvp
    def jvp(primals: Any, tangents: Any) -> Any:  # the random samples have no gradient
        out, at = ruled(*primals)
        return (out, at), (_take_places(tangents[0], at, k), NO_TANGENT)

    out, at = ruled(y, samples[: y.shape[0]])
    return (out, at) if batched else (out[0], at[0])


@inner_op(
    node="FractionalMaxPool2DBackward0",
    no_gradient={NoGradient.REFUSED: ("random_samples",), NoGradient.ZEROS: ("input",)},
    nondiff=(1,),
    keeps=("input",),
)
def fractional_max_pool2d_rows(
    input: Array, kernel_size: Dims, output_size: Dims, random_samples: Array
) -> tuple[Array, Array]:
    return _fractional(input, kernel_size, output_size, random_samples, 2)


@inner_op(
    node="FractionalMaxPool3DBackward0",
    no_gradient={NoGradient.REFUSED: ("random_samples",), NoGradient.ZEROS: ("input",)},
    nondiff=(1,),
    keeps=("input",),
)
def fractional_max_pool3d_rows(
    input: Array, kernel_size: Dims, output_size: Dims, random_samples: Array
) -> tuple[Array, Array]:
    return _fractional(input, kernel_size, output_size, random_samples, 3)


# --- unpooling ----------------------------------------------------------------------------------


def _unpool(name: str, x: Array, indices: Array, size: Shape, k: int) -> Array:
    if indices.dtype != jnp.int64:
        but = f" but got: {scalar_name(indices)}" if k == 2 else ""
        raise RuntimeError(f"elements in indices should be type int64{but}")
    refuse(x, f"max_unpool{k}d", BOOL, INTEGRAL, COMPLEX)
    if len(size) != k:
        words = "two elements (height, width)" if k == 2 else "three elements (depth, height, width)"
        raise RuntimeError(f"There should be exactly {words} in output_size, but got {len(size)} elements.")
    if x.ndim not in (k + 1, k + 2):
        raise RuntimeError(
            f"Input to {name} should be a {k + 1}d or {k + 2}d Tensor, but got a tensor with {x.ndim} dimensions."
        )
    if x.shape != indices.shape:
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(x.shape)}) but "
            f"got indices tensor with shape: {list(indices.shape)}"
        )
    lead = x.shape[:-k]
    planes, volume = math.prod(lead), math.prod(size)
    flat = indices.reshape(planes, math.prod(x.shape[len(lead) :]))
    flat = flat + lax.broadcasted_iota(indices.dtype, (planes, 1), 0) * volume
    y = _scatter(x.reshape(-1), flat.reshape(-1), planes * volume)
    return y.reshape(*lead, *size)


@functools.partial(custom_jvp, nondiff_argnums=(2,))
def _scatter(x: Array, at: Array, size: int) -> Array:
    """A row of zeros into which x is written. Of two elements for one place one stays; torch keeps either."""
    return jnp.zeros((size,), x.dtype).at[at].set(x, mode="promise_in_bounds")


@_scatter.defjvp
def _scatter_jvp(size: int, primals: Any, tangents: Any) -> Any:
    # torch gives every source the gradient at its place, as if no place were written twice.
    x, at = primals
    t = jnp.zeros((size,), x.dtype).at[at].set(tangents[0], mode="promise_in_bounds", unique_indices=True)
    return _scatter(x, at, size), t


def _check_unpool(indices: Any, size: Sequence[int]) -> None:
    volume, shown = math.prod(size), "x".join(map(str, size))
    fail_if(
        outside(indices, volume),
        lambda: RuntimeError(
            f"Found an invalid max index: {first_outside(indices, volume)} (output volumes are of size {shown})"
        ),
    )


def _check_unpool2d(input: Any, indices: Any, output_size: Any) -> None:
    _check_unpool(indices, output_size)


def _check_unpool3d(input: Any, indices: Any, output_size: Any, stride: Any, padding: Any) -> None:
    _check_unpool(indices, output_size)


@inner_op(node="MaxUnpool2DBackward0", check=_check_unpool2d, layout=following())
def max_unpool2d_rows(input: Array, indices: Array, output_size: Dims) -> Array:
    return _unpool("max_unpooling2d", input, indices, output_size, 2)


@inner_op(node="MaxUnpool3DBackward0", check=_check_unpool3d)
def max_unpool3d_rows(input: Array, indices: Array, output_size: Dims, stride: Dims, padding: Dims) -> Array:
    if any(s <= 0 for s in stride):
        raise RuntimeError(f"strides should be greater than zero, but got stride: {list(stride)}")
    return _unpool("max_unpooling3d", input, indices, output_size, 3)
