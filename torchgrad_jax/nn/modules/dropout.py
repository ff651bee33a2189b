"""Layers that drop a random part of their input while training."""

from __future__ import annotations

from ..._engine.memory.tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _DropoutNd(Module):
    __constants__ = ["p", "inplace"]
    p: float
    inplace: bool

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def extra_repr(self) -> str:
        """Its arguments."""
        return f"p={self.p}, inplace={self.inplace}"


_ARGS = """

    Args:
        p: the probability of being dropped.
        inplace: whether the input is overwritten.
    """


class Dropout(_DropoutNd):
    __doc__ = "Zeroes elements with probability p while training, and scales the others up." + _ARGS

    def forward(self, input: Tensor) -> Tensor:
        """Drop."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    __doc__ = "Zeroes whole channels of (batch, channels, length)." + _ARGS

    def forward(self, input: Tensor) -> Tensor:
        """Drop."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    __doc__ = "Zeroes whole channels of (batch, channels, height, width)." + _ARGS

    def forward(self, input: Tensor) -> Tensor:
        """Drop."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    __doc__ = "Zeroes whole channels of (batch, channels, depth, height, width)." + _ARGS

    def forward(self, input: Tensor) -> Tensor:
        """Drop."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    __doc__ = "Dropout to the value at which SELU saturates, keeping mean and variance." + _ARGS

    def forward(self, input: Tensor) -> Tensor:
        """Drop."""
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    __doc__ = "`AlphaDropout` of whole channels." + _ARGS

    def forward(self, input: Tensor) -> Tensor:
        """Drop."""
        return F.feature_alpha_dropout(input, self.p, self.training)
