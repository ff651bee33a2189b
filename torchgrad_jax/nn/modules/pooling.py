"""Pooling over windows."""

from __future__ import annotations

from typing import Any

from ..._engine.memory.tensor import Tensor
from .. import functional as F
from ..common_types import _ratio_any_t, _size_1_t, _size_any_opt_t, _size_any_t
from ._parts import Named
from .module import Module
from .utils import _ntuple, _single

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "FractionalMaxPool2d", "FractionalMaxPool3d",
    "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d",
    "MaxUnpool3d",
]  # fmt: skip


# --- maxima ---------------------------------------------------------------------------------------


class _MaxPoolNd(Module):
    __constants__ = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]
    kernel_size: Any
    stride: Any
    padding: Any
    dilation: Any
    return_indices: bool
    ceil_mode: bool

    def __init__(
        self,
        kernel_size: _size_any_t,
        stride: _size_any_t | None = None,
        padding: _size_any_t = 0,
        dilation: _size_any_t = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def extra_repr(self) -> str:
        """Its arguments."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )

    def _pool(self, run: Any, input: Tensor) -> Any:
        sizes = self.kernel_size, self.stride, self.padding, self.dilation
        return run(input, *sizes, ceil_mode=self.ceil_mode, return_indices=self.return_indices)


_MAX_ARGS = """

    Args:
        kernel_size: size of the windows.
        stride: by how much they move; by default their size.
        padding: how much is added on each side.
        dilation: distance between the elements of a window.
        return_indices: whether the places of the maxima are returned too.
        ceil_mode: whether windows may reach beyond the edge.
    """


class MaxPool1d(_MaxPoolNd):
    __doc__ = "Maximum over 1-D windows." + _MAX_ARGS

    def forward(self, input: Tensor) -> Any:
        """Pool."""
        return self._pool(F.max_pool1d, input)


class MaxPool2d(_MaxPoolNd):
    __doc__ = "Maximum over 2-D windows." + _MAX_ARGS

    def forward(self, input: Tensor) -> Any:
        """Pool."""
        return self._pool(F.max_pool2d, input)


class MaxPool3d(_MaxPoolNd):
    __doc__ = "Maximum over 3-D windows." + _MAX_ARGS

    def forward(self, input: Tensor) -> Any:
        """Pool."""
        return self._pool(F.max_pool3d, input)


class _MaxUnpoolNd(Module):
    kernel_size: Any
    stride: Any
    padding: Any

    def extra_repr(self) -> str:
        """Its arguments."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _MaxUnpool(Named, _MaxUnpoolNd):
    _spatial_dims: int

    def __init__(self, kernel_size: _size_any_t, stride: _size_any_t | None = None, padding: _size_any_t = 0) -> None:
        super().__init__()
        each = _ntuple(self._spatial_dims)
        self.kernel_size = each(kernel_size)
        self.stride = each(stride if stride is not None else kernel_size)
        self.padding = each(padding)


_UNPOOL_ARGS = """

    Args:
        kernel_size: size of the windows that were pooled.
        stride: by how much they moved; by default their size.
        padding: how much had been added on each side.
    """


class MaxUnpool1d(_MaxUnpool):
    __doc__ = "Puts maxima over 1-D windows back to where they came from." + _UNPOOL_ARGS

    _spatial_dims = 1

    def forward(self, input: Tensor, indices: Tensor, output_size: list[int] | None = None) -> Tensor:
        """Unpool."""
        return F.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool2d(_MaxUnpool):
    __doc__ = "Puts maxima over 2-D windows back to where they came from." + _UNPOOL_ARGS

    _spatial_dims = 2

    def forward(self, input: Tensor, indices: Tensor, output_size: list[int] | None = None) -> Tensor:
        """Unpool."""
        return F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool3d(_MaxUnpool):
    __doc__ = "Puts maxima over 3-D windows back to where they came from." + _UNPOOL_ARGS

    _spatial_dims = 3

    def forward(self, input: Tensor, indices: Tensor, output_size: list[int] | None = None) -> Tensor:
        """Unpool."""
        return F.max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


# --- means ----------------------------------------------------------------------------------------


class _AvgPoolNd(Module):
    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]
    kernel_size: Any
    stride: Any
    padding: Any
    ceil_mode: bool
    count_include_pad: bool

    def extra_repr(self) -> str:
        """Its arguments."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


_AVG_ARGS = """

    Args:
        kernel_size: size of the windows.
        stride: by how much they move; by default their size.
        padding: how much is added on each side.
        ceil_mode: whether windows may reach beyond the edge.
        count_include_pad: whether what was added counts as elements.
    """
_AVG_DIVISOR_ARGS = _AVG_ARGS.rstrip() + "\n        divisor_override: what sums are divided by instead.\n    "


class AvgPool1d(_AvgPoolNd):
    __doc__ = "Mean over 1-D windows." + _AVG_ARGS

    def __init__(
        self,
        kernel_size: _size_1_t,
        stride: Any = None,
        padding: _size_1_t = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(stride if stride is not None else kernel_size)
        self.padding = _single(padding)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """Pool."""
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class _AvgPoolDivisor(Named, _AvgPoolNd):
    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"]

    def __init__(
        self,
        kernel_size: _size_any_t,
        stride: _size_any_t | None = None,
        padding: _size_any_t = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def _pool(self, run: Any, input: Tensor) -> Tensor:
        sizes = self.kernel_size, self.stride, self.padding
        return run(input, *sizes, self.ceil_mode, self.count_include_pad, self.divisor_override)


class AvgPool2d(_AvgPoolDivisor):
    __doc__ = "Mean over 2-D windows." + _AVG_DIVISOR_ARGS

    def forward(self, input: Tensor) -> Tensor:
        """Pool."""
        return self._pool(F.avg_pool2d, input)


class AvgPool3d(_AvgPoolDivisor):
    __doc__ = "Mean over 3-D windows." + _AVG_DIVISOR_ARGS

    def forward(self, input: Tensor) -> Tensor:
        """Pool."""
        return self._pool(F.avg_pool3d, input)

    def __setstate__(self, d: dict[str, Any]) -> None:
        super().__setstate__(d)
        for name, value in (("padding", 0), ("ceil_mode", False), ("count_include_pad", True)):
            self.__dict__.setdefault(name, value)


# --- fractional -----------------------------------------------------------------------------------


class _FractionalMaxPoolNd(Named, Module):
    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]
    kernel_size: Any
    return_indices: bool
    output_size: Any
    output_ratio: Any
    _random_samples: Any
    _spatial_dims: int

    def __init__(
        self,
        kernel_size: _size_any_t,
        output_size: _size_any_t | None = None,
        output_ratio: _ratio_any_t | None = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:
        super().__init__()
        self._check_kernel_size(kernel_size)
        each = _ntuple(self._spatial_dims)
        self.kernel_size = each(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = each(output_size) if output_size is not None else None
        self.output_ratio = each(output_ratio) if output_ratio is not None else None
        name = type(self).__name__
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def _check_kernel_size(self, kernel_size: Any) -> None:
        """Nothing to check, unless a subclass does."""

    def _pool(self, run: Any, input: Tensor) -> Any:
        sizes = self.kernel_size, self.output_size, self.output_ratio
        return run(input, *sizes, self.return_indices, _random_samples=self._random_samples)


_FRACTIONAL_ARGS = """

    Args:
        kernel_size: size of the windows.
        output_size: size of the result.
        output_ratio: or its size as a part of the input's.
        return_indices: whether the places of the maxima are returned too.
    """


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    __doc__ = "Maximum over 2-D windows at random places." + _FRACTIONAL_ARGS

    _spatial_dims = 2

    def forward(self, input: Tensor) -> Any:
        """Pool."""
        return self._pool(F.fractional_max_pool2d, input)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    __doc__ = "Maximum over 3-D windows at random places." + _FRACTIONAL_ARGS

    _spatial_dims = 3

    def _check_kernel_size(self, kernel_size: Any) -> None:
        sizes = kernel_size if isinstance(kernel_size, tuple | list) else (kernel_size,)
        if not all(k > 0 for k in sizes):
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")

    def forward(self, input: Tensor) -> Any:
        """Pool."""
        return self._pool(F.fractional_max_pool3d, input)


# --- norms ----------------------------------------------------------------------------------------


class _LPPoolNd(Module):
    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]
    norm_type: float
    kernel_size: Any
    stride: Any
    ceil_mode: bool

    def __init__(
        self, norm_type: float, kernel_size: _size_any_t, stride: _size_any_t | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type, self.kernel_size = norm_type, kernel_size
        self.stride, self.ceil_mode = stride, ceil_mode

    def extra_repr(self) -> str:
        """Its arguments."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )

    def _pool(self, run: Any, input: Tensor) -> Tensor:
        return run(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


_LP_ARGS = """

    Args:
        norm_type: which power.
        kernel_size: size of the windows.
        stride: by how much they move; by default their size.
        ceil_mode: whether windows may reach beyond the edge.
    """


class LPPool1d(_LPPoolNd):
    __doc__ = "The root of the sum of powers over 1-D windows." + _LP_ARGS

    def forward(self, input: Tensor) -> Tensor:
        """Pool."""
        return self._pool(F.lp_pool1d, input)


class LPPool2d(_LPPoolNd):
    __doc__ = "The root of the sum of powers over 2-D windows." + _LP_ARGS

    def forward(self, input: Tensor) -> Tensor:
        """Pool."""
        return self._pool(F.lp_pool2d, input)


class LPPool3d(_LPPoolNd):
    __doc__ = "The root of the sum of powers over 3-D windows." + _LP_ARGS

    def forward(self, input: Tensor) -> Tensor:
        """Pool."""
        return self._pool(F.lp_pool3d, input)


# --- adaptive -------------------------------------------------------------------------------------


class _AdaptiveMaxPoolNd(Module):
    __constants__ = ["output_size", "return_indices"]
    output_size: Any
    return_indices: bool

    def __init__(self, output_size: _size_any_opt_t, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def extra_repr(self) -> str:
        """The size of the result."""
        return f"output_size={self.output_size}"


_ADAPTIVE_ARGS = """

    Args:
        output_size: size of the result; None keeps a dimension's own.
    """
_ADAPTIVE_MAX_ARGS = (
    _ADAPTIVE_ARGS.rstrip() + "\n        return_indices: whether the places of the maxima are returned too.\n    "
)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    __doc__ = "Maximum over as many 1-D windows as asked for." + _ADAPTIVE_MAX_ARGS

    def forward(self, input: Tensor) -> Any:
        """Pool."""
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)  # type: ignore[arg-type]


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    __doc__ = "Maximum over as many 2-D windows as asked for." + _ADAPTIVE_MAX_ARGS

    def forward(self, input: Tensor) -> Any:
        """Pool."""
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)  # type: ignore[arg-type]


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    __doc__ = "Maximum over as many 3-D windows as asked for." + _ADAPTIVE_MAX_ARGS

    def forward(self, input: Tensor) -> Any:
        """Pool."""
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)  # type: ignore[arg-type]


class _AdaptiveAvgPoolNd(Module):
    __constants__ = ["output_size"]
    output_size: Any

    def __init__(self, output_size: _size_any_opt_t) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        """The size of the result."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    __doc__ = "Mean over as many 1-D windows as asked for." + _ADAPTIVE_ARGS

    def forward(self, input: Tensor) -> Tensor:
        """Pool."""
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    __doc__ = "Mean over as many 2-D windows as asked for." + _ADAPTIVE_ARGS

    def forward(self, input: Tensor) -> Tensor:
        """Pool."""
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    __doc__ = "Mean over as many 3-D windows as asked for." + _ADAPTIVE_ARGS

    def forward(self, input: Tensor) -> Tensor:
        """Pool."""
        return F.adaptive_avg_pool3d(input, self.output_size)
