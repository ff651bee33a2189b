"""torch.distributed._tensor.experimental: the older name of torch.distributed.tensor.experimental."""

from __future__ import annotations

from ..tensor.experimental import implicit_replication as implicit_replication, local_map as local_map

__all__ = ["implicit_replication", "local_map"]
