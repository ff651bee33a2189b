"""torch.nn.parallel.distributed: refused, see torch.nn.parallel."""

from __future__ import annotations

from typing import Any

from . import DistributedDataParallel as DistributedDataParallel

__all__ = ["DistributedDataParallel"]


def __getattr__(name: str) -> Any:
    raise AttributeError(f"torchgrad_jax does not implement torch.nn.parallel.distributed.{name}")
