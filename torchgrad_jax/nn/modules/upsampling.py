"""Images made larger."""

from __future__ import annotations

from typing import Any

from ..._engine.memory.tensor import Tensor
from .. import functional as F
from ..common_types import _ratio_2_t, _ratio_any_t, _size_2_t, _size_any_t
from .module import Module

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


class Upsample(Module):
    """Resizes the spatial dimensions of (batch, channels, ...).

    Args:
        size: the new sizes.
        scale_factor: or by how much they grow.
        mode: "nearest", "linear", "bilinear", "bicubic" or "trilinear".
        align_corners: whether the corners of both grids coincide.
        recompute_scale_factor: whether the factor is computed again from the rounded sizes.
    """

    __constants__ = ["size", "scale_factor", "mode", "align_corners", "name", "recompute_scale_factor"]
    name: str
    size: Any
    scale_factor: Any
    mode: str
    align_corners: bool | None
    recompute_scale_factor: bool | None

    def __init__(
        self,
        size: _size_any_t | None = None,
        scale_factor: _ratio_any_t | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode, self.align_corners = mode, align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Resize."""
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("recompute_scale_factor", True)
        super().__setstate__(state)

    def extra_repr(self) -> str:
        """The size or the factor, and the mode."""
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` of images, in which each pixel takes the nearest one's value.

    Args:
        size: the new sizes.
        scale_factor: or by how much they grow.
    """

    def __init__(self, size: _size_2_t | None = None, scale_factor: _ratio_2_t | None = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` of images, bilinear with aligned corners.

    Args:
        size: the new sizes.
        scale_factor: or by how much they grow.
    """

    def __init__(self, size: _size_2_t | None = None, scale_factor: _ratio_2_t | None = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
