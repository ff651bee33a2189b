"""torch.distributed.optim: optimizers of several processes."""

from __future__ import annotations

from typing import Any

from ..._core.errors.messages import missing as _missing
from .. import _NONE
from .post_localSGD_optimizer import PostLocalSGDOptimizer as PostLocalSGDOptimizer
from .zero_redundancy_optimizer import ZeroRedundancyOptimizer as ZeroRedundancyOptimizer


class _OverProcesses:
    """No optimizer is one, and none can be made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(_NONE)


class DistributedOptimizer(_OverProcesses):
    """Steps of parameters that live in other processes."""


__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]

__getattr__ = _missing(__name__)
