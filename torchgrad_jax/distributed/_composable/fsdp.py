"""torch.distributed._composable.fsdp: the older name of torch.distributed.fsdp."""

from __future__ import annotations

from ..fsdp import FSDPModule as FSDPModule, fully_shard as fully_shard

__all__ = ["FSDPModule", "fully_shard"]
