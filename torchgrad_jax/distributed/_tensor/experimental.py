"""torch.distributed._tensor.experimental: names to ask for; JAX's sharding is the tool here."""

from __future__ import annotations

from .. import _refuse

implicit_replication = local_map = _refuse

__all__ = ["implicit_replication", "local_map"]
