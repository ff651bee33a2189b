"""The part of torch.utils._pytree that packages use: nested containers as flat lists."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .._core import tree as _tree

TreeSpec = _tree.Spec
PyTree = Any
Context = Any
SUPPORTED_NODES: Any = _tree._NODES
"""Classes of containers, and how each is taken apart and put together."""


def LeafSpec() -> TreeSpec:  # noqa: N802 - a class in torch
    """The specification of a tree that is a leaf."""
    return _tree.LEAF


def _get_node_type(tree: Any) -> Any:
    """The class under which a container is known; that of named tuples for all of them."""
    return namedtuple if _tree._is_namedtuple(tree) and type(tree) not in SUPPORTED_NODES else type(tree)


def tree_is_leaf(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether something is no container."""
    return (is_leaf is not None and is_leaf(tree)) or _tree._parts(tree) is None


_is_leaf = tree_is_leaf


def is_namedtuple(obj: Any) -> bool:
    """Whether something is a named tuple, or a class of such."""
    kind = obj if isinstance(obj, type) else type(obj)
    fields = getattr(kind, "_fields", None)
    return issubclass(kind, tuple) and isinstance(fields, tuple) and callable(getattr(kind, "_make", None))


is_namedtuple_instance = is_namedtuple


def is_structseq(obj: Any) -> bool:
    """Whether something is one of the tuples with names that C makes, or a class of such."""
    kind = obj if isinstance(obj, type) else type(obj)
    counts = (getattr(kind, n, None) for n in ("n_fields", "n_sequence_fields", "n_unnamed_fields"))
    return kind.__bases__ == (tuple,) and all(isinstance(n, int) for n in counts)


is_structseq_instance = is_structseq


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], Any]:
    return list(d.values()), list(d)


def _dict_unflatten(values: Iterable[Any], context: Any) -> dict[Any, Any]:
    return dict(zip(context, values))


def _broadcast_to_and_flatten(tree: Any, treespec: TreeSpec, is_leaf: Any = None) -> list[Any] | None:
    """One entry of a tree for each leaf of another that it is a prefix of, else None."""
    return _tree.broadcast(tree, treespec)


def tree_flatten(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], TreeSpec]:
    """The leaves in order, and how to put them back."""
    return _tree.flatten(tree, is_leaf)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """Inverse of `tree_flatten`."""
    return _tree.unflatten(list(leaves), treespec)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """How to put leaves together."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """The tree with a function applied to its leaves, together with those of further trees."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_flatten(r)[0] for r in rests]
    return _tree.unflatten([func(*xs) for xs in zip(leaves, *others, strict=True)], spec)


def tree_map_only(
    type_or_types: Any, func: Callable[[Any], Any], tree: Any, is_leaf: Any = None
) -> Any:
    """The tree with a function applied to its leaves of some classes."""
    return tree_map(lambda x: func(x) if isinstance(x, type_or_types) else x, tree, is_leaf=is_leaf)


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
        serialized_type_name: accepted; programs are not written to files here, nor are the arguments after it used.
    """
    if _tree.registered(cls):
        raise ValueError(f"{cls} is already registered as pytree node.")
    _tree.register(cls, flatten_fn, unflatten_fn)


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
