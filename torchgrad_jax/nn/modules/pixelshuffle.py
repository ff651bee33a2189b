"""Channels turned into pixels and back."""

from __future__ import annotations

from ..._engine.memory.tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = ["PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(Module):
    """Turns blocks of channels into blocks of pixels.

    Args:
        upscale_factor: by how much height and width grow.
    """

    __constants__ = ["upscale_factor"]
    upscale_factor: int

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Shuffle."""
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """Its argument."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Turns blocks of pixels into blocks of channels.

    Args:
        downscale_factor: by how much height and width shrink.
    """

    __constants__ = ["downscale_factor"]
    downscale_factor: int

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Shuffle back."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """Its argument."""
        return f"downscale_factor={self.downscale_factor}"
