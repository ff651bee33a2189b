"""Memory that a storage on the CPU has alone, so that a write to a part of it touches that part and nothing else.

    x[3, 4] = 1   # the storage of x becomes an OwnedStorage: its elements are copied to memory that nobody else has
    x[5] = 2      # written there
    y = x[5] + 1  # the row is copied
    x.sum()       # asks for the array: the storage is an ordinary one again, and the next write to a part copies

An array that has left its storage never changes: a node may have saved it, NumPy or JAX may hold it. So `array` is the
one way out, and reading it ends the ownership for ever. No references are counted, and no reader has to say that it
keeps the array.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ..._core.arrays import transfer
from ..._core.arrays.meta import Meta
from ..._core.state import WRITE_LOCK
from ..run import executors
from .tensor import Extras, Storage, Tensor, held_by

_ARRAY: Any = Storage.array
FROM = 1 << 15
"""Elements of a storage from which on a copy takes longer than what this costs."""


class OwnedStorage(Storage):
    """A storage whose slot holds memory that nobody else has. An ordinary storage becomes one, and back."""

    __slots__ = ()

    def _give(self) -> Any:
        with WRITE_LOCK:  # a thread that writes has it
            if self.__class__ is OwnedStorage:
                self.__class__ = Storage
                _ARRAY.__set__(self, transfer.put(_ARRAY.__get__(self), self.meta.device))
        return self.array

    def _replace(self, value: Any) -> None:
        self.__class__ = Storage
        _ARRAY.__set__(self, value)

    array: Any = property(_give, _replace)


def read_part(st: Storage, m: Meta, offset: int, conj: bool, neg: bool) -> np.ndarray | None:
    """A copy of a view's elements; None where the storage neither has its memory alone nor shares it with NumPy."""
    with WRITE_LOCK:
        memory = _in_place(st, to_write=False) if executors.is_read_in_place(st.meta, m) else None
        if memory is None:
            return None
        out = transfer.aligned(m.shape, m.dtype.np)
        window = executors.window(memory, m, offset)
        if conj:
            np.conjugate(window, out)
        else:
            out[...] = window
        return np.negative(out, out) if neg else out


def may_be(t: Tensor) -> bool:
    """Return whether a tensor is a large storage, as it is, that may have its memory alone."""
    st = t._st
    return t._al is None and t._x.__class__ is not Extras and st.meta.numel >= FROM and st.meta.contiguous


def memory_of(st: Storage) -> np.ndarray | None:
    """The memory of a storage that NumPy shares or that has it alone from now on, for a write; None if neither can be.

    The caller has `WRITE_LOCK`, and does not keep what he gets.
    """
    if (memory := _in_place(st, to_write=True)) is not None:
        return memory
    if st.__class__ is not Storage or st.meta.numel < FROM or not executors.is_here(held := held_by(st)):
        return None
    memory = transfer.aligned(held.shape, held.dtype)
    memory[...] = np.asarray(held)
    _ARRAY.__set__(st, memory)
    st.__class__ = OwnedStorage
    return memory


def write_part(st: Storage, m: Meta, offset: int, conj: bool, neg: bool, value: Any) -> bool:
    """Overwrite a view's elements where they lie; false where the storage can't have its memory alone."""
    if m.overlaps or not executors.is_read_in_place(st.meta, m) or not _is_value(value):
        return False
    memory = memory_of(st)
    if memory is None:
        return False
    value = np.asarray(value)
    value = value.conj() if conj else value
    executors.window(memory, m, offset)[...] = -value if neg else value
    return True


def _in_place(st: Storage, to_write: bool) -> np.ndarray | None:
    """The memory of a storage whose parts can be used where they are."""
    if st.__class__ is OwnedStorage:
        return _ARRAY.__get__(st)
    return st.memory_in_place(to_write) if st.shared and st.meta.numel >= FROM else None


def _is_value(x: Any) -> bool:
    return x.__class__ is np.ndarray or (isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer))
