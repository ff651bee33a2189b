"""Dataclasses of tensors among the arguments and results of a compiled function: containers, as dicts are.

A batch that is a dataclass is another object in each call. By its identity no program would serve twice, so its fields
are leaves. An object that comes again, such as the trainer that a method belongs to, is known by its identity: what the
function reads of it is watched, and what it counts there is carried. A class turns into one of batches when a second
instance of it comes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from ...._core.arrays import tree
from ...._engine.memory.tensor import Tensor

_KINDS: dict[type, type] = {}
"""For each dataclass what stands for it in a `tree.Spec`."""


def is_plain_object(x: Any) -> bool:
    """Whether something is an instance of a dataclass that is neither called nor a container of its own."""
    cls = type(x)
    return (
        hasattr(cls, "__dataclass_fields__")
        and not callable(x)
        and not isinstance(x, dict | list | tuple)
        and not tree.registered(cls)
    )


class BatchClasses:
    """Of which dataclasses the arguments are a new instance in each call."""

    __slots__ = ("_known", "seen")

    def __init__(self) -> None:
        self.seen: dict[type, Any] = {}
        """The first instance of each; its class alone once another one came."""
        self._known: set[type] = set()

    def __contains__(self, x: Any) -> bool:
        return type(x) in self._known

    def add_all(self, x: Any) -> None:
        """All dataclasses of tensors in a container are containers from now on."""
        for leaf in tree.flatten(x)[0]:
            if is_plain_object(leaf) and _holds_data(leaf):
                for part in (leaf, *_objects_in(leaf)):
                    self._known.add(type(part))
                    self.seen[type(part)] = None

    def comes_anew(self, x: Any) -> bool:
        """Whether this is another instance of a dataclass that is known; its instances are containers from now on."""
        if not is_plain_object(x) or not _holds_data(x):
            return False
        first = self.seen.setdefault(type(x), x)
        if first is x:
            return False
        self._known.add(type(x))
        self.seen[type(x)] = None
        return True


_DATA = (Tensor, jax.Array, np.ndarray, np.generic, int, float, complex, str, bytes, type(None))


def _holds_data(x: Any) -> bool:
    return all(isinstance(v, _DATA) for v in flatten(x, is_plain_object)[0])


def _objects_in(x: Any) -> list[Any]:
    """The dataclasses in the fields of one."""
    values = [getattr(x, name) for name in _fields(x)]
    inner = [v for v in tree.flatten(values)[0] if is_plain_object(v)]
    return [*inner, *(part for v in inner for part in _objects_in(v))]


def _fields(x: Any) -> list[str]:
    names = [f.name for f in dataclasses.fields(x) if hasattr(x, f.name)]
    return [*names, *(k for k in getattr(x, "__dict__", ()) if k not in names)]


def parts_of(x: Any, is_object: Callable[[Any], bool]) -> tuple[list[Any], Any] | None:
    """The children of a container and what else is needed to make it again; None for a leaf."""
    if is_object(x):
        names = _fields(x)
        return [getattr(x, n) for n in names], tuple(names)
    return tree._parts(x)


def flatten(
    x: Any, is_object: Callable[[Any], bool], is_leaf: Callable[[Any], bool] = lambda x: False
) -> tuple[list[Any], tree.Spec]:
    """As `tree.flatten`, where the dataclasses of which `is_object` is true are containers, too."""
    leaves: list[Any] = []
    return leaves, _visit(x, leaves, is_object, is_leaf)


def _visit(x: Any, leaves: list[Any], is_object: Any, is_leaf: Any) -> tree.Spec:
    parts = None if is_leaf(x) else parts_of(x, is_object)
    if parts is None:
        leaves.append(x)
        return tree.LEAF
    kind = _kind_of(type(x)) if is_object(x) else type(x)
    return tree.Spec(kind, parts[1], [_visit(c, leaves, is_object, is_leaf) for c in parts[0]])


def _kind_of(cls: type) -> type:
    kind = _KINDS.get(cls)
    if kind is None:
        kind = _KINDS[cls] = type(cls.__name__, (), {})
        tree.register(kind, lambda x: ([x], None), lambda xs, names: _made(cls, names, xs))
    return kind


def _made(cls: type, names: Sequence[str], values: Sequence[Any]) -> Any:
    out = object.__new__(cls)
    for name, value in zip(names, values, strict=True):
        object.__setattr__(out, name, value)  # a frozen one, too
    return out
