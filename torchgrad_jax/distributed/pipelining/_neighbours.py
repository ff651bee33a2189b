"""What a stage gets from the stages before and after it where these are in other processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..._functions.exchange import as_tensor
from .._call import array_of
from .._groups import ProcessGroup, member_of

Row = tuple[Any, ...]
Place = Callable[[int, int], int]


def in_turn(stage: int, size: int) -> int:
    """The process that has a stage: of four stages, the first of two processes has 0 and 2."""
    return stage % size


def there_and_back(stage: int, size: int) -> int:
    """The same along a V: of four stages, the first of two processes has 0 and 3."""
    turn, place = divmod(stage, size)
    return size - 1 - place if turn % 2 else place


class Neighbours:
    """The processes that have the stages of one pipeline, as one of them sees them during a batch.

    Sending does not wait, so that processes which follow one common order never wait for each other in a circle.

    Args:
        group: the processes; the default group if None.
        place: says which process has a stage.
    """

    def __init__(self, group: Any, place: Place) -> None:
        self._group: ProcessGroup = member_of(group)
        self._place = place
        self._batch = self._group.turn("a batch through a pipeline").key.decode()

    def has(self, stage: int) -> bool:
        """Return whether this process has a stage."""
        return self._where(stage) == self._group.rank()

    def _where(self, stage: int) -> int:
        return self._place(stage, self._group.size())

    def send(self, kind: str, stage: int, number: int, row: Row) -> None:
        """Send what a stage of another process goes on with.

        Args:
            kind: "F" for what the stage before gave, "B" for gradients of what the stage gave.
            stage: the one that gets it.
            number: which microbatch.
            row: tensors; None instead of one for a gradient that nobody needs.
        """
        turn = self._turn(kind, stage, number)
        there = [x is not None for x in row]
        turn.send(self._where(stage), np.frombuffer(json.dumps(there).encode(), np.uint8))
        for x in row:
            if x is not None:
                turn.send(self._where(stage), array_of(x.detach()))

    def take(self, kind: str, stage: int, number: int) -> Row:
        """Wait for what a stage of this process goes on with; see `send`."""
        turn = self._turn(kind, stage, number)
        source = self._where(stage - 1 if kind == "F" else stage + 1)
        there = json.loads(turn.take(source).tobytes())
        return tuple(as_tensor(jnp.asarray(turn.take(source))) if x else None for x in there)

    def _turn(self, kind: str, stage: int, number: int) -> Any:
        what = f"{'forward' if kind == 'F' else 'backward'} of microbatch {number} in stage {stage}"
        return self._group.turn(what, f"{self._batch} {kind}{stage}.{number}")
