"""Checks of values, declared once: for values that are there, and for those of a program that is being traced.

A check is a function of arrays that calls `fail_if` for everything that may be wrong with them. Where the values are
there, `fail_if` raises. In a trace the condition is a traced bool, which `failure_flag` collects: it becomes an output
of the program, and where it comes out true, the same check is run on the values and raises.
"""

from __future__ import annotations

import functools
import operator
import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Check = Callable[[Sequence[Any]], None]


class _Collected(threading.local):
    flags: list[Any] | None = None
    """The traced conditions of the check that is being traced."""


_collected = _Collected()


def is_traced(x: Any) -> bool:
    """Whether a value is not known yet."""
    return isinstance(x, jax.core.Tracer)


def readable(x: Any) -> Any:
    """An array that a check can compute with: NumPy's, or a traced one as it is."""
    return x if is_traced(x) else _here(x)


def _here(x: Any) -> np.ndarray:
    """The elements of an array, or those that this process has, where others have the rest."""
    if getattr(x, "is_fully_addressable", True) or x.is_fully_replicated:
        return np.asarray(x)
    parts = [np.asarray(s.data) for s in x.addressable_shards]
    flat = np.concatenate([p.reshape(-1) for p in parts])
    return parts[0] if len(parts) == 1 else flat.reshape(-1, *(1,) * (x.ndim - 1))


def integers(x: Any) -> Any:
    """The same of integers, to be compared with Python's, which JAX wants to fit their dtype."""
    return x.astype(np.int64) if is_traced(x) else np.asarray(x)


def numpy_of(x: Any) -> Any:
    """The NumPy to compute with on an array that `readable` gave."""
    return jnp if is_traced(x) else np


def fail_if(failed: Any, error: Callable[[], Exception]) -> None:
    """Raise `error()` where `failed` is true; where it is traced, let the program say so when it runs."""
    if is_traced(failed):
        if _collected.flags is not None:  # else it is JAX that traces, which knows no errors
            _collected.flags.append(failed)
    elif failed:
        raise error()


def failure_flag(check: Check, arrays: Sequence[Any]) -> Any:
    """Whether a check would raise, as a traced bool; None if it looks at no traced value."""
    before, _collected.flags = _collected.flags, []
    try:
        check(arrays)
        flags = _collected.flags
    finally:
        _collected.flags = before
    return functools.reduce(operator.or_, flags) if flags else None


def outside(index: Any, size: int, negative: bool = False) -> Any:
    """Whether any index is not one of a dimension of this size; `negative` ones may count from its end."""
    index = integers(index)
    if not index.size or (not negative and surely_within(index, size)):
        return False
    return ((index < (-size if negative else 0)) | (index >= size)).any()


def surely_within(index: Any, size: int) -> bool:
    """Whether NumPy sees by one comparison that all indices lie in a dimension: as unsigned ones, negatives are big."""
    unsigned = None if is_traced(index) else _UNSIGNED.get(index.dtype)
    return unsigned is not None and not (index.view(unsigned) >= size).any()


_UNSIGNED = {np.dtype(np.int64): np.dtype(np.uint64), np.dtype(np.int32): np.dtype(np.uint32)}


def first_outside(index: Any, size: int, negative: bool = False) -> int:
    """The first index that is none."""
    index = np.asarray(index)
    return int(index[(index < (-size if negative else 0)) | (index >= size)].flat[0])


__all__ = [
    "Check", "fail_if", "failure_flag", "first_outside", "integers", "is_traced", "numpy_of", "outside", "readable",
    "surely_within",
]  # fmt: skip
