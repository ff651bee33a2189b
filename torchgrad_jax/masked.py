"""torch.masked: functions of the elements that a mask keeps."""

from __future__ import annotations

from typing import Any

from ._engine.bind import NAMESPACES

globals().update(NAMESPACES["masked"])
__all__ = sorted(n for n in NAMESPACES["masked"] if not n.startswith("_"))


def __getattr__(name: str) -> Any:
    raise AttributeError(f"torchgrad_jax does not implement torch.masked.{name}")
