"""torch.distributed._composable: what changes a module in place, instead of putting another one around it."""

from __future__ import annotations

from .fsdp import fully_shard as fully_shard
from .replicate import replicate as replicate

__all__ = ["fully_shard", "replicate"]
