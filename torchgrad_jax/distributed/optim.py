"""torch.distributed.optim: optimizers over several processes, of which there are none here."""

from __future__ import annotations

from typing import Any

from .._core.errors import no_such_name as _no_such_name
from . import _NONE


class _OverProcesses:
    """No optimizer is one, and none can be made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(_NONE)


class DistributedOptimizer(_OverProcesses):
    """Steps of parameters that live in other processes."""


class PostLocalSGDOptimizer(_OverProcesses):
    """Averages of parameters over processes every few steps."""


class ZeroRedundancyOptimizer(_OverProcesses):
    """An optimizer whose state is spread over processes."""


__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.distributed.optim.{name}"))
