"""torch.distributed.algorithms.join: processes with different numbers of batches.

A process that has no batches left goes on taking part in the collectives of the others, with zeros, until all are done.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._core.errors import warn
from ..._core.signals import uninterrupted
from .. import _exchange
from .._groups import ProcessGroup

_SKEW = (
    "Detected uneven input skew of greater than 1000. This means that rank {} has at least 1000 fewer inputs than "
    "other currently-active ranks. This level of skew could lead to performance degradation during training."
)
__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a process does for something when it has no batches left."""

    def main_hook(self) -> None:
        """Take part in the collectives of one iteration of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Once all processes are done.

        Args:
            is_last_joiner: whether this process was among the last.
        """


class _Config(NamedTuple):
    enable: bool = False
    throw_on_early_termination: bool = False
    is_first_joinable: bool = False


class Joinable(abc.ABC):
    """What may be used in a `Join`: its collectives can be taken part in without batches."""

    _join_config: Any = _Config()

    @abc.abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a process does when it has no batches left."""

    @property
    @abc.abstractmethod
    def join_device(self) -> Any:
        """Where its tensors are."""

    @property
    @abc.abstractmethod
    def join_process_group(self) -> Any:
        """Which processes."""


def counted(group: ProcessGroup, what: str, value: int) -> int:
    """The sum of a number over all processes."""
    turn = group.turn(what)
    return int(_exchange.all_reduce(turn, np.array([value], np.int64), "SUM")[0])


class Join:
    """A context in which processes may have different numbers of batches.

    Args:
        joinables: what has collectives in each iteration, in the order in which they come.
        enable: whether it does anything.
        throw_on_early_termination: whether all processes raise when one has no batches left.
        kwargs: for the hooks.

    Raises:
        ValueError: there is nothing to join, or the parts are of different groups.
    """

    def __init__(
        self, joinables: Sequence[Any], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: Any
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables, self._enable, self._throws = (list(joinables), enable, throw_on_early_termination)
        self._hooks = [j.join_hook(**kwargs) for j in joinables]
        for number, j in enumerate(joinables):
            j._join_config = _Config(enable, throw_on_early_termination, number == 0)
        groups = [j.join_process_group for j in joinables]
        if any(g is not groups[0] for g in groups):
            raise ValueError("Using join context manager with multiple process groups")
        self._group: ProcessGroup = groups[0]

    def __enter__(self) -> None:
        pass

    @uninterrupted
    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if not self._enable or kind:
            return
        last, waited = True, 0
        while counted(self._group, "join: who has batches left", 0):
            if self._throws:
                counted(self._group, "join: somebody has none", 1)
                raise RuntimeError(f"Rank {self._group.rank()} exhausted all inputs.")
            last, waited = False, waited + 1
            if waited == 1000:
                warn.to_user(_SKEW.format(self._group.rank()))
            for hook in self._hooks:
                hook.main_hook()
        for hook in self._hooks:
            hook.post_hook(last)

    @staticmethod
    def notify_join_context(joinable: Any) -> int | None:
        """Say, at the beginning of an iteration, that this process has a batch.

        Returns:
            How many processes have one; None outside of a context, and for all but its first part.
        """
        config, group = joinable._join_config, joinable.join_process_group
        if not config.enable or not config.is_first_joinable:
            return None
        active = counted(group, "join: who has batches left", 1)
        if config.throw_on_early_termination and active < group.size():
            counted(group, "join: somebody has none", 0)
            raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
        return active
