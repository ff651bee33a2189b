"""Pooling under its public names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .._core.arrays.dtypes import FLOATING, scalar_type_name
from .._core.arrays.formats import contiguous_format
from .._core.state import GRAD, MODES
from .._engine.entry.arguments import as_int, as_ints
from .._engine.entry.bind import NAMESPACES, composite, ops
from .._engine.graph.history import requires_grad_of
from .._engine.graph.views import as_strided_inplace
from .._engine.memory.tensor import Tensor
from .._engine.modes.belonging import is_batched

_functional = functools.partial(composite, method=False, namespace="nn.functional")
_top = functools.partial(composite, method=False)
_Ints = int | Sequence[int]


def _publish(fn: Callable[..., Any], name: str, doc: str = "", *, top: bool = False) -> None:
    """Register one of several functions that a loop makes."""
    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = doc or f"`{name.removesuffix('_with_indices')}` with the places of the maxima."
    (_top if top else _functional)(fn)


def _ints(value: Any) -> tuple[int, ...] | None:
    single = as_int(value)
    return (single,) if single is not None else as_ints(value)


# --- max ----------------------------------------------------------------------------------------


def _one(fn: str, name: str, value: Any) -> int:
    ints = _ints(value)
    if ints is None:
        raise TypeError(f"{fn}(): argument '{name}' must be tuple of ints, not {type(value).__name__}")
    if len(ints) != 1:
        ways = {
            "stride": "None, an int, list of ints, or tuple of ints",
            "padding": "an int, list of ints, or tuple of ints",
        }
        either = ways.get(name, "an int, list of ints or tuple of ints")
        raise RuntimeError(f"{fn}() {name} must be {either} of size 1 but got size {len(ints)}")
    return ints[0]


def _max_pool1d(
    input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> tuple[Tensor, Tensor]:
    """Maxima and their places. torch computes both with the kernel for images, which checks the arguments."""
    fn = "max_pool1d"
    _check_dims(fn, input)
    k = _single(fn, "kernel_size", kernel_size)
    s = k if stride is None or _ints(stride) == () else _single(fn, "stride", stride)
    p, d = _single(fn, "padding", padding), _single(fn, "dilation", dilation)
    wide = ops.unsqueeze(input, -2)
    y, at = ops.max_pool2d_with_indices(wide, (1, k), (1, s), (0, p), (1, d), ceil_mode)
    return ops.squeeze_dim(y, -2), ops.squeeze_dim(at, -2)


def _check_max_pool1d(
    input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> None:
    """The checks of torch's function that returns the maxima alone."""
    fn, m = "max_pool1d", input._m
    if m.ndim not in (2, 3) or 0 in m.shape[-2:]:
        raise RuntimeError(
            f"{fn}: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but "
            f"got:{list(m.shape)}"
        )
    k = _one(fn, "kernel_size", kernel_size)
    given = () if stride is None else _ints(stride)
    s = k if given == () else _one(fn, "stride", stride)
    p, d = _one(fn, "padding", padding), _one(fn, "dilation", dilation)
    for name, value in (("kernel_size", k), ("stride", s), ("dilation", d)):
        if value <= 0:
            raise RuntimeError(f"{fn}() {name} must be greater than zero, but got {value}")
    if p < 0:
        raise RuntimeError(f"{fn}() padding must be non-negative, but got {p}")
    if p > k // 2:
        raise RuntimeError(
            f"{fn}() padding should be at most half of kernel size, but got padding={p} and kernel_size={k}"
        )
    out = (m.shape[-1] + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)) // s + 1
    if out <= 0:
        raise RuntimeError(f"{fn}() Invalid computed output size: {out}")


def _without_indices(y: Tensor) -> Tensor:
    """The result of torch's kernel without gradients, which squeezes in place and returns no view."""
    out = ops.clone_contiguous(y)
    if y._m.ndim == 2:
        out._vc.version += 1
    return out


def _max_pool(
    k: int, input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Any:
    if k == 1:
        return _max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode)
    row = ops.max_pool2d_with_indices if k == 2 else ops.max_pool3d_with_indices
    return row(input, kernel_size, () if stride is None else stride, padding, dilation, ceil_mode)


