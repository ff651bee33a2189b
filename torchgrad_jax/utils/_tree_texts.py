"""Structures of trees as JSON, as `torch.utils._pytree.treespec_dumps` writes them and `treespec_loads` reads them."""

from __future__ import annotations

import enum
import functools
import importlib
import json
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

from .._core.arrays import tree
from .._core.arrays.shapes import Size
from ._tree_nodes import SERIALIZED, Serialized, is_namedtuple_class

_PROTOCOL = 1
_NAMEDTUPLE = "collections.namedtuple"
_LEAF = {"type": None, "context": None, "children_spec": []}


class _Enums(json.JSONEncoder):
    """Writes members of enums by the names of their classes."""

    def default(self, o: Any) -> Any:
        if isinstance(o, enum.Enum):
            kind = type(o)
            return {"__enum__": True, "fqn": f"{kind.__module__}:{kind.__qualname__}", "name": o.name}
        return super().default(o)


def _read_enum(value: dict[str, Any]) -> Any:
    if "__enum__" not in value:
        return value
    module, _, path = value["fqn"].partition(":")
    kind: Any = functools.reduce(getattr, path.split("."), importlib.import_module(module))
    return kind[value["name"]]


def _dump_defaultdict(context: Any) -> Any:
    factory, keys = context
    return {
        "default_factory_module": factory.__module__,
        "default_factory_name": factory.__qualname__,
        "dict_context": keys,
    }


def _load_defaultdict(context: Any) -> Any:
    module = importlib.import_module(context["default_factory_module"])
    return [functools.reduce(getattr, context["default_factory_name"].split("."), module), context["dict_context"]]


SERIALIZED.update(
    {
        tuple: Serialized("builtins.tuple"),
        list: Serialized("builtins.list"),
        dict: Serialized("builtins.dict"),
        OrderedDict: Serialized("collections.OrderedDict"),
        defaultdict: Serialized("collections.defaultdict", _dump_defaultdict, _load_defaultdict),
        deque: Serialized("collections.deque"),
        Size: Serialized("torch.Size"),
    }
)


def _write_json(spec: tree.Spec) -> dict[str, Any]:
    if spec.kind is None:
        return _LEAF
    name, context = _name_and_context(spec)
    return {"type": name, "context": context, "children_spec": [_write_json(c) for c in spec.children]}


def _name_and_context(spec: tree.Spec) -> tuple[str, Any]:
    assert spec.kind is not None
    row = SERIALIZED.get(spec.kind)
    if is_namedtuple_class(spec.kind):
        if row is None or row.name is None:
            raise NotImplementedError(
                f"Can't serialize TreeSpec of namedtuple class {spec.kind} because we didn't register a "
                "serializated_type_name. Please register using `_register_namedtuple`."
            )
        return _NAMEDTUPLE, row.name
    if row is None or row.name is None:
        raise NotImplementedError(
            f"No registered serialization name for {spec.kind} found. Please update your _register_pytree_node call "
            "with a `serialized_type_name` kwarg."
        )
    if row.dump is not None:
        return row.name, row.dump(spec.context)
    try:
        return row.name, json.dumps(spec.context, cls=_Enums)
    except TypeError as error:
        raise TypeError(
            "Unable to serialize context. Please make the context json dump-able, or register a custom serializer "
            "using _register_pytree_node."
        ) from error


def _read_json(given: dict[str, Any]) -> tree.Spec:
    if given == _LEAF:
        return tree.LEAF
    named = given["context"] if given["type"] == _NAMEDTUPLE else given["type"]
    found = [kind for kind, row in SERIALIZED.items() if row.name == named]
    if not found:
        raise NotImplementedError(f"Deserializing {named} in pytree is not registered.")
    kind = found[-1]
    children = [_read_json(c) for c in given["children_spec"]]
    return tree.Spec(kind, _read_context(kind, given["context"]), children)


def _read_context(kind: type, context: Any) -> Any:
    if is_namedtuple_class(kind):
        return kind
    load: Callable[[Any], Any] | None = SERIALIZED[kind].load
    return json.loads(context, object_hook=_read_enum) if load is None else load(context)


def treespec_dumps(treespec: tree.Spec, protocol: int | None = None) -> str:
    """The structure of a tree as JSON.

    Args:
        treespec: what `tree_structure` gives.
        protocol: 1, the only one.

    Raises:
        NotImplementedError: a container's class has no name in files; registering it with `serialized_type_name`
            gives it one.

    Example:
        >>> from torchgrad_jax.utils import _pytree as pytree
        >>> text = pytree.treespec_dumps(pytree.tree_structure([1, (2, 3)]))
        >>> pytree.treespec_loads(text).unflatten("abc")
        ['a', ('b', 'c')]
    """
    if not isinstance(treespec, tree.Spec):
        raise TypeError(f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}.")
    _check_protocol(_PROTOCOL if protocol is None else protocol)
    return json.dumps((_PROTOCOL, _write_json(treespec)), cls=_Enums)


def treespec_loads(serialized: str) -> tree.Spec:
    """The structure that `treespec_dumps` wrote."""
    protocol, given = json.loads(serialized)
    _check_protocol(protocol)
    return _read_json(given)


def _check_protocol(protocol: Any) -> None:
    if protocol != _PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{_PROTOCOL}]")
