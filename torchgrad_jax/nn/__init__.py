"""torch.nn."""

from __future__ import annotations

from typing import Any

from . import functional as functional


def __getattr__(name: str) -> Any:
    raise AttributeError(f"torchgrad_jax does not implement torch.nn.{name}")
