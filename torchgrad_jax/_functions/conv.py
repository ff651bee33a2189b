"""Convolutions under their public names: strings for padding, unbatched inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._engine.bind import NAMESPACES, as_ints, composite, ops
from .._engine.tensor import Tensor
from .arguments import no_match

_Ints = int | Sequence[int]


def _shared(fn: Callable[..., Any]) -> Callable[..., Any]:
    """One function in torch and in nn.functional."""
    public = composite(fn, method=False)
    NAMESPACES.setdefault("nn.functional", {})[fn.__name__] = public
    return public


def _expanded(value: Any, k: int) -> tuple[int, ...] | None:
    ints = (value,) if value.__class__ is int else as_ints(value)
    return ints * k if ints is not None and len(ints) == 1 else ints


def _each(value: Any, k: int) -> Any:
    return (value,) * k if value.__class__ is int else value


def _check_tensors(name: str, k: int, input: Any, weight: Any) -> None:
    if not isinstance(input, Tensor) or not isinstance(weight, Tensor):
        head = "(Tensor input, Tensor weight, Tensor bias = None, tuple of ints stride = 1, "
        tails = (
            ["tuple of ints padding = 0, tuple of ints output_padding = 0, int groups = 1, tuple of ints dilation = 1)"]
            if "transpose" in name else
            [f"{padding}, tuple of ints dilation = 1, int groups = 1)" for padding in ("tuple of ints padding = 0", 'str padding = "valid"')]
        )  # fmt: skip
        raise no_match(name, (input, weight), {}, *((head + tail)[1:-1] for tail in tails))


def _batched(name: str, input: Tensor, weight: Tensor, k: int) -> tuple[Tensor, bool]:
    _check_tensors(name, k, input, weight)
    ndim = input._m.ndim
    if ndim not in (k + 1, k + 2):
        raise RuntimeError(
            f"Expected {k + 1}D (unbatched) or {k + 2}D (batched) input to {name}, but got input of size: "
            f"{list(input._m.shape)}"
        )
    return (input, True) if ndim == k + 2 else (ops.unsqueeze(input, 0), False)


def _same(x: Tensor, weight: Tensor, stride: Any, dilation: Any, k: int) -> tuple[Tensor, tuple[int, ...]]:
    """The padding that keeps the size; the odd element that is left over goes to the right."""
    if any(s != 1 for s in _expanded(stride, k) or ()):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    total = [d * (n - 1) for d, n in zip(_expanded(dilation, k) or (), weight._m.shape[2:])]
    if any(t % 2 for t in total):
        x = ops.constant_pad_nd(x, tuple(p for t in reversed(total) for p in (0, t % 2)), 0)
    return x, tuple(t // 2 for t in total)


def _conv(
    name: str, k: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: _Ints, padding: _Ints | str,
    dilation: _Ints, groups: int,
) -> Tensor:  # fmt: skip
    x, batched = _batched(name, input, weight, k)
    if isinstance(padding, str):
        if padding == "same":
            x, padding = _same(x, weight, stride, dilation, k)
        elif padding == "valid":
            padding = 0
        else:
            raise RuntimeError(f"Invalid padding string: '{padding}'")
    stride, padding, dilation = (_each(v, k) for v in (stride, padding, dilation))
    y = ops.convolution(x, weight, bias, stride, padding, dilation, False, _each(0, k), groups)
    return y if batched else ops.squeeze_dim(y, 0)


def _conv_transpose(
    name: str, k: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: _Ints, padding: _Ints,
    output_padding: _Ints, groups: int, dilation: _Ints,
) -> Tensor:  # fmt: skip
    if isinstance(padding, str):
        raise TypeError(f"{name}(): argument 'padding' must be tuple of ints, not str")
    x, batched = _batched(name, input, weight, k)
    stride, padding, output_padding, dilation = (_each(v, k) for v in (stride, padding, output_padding, dilation))
    y = ops.convolution(x, weight, bias, stride, padding, dilation, True, output_padding, groups)
    return y if batched else ops.squeeze_dim(y, 0)


@_shared
def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _Ints = 1,
    padding: _Ints | str = 0, dilation: _Ints = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation of (batch, channels, length) with (out, channels / groups, kernel)."""
    return _conv("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@_shared
def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _Ints = 1,
    padding: _Ints | str = 0, dilation: _Ints = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation over two spatial dimensions."""
    return _conv("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


@_shared
def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _Ints = 1,
    padding: _Ints | str = 0, dilation: _Ints = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation over three spatial dimensions."""
    return _conv("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


@_shared
def conv_transpose1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _Ints = 1, padding: _Ints = 0,
    output_padding: _Ints = 0, groups: int = 1, dilation: _Ints = 1,
) -> Tensor:  # fmt: skip
    """The gradient of `conv1d` with respect to its input, as a layer of its own."""
    return _conv_transpose(
        "conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


@_shared
def conv_transpose2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _Ints = 1, padding: _Ints = 0,
    output_padding: _Ints = 0, groups: int = 1, dilation: _Ints = 1,
) -> Tensor:  # fmt: skip
    """The gradient of `conv2d` with respect to its input, as a layer of its own."""
    return _conv_transpose(
        "conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


@_shared
def conv_transpose3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _Ints = 1, padding: _Ints = 0,
    output_padding: _Ints = 0, groups: int = 1, dilation: _Ints = 1,
) -> Tensor:  # fmt: skip
    """The gradient of `conv3d` with respect to its input, as a layer of its own."""
    return _conv_transpose(
        "conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


NAMESPACES.setdefault("nn.functional", {})["conv_tbc"] = ops.conv_tbc
