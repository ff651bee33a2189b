"""The part of torch.utils._pytree that packages use: nested containers as flat lists."""

from __future__ import annotations

import functools
from collections import deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any

from .._core.arrays import tree as _tree
from ._tree_nodes import (
    CONSTANT_NODES as CONSTANT_NODES,
    WITH_KEYS as _WITH_KEYS,
    ConstantNode as ConstantNode,
    GetAttrKey as GetAttrKey,
    MappingKey as MappingKey,
    SequenceKey as SequenceKey,
    _defaultdict_flatten as _defaultdict_flatten,
    _defaultdict_flatten_with_keys as _defaultdict_flatten_with_keys,
    _defaultdict_unflatten as _defaultdict_unflatten,
    _deque_flatten as _deque_flatten,
    _deque_flatten_with_keys as _deque_flatten_with_keys,
    _deque_unflatten as _deque_unflatten,
    _deregister_pytree_node as _deregister_pytree_node,
    _dict_flatten as _dict_flatten,
    _dict_flatten_with_keys as _dict_flatten_with_keys,
    _dict_unflatten as _dict_unflatten,
    _list_flatten as _list_flatten,
    _list_flatten_with_keys as _list_flatten_with_keys,
    _list_unflatten as _list_unflatten,
    _namedtuple_flatten as _namedtuple_flatten,
    _namedtuple_flatten_with_keys as _namedtuple_flatten_with_keys,
    _namedtuple_unflatten as _namedtuple_unflatten,
    _odict_flatten as _odict_flatten,
    _odict_unflatten as _odict_unflatten,
    _ordereddict_flatten as _ordereddict_flatten,
    _ordereddict_flatten_with_keys as _ordereddict_flatten_with_keys,
    _ordereddict_unflatten as _ordereddict_unflatten,
    _private_register_pytree_node as _private_register_pytree_node,
    _register_namedtuple as _register_namedtuple,
    _register_pytree_node as _register_pytree_node,
    _tuple_flatten as _tuple_flatten,
    _tuple_flatten_with_keys as _tuple_flatten_with_keys,
    _tuple_unflatten as _tuple_unflatten,
    is_constant_class as is_constant_class,
    is_namedtuple as is_namedtuple,
    is_namedtuple_class as is_namedtuple_class,
    register_constant as register_constant,
    register_dataclass as register_dataclass,
    register_pytree_node as register_pytree_node,
)
from ._tree_texts import treespec_dumps as treespec_dumps, treespec_loads as treespec_loads

TreeSpec = _tree.Spec
PyTree = Any
Context = Any
SUPPORTED_NODES: Any = _tree._NODES
"""Classes of containers, and how each is taken apart and put together."""


def _get_node_type(tree: Any) -> Any:
    """The class under which a container is known; that of named tuples for all of them."""
    return namedtuple if _tree._is_namedtuple(tree) and type(tree) not in SUPPORTED_NODES else type(tree)


