"""torch.distributed._composable: names to ask for; JAX's sharding is the tool here."""

from __future__ import annotations
