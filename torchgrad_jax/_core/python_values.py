"""Whether code can tell two values of Python apart.

same(1, 1.0)                          # False: code may ask for the type
is_same_value((1, "a"), (1, "a"))     # True: plain values are the same wherever they are
looks_the_same([model, 1], [model, 1])  # True: a new container of the same items
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import is_
from typing import Any

PLAIN_VALUES = (int, float, complex, bool, str, bytes, type(None))
"""Classes of values that are the same wherever they are, as long as they are equal."""


def same(a: Any, b: Any) -> bool:
    """Return whether Python code can't tell two numbers apart: they have one type, and 0.0 is not -0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if a == b:
        return not isinstance(a, float) or bool(a) or math.copysign(1, a) == math.copysign(1, b)
    return a != a and b != b


def is_same_value(a: Any, b: Any) -> bool:
    """Return whether code cannot tell two values apart: one object, or plain values of one type (`1` is not `1.0`)."""
    if type(a) is tuple and type(b) is tuple:
        return len(a) == len(b) and are_same_values(a, b)
    return a is b or (issubclass(type(a), PLAIN_VALUES) and same(a, b) and not _has_attributes(a))


def _has_attributes(x: Any) -> bool:
    """Return whether a plain value is of a class whose instances have attributes, which differ between equal values."""
    return type(x) not in PLAIN_VALUES and (hasattr(x, "__dict__") or bool(getattr(type(x), "__slots__", ())))


def are_same_values(a: Iterable[Any], b: Iterable[Any]) -> bool:
    """Return whether code cannot tell the values in two sequences of one length apart."""
    return all(map(is_, a, b)) or all(map(is_same_value, a, b))


def looks_the_same(now: Any, before: Any, depth: int = 0) -> bool:
    """Return whether code cannot tell two values apart: equal plain values, or a new container of the same items."""
    if is_same_value(now, before):
        return True
    if (
        type(now) is not type(before)
        or type(now) not in (list, dict, tuple, set)
        or len(now) != len(before)
        or depth > 8
    ):
        return False
    if issubclass(type(now), set):
        return now == before
    if issubclass(type(now), dict):
        same_keys = all(map(is_same_value, now, before))
        return same_keys and all(looks_the_same(now[k], before[k], depth + 1) for k in now)
    return all(looks_the_same(a, b, depth + 1) for a, b in zip(now, before))
