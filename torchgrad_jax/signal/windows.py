"""torch.signal.windows."""

from __future__ import annotations

from typing import Any

from .._engine.bind import NAMESPACES

globals().update(NAMESPACES["signal.windows"])
__all__ = sorted(NAMESPACES["signal.windows"])


def __getattr__(name: str) -> Any:
    raise AttributeError(f"torchgrad_jax does not implement torch.signal.windows.{name}")
