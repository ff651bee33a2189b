"""What is inside of an object of Python, and what it leads to, without running code of its class.

dict_of(model)  # the attributes that `model` keeps itself, whatever its `__getattribute__` says
any(type(x) is set for x in parts_of([cache], lambda x: True))
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any


def dict_of(x: Any) -> dict[str, Any] | None:
    """The attributes of an object, without asking its class."""
    try:
        held = object.__getattribute__(x, "__dict__")
    except AttributeError:
        return None
    return held if type(held) is dict else None


def kind_of(x: Any) -> Any:
    """Return which container of Python's an object is, whatever its class adds; None for one that is none."""
    return next((kind for kind in (dict, list, tuple, set, frozenset, deque) if issubclass(type(x), kind)), None)


def items_of(x: Any) -> list[Any]:
    """The items of a list, tuple, set or deque, or the values of a dict, whatever its class says of iterating."""
    if issubclass(type(x), dict):
        return list(dict.values(x))
    return list(kind_of(x).__iter__(x))


def parts_of(values: Iterable[Any], leads_on: Callable[[Any], bool]) -> Iterator[Any]:
    """Some values and all that they lead to, each once; on from those alone of which `leads_on` is true."""
    rest, seen = list(values), set[int]()
    while rest:
        x = rest.pop()
        if id(x) not in seen:
            seen.add(id(x))
            yield x
            rest += gc.get_referents(x) if leads_on(x) else ()
