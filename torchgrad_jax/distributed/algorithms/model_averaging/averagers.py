"""Who averages parameters, and in which steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from .... import cat
from ...._core.errors import warn
from ...._engine.memory.tensor import Tensor
from ..._collectives import all_reduce
from ..._groups import ProcessGroup, member_of

__all__ = ["ModelAverager", "PeriodicModelAverager"]
_EACH_STEP = (
    "When period is 1, no need to use model averaging because the communication cost of all-reducing parameters will "
    "be no less than the cost of all-reducing gradients by DistributedDataParallel in the backward pass. Therefore, "
    "only DistributedDataParallel should be used for this case."
)


class ModelAverager(ABC):
    """What averages parameters.

    Args:
        process_group: over which processes; all if it is None.
    """

    def __init__(self, process_group: Any = None) -> None:
        self.process_group = member_of(process_group)
        self.step = 0

    @abstractmethod
    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average parameters, or count a step in which they are not."""


class PeriodicModelAverager(ModelAverager):
    """Averages parameters every so many steps.

    Args:
        period: how many.
        warmup_steps: how many steps are not averaged at first.
        process_group: over which processes; all if it is None.
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        if period == 1:
            warn.to_user(_EACH_STEP)
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average the parameters that have a gradient, if it is time to.

        Args:
            params: parameters, or an optimizer's groups of them.
        """
        after = self.step - self.warmup_steps
        if after >= 0 and after % self.period == 0:
            _average(_with_gradients(params), self.process_group)
        self.step += 1


def _with_gradients(params: Iterable[Any]) -> list[Tensor]:
    """Those of some parameters, or of an optimizer's groups of parameters, that have a gradient."""
    found = [p for x in params for p in (x["params"] if isinstance(x, dict) else [x])]
    for p in found:
        if not isinstance(p, Tensor):
            raise NotImplementedError(f"Parameter input of type {type(p)} is not supported")
    return [p for p in found if p.grad is not None]


def _average(params: list[Tensor], pg: ProcessGroup) -> None:
    """Replace parameters by their averages over the processes of a group."""
    flat = cat([p.data.reshape(-1) for p in params]).div_(pg.size())
    all_reduce(flat, group=pg)
    for p, mean in zip(params, flat.split([p.numel() for p in params])):
        p.data = mean.view_as(p).type_as(p)
