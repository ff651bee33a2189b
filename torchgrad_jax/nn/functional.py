"""torch.nn.functional."""

from __future__ import annotations

from typing import Any

from .._engine.entry.bind import NAMESPACES
from . import _reduction

_Reduction = _reduction  # under torch's name

globals().update(NAMESPACES.get("nn.functional", {}))
__all__ = sorted(NAMESPACES.get("nn.functional", {}))


def __getattr__(name: str) -> Any:
    raise AttributeError(f"torchgrad_jax does not implement torch.nn.functional.{name}")
