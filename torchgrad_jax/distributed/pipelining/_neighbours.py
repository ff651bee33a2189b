"""What a stage gets from the stages before and after it where these are in other processes."""

from __future__ import annotations

import json
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..._functions.exchange import as_tensor
from .._call import array_of
from .._groups import ProcessGroup, member_of

Row = tuple[Any, ...]


class Neighbours:
    """The processes that have the stages of one pipeline, as one of them sees them during a batch.

    The stages are dealt out in turn: of four stages, the first of two processes has 0 and 2. Sending does not wait, so
    that processes which follow one common order never wait for each other in a circle.

    Args:
        group: the processes; the default group if None.
    """

    def __init__(self, group: Any) -> None:
        self._group: ProcessGroup = member_of(group)
        self._batch = self._group.turn("a batch through a pipeline").key.decode()

    def has(self, stage: int) -> bool:
        """Whether this process has a stage."""
        return stage % self._group.size() == self._group.rank()

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
        turn.send(stage % self._group.size(), np.frombuffer(json.dumps(there).encode(), np.uint8))
        for x in row:
            if x is not None:
                turn.send(stage % self._group.size(), array_of(x.detach()))

    def take(self, kind: str, stage: int, number: int) -> Row:
        """Wait for what a stage of this process goes on with; see `send`."""
        turn = self._turn(kind, stage, number)
        source = (stage - 1 if kind == "F" else stage + 1) % self._group.size()
        there = json.loads(turn.take(source).tobytes())
        return tuple(as_tensor(jnp.asarray(turn.take(source))) if x else None for x in there)

    def _turn(self, kind: str, stage: int, number: int) -> Any:
        what = f"{'forward' if kind == 'F' else 'backward'} of microbatch {number} in stage {stage}"
        return self._group.turn(what, f"{self._batch} {kind}{stage}.{number}")
