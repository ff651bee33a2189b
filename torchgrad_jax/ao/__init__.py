"""torch.ao: quantization, which is out of scope (docs/non_goals.md)."""

from __future__ import annotations

from typing import Any

from .._core.errors import no_such_name as _no_such_name
from . import quantization as quantization

__all__ = ["quantization"]


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.ao.{name}"))
