"""In which order a pass comes to the nodes of a graph, and which nodes it needs."""

from __future__ import annotations

import heapq
import itertools
import operator
from collections.abc import Sequence
from typing import Any

from ..node import AccumulateGrad, Node, node_class

_LAST = 1 << 62


_FIRST = {AccumulateGrad, node_class("NotImplemented")}
"""Nodes that run as soon as they are ready, whatever else is."""


def priority(node: Node) -> int:
    return -_LAST if node.__class__ in _FIRST else -node.seq


def dependencies(roots: Sequence[Node]) -> dict[Node, int]:
    """For every reachable node, how many edges lead to it."""
    deps: dict[Node, int] = dict.fromkeys(roots, 0)
    stack = list(deps)
    while stack:
        for edge in stack.pop().edges:
            if edge is not None:
                m = edge[0]
                if m in deps:
                    deps[m] += 1
                else:
                    deps[m] = 1
                    stack.append(m)
    return deps


def order_of(task: Any) -> list[Node]:
    """The nodes of a walk in the order in which it comes to them."""
    deps, count, found = dependencies(task.roots), itertools.count(), []
    ready = [(priority(n), next(count), n) for n in task.roots if deps[n] == 0]
    heapq.heapify(ready)
    while ready:
        node = heapq.heappop(ready)[2]
        if task.needed is None or node in task.needed:
            found.append(node)
        for edge in node.edges:
            if edge is not None:
                deps[edge[0]] -= 1
                if deps[edge[0]] == 0:
                    heapq.heappush(ready, (priority(edge[0]), next(count), edge[0]))
    return found


def executed(run_set: set[Node], accumulate: bool) -> set[Node]:
    """Nodes whose function runs: those with a needed successor; leaves when accumulating."""
    out = set()
    for node in run_set:
        if node.__class__ is AccumulateGrad:
            if accumulate:
                out.add(node)
            continue
        for e in node.edges:
            if e is not None and e[0] in run_set:
                out.add(node)
                break
    return out


_SEQUENCE = operator.attrgetter("seq")


def leading_to(deps: dict[Node, int], targets: Sequence[tuple[Node, int]]) -> set[Node]:
    """The reachable nodes from which a target can be reached, targets included."""
    needed = {n for n, _ in targets if n in deps}
    for node in sorted(
        deps, key=_SEQUENCE
    ):  # leaves lead nowhere, so that their place is no matter
        if node not in needed:
            for e in node.edges:
                if e is not None and e[0] in needed:
                    needed.add(node)
                    break
    return needed
