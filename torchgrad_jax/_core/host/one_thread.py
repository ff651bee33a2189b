"""BLAS and LAPACK in the thread that calls them.

OpenBLAS divides a product of 90x90 matrices among threads that wait for each other in a busy loop. Where other
processes compute, too, a call then takes 15 ms instead of 0.1. NumPy and SciPy each bring an OpenBLAS of their own;
XLA calls SciPy's.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

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
def _threads(module: Any) -> tuple[Any, Any] | None:
    """What asks for the number of threads of a module's OpenBLAS, and what sets it; None if it has another BLAS."""
    for name in _NAMES:
        try:
            found = library(module)
            return getattr(found, name.format("get")), getattr(found, name.format("set"))
        except (AttributeError, OSError):
            continue
    return None


def alone(fn: Step, module: Any) -> Step:
    """`fn`, which calls the BLAS of a module, in one thread. Another BLAS than OpenBLAS is left as it is."""
    found = _threads(module)
    if found is None or found[0]() == 1:
        return fn
    asked, set_to = found

    def call(*args: Any, **named: Any) -> Any:
        before = asked()
        try:
            set_to(1)
            return fn(*args, **named)
        finally:
            set_to(before)

    return call
