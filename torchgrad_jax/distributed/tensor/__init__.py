"""torch.distributed.tensor: tensors over the devices of a mesh."""

from __future__ import annotations

from ..._core.errors.messages import missing as _missing
from ..device_mesh import DeviceMesh as DeviceMesh, init_device_mesh as init_device_mesh
from ._api import (
    distribute_module as distribute_module,
    distribute_tensor as distribute_tensor,
    empty as empty,
    full as full,
    linspace as linspace,
    logspace as logspace,
    ones as ones,
    rand as rand,
    randn as randn,
    zeros as zeros,
)
from ._dtensor import DTensor as DTensor, install as _install
from .placement_types import (
    Partial as Partial,
    Placement as Placement,
    Replicate as Replicate,
    Shard as Shard,
    _StridedShard as _StridedShard,
)

__all__ = [
    "DTensor", "Partial", "Placement", "Replicate", "Shard", "distribute_module", "distribute_tensor", "empty",
    "full", "linspace", "logspace", "ones", "rand", "randn", "zeros",
]  # fmt: skip

_install()

__getattr__ = _missing(__name__)
