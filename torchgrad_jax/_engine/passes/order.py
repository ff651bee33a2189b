"""Which nodes a pass needs, and in which order it comes to them."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Sequence
from heapq import heappop, heappush

from ..graph.node import AccumulateGrad, Node, node_class

_NOT_IMPLEMENTED = node_class("NotImplemented")
_SEQUENCE = operator.attrgetter("seq")
_OF_SEVERAL = operator.attrgetter("of_several")


def reachable(roots: Sequence[Node]) -> list[Node]:
    """All nodes that a pass from `roots` could come to, the roots first."""
    nodes = [*dict.fromkeys(roots)]
    known = {*nodes}
    for node in nodes:
        for edge in node.edges:
            if edge is not None and edge[0] not in known:
                known.add(edge[0])
                nodes.append(edge[0])
    return nodes


def any_stands_for_several(nodes: Iterable[Node]) -> bool:
    """Return whether a node is among these that stands for several, each with outputs of its own."""
    return True in map(_OF_SEVERAL, nodes)


def reachable_by_outputs(nodes: Sequence[Node], roots: Sequence[tuple[Node, int]]) -> Sequence[Node]:
    """Those of the nodes that a pass comes to, where some of them stand for several, with outputs of their own."""
    outputs: dict[Node, int] = {}
    for node, nr in roots:
        outputs[node] = outputs.get(node, 0) | 1 << nr
    for node in sorted(nodes, key=_SEQUENCE, reverse=True):
        if node not in outputs:
            continue
        for edge in node.edges_from(outputs[node]) if node.of_several else node.edges:
            if edge is not None:
                outputs[edge[0]] = outputs.get(edge[0], 0) | 1 << edge[1]
    return [node for node in nodes if node in outputs]


def execution_order(nodes: Sequence[Node], roots: Sequence[Node], needed: Collection[Node] | None = None) -> list[Node]:
    """The nodes in the order in which a pass comes to them: the last one recorded first, leaves once they are complete.

    Args:
        nodes: all that can be reached.
        roots: where the pass begins.
        needed: the nodes that it goes on to, if not all.
    """
    if needed is not None:
        wanted = {*needed, *roots}
        nodes = [n for n in nodes if n in wanted]
    # An edge leads to a node that was recorded before: sorted by number, each comes after all that lead to it.
    backwards: list[Node] = []
    placed: set[Node] = set()
    for node in sorted(nodes, key=_SEQUENCE):
        kind = node.__class__
        if kind is AccumulateGrad:
            continue
        seq = node.seq
        for edge in reversed(node.edges):
            if edge is not None:
                m = edge[0]
                if m.__class__ is AccumulateGrad:
                    if m not in placed and (needed is None or m in needed):
                        placed.add(m)
                        backwards.append(m)
                elif m.seq >= seq:
                    return _by_counting(nodes, roots, needed)
        if kind is _NOT_IMPLEMENTED:
            return _by_counting(nodes, roots, needed)
        backwards.append(node)
    if len(backwards) < len(nodes):  # no edge leads to leaves that are roots
        backwards += [n for n in reversed(roots) if n.__class__ is AccumulateGrad and n not in placed]
    backwards.reverse()
    return backwards


def _by_counting(nodes: Sequence[Node], roots: Sequence[Node], needed: Collection[Node] | None) -> list[Node]:
    """`execution_order` by counting what each node waits for.

    Sequence numbers do not tell the order where a user has changed some, or where a node runs as soon as it is ready.
    """
    waiting = dict.fromkeys(nodes, 0)
    for node in nodes:
        for edge in node.edges:
            if edge is not None and edge[0] in waiting:
                waiting[edge[0]] += 1
    order: list[Node] = []
    ready: list[tuple[int, int, Node]] = []

    def push(node: Node) -> None:
        at_once = node.__class__ is AccumulateGrad or node.__class__ is _NOT_IMPLEMENTED
        heappush(ready, (-(1 << 62) if at_once else -node.seq, len(order) + len(ready), node))

    for node in roots:
        if waiting[node] == 0:
            push(node)
    while ready:
        node = heappop(ready)[2]
        order.append(node)
        for edge in node.edges:
            if edge is not None and (needed is None or edge[0] in needed):
                waiting[edge[0]] -= 1
                if waiting[edge[0]] == 0:
                    push(edge[0])
    return order


def leading_to(nodes: Iterable[Node], targets: Sequence[tuple[Node, int]]) -> set[Node]:
    """The nodes from which a target can be reached, targets included."""
    nodes = sorted(nodes, key=_SEQUENCE)  # a leaf has no edges, so its place does not matter
    needed = {n for n, _ in targets}.intersection(nodes)
    for node in nodes:
        if node not in needed:
            for e in node.edges:
                if e is not None and e[0] in needed:
                    needed.add(node)
                    break
    return needed


def running(needed: set[Node], accumulates: bool) -> set[Node]:
    """Nodes whose function runs: those with a needed successor; leaves when accumulating."""
    out = set()
    for node in needed:
        if node.__class__ is AccumulateGrad:
            if accumulates:
                out.add(node)
            continue
        for e in node.edges:
            if e is not None and e[0] in needed:
                out.add(node)
                break
    return out
