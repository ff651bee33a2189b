"""torch.nn.parallel on one device; over several, arrays are spread and modules are not copied."""

from __future__ import annotations

from .data_parallel import DataParallel as DataParallel, data_parallel as data_parallel
from .distributed import DistributedDataParallel as DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]


def __getattr__(name: str) -> object:
    raise AttributeError(f"torchgrad_jax does not implement torch.nn.parallel.{name}")
