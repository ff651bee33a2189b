"""BLAS and LAPACK in the thread that calls them.

OpenBLAS divides a product of 90x90 matrices among threads that wait for each other in a busy loop. Where other
processes compute, too, a call then takes 15 ms instead of 0.1. NumPy and SciPy each bring an OpenBLAS of their own;
XLA calls SciPy's.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ..signals import uninterrupted

Step = Callable[..., Any]
_NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads")


@functools.cache
def library(module: Any) -> ctypes.CDLL:
    """The library of a module of Python's, whose symbols are those of the libraries that it uses as well."""
    return ctypes.CDLL(module.__file__)


@functools.cache
def of_numpy() -> Any:
    """The module through which NumPy calls LAPACK."""
    return np.linalg._umath_linalg  # type: ignore[attr-defined]


@functools.cache
def _threads(module: Any) -> _Threads | None:
    """The threads of a module's OpenBLAS; None if it has another BLAS, or one thread."""
    for name in _NAMES:
        try:
            found = library(module)
            asked, set_to = getattr(found, name.format("get")), getattr(found, name.format("set"))
        except (AttributeError, OSError):
            continue
        return None if asked() == 1 else _Threads(asked, set_to)
    return None


class _Threads:
    """The number of threads of one OpenBLAS, which is 1 while somebody calls it alone."""

    def __init__(self, asked: Any, set_to: Any) -> None:
        self._asked, self._set = asked, set_to
        self._lock, self._inside, self._before = threading.Lock(), 0, 1

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = self._asked()
                self._set(1)
            self._inside += 1

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._set(self._before)


def alone(fn: Step, module: Any) -> Step:
    """`fn`, which calls the BLAS of a module, in one thread. Another BLAS than OpenBLAS is left as it is."""
    threads = _threads(module)
    if threads is None:
        return fn

    def call(*args: Any, **named: Any) -> Any:
        with threads:
            return fn(*args, **named)

    return call
