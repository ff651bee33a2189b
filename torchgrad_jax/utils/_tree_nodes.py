"""How the containers of `torch.utils._pytree` are taken apart: keys of paths, and classes that a program adds."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .._core.arrays import tree as _tree
from .._core.errors import warn

WITH_KEYS: dict[type, Callable[[Any], Any]] = {}
"""By class: from an instance to its parts, each with its key, and what else is needed."""
CONSTANT_NODES: set[type] = set()


@dataclass(frozen=True)
class Serialized:
    """What a class of containers is called in a text, and how its context is written there and read again."""

    name: str | None
    dump: Callable[[Any], Any] | None = None
    load: Callable[[Any], Any] | None = None


SERIALIZED: dict[type, Serialized] = {}
"""By class: what `treespec_dumps` writes."""
Keyed = list[tuple[Any, Any]]


@dataclass(frozen=True)
class MappingKey:
    """A place in a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """Return what is there."""
        return mapping[self.key]


@dataclass(frozen=True)
class SequenceKey:
    """A place in a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """Return what is there."""
        return sequence[self.idx]


@dataclass(frozen=True)
class GetAttrKey:
    """An attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """Return what is there."""
        return getattr(obj, self.name)


def _list_flatten(d: list[Any]) -> tuple[list[Any], Any]:
    return d, None


def _list_unflatten(values: Iterable[Any], context: Any) -> list[Any]:
    return list(values)


def _list_flatten_with_keys(d: Iterable[Any]) -> tuple[Keyed, Any]:
    return [(SequenceKey(i), v) for i, v in enumerate(d)], None


_tuple_flatten_with_keys = _list_flatten_with_keys


def _tuple_flatten(d: tuple[Any, ...]) -> tuple[list[Any], Any]:
    return list(d), None


def _tuple_unflatten(values: Iterable[Any], context: Any) -> tuple[Any, ...]:
    return tuple(values)


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], Any]:
    return list(d.values()), list(d)


def _dict_unflatten(values: Iterable[Any], context: Any) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[Keyed, list[Any]]:
    return [(MappingKey(k), v) for k, v in d.items()], list(d)


_ordereddict_flatten = _odict_flatten = _dict_flatten
_ordereddict_flatten_with_keys = _dict_flatten_with_keys


def _ordereddict_unflatten(values: Iterable[Any], context: Any) -> OrderedDict[Any, Any]:
    return OrderedDict(zip(context, values, strict=True))


_odict_unflatten = _ordereddict_unflatten


def _defaultdict_flatten(d: defaultdict[Any, Any]) -> tuple[list[Any], Any]:
    return list(d.values()), [d.default_factory, list(d)]


def _defaultdict_flatten_with_keys(d: defaultdict[Any, Any]) -> tuple[Keyed, Any]:
    return _dict_flatten_with_keys(d)[0], [d.default_factory, list(d)]


def _defaultdict_unflatten(values: Iterable[Any], context: Any) -> defaultdict[Any, Any]:
    factory, keys = context
    return defaultdict(factory, zip(keys, values, strict=True))


def _namedtuple_flatten(d: Any) -> tuple[list[Any], Any]:
    return list(d), type(d)


def _namedtuple_flatten_with_keys(d: Any) -> tuple[Keyed, Any]:
    return [(GetAttrKey(f), v) for f, v in zip(d._fields, d, strict=True)], type(d)


def _namedtuple_unflatten(values: Iterable[Any], context: Any) -> Any:
    return context(*values)


def _deque_flatten(d: deque[Any]) -> tuple[list[Any], Any]:
    return list(d), d.maxlen


def _deque_flatten_with_keys(d: deque[Any]) -> tuple[Keyed, Any]:
    return _list_flatten_with_keys(d)[0], d.maxlen


def _deque_unflatten(values: Iterable[Any], context: Any) -> deque[Any]:
    return deque(values, maxlen=context)


def is_namedtuple(obj: Any) -> bool:
    """Return whether something is a named tuple, or a class of such."""
    kind = obj if isinstance(obj, type) else type(obj)
    fields = getattr(kind, "_fields", None)
    return issubclass(kind, tuple) and isinstance(fields, tuple) and callable(getattr(kind, "_make", None))


def is_namedtuple_class(cls: Any) -> bool:
    """Return whether something is a class of named tuples."""
    return isinstance(cls, type) and is_namedtuple(cls)


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[list[Any], Any]],
    unflatten_fn: Callable[[Any, Any], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Any = None,
    from_dumpable_context: Any = None,
    flatten_with_keys_fn: Any = None,
) -> None:
    """Let instances of a class be containers, for functions of this module and for transforms of functions.

    Args:
        cls: exactly this class, and none derived from it.
        flatten_fn: from an instance to its parts and whatever else is needed to make it.
        unflatten_fn: from these two to an instance.
        serialized_type_name: what `treespec_dumps` calls the class; without it, it cannot be written.
        to_dumpable_context: from what else is needed to something that JSON can hold.
        from_dumpable_context: back from that.
        flatten_with_keys_fn: the same as `flatten_fn`, with a key before each part, for paths.
    """
    if _tree.registered(cls):
        raise ValueError(f"{cls} is already registered as pytree node.")
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered.")
    _tree.register(cls, flatten_fn, unflatten_fn)
    SERIALIZED[cls] = Serialized(serialized_type_name, to_dumpable_context, from_dumpable_context)
    if flatten_with_keys_fn is not None:
        WITH_KEYS[cls] = flatten_with_keys_fn


