"""torch.distributed.optim: optimizers of several processes."""

from __future__ import annotations

from typing import Any

from ..._core.errors.absent import refusal as _refusal
from ..._core.errors.messages import missing as _missing
from .post_localSGD_optimizer import PostLocalSGDOptimizer as PostLocalSGDOptimizer
from .zero_redundancy_optimizer import ZeroRedundancyOptimizer as ZeroRedundancyOptimizer

DistributedOptimizer: Any = _refusal(
    "torch.distributed.optim.DistributedOptimizer", "it steps parameters in other processes", NotImplementedError
)

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]

__getattr__ = _missing(__name__)
