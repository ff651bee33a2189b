"""torch.utils.data: datasets, samplers and the loader that makes batches of them."""

from __future__ import annotations

from ..._core.errors.messages import missing as _missing
from . import (
    _utils as _utils,
    dataloader as dataloader,
    datapipes as datapipes,
    dataset as dataset,
    distributed as distributed,
    graph_settings as graph_settings,
    sampler as sampler,
)
from ._utils.collate import default_collate as default_collate, default_convert as default_convert
from ._utils.worker import get_worker_info as get_worker_info
from .dataloader import DataLoader as DataLoader, _DatasetKind as _DatasetKind
from .datapipes.datapipe import IterDataPipe as IterDataPipe, MapDataPipe as MapDataPipe
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

__getattr__ = _missing(__name__)
