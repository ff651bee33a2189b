"""A failing input made small: fewer elements and simple numbers, as far as the failure stays."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

Arrays = dict[str, Any]
_SIMPLE = (0.0, 1.0, -1.0, 2.0, 0.5, -3.0)
_TRIES = 60


def shrunk(arrays: Mapping[str, Any], fails: Callable[[Arrays], bool]) -> Arrays:
    """Smaller arrays with which `fails` still says yes; those given where none are found.

    Sizes that are equal shrink together, since a function that takes both mostly needs them equal.
    hypothesis does the search.

    Args:
        arrays: a failing input, by name.
        fails: whether an input fails in the same way.
    """
    hypothesis = _hypothesis()
    sizes = sorted({n for x in arrays.values() for n in np.shape(x) if n > 1})
    strategy = _strategy(hypothesis.strategies, arrays, sizes)
    settings = hypothesis.settings(
        max_examples=_TRIES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    try:
        found = hypothesis.find(strategy, lambda drawn: fails(_made(arrays, sizes, *drawn)), settings=settings)
    except hypothesis.errors.NoSuchExample:
        return dict(arrays)
    return _made(arrays, sizes, *found)


def _hypothesis() -> Any:
    if importlib.util.find_spec("hypothesis") is None:
        raise RuntimeError("shrink=True needs hypothesis, which is not installed")
    importlib.import_module("hypothesis.strategies")
    return importlib.import_module("hypothesis")


def _strategy(st: Any, arrays: Mapping[str, Any], sizes: list[int]) -> Any:
    """New sizes, and for each array whether it keeps its numbers or gets simple ones."""
    smaller = st.tuples(*(st.integers(1, n) for n in sizes))
    count = sum(jnp.issubdtype(np.asarray(x).dtype, jnp.inexact) for x in arrays.values())
    # 0 is what shrinking prefers: small numbers in a row, then mixed ones, then those that were given.
    how = st.tuples(*(st.integers(0, 2) for _ in range(count)))
    return st.tuples(smaller, how)


def _made(arrays: Mapping[str, Any], sizes: list[int], smaller: tuple[int, ...], how: tuple[int, ...]) -> Arrays:
    to = dict(zip(sizes, smaller))
    ways = iter(how)
    out: Arrays = {}
    for name, x in arrays.items():
        whole = np.asarray(x)
        part = whole[tuple(slice(to.get(n, n)) for n in whole.shape)]
        out[name] = _numbers(part, next(ways)) if jnp.issubdtype(whole.dtype, jnp.inexact) else part
    return out


def _numbers(part: np.ndarray, way: int) -> np.ndarray:
    if way == 2:
        return part
    simple = (1.0, 2.0) if way == 0 else _SIMPLE
    return np.resize(np.asarray(simple, np.float64), part.shape).astype(part.dtype)
