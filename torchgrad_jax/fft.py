"""torch.fft."""

from __future__ import annotations

from typing import Any

from ._engine.bind import NAMESPACES

globals().update(NAMESPACES.get("fft", {}))
__all__ = sorted(NAMESPACES.get("fft", {}))


def __getattr__(name: str) -> Any:
    raise AttributeError(f"torchgrad_jax does not implement torch.fft.{name}")
