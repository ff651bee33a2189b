"""What processes do together with arrays of NumPy: each function is one collective as one process does its part.

Every collective of a group has a number, which is the key of its messages. Values of several processes are reduced in
the order of their ranks, so that all of them get the same bits.
"""

from __future__ import annotations

import functools
import json
import operator
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ._errors import DistBackendError
from ._wires import Gone, Late, Message, Wires

_SHARED_OUT = 1 << 15
"""Bytes; of larger arrays each process reduces one part."""


class Turn:
    """One collective of a group, or one message between two members.

    Args:
        wires: the connections.
        members: the ranks of the group's processes, in its order.
        group: its name.
        key: what its messages are known by.
        what: the call, as other members must have made it too.
        timeout: seconds.
    """

    def __init__(self, wires: Wires, members: Sequence[int], group: str, key: str, what: str, timeout: float) -> None:
        self.wires, self.members, self.group, self.what = wires, members, group, what
        self.key, self.timeout = key.encode(), timeout
        self.deadline = time.monotonic() + timeout
        self.rank, self.size = members.index(wires.rank), len(members)

    def send(self, to: int, array: np.ndarray) -> None:
        """Send an array to a member."""
        note = json.dumps([self.what, array.dtype.name, array.shape]).encode()
        try:
            self.wires.send(self.members[to], self.key, note, _bytes_of(array))
        except Gone as e:
            raise self._gone(e.rank) from None

    def take(self, source: int) -> np.ndarray:
        """The array that a member sent."""
        return self.take_any([source])[1]

    def take_any(self, sources: Sequence[int]) -> tuple[int, np.ndarray]:
        """An array, and which of some members sent it."""
        there = [self.members[s] for s in sources]
        try:
            message = self.wires.take(there, self.key, self.deadline)
        except Late:
            raise self._late(there) from None
        except Gone as e:
            raise self._gone(e.rank) from None
        return self.members.index(message.source), self._opened(message)

    def _opened(self, message: Message) -> np.ndarray:
        what, dtype, shape = json.loads(message.note)
        if what != self.what:
            raise DistBackendError(
                f"Detected mismatch between collectives on ranks in group {self.group!r}: rank {self.wires.rank} calls "
                f"{self.what}, and rank {message.source} calls {what}"
            )
        return np.frombuffer(message.body, _dtype(dtype)).reshape(shape)

    def _late(self, sources: Sequence[int]) -> DistBackendError:
        return DistBackendError(
            f"{self.what}: rank {' or '.join(map(str, sources))} did not take part within {self.timeout:g} seconds "
            f"(group {self.group!r}, rank {self.wires.rank} waits). It may hang, have raised, or call something else"
        )

    def _gone(self, rank: int) -> DistBackendError:
        return DistBackendError(
            f"{self.what}: rank {rank} has closed its connection (group {self.group!r}, rank {self.wires.rank} waits): "
            "it raised, was killed, or ended before"
        )

    def others(self) -> list[int]:
        """The members but this one, the next first, so that not all send to the same."""
        return [(self.rank + i) % self.size for i in range(1, self.size)]


def _bytes_of(array: np.ndarray) -> Any:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


@functools.cache
def _dtype(name: str) -> np.dtype:
    return np.dtype(getattr(jnp, name, name))


# --- reductions -----------------------------------------------------------------------------------

Reduction = Callable[[Any, Any], Any]


def _add(x: Any, y: Any) -> Any:
    return x | y if x.dtype == np.bool_ else x + y


def _multiply(x: Any, y: Any) -> Any:
    return x & y if x.dtype == np.bool_ else x * y


REDUCTIONS: dict[str, Reduction] = {
    "SUM": _add,
    "AVG": _add,
    "PRODUCT": _multiply,
    "MIN": np.minimum,
    "MAX": np.maximum,
    "BAND": operator.and_,
    "BOR": operator.or_,
    "BXOR": operator.xor,
}


def _reduced(arrays: Sequence[np.ndarray], op: str) -> np.ndarray:
    """One array of those of all members; numbers overflow without a word, as in other operators."""
    with np.errstate(all="ignore"):
        return functools.reduce(REDUCTIONS[op], arrays)


# --- collectives ----------------------------------------------------------------------------------


def all_gather(turn: Turn, x: np.ndarray) -> list[np.ndarray]:
    """The arrays of all members."""
    for other in turn.others():
        turn.send(other, x)
    return [x if r == turn.rank else turn.take(r) for r in range(turn.size)]


def all_to_all(turn: Turn, xs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The arrays that all members have for this one."""
    for other in turn.others():
        turn.send(other, xs[other])
    return [xs[r] if r == turn.rank else turn.take(r) for r in range(turn.size)]


def reduce_scatter(turn: Turn, xs: Sequence[np.ndarray], op: str) -> np.ndarray:
    """The sum of the arrays that all members have for this one."""
    return _reduced(all_to_all(turn, xs), op)


def all_reduce(turn: Turn, x: np.ndarray, op: str) -> np.ndarray:
    """The sum of the arrays of all members."""
    if x.nbytes <= _SHARED_OUT or turn.size <= 2:  # between two, sharing out sends no less
        return _reduced(all_gather(turn, x), op)
    part = reduce_scatter(turn, np.array_split(x.reshape(-1), turn.size), op)
    return np.concatenate(all_gather(turn, part)).reshape(x.shape)


def broadcast(turn: Turn, x: np.ndarray, root: int) -> np.ndarray:
    """The array of the root."""
    if turn.rank != root:
        return turn.take(root)
    for other in turn.others():
        turn.send(other, x)
    return x


def gather(turn: Turn, x: np.ndarray, root: int) -> list[np.ndarray]:
    """The arrays of all members at the root, and none elsewhere."""
    if turn.rank != root:
        turn.send(root, x)
        return []
    return [x if r == root else turn.take(r) for r in range(turn.size)]


def reduce(turn: Turn, x: np.ndarray, root: int, op: str) -> np.ndarray:
    """The sum of the arrays of all members at the root; elsewhere the array as it is."""
    found = gather(turn, x, root)
    return _reduced(found, op) if found else x


def scatter(turn: Turn, xs: Sequence[np.ndarray], root: int) -> np.ndarray:
    """The array that the root has for this member."""
    if turn.rank != root:
        return turn.take(root)
    for other in turn.others():
        turn.send(other, xs[other])
    return xs[root]


def barrier(turn: Turn) -> list[np.ndarray]:
    """Return when all members are here, without results."""
    all_gather(turn, np.zeros(0, np.uint8))
    return []


def agree(turn: Turn, value: bytes) -> bool:
    """Return whether all members give the same bytes, and not none.

    Each tells a member twice as far on as before what it knows by then, so that with a thousand members each sends ten
    messages.
    """
    nothing, known = np.zeros(0, np.uint8), np.frombuffer(value, np.uint8)
    far = 1
    while far < turn.size:
        turn.send((turn.rank + far) % turn.size, known)
        heard = turn.take((turn.rank - far) % turn.size)
        known = known if np.array_equal(known, heard) else nothing
        far *= 2
    return bool(known.size)
