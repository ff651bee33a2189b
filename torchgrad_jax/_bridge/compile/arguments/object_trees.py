"""Dataclasses of tensors among the arguments and results of a compiled function: containers, as dicts are.

A batch that is a dataclass is another object in each call. By its identity no program would serve twice, so its fields
are leaves. An object that comes again, such as the trainer that a method belongs to, is known by its identity: what the
function reads of it is watched, and what it counts there is carried. A class turns into one of batches when a second
instance of it comes.
"""

from __future__ import annotations

import dataclasses
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from ...._core.arrays import tree
from ...._core.arrays.devices import device
from ...._core.arrays.dtypes import dtype
from ...._core.errors.messages import AsWritten
from ...._core.python_classes import is_python_class
from ...._core.python_code import is_ours
from ...._engine.memory.tensor import Tensor

_KINDS: dict[type, type] = {}
"""For each dataclass what stands for it in a `tree.Spec`."""


def is_plain_object(x: Any) -> bool:
    """Return whether something is an instance of a dataclass that is neither called nor a container of its own."""
    cls = type(x)
    return (
        hasattr(cls, "__dataclass_fields__")
        and not callable(x)
        and not isinstance(x, dict | list | tuple)
        and not tree.registered(cls)
    )


def is_object_in_python(x: Any) -> bool:
    """Return whether something is nothing but its attributes: an instance of a user's class that has no state in C."""
    cls = type(x)
    known = _PLAIN.get(cls)
    if known is None:
        known = _PLAIN[cls] = (
            all(base is object or is_python_class(base) for base in cls.__mro__)
            and not any(name in vars(base) for base in cls.__mro__ for name in _MORE_THAN_ATTRIBUTES)
            and not is_ours(cls)
            and not tree.registered(cls)
        )
    return known


_MORE_THAN_ATTRIBUTES = ("__call__", "__del__", "__next__", "named_parameters", "_member_map_")
"""What a class has whose instances are functions, are told when they go, are iterators, modules or members of enums."""
_PLAIN: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()


def is_holder_of_tensors(x: Any) -> bool:
    """Whether an argument may be another object in each call, with tensors in it: a dataclass, or a cache of keys."""
    if is_plain_object(x):
        return True
    return is_object_in_python(x) and any(isinstance(v, Tensor) for v in flatten(x, is_object_in_python)[0])


def refuse_repeated(x: Any, is_object: Callable[[Any], bool], seen: set[int] | None = None) -> None:
    """Refuse a result in which one object is there twice: a program would make two of it."""
    seen = set() if seen is None else seen
    parts = parts_of(x, is_object)
    if parts is not None and is_object(x):
        if id(x) in seen:
            raise AsWritten(
                f"it makes an object, a {type(x).__name__}, that its result leads to in two ways", lasting=True
            )
        seen.add(id(x))
    for part in () if parts is None else parts[0]:
        refuse_repeated(part, is_object, seen)


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

    def is_new_each_call(self, x: Any) -> bool:
        """Whether this is another instance of a dataclass that is known; its instances are containers from now on."""
        if not (is_plain_object(x) or is_object_in_python(x)) or type(x) in self._known:
            return False
        if not (is_holder_of_tensors(x) and _holds_data(x)):
            return False
        first = self.seen.setdefault(type(x), x)
        if first is x:
            return False
        for part in (x, *_objects_in(x)):
            self._known.add(type(part))
            self.seen[type(part)] = None
        return True


_DATA = (Tensor, jax.Array, np.ndarray, np.generic, int, float, complex, str, bytes, type(None), type, dtype, device)


def _is_container(x: Any) -> bool:
    return is_plain_object(x) or is_object_in_python(x)


def _holds_data(x: Any) -> bool:
    return all(isinstance(v, _DATA) for v in flatten(x, _is_container)[0])


def _objects_in(x: Any) -> list[Any]:
    """The dataclasses in the fields of one."""
    values = [getattr(x, name) for name in _fields(x)]
    inner = [v for v in tree.flatten(values)[0] if _is_container(v)]
    return [*inner, *(part for v in inner for part in _objects_in(v))]


def _fields(x: Any) -> list[str]:
    slots = (
        name for cls in type(x).__mro__ for name, v in vars(cls).items() if isinstance(v, types.MemberDescriptorType)
    )
    fields = (f.name for f in dataclasses.fields(x)) if dataclasses.is_dataclass(x) else ()
    names = [name for name in dict.fromkeys([*fields, *slots]) if hasattr(x, name)]
    return [*names, *(k for k in getattr(x, "__dict__", ()) if k not in names)]


def parts_of(x: Any, is_object: Callable[[Any], bool]) -> tuple[list[Any], Any] | None:
    """The children of a container and what else is needed to make it again; None for a leaf."""
    if is_object(x):
        names = _fields(x)
        return [getattr(x, n) for n in names], tuple(names)
    parts = tree._parts(x)
    if parts is not None and isinstance(x, tuple) and type(x) is not tuple and getattr(x, "__dict__", None):
        return None  # a named tuple with attributes of its own, which it would lose
    return parts


def containers_of(x: Any, is_object: Callable[[Any], bool]) -> Iterator[Any]:
    """A container and those in it, where dataclasses are containers, too; of these the dicts of their attributes."""
    parts = parts_of(x, is_object)
    if parts is None:
        return
    yield x
    if hasattr(x, "__dict__") and not isinstance(x, dict | list | tuple):
        yield vars(x)
    for part in parts[0]:
        yield from containers_of(part, is_object)


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
