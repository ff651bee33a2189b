"""A weight from its direction and its norm."""

from __future__ import annotations

from typing import Any

from .._top import torch


def weight_from(v: Any, g: Any, dim: int) -> Any:
    """``v * (g / norm(v))``, where the norm runs over all dimensions but one, or over all for -1."""
    return torch._weight_norm(v, g, dim)
