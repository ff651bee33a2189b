"""torch.nn.parallel.replicate: a module on one GPU is itself; copies on several are refused."""

from __future__ import annotations

from itertools import chain
from typing import Any

from .data_parallel import INSTEAD

__all__ = ["replicate"]


def replicate(network: Any, devices: Any, detach: bool = False) -> list[Any]:
    """Copies of a module on several GPUs.

    Args:
        network: the module.
        devices: where to; none, or the one GPU that the module is on.
        detach: as in torch.

    Raises:
        AssertionError: the module is on the CPU.
        NotImplementedError: there are several GPUs, or the module is on another one.
    """
    if not devices:
        return []
    held = list(chain(network.parameters(), network.buffers()))
    if any(t.device.type == "cpu" for t in held):
        raise AssertionError("Broadcast function not implemented for CPU tensors")
    raise NotImplementedError("torch.nn.parallel.replicate" + INSTEAD)
