"""Channels of several groups interleaved."""

from __future__ import annotations

from ..._engine.memory.tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Module):
    """Interleaves the channels of several groups.

    Args:
        groups: number of groups.
    """

    __constants__ = ["groups"]
    groups: int

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """Interleave."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """Its argument."""
        return f"groups={self.groups}"