def tree_is_leaf(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Return whether something is no container."""
    return (is_leaf is not None and is_leaf(tree)) or _tree._parts(tree) is None


_is_leaf = tree_is_leaf


def is_namedtuple_instance(obj: Any) -> bool:
    """Return whether something is a named tuple."""
    return is_namedtuple(type(obj))


_is_namedtuple_instance = is_namedtuple_instance


def is_structseq(obj: Any) -> bool:
    """Return whether something is one of the tuples with names that C makes, or a class of such."""
    kind = obj if isinstance(obj, type) else type(obj)
    counts = (getattr(kind, n, None) for n in ("n_fields", "n_sequence_fields", "n_unnamed_fields"))
    return kind.__bases__ == (tuple,) and all(isinstance(n, int) for n in counts)


def is_structseq_class(cls: Any) -> bool:
    """Return whether something is a class of the tuples with names that C makes."""
    return isinstance(cls, type) and is_structseq(cls)


def is_structseq_instance(obj: Any) -> bool:
    """Return whether something is one of the tuples with names that C makes."""
    return is_structseq(type(obj))


def _broadcast_to_and_flatten(tree: Any, treespec: TreeSpec, is_leaf: Any = None) -> list[Any] | None:
    """One entry of a tree for each leaf of another that it is a prefix of, else None."""
    return _tree.broadcast(tree, treespec)


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves in order, and how to put them back."""
    return _tree.flatten(tree, is_leaf)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """Inverse of `tree_flatten`."""
    return treespec.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """How to put leaves together."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """The tree with a function applied to its leaves, together with those of further trees."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(r) for r in rests]
    return _tree.unflatten([func(*xs) for xs in zip(leaves, *others, strict=True)], spec)


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Callable[[Any], Any]], Any]:
    """Turn a function into one that lets everything pass that is not of some classes."""

    def wrap(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(func)
        def mapped(x: Any) -> Any:
            return func(x) if _is_of(x, type_or_types_or_pred) else x

        return mapped

    return wrap


def tree_map_only(type_or_types: Any, func: Callable[[Any], Any], tree: Any, is_leaf: Any = None) -> Any:
    """The tree with a function applied to its leaves of some classes."""
    return tree_map(lambda x: func(x) if _is_of(x, type_or_types) else x, tree, is_leaf=is_leaf)


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """Call a function on the leaves, for what it does to them; gives the tree back."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(r) for r in rests]
    for xs in zip(leaves, *others, strict=True):
        func(*xs)
    return tree


def tree_map_only_(type_or_types: Any, func: Callable[[Any], Any], tree: Any, is_leaf: Any = None) -> Any:
    """Call a function on the leaves of some classes; gives the tree back."""
    return tree_map_(lambda x: func(x) if _is_of(x, type_or_types) else x, tree, is_leaf=is_leaf)


def _is_of(x: Any, type_or_types: Any) -> bool:
    """Return whether a leaf is of some classes, or passes a predicate in their place."""
    if isinstance(type_or_types, type | tuple) or hasattr(type_or_types, "__args__"):
        return isinstance(x, type_or_types)
    predicate: Any = type_or_types
    return bool(predicate(x))


def tree_iter(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Iterable[Any]:
    """The leaves, one by one."""
    yield from tree_leaves(tree, is_leaf)


def tree_all_only(type_or_types: Any, pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    """Return whether something holds for all leaves of some classes."""
    return all(pred(x) for x in tree_leaves(tree, is_leaf) if _is_of(x, type_or_types))


def tree_any_only(type_or_types: Any, pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    """Return whether something holds for a leaf of some classes."""
    return any(pred(x) for x in tree_leaves(tree, is_leaf) if _is_of(x, type_or_types))


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """The leaves of the arguments of a call."""
    return [x for a in (*args, *kwargs.values()) for x in tree_leaves(a)]


def LeafSpec() -> TreeSpec:
    """How a leaf is put together."""
    return _tree.LEAF


treespec_leaf = LeafSpec


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """How a tuple of trees is put together."""
    children = list(iterable)
    if not all(isinstance(c, TreeSpec) for c in children):
        raise ValueError(f"Expected a tuple of TreeSpec values, got: {children!r}.")
    return TreeSpec(tuple, None, children)


def treespec_dict(mapping: Any = (), /, **kwargs: TreeSpec) -> TreeSpec:
    """How a dict of trees is put together."""
    entries = dict(mapping, **kwargs)
    if not all(isinstance(c, TreeSpec) for c in entries.values()):
        raise ValueError(f"Expected a dictionary of TreeSpec values, got: {entries!r}.")
    return TreeSpec(dict, list(entries), list(entries.values()))


def tree_leaves_with_path(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[tuple[Any, Any]]:
    """The leaves in order, each with the keys that lead to it."""
    return _with_paths(tree, (), is_leaf)


def tree_flatten_with_path(tree: Any, is_leaf: Any = None) -> tuple[list[tuple[Any, Any]], TreeSpec]:
    """The leaves in order, each with the keys that lead to it, and how to put them back."""
    return _with_paths(tree, (), is_leaf), tree_structure(tree, is_leaf)


def _with_paths(tree: Any, path: tuple[Any, ...], is_leaf: Any) -> list[tuple[Any, Any]]:
    parts = None if is_leaf is not None and is_leaf(tree) else _tree._parts(tree)
    if parts is None:
        return [(path, tree)]
    children, context = parts
    keys = _keys(tree, children, context)
    return [found for k, c in zip(keys, children) for found in _with_paths(c, (*path, k), is_leaf)]


def _keys(tree: Any, children: list[Any], context: Any) -> list[Any]:
    if type(tree) in _WITH_KEYS:
        return [k for k, _ in _WITH_KEYS[type(tree)](tree)[0]]
    if isinstance(tree, dict):
        return [MappingKey(k) for k in tree]
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return [GetAttrKey(f) for f in tree._fields]
    if isinstance(tree, list | tuple | deque):
        return [SequenceKey(i) for i in range(len(children))]
    raise ValueError(
        f"Did not find a flatten_with_keys_fn for type: {type(tree)}. Please pass a flatten_with_keys_fn argument to "
        "register_pytree_node."
    )


def tree_map_with_path(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """The tree with a function applied to the path and value of each leaf, together with those of further trees."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(r) for r in rests]
    out = [func(path, x, *more) for (path, x), *more in zip(found, *others, strict=True)]
    return _tree.unflatten(out, spec)


def key_get(obj: Any, kp: Iterable[Any]) -> Any:
    """Return what is at the end of a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    """Return whether something holds for all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    """Return whether something holds for a leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def keystr(kp: Iterable[Any]) -> str:
    """A path as code would write it."""
    return "".join(map(str, kp))


def treespec_pprint(treespec: TreeSpec) -> str:
    """The containers written out, with a star for each leaf."""
    return treespec.pretty()
