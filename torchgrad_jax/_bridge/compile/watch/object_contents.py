"""Find what is inside of an object, without running code of its class.

dict_of(model)          # the attributes that `model` keeps itself, whatever its `__getattribute__` says
containers_in([{}, 1])  # the list, and the dict in it
holds_tensors(cache)    # whether it leads to a tensor
"""

from __future__ import annotations

import gc
import types
from collections.abc import Iterator
from typing import Any

import jax

from ...._engine.memory.tensor import Tensor


def dict_of(x: Any) -> dict[str, Any] | None:
    """The attributes of an object, without asking its class."""
    try:
        held = object.__getattribute__(x, "__dict__")
    except AttributeError:
        return None
    return held if type(held) is dict else None


def containers_in(x: Any) -> Iterator[Any]:
    """A dict or list and those in it."""
    if issubclass(type(x), dict | list):
        yield x
    for part in x.values() if issubclass(type(x), dict) else x if issubclass(type(x), list | tuple) else ():
        if issubclass(type(part), dict | list | tuple):
            yield from containers_in(part)


def holds_tensors(x: Any) -> bool:
    """Whether a tensor is in an object, or in what it leads to; one that leads to very much may hold one."""
    rest, seen = [x], set[int]()
    while rest and len(seen) < _MOST_LOOKED_AT:
        part = rest.pop()
        if issubclass(type(part), Tensor | jax.Array | jax.core.Tracer):
            return True
        if id(part) not in seen and not issubclass(
            type(part), type | types.ModuleType | types.FunctionType | types.CodeType
        ):
            seen.add(id(part))
            rest += gc.get_referents(part)
    return bool(rest)


_MOST_LOOKED_AT = 1000
