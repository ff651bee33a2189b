"""The part of torch.utils._pytree that packages use: nested containers as flat lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .._core import tree as _tree

TreeSpec = _tree.Spec
PyTree = Any


def tree_flatten(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], TreeSpec]:
    """The leaves in order, and how to put them back."""
    _refuse(is_leaf)
    return _tree.flatten(tree)


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


def _refuse(is_leaf: Any) -> None:
    if is_leaf is not None:
        raise NotImplementedError("torch.utils._pytree: is_leaf is not supported")
