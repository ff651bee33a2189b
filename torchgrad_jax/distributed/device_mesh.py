"""torch.distributed.device_mesh: names to ask for; JAX's sharding is the tool here."""

from __future__ import annotations

from .tensor import DeviceMesh as DeviceMesh, init_device_mesh as init_device_mesh

__all__ = ["DeviceMesh", "init_device_mesh"]
