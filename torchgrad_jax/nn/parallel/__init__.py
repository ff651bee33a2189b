"""torch.nn.parallel on one device; over several, arrays are spread and modules are not copied."""

from __future__ import annotations

from ..._core.errors.messages import missing as _missing
from . import scatter_gather as scatter_gather
from .data_parallel import DataParallel as DataParallel, data_parallel as data_parallel
from .distributed import DistributedDataParallel as DistributedDataParallel
from .parallel_apply import parallel_apply as parallel_apply
from .replicate import replicate as replicate
from .scatter_gather import gather as gather, scatter as scatter

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]

__getattr__ = _missing(__name__)
