"""A weight from its direction and its norm."""

from __future__ import annotations

from typing import Any

from .._top import torch


def weight_from(v: Any, g: Any, dim: int) -> Any:
    """``v * (g / norm(v))``, where the norm runs over all dimensions but one, or over all for -1."""
    return v * (g / torch.norm_except_dim(v, 2, dim))
