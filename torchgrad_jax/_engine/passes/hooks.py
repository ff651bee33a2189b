"""Calling the hooks on nodes and tensors, and checking what they return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core.errors import messages as errors
from ..graph.node import Node
from ..memory.tensor import Tensor


def pre_hooks(node: Node, cts: list[Any]) -> list[Any]:
    tensors = tuple(cts)
    for hook in list(node.extras.pre.values()):
        res = hook(tensors)
        if res is not None:
            tensors = replaced(hook, res, tensors)
    return list(tensors)


def post_hooks(node: Node, out: Sequence[Any], cts: list[Any]) -> Sequence[Any]:
    outputs, inputs = tuple(out), tuple(cts)
    for hook in list(node.extras.post.values()):
        res = hook(outputs, inputs)
        if res is not None:
            outputs = replaced(hook, res, outputs)
    return outputs


def replaced(hook: Any, res: Any, before: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what a hook on a node returned, checked against what it was given."""
    name = hook_name(hook)
    if not isinstance(res, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(res).__name__}'")
    if len(res) != len(before):
        raise RuntimeError(
            f"hook '{name}' has returned an incorrect number of values (got {len(res)}, but expected {len(before)})"
        )
    return tuple(swapped(r, b, name) for r, b in zip(res, before))


def swapped(new: Any, old: Any, name: str) -> Any:
    """None drops a gradient; nothing takes the place of one that was never there."""
    if new is None:
        return None
    if old is None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    return same_or_error(new, old, name)


def same_or_error(result: Any, before: Any, what: str) -> Any:
    """A hook's replacement for a gradient, checked."""
    if not isinstance(result, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
    if isinstance(before, Tensor):
        if result._m.dtype is not before._m.dtype:
            raise RuntimeError(f"hook '{what}' has changed the type of value (was {_type(before)} got {_type(result)})")
        if result._m.device is not before._m.device:
            raise RuntimeError(f"hook '{what}' has changed the type of value")
        if result._m.shape != before._m.shape:
            raise RuntimeError(f"hook '{what}' has changed the size of value")
    return result


def _type(t: Tensor) -> str:
    return errors.legacy_type("torch." + t._m.dtype.type_name)


def hook_name(hook: Any) -> str:
    return getattr(hook, "__name__", "<unknown>")
