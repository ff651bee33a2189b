"""Layers that make their input larger at its edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._engine.memory.tensor import Tensor
from .. import functional as F
from ..common_types import _size_any_t
from ._parts import Named
from .module import Module
from .utils import _ntuple

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d",
    "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip

_ARGS = """

    Args:
        padding: how much is added: one number for all sides, or one for each, the last dimension first.
    """
_CONSTANT_ARGS = _ARGS.rstrip() + "\n        value: what is added.\n    "


class _Pad(Named, Module):
    """The constructor of layers that say how many dimensions they pad; torch's private bases have none."""

    _padded_dims: int
    padding: Sequence[int]

    def __init__(self, padding: _size_any_t) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self._padded_dims)(padding)


class _PadNd(Module):
    __constants__ = ["padding"]
    padding: Sequence[int]

    def extra_repr(self) -> str:
        """Its argument."""
        return f"{self.padding}"


class _CircularPadNd(_PadNd):
    _padded_dims: int

    def _check_input_dim(self, input: Any) -> None:
        n = self._padded_dims
        if input.dim() not in (n + 1, n + 2):
            raise ValueError(f"expected {n + 1}D or {n + 2}D input (got {input.dim()}D input)")

    def forward(self, input: Tensor) -> Tensor:
        """Pad."""
        self._check_input_dim(input)
        return F.pad(input, self.padding, "circular")


class CircularPad1d(_Pad, _CircularPadNd):
    __doc__ = "Repeats the last dimension, as if it were a circle." + _ARGS

    _padded_dims = 1
    padding: tuple[int, int]


class CircularPad2d(_Pad, _CircularPadNd):
    __doc__ = "Repeats the last two dimensions, as if they were circles." + _ARGS

    _padded_dims = 2
    padding: tuple[int, int, int, int]


class CircularPad3d(_Pad, _CircularPadNd):
    __doc__ = "Repeats the last three dimensions, as if they were circles." + _ARGS

    _padded_dims = 3
    padding: tuple[int, int, int, int, int, int]


class _ConstantPadNd(Module):
    __constants__ = ["padding", "value"]
    value: float
    padding: Sequence[int]

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Pad."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """Its arguments."""
        return f"padding={self.padding}, value={self.value}"


class _ConstantPad(Named, _ConstantPadNd):
    _padded_dims: int

    def __init__(self, padding: _size_any_t, value: float) -> None:
        super().__init__(value)
        self.padding = _ntuple(2 * self._padded_dims)(padding)


class ConstantPad1d(_ConstantPad):
    __doc__ = "Adds a value around the last dimension." + _CONSTANT_ARGS

    _padded_dims = 1
    padding: tuple[int, int]


class ConstantPad2d(_ConstantPad):
    __doc__ = "Adds a value around the last two dimensions." + _CONSTANT_ARGS

    _padded_dims = 2
    padding: tuple[int, int, int, int]


class ConstantPad3d(_ConstantPad):
    __doc__ = "Adds a value around the last three dimensions." + _CONSTANT_ARGS

    _padded_dims = 3
    padding: tuple[int, int, int, int, int, int]


class _ReflectionPadNd(_PadNd):
    def forward(self, input: Tensor) -> Tensor:
        """Pad."""
        return F.pad(input, self.padding, "reflect")


class ReflectionPad1d(_Pad, _ReflectionPadNd):
    __doc__ = "Adds the mirror image of the last dimension." + _ARGS

    _padded_dims = 1
    padding: tuple[int, int]


class ReflectionPad2d(_Pad, _ReflectionPadNd):
    __doc__ = "Adds the mirror image of the last two dimensions." + _ARGS

    _padded_dims = 2
    padding: tuple[int, int, int, int]


class ReflectionPad3d(_Pad, _ReflectionPadNd):
    __doc__ = "Adds the mirror image of the last three dimensions." + _ARGS

    _padded_dims = 3
    padding: tuple[int, int, int, int, int, int]


class _ReplicationPadNd(_PadNd):
    def forward(self, input: Tensor) -> Tensor:
        """Pad."""
        return F.pad(input, self.padding, "replicate")


class ReplicationPad1d(_Pad, _ReplicationPadNd):
    __doc__ = "Repeats the edges of the last dimension." + _ARGS

    _padded_dims = 1
    padding: tuple[int, int]


class ReplicationPad2d(_Pad, _ReplicationPadNd):
    __doc__ = "Repeats the edges of the last two dimensions." + _ARGS

    _padded_dims = 2
    padding: tuple[int, int, int, int]


class ReplicationPad3d(_Pad, _ReplicationPadNd):
    __doc__ = "Repeats the edges of the last three dimensions." + _ARGS

    _padded_dims = 3
    padding: tuple[int, int, int, int, int, int]


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: _size_any_t) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """Its argument."""
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    __doc__ = "Adds zeros around the last dimension." + _ARGS


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    __doc__ = "Adds zeros around the last two dimensions." + _ARGS


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    __doc__ = "Adds zeros around the last three dimensions." + _ARGS
