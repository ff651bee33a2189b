"""torch.distributed.optim: optimizers of several processes."""

from __future__ import annotations

from typing import Any

from ..._core.errors.messages import no_such_name as _no_such_name
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


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.distributed.optim.{name}"))