_private_register_pytree_node = register_pytree_node


def _register_pytree_node(
    cls: type, flatten_fn: Any, unflatten_fn: Any, to_str_fn: Any = None, maybe_from_str_fn: Any = None, **options: Any
) -> None:
    """The old name of `register_pytree_node`."""
    warn.to_user(
        "`torch.utils._pytree._register_pytree_node` is deprecated. "
        "Please use `torch.utils._pytree.register_pytree_node` instead.",
        FutureWarning,
    )
    if to_str_fn is not None or maybe_from_str_fn is not None:
        warn.to_user(
            "`to_str_fn` and `maybe_from_str_fn` is deprecated. "
            "Please use `to_dumpable_context` and `from_dumpable_context` instead.",
            FutureWarning,
        )
    register_pytree_node(cls, flatten_fn, unflatten_fn, **options)


def _deregister_pytree_node(cls: type) -> None:
    """Make instances of a class leaves again."""
    del _tree._NODES[cls]
    SERIALIZED.pop(cls, None)
    WITH_KEYS.pop(cls, None)
    CONSTANT_NODES.discard(cls)


def _register_namedtuple(cls: type, *, serialized_type_name: str) -> None:
    """Name a class of named tuples, which are containers without."""
    register_pytree_node(
        cls,
        _namedtuple_flatten,
        _namedtuple_unflatten,
        serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=_namedtuple_flatten_with_keys,
    )


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Let instances of a dataclass be containers, with the fields that are not None as parts.

    Args:
        cls: a dataclass, or a class that is made from its fields by name as one is.
        field_names: the fields; by default all that the dataclass is made from.
        drop_field_names: fields that need not be among them.
        serialized_type_name: what `treespec_dumps` calls the class.

    Raises:
        ValueError: the names are not all the fields less those dropped, or the class is no dataclass and no names
            are given.
    """
    names = _fields(cls, field_names, drop_field_names or [])

    def flatten(obj: Any) -> tuple[list[Any], Any]:
        there = [n for n in names if getattr(obj, n) is not None]
        return [getattr(obj, n) for n in there], [there, [n for n in names if n not in there]]

    def with_keys(obj: Any) -> tuple[Keyed, Any]:
        parts, (there, _) = flatten(obj)
        return [(GetAttrKey(n), v) for n, v in zip(there, parts, strict=True)], there

    def unflatten(values: Iterable[Any], context: Any) -> Any:
        there, absent = context
        return cls(**dict(zip(there, values, strict=True)), **dict.fromkeys(absent))

    if _tree.registered(cls):
        warn.to_user(f"{cls} is already registered as pytree node. Overwriting the previous registration.")
        _deregister_pytree_node(cls)
    register_pytree_node(
        cls, flatten, unflatten, serialized_type_name=serialized_type_name, flatten_with_keys_fn=with_keys
    )


def _fields(cls: Any, names: list[str] | None, dropped: list[str]) -> list[str]:
    if not dataclasses.is_dataclass(cls):
        if names is None:
            raise ValueError(
                f"field_names must be specified with a list of all fields used to initialize {cls}, as it is not a "
                "dataclass."
            )
        return names
    fields = [f.name for f in dataclasses.fields(cls) if f.init]
    if names is None:
        return fields
    missing = set(fields) - set(dropped) - set(names)
    more = set(names) - (set(fields) - set(dropped))
    text = "field_names does not include all dataclass fields.\n"
    if missing:
        text += (
            f"Missing fields in `field_names`: {missing}. If you want to include these fields in the pytree, please "
            "add them to `field_names`, otherwise please add them to `drop_field_names`.\n"
        )
    if more:
        text += (
            f"Unexpected fields in `field_names`: {more}. Please remove these fields, or add them to "
            "`drop_field_names`.\n"
        )
    if missing or more:
        raise ValueError(text)
    return names


@dataclass(frozen=True)
class ConstantNode:
    """What is needed to make a constant: the constant."""

    value: Any


def register_constant(cls: type) -> None:
    """Let instances of a class be containers without parts.

    Raises:
        TypeError: the class does not say when its instances are equal, or they cannot be hashed.
    """
    defined = {"__eq__": cls.__eq__ is not object.__eq__, "__hash__": cls.__hash__ is not None}
    for name, given in defined.items():
        if not given:
            raise TypeError(f"register_constant(cls) expects `cls` to have a non-default `{name}` implementation.")

    def flatten(obj: Any) -> tuple[list[Any], Any]:
        return [], ConstantNode(obj)

    register_pytree_node(cls, flatten, lambda _, context: context.value, flatten_with_keys_fn=flatten)
    CONSTANT_NODES.add(cls)


def is_constant_class(cls: Any) -> bool:
    """Return whether instances of a class were said to be constants."""
    return isinstance(cls, type) and cls in CONSTANT_NODES
