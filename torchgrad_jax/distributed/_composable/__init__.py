"""torch.distributed._composable: older names of what shards modules."""

from __future__ import annotations

from .fsdp import fully_shard as fully_shard

__all__ = ["fully_shard"]
