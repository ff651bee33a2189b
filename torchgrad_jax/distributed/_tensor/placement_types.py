"""torch.distributed._tensor.placement_types: the older name of torch.distributed.tensor.placement_types."""

from __future__ import annotations

from collections import namedtuple

from ..._core.errors.absent import refusal
from ..tensor.placement_types import Partial as Partial, Placement as Placement, Replicate as Replicate, Shard as Shard

TensorMeta = namedtuple("TensorMeta", ("shape", "stride", "dtype"))
DTensorSpec = refusal(
    "torch.distributed._tensor.placement_types.DTensorSpec",
    "a DTensor's placement is its array's; DTensor.from_local and distribute_tensor make one",
    NotImplementedError,
)
