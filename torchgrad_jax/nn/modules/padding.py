"""Layers that make their input larger at its edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._engine.memory.tensor import Tensor
from .. import functional as F
from ..common_types import _size_2_t, _size_4_t, _size_6_t
from .module import Module
from .utils import _ntuple, _pair, _quadruple

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d",
    "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip

_sextuple = _ntuple(6)

_ARGS = """

    Args:
        padding: how much is added: one number for all sides, or one for each, the last dimension first.
    """
_CONSTANT_ARGS = _ARGS.rstrip() + "\n        value: what is added.\n    "


class _PadNd(Module):
    __constants__ = ["padding"]
    padding: Sequence[int]

    def extra_repr(self) -> str:
        """Its argument."""
        return f"{self.padding}"


class _CircularPadNd(_PadNd):
    def _check_input_dim(self, input: Any) -> None:
        raise NotImplementedError

    def forward(self, input: Tensor) -> Tensor:
        """Pad."""
        self._check_input_dim(input)
        return F.pad(input, self.padding, "circular")


def _expect(input: Any, low: int) -> None:
    if input.dim() not in (low, low + 1):
        raise ValueError(f"expected {low}D or {low + 1}D input (got {input.dim()}D input)")


class CircularPad1d(_CircularPadNd):
    __doc__ = "Repeats the last dimension, as if it were a circle." + _ARGS

    padding: tuple[int, int]

    def __init__(self, padding: _size_2_t) -> None:
        super().__init__()
        self.padding = _pair(padding)

    def _check_input_dim(self, input: Any) -> None:
        _expect(input, 2)


class CircularPad2d(_CircularPadNd):
    __doc__ = "Repeats the last two dimensions, as if they were circles." + _ARGS

    padding: tuple[int, int, int, int]

    def __init__(self, padding: _size_4_t) -> None:
        super().__init__()
        self.padding = _quadruple(padding)

    def _check_input_dim(self, input: Any) -> None:
        _expect(input, 3)


class CircularPad3d(_CircularPadNd):
    __doc__ = "Repeats the last three dimensions, as if they were circles." + _ARGS

    padding: tuple[int, int, int, int, int, int]

    def __init__(self, padding: _size_6_t) -> None:
        super().__init__()
        self.padding = _sextuple(padding)

    def _check_input_dim(self, input: Any) -> None:
        _expect(input, 4)


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


class ConstantPad1d(_ConstantPadNd):
    __doc__ = "Adds a value around the last dimension." + _CONSTANT_ARGS

    padding: tuple[int, int]

    def __init__(self, padding: _size_2_t, value: float) -> None:
        super().__init__(value)
        self.padding = _pair(padding)


class ConstantPad2d(_ConstantPadNd):
    __doc__ = "Adds a value around the last two dimensions." + _CONSTANT_ARGS

    padding: tuple[int, int, int, int]

    def __init__(self, padding: _size_4_t, value: float) -> None:
        super().__init__(value)
        self.padding = _quadruple(padding)


class ConstantPad3d(_ConstantPadNd):
    __doc__ = "Adds a value around the last three dimensions." + _CONSTANT_ARGS

    padding: tuple[int, int, int, int, int, int]

    def __init__(self, padding: _size_6_t, value: float) -> None:
        super().__init__(value)
        self.padding = _sextuple(padding)


class _ReflectionPadNd(_PadNd):
    def forward(self, input: Tensor) -> Tensor:
        """Pad."""
        return F.pad(input, self.padding, "reflect")


class ReflectionPad1d(_ReflectionPadNd):
    __doc__ = "Adds the mirror image of the last dimension." + _ARGS

    padding: tuple[int, int]

    def __init__(self, padding: _size_2_t) -> None:
        super().__init__()
        self.padding = _pair(padding)


class ReflectionPad2d(_ReflectionPadNd):
    __doc__ = "Adds the mirror image of the last two dimensions." + _ARGS

    padding: tuple[int, int, int, int]

    def __init__(self, padding: _size_4_t) -> None:
        super().__init__()
        self.padding = _quadruple(padding)


class ReflectionPad3d(_ReflectionPadNd):
    __doc__ = "Adds the mirror image of the last three dimensions." + _ARGS

    padding: tuple[int, int, int, int, int, int]

    def __init__(self, padding: _size_6_t) -> None:
        super().__init__()
        self.padding = _sextuple(padding)


class _ReplicationPadNd(_PadNd):
    def forward(self, input: Tensor) -> Tensor:
        """Pad."""
        return F.pad(input, self.padding, "replicate")


class ReplicationPad1d(_ReplicationPadNd):
    __doc__ = "Repeats the edges of the last dimension." + _ARGS

    padding: tuple[int, int]

    def __init__(self, padding: _size_2_t) -> None:
        super().__init__()
        self.padding = _pair(padding)


class ReplicationPad2d(_ReplicationPadNd):
    __doc__ = "Repeats the edges of the last two dimensions." + _ARGS

    padding: tuple[int, int, int, int]

    def __init__(self, padding: _size_4_t) -> None:
        super().__init__()
        self.padding = _quadruple(padding)


class ReplicationPad3d(_ReplicationPadNd):
    __doc__ = "Repeats the edges of the last three dimensions." + _ARGS

    padding: tuple[int, int, int, int, int, int]

    def __init__(self, padding: _size_6_t) -> None:
        super().__init__()
        self.padding = _sextuple(padding)


class ZeroPad1d(ConstantPad1d):
    __doc__ = "Adds zeros around the last dimension." + _ARGS

    def __init__(self, padding: _size_2_t) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """Its argument."""
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    __doc__ = "Adds zeros around the last two dimensions." + _ARGS

    def __init__(self, padding: _size_4_t) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """Its argument."""
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    __doc__ = "Adds zeros around the last three dimensions." + _ARGS

    def __init__(self, padding: _size_6_t) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """Its argument."""
        return f"{self.padding}"