def _declare_max(k: int) -> None:
    def max_pool(
        input: Tensor,
        kernel_size: _Ints,
        stride: _Ints | None = None,
        padding: _Ints = 0,
        dilation: _Ints = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        if k == 1 and not return_indices and input._m.dtype.category < FLOATING and not requires_grad_of(input):
            kind = scalar_type_name(input._m.dtype)
            raise NotImplementedError(f"\"max_pool1d_impl\" not implemented for '{kind}'")
        if k == 1 and not return_indices:
            _check_max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode)
        both = _max_pool(k, input, kernel_size, stride, padding, dilation, ceil_mode)
        if k == 1 and not return_indices and not (MODES.bits & GRAD and requires_grad_of(input)):
            return _without_indices(both[0])
        return both if return_indices else both[0]

    def with_indices(
        input: Tensor,
        kernel_size: _Ints,
        stride: _Ints | None = None,
        padding: _Ints = 0,
        dilation: _Ints = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        return _max_pool(k, input, kernel_size, stride, padding, dilation, ceil_mode)

    def top(
        input: Tensor,
        kernel_size: _Ints,
        stride: _Ints = (),
        padding: _Ints = 0,
        dilation: _Ints = 1,
        ceil_mode: bool = False,
    ) -> Tensor:
        return _max_pool(k, input, kernel_size, stride, padding, dilation, ceil_mode)[0]

    def top_with_indices(
        input: Tensor,
        kernel_size: _Ints,
        stride: _Ints = (),
        padding: _Ints = 0,
        dilation: _Ints = 1,
        ceil_mode: bool = False,
    ) -> Any:
        return _max_pool(k, input, kernel_size, stride, padding, dilation, ceil_mode)

    name = f"max_pool{k}d"
    doc = f"Maximum over {k}-D windows, optionally with the places of the maxima."
    _publish(max_pool, name, doc)
    _publish(with_indices, name + "_with_indices")
    _publish(top, name, f"Maximum over {k}-D windows.", top=True)
    if k == 1:
        _publish(top_with_indices, name + "_with_indices", top=True)


for _k in (1, 2, 3):
    _declare_max(_k)


# --- average ------------------------------------------------------------------------------------


def _single(fn: str, name: str, value: Any) -> int:
    ints = _ints(value)
    if ints is None:
        raise TypeError(f"{fn}(): argument '{name}' must be tuple of ints, not {type(value).__name__}")
    if len(ints) != 1:
        raise RuntimeError(f"{fn}() argument '{name}' should contain one int (got {len(ints)})")
    return ints[0]


def _check_dims(fn: str, input: Tensor) -> None:
    if input._m.ndim not in (2, 3):
        raise RuntimeError(
            f"Expected 2 to 3 dimensions, but got {input._m.ndim}-dimensional tensor for argument #1 'self' "
            f"(while checking arguments for {fn})"
        )


def avg_pool1d(
    input: Tensor,
    kernel_size: _Ints,
    stride: _Ints | None = None,
    padding: _Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Mean over 1-D windows."""
    fn = "avg_pool1d"
    _check_dims(fn, input)
    k = _single(fn, "kernel_size", kernel_size)
    s = k if stride is None or _ints(stride) == () else _single(fn, "stride", stride)
    p = _single(fn, "padding", padding)
    y = ops.avg_pool2d(ops.unsqueeze(input, -2), (1, k), (1, s), (0, p), ceil_mode, count_include_pad)
    return ops.squeeze_dim(y, -2)


def adaptive_avg_pool1d(input: Tensor, output_size: _Ints) -> Tensor:
    """Mean over as many windows as results are asked for."""
    _check_dims("adaptive_avg_pool1d", input)
    n = _single("adaptive_avg_pool1d", "output_size", output_size)
    return ops.squeeze_dim(_adaptive_avg(2, ops.unsqueeze(input, -2), (1, n)), -2)


NAMESPACES["nn.functional"]["avg_pool1d"] = _top(avg_pool1d)
NAMESPACES["nn.functional"]["adaptive_avg_pool1d"] = _top(adaptive_avg_pool1d)


def _with_defaults(value: Any, input: Tensor) -> Any:
    """The sizes, where None stands for the size of the input."""
    if value is None or as_int(value) is not None or not isinstance(value, list | tuple):
        return value
    shape = input._m.shape
    if len(shape) <= len(value):
        raise ValueError(f"Input dimension should be at least {len(value) + 1}")
    return tuple(shape[i - len(value)] if v is None else v for i, v in enumerate(value))


def _adaptive_avg(k: int, input: Tensor, size: Any) -> Tensor:
    sizes = _ints(size)
    if sizes is not None and len(sizes) == 1:
        sizes = sizes * k if as_int(size) is not None else sizes
    row = ops._adaptive_avg_pool2d if k == 2 else ops._adaptive_avg_pool3d
    m = input._m
    if sizes == (1,) * k and m.dtype.category >= FLOATING and m.ndim in (k + 1, k + 2) and 0 not in m.shape[-k:]:
        y = input.mean(tuple(range(-k, 0)), keepdim=True)
        if m.suggests is not contiguous_format and not is_batched(y):
            c = m.shape[1]
            as_strided_inplace(y, y._m.shape, (c, 1, *(c,) * k), None)
        return y
    return row(input, size if sizes is None else sizes)


@_functional
def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Mean over as many windows as results are asked for; None keeps a size."""
    return _adaptive_avg(2, input, _with_defaults(output_size, input))


@_functional
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Mean over as many windows as results are asked for; None keeps a size."""
    return _adaptive_avg(3, input, _with_defaults(output_size, input))


# --- adaptive max -------------------------------------------------------------------------------


def _adaptive_max(k: int, input: Tensor, output_size: Any) -> Any:
    if k == 1:
        _check_dims("adaptive_max_pool1d", input)
        n = _single("adaptive_max_pool1d", "output_size", output_size)
        y, at = ops.adaptive_max_pool2d(ops.unsqueeze(input, -2), (1, n))
        return ops.squeeze_dim(y, -2), ops.squeeze_dim(at, -2)
    size = _with_defaults(output_size, input)
    single = as_int(size)
    row = ops.adaptive_max_pool2d if k == 2 else ops.adaptive_max_pool3d
    return row(input, size if single is None else (single,) * k)


def _declare_adaptive_max(k: int) -> None:
    def adaptive(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        both = _adaptive_max(k, input, output_size)
        return both if return_indices else both[0]

    def with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        return _adaptive_max(k, input, output_size)

    name = f"adaptive_max_pool{k}d"
    _publish(adaptive, name, f"Maximum over as many {k}-D windows as results are asked for.")
    _publish(with_indices, name + "_with_indices")


for _k in (1, 2, 3):
    _declare_adaptive_max(_k)


@_top(name="adaptive_max_pool1d")
def _top_adaptive_max_pool1d(input: Tensor, output_size: _Ints) -> Any:
    """Maximum over as many 1-D windows as results are asked for, and their places."""
    return _adaptive_max(1, input, output_size)


# --- power average ------------------------------------------------------------------------------


def _lp_pool(k: int, input: Tensor, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool) -> Tensor:
    functional = NAMESPACES["nn.functional"]
    sizes = (kernel_size,) * k if as_int(kernel_size) is not None else tuple(kernel_size)
    if isinstance(norm_type, int | float) and abs(norm_type) == float("inf"):
        pool = functional[f"max_pool{k}d"]
        if norm_type > 0:
            return pool(input.abs(), kernel_size, stride, 0, 1, ceil_mode)
        return -pool(-input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    mean = functional[f"avg_pool{k}d"](input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    count = 1
    for n in sizes:
        count *= n
    # The root of a sum of powers has no derivative at 0; with relu it is 0 there.
    return (mean.sign() * ops.relu(mean.abs())).mul(count).pow(1.0 / norm_type)


def _declare_lp(k: int) -> None:
    def lp_pool(
        input: Tensor, norm_type: float, kernel_size: _Ints, stride: _Ints | None = None, ceil_mode: bool = False
    ) -> Tensor:
        return _lp_pool(k, input, norm_type, kernel_size, stride, ceil_mode)

    _publish(lp_pool, f"lp_pool{k}d", f"The root of the sum of powers over {k}-D windows.")


for _k in (1, 2, 3):
    _declare_lp(_k)


# --- unpooling ----------------------------------------------------------------------------------


def _unpooled_size(
    input: Tensor, kernel: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...], size: Any
) -> tuple[int, ...]:
    k = len(kernel)
    usual = [(n - 1) * s + w - 2 * p for n, s, w, p in zip(input._m.shape[-k:], stride, kernel, padding)]
    if size is None:
        out = usual
    else:
        out = list(size)
        if len(out) == k + 2:
            out = out[2:]
        if len(out) != k:
            raise ValueError(
                f"output_size should be a sequence containing {k} or {k + 2} elements, but it has a length "
                f"of '{len(out)}'"
            )
        shown = size if len(size) == k else size[2:]
        for d, (n, u, s) in enumerate(zip(out, usual, stride)):
            if not u - s < n < u + s:
                raise ValueError(f'invalid output_size "{shown}" (dim {d} must be between {u - s} and {u + s})')
    for d, n in enumerate(out):
        if n < 0:
            raise ValueError(
                f"max_unpooling: output_size must contain non-negative spatial dimensions, but got output_size[{d}]={n}"
            )
    return tuple(out)


def _unpool(
    k: int, input: Tensor, indices: Tensor, kernel_size: Any, stride: Any, padding: Any, output_size: Any
) -> Tensor:
    kernel, step, pad = (
        (v,) * k if as_int(v) is not None else tuple(v)
        for v in (kernel_size, kernel_size if stride is None else stride, padding)
    )
    if k == 1 and output_size is not None and as_int(output_size) is not None:
        output_size = (output_size,)
    size = _unpooled_size(input, kernel, step, pad, output_size)
    if k == 1:
        y = ops.max_unpool2d_rows(ops.unsqueeze(input, -1), ops.unsqueeze(indices, -1), (*size, 1))
        return ops.squeeze_dim(y, -1)
    if k == 2:
        return ops.max_unpool2d_rows(input, indices, size)
    return ops.max_unpool3d_rows(input, indices, size, step, pad)


def _declare_unpool(k: int) -> None:
    def max_unpool(
        input: Tensor,
        indices: Tensor,
        kernel_size: _Ints,
        stride: _Ints | None = None,
        padding: _Ints = 0,
        output_size: _Ints | None = None,
    ) -> Tensor:
        return _unpool(k, input, indices, kernel_size, stride, padding, output_size)

    doc = "Zeros with the maxima written back to the places that they came from."
    _publish(max_unpool, f"max_unpool{k}d", doc)


for _k in (1, 2, 3):
    _declare_unpool(_k)


# --- fractional max -----------------------------------------------------------------------------


def _fractional(
    k: int, input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Tensor | None
) -> Any:
    name = f"fractional_max_pool{k}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    m = input._m
    if m.ndim not in (k + 1, k + 2):
        raise RuntimeError(f"{name}(): Expected {k + 1}D or {k + 2}D tensor, but got: {list(m.shape)}")
    if output_size is None:
        ratios = tuple(output_ratio) if isinstance(output_ratio, list | tuple) else (output_ratio,) * k
        if len(ratios) > k:
            raise ValueError(f"{name} requires output_ratio to either be a single Int or tuple of Ints.")
        output_size = tuple(int(n * r) for n, r in zip(m.shape[-k:], ratios))
    if samples is None:
        from .._core.arrays.meta import meta
        from .._core.random import rng
        from .random import draw

        batch = 1 if m.ndim == k + 1 else m.shape[0]
        wanted = meta((batch, m.shape[-k - 1], k), m.dtype, m.device)
        samples = draw(wanted, lambda m: rng.uniform(m.shape, m.dtype.np))
    row = ops.fractional_max_pool2d_rows if k == 2 else ops.fractional_max_pool3d_rows
    return row(input, kernel_size, output_size, samples)


def _declare_fractional(k: int) -> None:
    def fractional(
        input: Tensor,
        kernel_size: _Ints,
        output_size: _Ints | None = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Any:
        both = _fractional(k, input, kernel_size, output_size, output_ratio, _random_samples)
        return both if return_indices else both[0]

    def with_indices(
        input: Tensor,
        kernel_size: _Ints,
        output_size: _Ints | None = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Any:
        return _fractional(k, input, kernel_size, output_size, output_ratio, _random_samples)

    name = f"fractional_max_pool{k}d"
    _publish(fractional, name, "Maximum over windows placed at random, for an output of any size.")
    _publish(with_indices, name + "_with_indices")


for _k in (2, 3):
    _declare_fractional(_k)
