"""NumPy arrays that become tensors inside of a compiled function, and tensors that become NumPy arrays.

`torch.from_numpy(array)` gives a tensor on the memory of the array. A program has no such memory: the tensor is a
constant of it, a copy. That is no difference where the function only reads the tensor. Where it writes to one of the
two, or returns the tensor, the other one would not know; so such a function runs eagerly. So does one that
writes to a tensor while it has an array of its memory, `tensor.numpy()`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from ...._core.errors.messages import AsWritten
from ...._engine.memory.shared import is_shared
from ...._engine.memory.tensor import Storage

LOST_TO_NUMPY = "a tensor on the memory of a NumPy array is written to or returned"


class CopiedArray:
    """An array, the storage that got a copy of it, and what both held then."""

    __slots__ = ("array", "content", "held", "owner", "storage")

    def __init__(self, array: np.ndarray, storage: Storage) -> None:
        self.array, self.storage = array, storage
        self.content, self.held = array.tobytes(), storage.array
        self.owner: Any = array
        while isinstance(self.owner.base, np.ndarray):
            self.owner = self.owner.base

    def is_known_elsewhere(self) -> bool:
        """Return whether somebody else has the memory, who could see a difference."""
        ours = 2 + (self.array is self.owner) + (self.array.base is self.owner)
        return self.owner.base is not None or sys.getrefcount(self.owner) > ours

    def has_parted(self) -> bool:
        """Return whether the array or the storage was written to since, or the storage is a result of the program."""
        return self.storage.array is not self.held or self.array.tobytes() != self.content


def is_held_by_numpy(st: Storage) -> bool:
    """Return whether somebody has a NumPy array of a storage's memory."""
    return is_shared(st) and not st.pointer.is_alone()


def refuse_separated(copied: Iterable[CopiedArray]) -> None:
    """Give up a program whose tensors would no longer have the memory of their arrays."""
    if any(c.is_known_elsewhere() and c.has_parted() for c in copied):
        raise AsWritten(LOST_TO_NUMPY, lasting=True)
