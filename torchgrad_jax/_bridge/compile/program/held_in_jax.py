"""Arrays of NumPy's that a program is given again and again are held in arrays of JAX's: each run would copy them."""

from __future__ import annotations

import weakref
from typing import Any

import jax.numpy as jnp
import numpy as np

from ...._core.state import WRITE_LOCK
from ...._engine.memory.tensor import Storage


def hold_in_jax(st: Any) -> Any:
    """The array of a storage, from now on one of JAX's unless NumPy shares the memory."""
    if type(st) is not Storage or type(st.array) is not np.ndarray:
        return st.array
    with WRITE_LOCK:  # another thread may be writing to it
        st.array = array = jnp.array(st.array)
    return array


class GivenAgain:
    """Finds arguments of a program that are those of its last run, such as weights: each run would copy them to JAX.

    A new batch is held as it is: the program copies it faster than `jnp.array` does.
    """

    __slots__ = ("_last",)

    def __init__(self, count: int) -> None:
        self._last: list[Any] = [None] * count

    def hold_in_jax(self, storages: list[Any], arrays: list[Any]) -> list[Any]:
        """The arrays for this run, of which some of the storages hold some."""
        last = self._last
        self._last = [weakref.ref(x) if type(x) is np.ndarray else None for x in arrays]
        return [
            x if known is None or known() is not x else hold_in_jax(st) for known, st, x in zip(last, storages, arrays)
        ]
