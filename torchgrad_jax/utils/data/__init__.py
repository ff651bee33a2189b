"""torch.utils.data: datasets, samplers and the loader that makes batches of them."""

from __future__ import annotations

from typing import Any

from ..._core.errors.messages import no_such_name as _no_such_name
from . import dataloader as dataloader, dataset as dataset, distributed as distributed, sampler as sampler
from ._utils.collate import default_collate as default_collate, default_convert as default_convert
from ._utils.worker import get_worker_info as get_worker_info
from .dataloader import DataLoader as DataLoader
from .dataset import (
    ChainDataset as ChainDataset,
    ConcatDataset as ConcatDataset,
    Dataset as Dataset,
    IterableDataset as IterableDataset,
    StackDataset as StackDataset,
    Subset as Subset,
    TensorDataset as TensorDataset,
    random_split as random_split,
)
from .distributed import DistributedSampler as DistributedSampler
from .sampler import (
    BatchSampler as BatchSampler,
    RandomSampler as RandomSampler,
    Sampler as Sampler,
    SequentialSampler as SequentialSampler,
    SubsetRandomSampler as SubsetRandomSampler,
    WeightedRandomSampler as WeightedRandomSampler,
)


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.utils.data.{name}"))
