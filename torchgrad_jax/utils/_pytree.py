"""The part of torch.utils._pytree that packages use: nested containers as flat lists."""

from __future__ import annotations

from collections import deque, namedtuple
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .._core import tree as _tree

TreeSpec = _tree.Spec
PyTree = Any
_WITH_KEYS: dict[type, Callable[[Any], Any]] = {}
Context = Any
SUPPORTED_NODES: Any = _tree._NODES
"""Classes of containers, and how each is taken apart and put together."""


def _get_node_type(tree: Any) -> Any:
    """The class under which a container is known; that of named tuples for all of them."""
    return (
        namedtuple
        if _tree._is_namedtuple(tree) and type(tree) not in SUPPORTED_NODES
        else type(tree)
    )


def tree_is_leaf(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether something is no container."""
    return (is_leaf is not None and is_leaf(tree)) or _tree._parts(tree) is None


_is_leaf = tree_is_leaf


def is_namedtuple(obj: Any) -> bool:
    """Whether something is a named tuple, or a class of such."""
    kind = obj if isinstance(obj, type) else type(obj)
    fields = getattr(kind, "_fields", None)
    return (
        issubclass(kind, tuple)
        and isinstance(fields, tuple)
        and callable(getattr(kind, "_make", None))
    )


is_namedtuple_instance = is_namedtuple


def is_structseq(obj: Any) -> bool:
    """Whether something is one of the tuples with names that C makes, or a class of such."""
    kind = obj if isinstance(obj, type) else type(obj)
    counts = (getattr(kind, n, None) for n in ("n_fields", "n_sequence_fields", "n_unnamed_fields"))
    return kind.__bases__ == (tuple,) and all(isinstance(n, int) for n in counts)


is_structseq_instance = is_structseq


def _list_flatten(d: list[Any]) -> tuple[list[Any], Any]:
    return d, None


def _list_unflatten(values: Iterable[Any], context: Any) -> list[Any]:
    return list(values)


def _list_flatten_with_keys(d: list[Any]) -> tuple[list[tuple[Any, Any]], Any]:
    return [(SequenceKey(i), v) for i, v in enumerate(d)], None


def _tuple_flatten(d: tuple[Any, ...]) -> tuple[list[Any], Any]:
    return list(d), None


def _tuple_unflatten(values: Iterable[Any], context: Any) -> tuple[Any, ...]:
    return tuple(values)


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], Any]:
    return list(d.values()), list(d)


def _dict_unflatten(values: Iterable[Any], context: Any) -> dict[Any, Any]:
    return dict(zip(context, values))


def _broadcast_to_and_flatten(
    tree: Any, treespec: TreeSpec, is_leaf: Any = None
) -> list[Any] | None:
    """One entry of a tree for each leaf of another that it is a prefix of, else None."""
    return _tree.broadcast(tree, treespec)


def tree_flatten(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], TreeSpec]:
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


def tree_map_only(
    type_or_types: Any, func: Callable[[Any], Any], tree: Any, is_leaf: Any = None
) -> Any:
    """The tree with a function applied to its leaves of some classes."""
    return tree_map(lambda x: func(x) if _is_of(x, type_or_types) else x, tree, is_leaf=is_leaf)


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """Call a function on the leaves, for what it does to them; gives the tree back."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(r) for r in rests]
    for xs in zip(leaves, *others, strict=True):
        func(*xs)
    return tree


def tree_map_only_(type_or_types: Any, func: Callable[[Any], Any], tree: Any, is_leaf: Any = None) -> Any:  # fmt: skip
    """Call a function on the leaves of some classes; gives the tree back."""
    return tree_map_(lambda x: func(x) if _is_of(x, type_or_types) else x, tree, is_leaf=is_leaf)


def _is_of(x: Any, type_or_types: Any) -> bool:
    """Whether a leaf is of some classes, or passes a predicate in their place."""
    if isinstance(type_or_types, type | tuple) or hasattr(type_or_types, "__args__"):
        return isinstance(x, type_or_types)
    predicate: Any = type_or_types
    return bool(predicate(x))


def tree_iter(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Iterable[Any]:
    """The leaves, one by one."""
    yield from tree_leaves(tree, is_leaf)


def tree_all_only(type_or_types: Any, pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:  # fmt: skip
    """Whether something holds for all leaves of some classes."""
    return all(pred(x) for x in tree_leaves(tree, is_leaf) if _is_of(x, type_or_types))


def tree_any_only(type_or_types: Any, pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:  # fmt: skip
    """Whether something holds for a leaf of some classes."""
    return any(pred(x) for x in tree_leaves(tree, is_leaf) if _is_of(x, type_or_types))


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """The leaves of the arguments of a call."""
    return [x for a in (*args, *kwargs.values()) for x in tree_leaves(a)]


def LeafSpec() -> TreeSpec:
    """How a leaf is put together."""
    return _tree.LEAF


treespec_leaf = LeafSpec


def tree_leaves_with_path(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> list[tuple[Any, Any]]:
    """The leaves in order, each with the keys that lead to it."""
    return _with_paths(tree, (), is_leaf)


def tree_flatten_with_path(
    tree: Any, is_leaf: Any = None
) -> tuple[list[tuple[Any, Any]], TreeSpec]:
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


def tree_map_with_path(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Any = None
) -> Any:
    """The tree with a function applied to the path and value of each leaf, together with those of further trees."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(r) for r in rests]
    out = [func(path, x, *more) for (path, x), *more in zip(found, *others, strict=True)]
    return _tree.unflatten(out, spec)


def key_get(obj: Any, kp: Iterable[Any]) -> Any:
    """What is at the end of a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    """Whether something holds for all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    """Whether something holds for a leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def register_pytree_node(
    cls: type, flatten_fn: Callable[[Any], tuple[list[Any], Any]], unflatten_fn: Callable[[Any, Any], Any], *,
    serialized_type_name: str | None = None, to_dumpable_context: Any = None, from_dumpable_context: Any = None,
    flatten_with_keys_fn: Any = None,
) -> None:  # fmt: skip
    """Let instances of a class be containers, for functions of this module and for transforms of functions.

    Args:
        cls: exactly this class, and none derived from it.
        flatten_fn: from an instance to its parts and whatever else is needed to make it.
        unflatten_fn: from these two to an instance.
        serialized_type_name: accepted; trees are not written to files here.
        to_dumpable_context: accepted, as above.
        from_dumpable_context: accepted, as above.
        flatten_with_keys_fn: the same as `flatten_fn`, with a key before each part, for paths.
    """
    if _tree.registered(cls):
        raise ValueError(f"{cls} is already registered as pytree node.")
    _tree.register(cls, flatten_fn, unflatten_fn)
    if flatten_with_keys_fn is not None:
        _WITH_KEYS[cls] = flatten_with_keys_fn


@dataclass(frozen=True)
class MappingKey:
    """A place in a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """What is there."""
        return mapping[self.key]


@dataclass(frozen=True)
class SequenceKey:
    """A place in a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """What is there."""
        return sequence[self.idx]


@dataclass(frozen=True)
class GetAttrKey:
    """An attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """What is there."""
        return getattr(obj, self.name)


def keystr(kp: Iterable[Any]) -> str:
    """A path as code would write it."""
    return "".join(map(str, kp))


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[Any, Any]], list[Any]]:
    return [(MappingKey(k), v) for k, v in d.items()], list(d)
