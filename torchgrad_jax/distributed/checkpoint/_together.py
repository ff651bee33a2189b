"""What processes do together for a checkpoint, on objects. An error in one of them becomes an error in all.

Messages have keys of their own, so that a checkpoint may be written in a thread while training goes on.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from typing import Any

from ..._core.errors import warn
from .. import _exchange
from .._groups import ProcessGroup, get_rank, is_initialized, member_of
from .._objects import _opened, _packed
from .api import CheckpointException

_calls: dict[str, int] = {}


def in_turn(group: Any) -> ProcessGroup:
    """The same processes, with keys for the messages of one call, which all of them make in the same order."""
    pg = member_of(group)
    _calls[pg.group_name] = number = _calls.get(pg.group_name, 0) + 1
    name = f"{pg.group_name}/checkpoint {number}"
    return ProcessGroup(pg._wires, pg._members, pg.name(), name, pg._timeout, "checkpoint")


class Together:
    """The processes of a checkpoint.

    Args:
        group: which ones, or what `in_turn` gave; all of them if it is None.
        alone: whether there are no others.
        coordinator: the rank that decides.
    """

    def __init__(self, group: Any, alone: bool, coordinator: int = 0) -> None:
        taken = isinstance(group, ProcessGroup) and group.group_desc == "checkpoint"
        self.group = None if alone else group if taken else in_turn(group)
        self.rank = 0 if self.group is None else self.group.rank()
        self.size = 1 if self.group is None else self.group.size()
        self.coordinator = coordinator
        self.is_coordinator = self.group is None or self.rank == coordinator

    def shared_out(self, step: str, local: Callable[[], Any], decide: Callable[[list[Any]], list[Any]]) -> Any:
        """Each process does something; the coordinator decides with all results what each of them gets."""
        found = self._gathered(_tried(local))
        return self._checked(step, self._scattered(self._decided(step, found, decide)))

    def agreed(self, step: str, local: Callable[[], Any], decide: Callable[[list[Any]], Any]) -> Any:
        """Each process does something; the coordinator decides with all results what all of them get."""
        return self.shared_out(step, local, lambda found: [decide(found)] * self.size)

    def all_done(self, step: str, local: Callable[[], Any]) -> None:
        """Each process does something, and all wait for it."""
        self.agreed(step, local, lambda found: None)

    def _decided(self, step: str, found: list[Any], decide: Callable[[list[Any]], Any]) -> Any:
        if not self.is_coordinator:
            return []
        failed = {r: f.what for r, f in enumerate(found) if isinstance(f, _Failed)}
        if not failed:
            decided = _tried(lambda: decide(found))
            if not isinstance(decided, _Failed):
                return decided
            failed = {self.rank: decided.what}
        return [_Failed(failed)] * self.size

    def _checked(self, step: str, got: Any) -> Any:
        if isinstance(got, _Failed):
            raise CheckpointException(step, got.what)
        return got

    def _gathered(self, value: Any) -> list[Any]:
        if self.group is None:
            return [value]
        turn = self.group.turn("a checkpoint: what each process does")
        return [_opened(x) for x in _exchange.gather(turn, _packed(value), self.coordinator)]

    def _scattered(self, values: list[Any]) -> Any:
        if self.group is None:
            return values[0]
        turn = self.group.turn("a checkpoint: what the coordinator decides")
        return _opened(_exchange.scatter(turn, [_packed(v) for v in values], self.coordinator))


class _Failed:
    """An exception and where it was raised, or several by rank."""

    def __init__(self, what: Any) -> None:
        self.what = what


def _tried(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except BaseException as e:
        where = traceback.extract_tb(e.__traceback__)
        for frame in where:
            if hasattr(frame, "_code"):
                frame._code = None  # cannot be pickled
        return _Failed((_picklable(e), where))


def _picklable(error: BaseException) -> BaseException:
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")


def alone(no_dist: bool, to: str | None = None) -> bool:
    """Return whether there is one process, because somebody says so or there is no group.

    Args:
        no_dist: whether somebody says so.
        to: what the process will do by itself: the caller's caller is warned of it. None warns nobody.
    """
    by_itself = no_dist or not is_initialized() or get_rank() < 0
    if by_itself and to is not None:
        warn.to_user(
            f"torch.distributed is disabled, unavailable or uninitialized, assuming the intent is to {to} in a single "
            "process."
        )
    return by_itself
