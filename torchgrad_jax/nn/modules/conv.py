"""Convolutions and their transposes."""

from __future__ import annotations

import math
from typing import Any, Literal

from ..._engine.memory.tensor import Tensor
from ...autograd.grad_mode import no_grad
from .. import functional as F, init
from .._top import torch
from ..common_types import _size_any_t
from ..parameter import Parameter, UninitializedParameter
from ._parts import Named
from .lazy import LazyModuleMixin
from .module import Module
from .utils import _ntuple, _reverse_repeat_tuple, _single

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
]  # fmt: skip

_PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]
_PADDING_STRINGS = {"same", "valid"}
_PADDING_MODES = {"zeros", "reflect", "replicate", "circular"}


def _check(in_channels: int, out_channels: int, groups: int, padding: Any, stride: Any, mode: str) -> None:
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups != 0:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups != 0:
        raise ValueError("out_channels must be divisible by groups")
    if isinstance(padding, str):
        if padding not in _PADDING_STRINGS:
            raise ValueError(f"Invalid padding string {padding!r}, should be one of {_PADDING_STRINGS}")
        if padding == "same" and any(s != 1 for s in stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
    if mode not in _PADDING_MODES:
        raise ValueError(f"padding_mode must be one of {_PADDING_MODES}, but got padding_mode='{mode}'")


def _amounts(padding: Any, kernel_size: Any, dilation: Any) -> Any:
    """Padding as `F.pad` wants it: the last dimension first, both sides each."""
    if not isinstance(padding, str):
        return _reverse_repeat_tuple(padding, 2)
    out: list[int] = []
    for k, d in zip(reversed(kernel_size), reversed(dilation)):
        total = d * (k - 1) if padding == "same" else 0
        out += [total // 2, total - total // 2]
    return out


class _ConvNd(Module):
    """What all convolutions share: parameters, checks, initial values, repr."""

    __constants__ = [
        "stride",
        "padding",
        "dilation",
        "groups",
        "padding_mode",
        "output_padding",
        "in_channels",
        "out_channels",
        "kernel_size",
    ]
    in_channels: int
    _reversed_padding_repeated_twice: list[int]
    out_channels: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: Any
    dilation: tuple[int, ...]
    transposed: bool
    output_padding: tuple[int, ...]
    groups: int
    padding_mode: str
    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: Any,
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: _PaddingMode,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check(in_channels, out_channels, groups, padding, stride, padding_mode)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride = kernel_size, stride
        self.padding, self.dilation = padding, dilation
        self.transposed, self.output_padding = transposed, output_padding
        self.groups, self.padding_mode = groups, padding_mode
        self._reversed_padding_repeated_twice = _amounts(padding, kernel_size, dilation)
        kind = {"device": device, "dtype": dtype}
        first, second = in_channels, out_channels
        if not transposed:
            first, second = second, first
        self.weight = Parameter(torch.empty((first, second // groups, *kernel_size), **kind))
        self.register_parameter("bias", Parameter(torch.empty(out_channels, **kind)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values, uniform within one over the root of what an output depends on."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        """Sizes, and what differs from the default."""
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        n = len(self.kernel_size)
        for name, default in (("padding", 0), ("dilation", 1), ("output_padding", 0)):
            value = getattr(self, name)
            if value != (default,) * (len(value) if name == "padding" else n):
                text += f", {name}={value}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "padding_mode"):
            self.padding_mode = "zeros"


_ARGS = """

    Args:
        in_channels: number of channels of the input.
        out_channels: number of channels of the result.
        kernel_size: size of the kernel.
        stride: by how much the kernel moves.
        padding: how much is added on each side, or "same" or "valid".
        dilation: distance between the places that the kernel reads.
        groups: number of parts of the channels that do not mix.
        bias: whether there is a bias.
        padding_mode: what is added: "zeros", "reflect", "replicate" or "circular".
        device: where the parameters live.
        dtype: their dtype.
    """


class _Conv(Named, _ConvNd):
    """What `Conv1d` and the others are, which say over how many dimensions they go and what convolves."""

    _spatial_dims: int

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _size_any_t,
        stride: _size_any_t = 1,
        padding: str | _size_any_t = 0,
        dilation: _size_any_t = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: _PaddingMode = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        each = _ntuple(self._spatial_dims)
        sizes = each(kernel_size), each(stride), padding if isinstance(padding, str) else each(padding), each(dilation)
        super().__init__(in_channels, out_channels, *sizes, False, each(0), groups, bias, padding_mode, device, dtype)

    def _convolve(self, run: Any, input: Tensor, weight: Tensor, bias: Any) -> Tensor:
        """Run a convolution, padding before it where the mode is not "zeros"."""
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = (0,) * self._spatial_dims
        return run(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        raise NotImplementedError

    def forward(self, input: Tensor) -> Tensor:
        """Convolve."""
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    __doc__ = "Convolution over (batch, channels, length)." + _ARGS

    _spatial_dims = 1

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return self._convolve(F.conv1d, input, weight, bias)


class Conv2d(_Conv):
    __doc__ = "Convolution over (batch, channels, height, width)." + _ARGS

    _spatial_dims = 2

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return self._convolve(F.conv2d, input, weight, bias)


class Conv3d(_Conv):
    __doc__ = "Convolution over (batch, channels, depth, height, width)." + _ARGS

    _spatial_dims = 3

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return self._convolve(F.conv3d, input, weight, bias)


# --- transposed -----------------------------------------------------------------------------------


class _ConvTransposeNd(_ConvNd):
    def _output_padding(
        self,
        input: Any,
        output_size: Any,
        stride: Any,
        padding: Any,
        kernel_size: Any,
        num_spatial_dims: int,
        dilation: Any = None,
    ) -> Any:
        """By how much the result is longer than the shortest that fits, as `output_size` asks."""
        if output_size is None:
            return _single(self.output_padding)
        n = num_spatial_dims
        lead = 2 if input.dim() == n + 2 else 1
        if len(output_size) == lead + n:
            output_size = output_size[lead:]
        if len(output_size) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or {lead + n} elements "
                f"(got {len(output_size)})"
            )
        dilation = (1,) * n if dilation is None else dilation
        shortest = [
            (size - 1) * s - 2 * p + d * (k - 1) + 1
            for size, s, p, d, k in zip(input.shape[lead:], stride, padding, dilation, kernel_size)
        ]
        longest = [size + s - 1 for size, s in zip(shortest, stride)]
        for size, low, high in zip(output_size, shortest, longest):
            if not low <= size <= high:
                raise ValueError(
                    f"requested an output size of {output_size}, but valid sizes range from {shortest} to {longest} "
                    f"(for an input of {input.size()[2:]})"
                )
        return [size - low for size, low in zip(output_size, shortest)]


_TRANSPOSED_ARGS = """

    Args:
        in_channels: number of channels of the input.
        out_channels: number of channels of the result.
        kernel_size: size of the kernel.
        stride: by how much the kernel moves.
        padding: how much is cut off on each side of the result.
        output_padding: how much is added on one side of the result.
        groups: number of parts of the channels that do not mix.
        bias: whether there is a bias.
        dilation: distance between the places that the kernel writes.
        padding_mode: "zeros".
        device: where the parameters live.
        dtype: their dtype.
    """


class _ConvTranspose(Named, _ConvTransposeNd):
    """What `ConvTranspose1d` and the others are, which say over how many dimensions they go and what convolves."""

    _spatial_dims: int

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _size_any_t,
        stride: _size_any_t = 1,
        padding: _size_any_t = 0,
        output_padding: _size_any_t = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: _size_any_t = 1,
        padding_mode: _PaddingMode = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        each = _ntuple(self._spatial_dims)
        sizes = each(kernel_size), each(stride), each(padding), each(dilation)
        extra = each(output_padding)
        super().__init__(in_channels, out_channels, *sizes, True, extra, groups, bias, padding_mode, device, dtype)

    def _transpose(self, run: Any, input: Tensor, output_size: Any) -> Tensor:
        n = self._spatial_dims
        if self.padding_mode != "zeros":
            raise ValueError(f"Only `zeros` padding mode is supported for ConvTranspose{n}d")
        if not isinstance(self.padding, tuple):
            raise AssertionError("self.padding must be a tuple")
        extra = self._output_padding(input, output_size, self.stride, self.padding, self.kernel_size, n, self.dilation)
        return run(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)


class ConvTranspose1d(_ConvTranspose):
    __doc__ = "Transposed convolution over (batch, channels, length)." + _TRANSPOSED_ARGS

    _spatial_dims = 1

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        """Apply it; `output_size` chooses among the sizes that fit."""
        return self._transpose(F.conv_transpose1d, input, output_size)


class ConvTranspose2d(_ConvTranspose):
    __doc__ = "Transposed convolution over (batch, channels, height, width)." + _TRANSPOSED_ARGS

    _spatial_dims = 2

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        """Apply it; `output_size` chooses among the sizes that fit."""
        return self._transpose(F.conv_transpose2d, input, output_size)


class ConvTranspose3d(_ConvTranspose):
    __doc__ = "Transposed convolution over (batch, channels, depth, height, width)." + _TRANSPOSED_ARGS

    _spatial_dims = 3

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        """Apply it; `output_size` chooses among the sizes that fit."""
        return self._transpose(F.conv_transpose3d, input, output_size)


# --- lazy -----------------------------------------------------------------------------------------


class _LazyConvXdMixin(LazyModuleMixin):
    """Takes the number of input channels from the first input."""

    groups: int
    transposed: bool
    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    weight: Any
    bias: Any

    def _make_lazy(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new initial values, once the shapes are known."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Take the number of channels from the input."""
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        first, second = self.in_channels, self.out_channels
        if not self.transposed:
            first, second = second, first
        with no_grad():
            self.weight.materialize((first, second // self.groups, *self.kernel_size))
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()

    def _get_in_channels(self, input: Any) -> int:
        n = self._get_num_spatial_dims()
        if input.dim() not in (n + 1, n + 2):
            raise RuntimeError(
                f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {type(self).__name__}, but got input of "
                f"size: {input.shape}"
            )
        return input.shape[1] if input.dim() == n + 2 else input.shape[0]

    def _get_num_spatial_dims(self) -> int:
        return len(self.kernel_size)


_LAZY = " that takes the number of input channels from its first input; see there for the arguments."


class _LazyConv(Named, _LazyConvXdMixin):
    def __init__(
        self,
        out_channels: int,
        kernel_size: _size_any_t,
        stride: _size_any_t = 1,
        padding: str | _size_any_t = 0,
        dilation: _size_any_t = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: _PaddingMode = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype)
        self._make_lazy(out_channels, bias, device, dtype)


class _LazyConvTranspose(Named, _LazyConvXdMixin):
    def __init__(
        self,
        out_channels: int,
        kernel_size: _size_any_t,
        stride: _size_any_t = 1,
        padding: _size_any_t = 0,
        output_padding: _size_any_t = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: _size_any_t = 1,
        padding_mode: _PaddingMode = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode, device, dtype
        )
        self._make_lazy(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv, Conv1d):
    __doc__ = "A `Conv1d`" + _LAZY

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    __doc__ = "A `Conv2d`" + _LAZY

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    __doc__ = "A `Conv3d`" + _LAZY

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    __doc__ = "A `ConvTranspose1d`" + _LAZY

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    __doc__ = "A `ConvTranspose2d`" + _LAZY

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    __doc__ = "A `ConvTranspose3d`" + _LAZY

    cls_to_become = ConvTranspose3d
