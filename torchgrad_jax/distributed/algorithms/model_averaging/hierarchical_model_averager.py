"""Averages of parameters among a few processes often, and among all of them more rarely."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...._core.errors import warn
from ..._beginning import new_subgroups
from . import averagers, utils

__all__ = ["HierarchicalModelAverager"]
_EACH_STEP = (
    "When the maximum period in arg ``period_group_size_dict`` is 1, no need to use model averaging because the "
    "communication cost of all-reducing parameters will be no less than the cost of all-reducing gradients by "
    "DistributedDataParallel in the backward pass. Therefore, only DistributedDataParallel should be used for this "
    "case."
)


class HierarchicalModelAverager(averagers.ModelAverager):
    """Averages parameters, in each step, among the largest group whose period divides the number of the step.

    Args:
        period_group_size_dict: for each period, from the shortest, the size of the groups; the last is the whole group.
        warmup_steps: how many steps are not averaged at first.
        process_group: the whole group; all processes if it is None.
    """

    def __init__(
        self, period_group_size_dict: Mapping[int, int] | None = None, warmup_steps: int = 0, process_group: Any = None
    ) -> None:
        super().__init__(process_group)
        if not period_group_size_dict:
            raise ValueError("Arg ``period_group_size_dict`` must not be empty.")
        sizes, periods = dict(period_group_size_dict), list(period_group_size_dict)
        if periods[0] <= 0:
            raise ValueError("The minimum period in arg ``period_group_size_dict`` must be a positive value.")
        if periods[-1] == 1:
            warn.to_user(_EACH_STEP)
        whole = self.process_group.size()
        if sizes[periods[-1]] != whole:
            raise ValueError(
                f"The last value in arg ``period_group_size_dict`` {sizes[periods[-1]]} must be equal to the size of "
                f"arg ``process_group`` {whole}."
            )
        self.period_process_group_dict = {
            period: self.process_group if size == whole else new_subgroups(size, self.process_group)[0]
            for period, size in sizes.items()
        }
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        self.warmup_steps = warmup_steps

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average the parameters that have a gradient, if it is time to.

        Args:
            params: parameters, or an optimizer's groups of them.
        """
        due = [group for period, group in self.period_process_group_dict.items() if self.step % period == 0]
        if self.step >= self.warmup_steps and due:
            utils.average_parameters_or_parameter_groups(params, due[-1])
        self.step += 1
