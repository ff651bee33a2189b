"""Kernels that move elements: NumPy does their first uses, XLA compiles what comes again.

Compiling one costs as much as a thousand copies of a small array, and most views of a program's first steps are
looked at once or twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from numpy.lib.stride_tricks import as_strided

from .._core.meta import Meta
from .._core.transfer import put

_USES = 8
_MOST = 1 << 14
"""Elements; of what is larger, NumPy's view would keep XLA from writing into the same memory."""


class FirstUses:
    """A compiled function of a storage's array, an offset and more, with NumPy in its place at first.

    Args:
        compiled: the function.
        host: the same for NumPy arrays; it may give a view of its arguments.
        out: what it returns.
    """

    __slots__ = ("_host", "_left", "_out", "call", "compiled")

    def __init__(self, compiled: Callable[..., Any], host: Callable[..., Any], out: Meta) -> None:
        self.compiled, self._host, self._out, self._left = compiled, host, out, _USES
        self.call: Callable[..., Any] = self._first
        """What to call now."""

    def _first(self, array: Any, offset: int, *more: Any) -> Any:
        if not all(_on_the_host(x) for x in (array, *more)):
            return self.compiled(array, offset, *more)
        self._left -= 1
        if self._left <= 0:
            self.call = self.compiled
        found = self._host(np.asarray(array), offset, *map(np.asarray, more))
        return put(np.array(found, order="C"), self._out.device)


def _on_the_host(x: Any) -> bool:
    return (
        isinstance(x, jax.Array)
        and not isinstance(x, jax.core.Tracer)
        and x.size <= _MOST
        and not x.committed
        and isinstance(x.sharding, jax.sharding.SingleDeviceSharding)
        and next(iter(x.devices())).platform == "cpu"
    )


def fits(store: Meta, m: Meta) -> bool:
    """Whether NumPy can do the same: the storage is in the order of memory and of the view's dtype."""
    return (
        store.contiguous and store.dtype is m.dtype and store.device.type == "cpu" and m.numel > 0
    )


def reading(m: Meta, conj: bool, neg: bool) -> Callable[[np.ndarray, int], np.ndarray]:
    """The view `m` of an array at an offset."""

    def read(array: np.ndarray, offset: int) -> np.ndarray:
        x = _window(array.reshape(-1), m, offset)
        x = x.conj() if conj else x
        return -x if neg else x

    return read


def writing(m: Meta, conj: bool, neg: bool) -> Callable[[np.ndarray, int, np.ndarray], np.ndarray]:
    """An array whose view `m` at an offset is replaced."""

    def write(array: np.ndarray, offset: int, value: np.ndarray) -> np.ndarray:
        out = array.copy()
        value = value.conj() if conj else value
        _window(out.reshape(-1), m, offset)[...] = -value if neg else value
        return out

    return write


def _window(flat: np.ndarray, m: Meta, offset: int) -> np.ndarray:
    return as_strided(flat[offset:], m.shape, [s * flat.itemsize for s in m.strides])
