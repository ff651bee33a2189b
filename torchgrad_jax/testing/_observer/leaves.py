"""The leaves of a graph: what a backward pass gives gradients to."""

from __future__ import annotations

from typing import Any


def leaves_of(roots: list[Any]) -> list[Any]:
    """The leaves that tensors were computed from, in an order that depends on the graph alone."""
    found: dict[int, Any] = {}
    seen: set[Any] = set()
    waiting = []
    for root in reversed(roots):
        if root.grad_fn is not None:
            waiting.append(root.grad_fn)
        elif root.requires_grad:
            found[id(root)] = root
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            found.setdefault(id(leaf), leaf)
        waiting += [n for n, _ in reversed(node.next_functions) if n is not None and n not in seen]
    return list(found.values())
