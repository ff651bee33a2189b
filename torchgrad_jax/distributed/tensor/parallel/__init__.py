"""torch.distributed.tensor.parallel: the layers of a module split over devices, by rules of placement."""

from __future__ import annotations

from ...._core.errors.messages import missing as _missing
from .api import loss_parallel as loss_parallel, parallelize_module as parallelize_module
from .style import (
    ColwiseParallel as ColwiseParallel,
    ParallelStyle as ParallelStyle,
    PrepareModuleInput as PrepareModuleInput,
    PrepareModuleInputOutput as PrepareModuleInputOutput,
    PrepareModuleOutput as PrepareModuleOutput,
    RowwiseParallel as RowwiseParallel,
    SequenceParallel as SequenceParallel,
)

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
    "loss_parallel",
    "parallelize_module",
]

__getattr__ = _missing(__name__)
