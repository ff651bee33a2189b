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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

Check = Callable[[Sequence[Any]], None]


class Bounds(NamedTuple):
    """Which indices are in range: from `low` up to and without `high`, and `ignored`, if there is such a one."""

    low: int
    high: int
    ignored: int | None = None

    def broken_by(self, index: np.ndarray) -> bool:
        """Return whether any of these indices is out of range."""
        return not all_between(index, self.low, self.high) and bool(self.wrong(index).any())

    def wrong(self, index: Any) -> Any:
        """Return which of these indices are out of range."""
        index, lib = integers(index), numpy_of(index)
        wrong = lib.less(index, self.low) | lib.greater_equal(index, self.high)
        return wrong if self.ignored is None else wrong & lib.not_equal(index, self.ignored)


def all_between(numbers: np.ndarray, low: int, high: int) -> bool:
    """Return whether all of some integers are from `low` up to and without `high`."""
    if not numbers.size:
        return True
    if numbers.size <= _FEW:
        found = (numbers if numbers.ndim == 1 else numbers.ravel()).tolist()
        return low <= min(found) and max(found) < high
    # The cheapest calls of NumPy's that tell.
    return low <= numbers.item(numbers.argmin()) and numbers.item(numbers.argmax()) < high


_FEW = 64
"""So many numbers are looked at by Python sooner than by NumPy."""


class Condition(NamedTuple):
    """What a traced check fails on."""

    failed: Any
    """A traced bool."""
    index: Any = None
    """The traced indices, where all that it asks is whether any is out of range."""
    bounds: Bounds | None = None


class _Collected(threading.local):
    conditions: list[Condition] | None = None
    """Those of the check that is being traced."""
    of_indices: Condition | None = None
    """The one that `outside` gave last."""


_collected = _Collected()


def is_traced(x: Any) -> bool:
    """Return whether a value is not known yet."""
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
    return jnp.astype(x, np.int64) if is_traced(x) else np.asarray(x)


def numpy_of(x: Any) -> Any:
    """The NumPy to compute with on an array that `readable` gave."""
    return jnp if is_traced(x) else np


def fail_if(failed: Any, error: Callable[[], Exception]) -> None:
    """Raise `error()` where `failed` is true; where it is traced, let the program say so when it runs."""
    if is_traced(failed):
        # Otherwise JAX is tracing, where no error can be raised.
        if _collected.conditions is not None:
            last = _collected.of_indices
            known = last if last is not None and last.failed is failed else None
            _collected.conditions.append(known or Condition(failed))
    elif failed:
        raise error()


def conditions(check: Check, arrays: Sequence[Any]) -> list[Condition]:
    """Return what a check of these arrays fails on, as far as that is traced."""
    before, _collected.conditions = _collected.conditions, []
    try:
        check(arrays)
        return _collected.conditions
    finally:
        _collected.conditions, _collected.of_indices = before, None


def any_failed(found: Sequence[Condition]) -> Any:
    """Return whether any of these conditions fails, as a traced bool; None if there is none."""
    flags = [condition.failed for condition in found]
    return functools.reduce(operator.or_, flags) if flags else None


def failure_flag(check: Check, arrays: Sequence[Any]) -> Any:
    """Return whether a check would raise, as a traced bool; None if it looks at no traced value."""
    return any_failed(conditions(check, arrays))


def outside(index: Any, size: int, negative: bool = False, ignored: int | None = None) -> Any:
    """Return whether any index is out of range for a dimension of this size.

    `negative` ones may count from its end, and an `ignored` one may be anywhere.
    """
    if index.__class__ is np.ndarray and all_between(index, -size if negative else 0, size):  # nearly always
        return False
    bounds = Bounds(-size if negative else 0, size, ignored)
    if not is_traced(index):
        return bounds.broken_by(np.asarray(index))
    if not index.size:
        return False
    _collected.of_indices = Condition(bounds.wrong(index).any(), index, bounds)
    return _collected.of_indices.failed


def first_outside(index: Any, size: int, negative: bool = False, ignored: int | None = None) -> int:
    """The first index that is out of range."""
    index = np.asarray(index)
    return int(index[Bounds(-size if negative else 0, size, ignored).wrong(index)].flat[0])
