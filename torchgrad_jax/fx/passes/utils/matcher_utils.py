"""Parts of a graph that have the form of another graph."""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass, field
from typing import Any

from ...._engine.memory.tensor import Tensor
from ...graph import Graph
from ...graph_module import _find
from ...node import Node

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """Where a pattern was found: what stands for each of its nodes.

    Args:
        anchors: the last nodes, in the pattern.
        nodes_map: from nodes of the pattern to those of the graph.
        placeholder_nodes: what the pattern's arguments stand for; constants among them.
        returning_nodes: the nodes that stand for the pattern's results.
        name_node_map: nodes by name, for patterns that name some.
    """

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        return InternalMatch(
            self.anchors, dict(self.nodes_map), list(self.placeholder_nodes), list(self.returning_nodes)
        )


class SubgraphMatcher:
    """Finds a pattern in graphs, from its results to its arguments.

    Args:
        pattern: its placeholders stand for anything.
        match_output: whether its output is to be the graph's.
        match_placeholder: whether its placeholders are to be placeholders.
        remove_overlapping_matches: whether a node is part of one match only.
        ignore_literals: whether constants need not agree.
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        self.pattern = pattern
        self.match_output, self.match_placeholder = match_output, match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        nodes = list(pattern.nodes)
        if not nodes:
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        for node in nodes:
            if node.op != "output" and not node.users:
                raise AssertionError("SubgraphMatcher cannot be initialized with an pattern with dead code")
        self.pattern_placeholder_nodes = [n for n in nodes if n.op == "placeholder"]
        output = nodes[-1]
        self.pattern_returning_nodes = output.all_input_nodes
        self.pattern_anchors = [output] if match_output else [n for n in output.all_input_nodes if len(n.users) == 1]

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The places of the graph that have the pattern's form."""
        candidates = [
            (anchor, [n for n in graph.nodes if self._same_kind(anchor, n, node_name_match)])
            for anchor in self.pattern_anchors
        ]
        found: list[InternalMatch] = []
        if candidates and any(nodes for _, nodes in candidates):
            self._search(candidates, 0, InternalMatch(self.pattern_anchors), found)
        found = [m for m in found if self._is_contained(m) and not _leaves_and_returns(m)]
        for m in found:
            m.placeholder_nodes = [m.nodes_map[n] for n in self.pattern_placeholder_nodes]
            m.returning_nodes = [m.nodes_map[n] for n in self.pattern_returning_nodes]
        return self._apart(found) if self.remove_overlapping_matches else found

    def _search(self, candidates: Any, i: int, match: InternalMatch, found: list[InternalMatch]) -> None:
        if i == len(candidates):
            found.append(copy.copy(match))
            return
        anchor, nodes = candidates[i]
        for node in nodes:
            attempt = copy.copy(match)
            if self._match_nodes(anchor, node, attempt):
                self._search(candidates, i + 1, attempt, found)

    def _same_kind(self, wanted: Node, node: Node, name: str = "") -> bool:
        """Whether two nodes do the same, arguments apart."""
        if name and name not in node.name:
            return False
        if wanted.op == "placeholder" and not self.match_placeholder:
            return True
        if wanted.op != node.op:
            return False
        if wanted.op in ("placeholder", "output"):
            return True
        if wanted.op == "get_attr":
            return _same_attribute(wanted, node)
        return wanted.target == node.target

    def _match_nodes(self, wanted: Node, node: Node, match: InternalMatch) -> bool:
        if wanted in match.nodes_map:
            return match.nodes_map[wanted] is node
        if any(node is other for other in match.nodes_map.values()):
            return False
        if not self._same_kind(wanted, node):
            return False
        before = dict(match.nodes_map)
        match.nodes_map[wanted] = node
        if wanted.op == "placeholder":
            return True
        pair = _arguments(wanted, node)
        if pair is not None and self._match_values(pair[0], pair[1], match):
            return True
        match.nodes_map = before
        return False

    def _match_values(self, wanted: Any, value: Any, match: InternalMatch) -> bool:
        if isinstance(wanted, Node) and isinstance(value, Node):
            return self._match_nodes(wanted, value, match)
        if isinstance(wanted, list | tuple) and isinstance(value, list | tuple):
            return len(wanted) == len(value) and all(self._match_values(w, v, match) for w, v in zip(wanted, value))
        if isinstance(wanted, Node):
            if wanted.op != "placeholder":
                return False
            if wanted in match.nodes_map:
                return bool(match.nodes_map[wanted] == value)
            match.nodes_map[wanted] = value
            return True
        if isinstance(value, Node):
            return False
        return self.ignore_literals or (type(wanted) is type(value) and wanted == value)

    def _is_contained(self, match: InternalMatch) -> bool:
        """Whether nobody outside uses what is inside, results apart."""
        inside = {n for n in match.nodes_map.values() if isinstance(n, Node)}
        for wanted, node in match.nodes_map.items():
            if wanted.op == "placeholder" or wanted in self.pattern_returning_nodes:
                continue
            if any(user not in inside for user in node.users):
                return False
        return True

    @staticmethod
    def _apart(matches: list[InternalMatch]) -> list[InternalMatch]:
        kept: list[InternalMatch] = []
        taken: set[Node] = set()
        for match in matches:
            own = {n for p, n in match.nodes_map.items() if p.op not in ("placeholder", "output")}
            if not own & taken:
                kept.append(match)
                taken |= own
        return kept


def _leaves_and_returns(match: InternalMatch) -> bool:
    """Whether something outside lies between nodes of the match, so that they cannot become one step."""
    own = {n for p, n in match.nodes_map.items() if p.op not in ("placeholder", "output")}
    outside = [u for n in own for u in n.users if u not in own]
    seen: set[Node] = set()
    while outside:
        node = outside.pop()
        if node in own:
            return True
        if node not in seen:
            seen.add(node)
            outside.extend(node.users)
    return False


def _same_attribute(wanted: Node, node: Node) -> bool:
    a = _find(wanted.graph.owning_module, str(wanted.target))
    b = _find(node.graph.owning_module, str(node.target))
    if type(a) is not type(b):
        return False
    if isinstance(a, Tensor):
        return True
    raise RuntimeError(f"Unsupported type {a} when matching attributes")


def _arguments(wanted: Node, node: Node) -> tuple[list[Any], list[Any]] | None:
    """The arguments of two nodes in the same order; None where they cannot be brought into one."""
    if len(wanted.args) == len(node.args) and list(wanted.kwargs) == list(node.kwargs):
        return ([*wanted.args, *wanted.kwargs.values()], [*node.args, *node.kwargs.values()])
    if wanted.op != "call_function" or isinstance(wanted.target, str):
        return None
    try:
        known = inspect.signature(wanted.target)
        bound = [known.bind(*n.args, **n.kwargs) for n in (wanted, node)]
    except (TypeError, ValueError):
        return None
    for b in bound:
        b.apply_defaults()
    return list(bound[0].arguments.values()), list(bound[1].arguments.values())
