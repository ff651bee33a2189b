"""Who averages parameters, and in which steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from ...._core.errors import warn
from ..._groups import member_of
from . import utils

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
            utils.average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
