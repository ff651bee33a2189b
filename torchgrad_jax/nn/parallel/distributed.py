"""torch.nn.parallel.distributed: refused, since there are no process groups."""

from __future__ import annotations

from typing import Any

from ..modules.module import Module
from .data_parallel import INSTEAD

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """Exists to be compared with; making one raises.

    Args:
        module: what would be trained by several processes.
    """

    def __init__(self, module: Any, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("torch.nn.parallel.DistributedDataParallel" + INSTEAD)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"torchgrad_jax does not implement torch.nn.parallel.distributed.{name}")
