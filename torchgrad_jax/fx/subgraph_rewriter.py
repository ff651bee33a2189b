"""torch.fx.subgraph_rewriter: calls in a graph that look like a pattern, replaced by others."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .._engine.memory.tensor import Tensor
from ..nn.modules.module import Module
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule
from .node import Node

Found = dict[Node, Any]
"""By node of the pattern: the node of the graph, or for an argument of the pattern perhaps a constant."""


class Match(NamedTuple):
    """One place of a graph where the pattern was."""

    anchor: Node
    """The node of the pattern from which the place was found."""
    nodes_map: Found
    """By node of the pattern: the node of the graph."""


@dataclass
class ReplacedPatterns:
    """One place of a graph where the pattern was, and the nodes that are there now."""

    anchor: Node
    nodes_map: Found
    replacements: list[Node]


@dataclass
class InternalMatch:
    """One place of a graph where the pattern is: what filters and callbacks get."""

    anchors: list[Node]
    nodes_map: Found = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    """What stands for the arguments of the pattern."""
    returning_nodes: list[Node] = field(default_factory=list)
    """The nodes of what the pattern returns."""


Filter = Callable[[InternalMatch, Graph, Graph], bool]
Replacement = Callable[[InternalMatch, Graph, Graph], Graph]


def replace_pattern(gm: GraphModule, pattern: Any, replacement: Any) -> list[Match]:
    """Replace each place of a graph that does what a pattern does.

    A place matches by what its calls are and by where their arguments come from; an argument of the pattern stands for
    any value. Nothing outside of the place may use what the pattern does not return. Of places that overlap the first
    is replaced.

    Args:
        gm: the module, whose graph is changed and compiled again.
        pattern: a function that uses all of its arguments, or a `GraphModule`.
        replacement: a function or `GraphModule` of as many arguments and results.

    Returns:
        The places that were replaced.

    Example:
        >>> import torchgrad_jax as torch
        >>> gm = torch.fx.symbolic_trace(lambda x, y: torch.relu(x + y).sum())
        >>> _ = torch.fx.replace_pattern(gm, lambda a, b: torch.relu(a + b), lambda a, b: torch.relu(a) + b)
        >>> gm(torch.tensor([-1.0]), torch.tensor([3.0]))
        tensor(3.)
    """
    return [Match(m.anchor, m.nodes_map) for m in _replace(gm, pattern, replacement, [], False, None, "")]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Any,
    replacement: Any = None,
    match_filters: Sequence[Filter] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Replacement | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """`replace_pattern` for some of the places.

    Args:
        gm: the module, whose graph is changed and compiled again.
        pattern: a function, a `GraphModule` or a `Graph`.
        replacement: the same.
        match_filters: functions of a place, the graph and the pattern's; where one returns False nothing is replaced.
        ignore_literals: whether constants of the pattern stand for any constant.
        replacement_callback: instead of `replacement`, makes a graph from a place, the graph and the pattern's.
        node_name_match: nodes with this in their names match what the pattern returns.

    Returns:
        The places that were replaced, with their new nodes.
    """
    filters = list(match_filters or ())
    return _replace(gm, pattern, replacement, filters, ignore_literals, replacement_callback, node_name_match)


def _graph_of(given: Any) -> Graph:
    if isinstance(given, GraphModule):
        return given.graph
    return given if isinstance(given, Graph) else symbolic_trace(given).graph


def _replace(
    gm: GraphModule,
    pattern: Any,
    replacement: Any,
    filters: list[Filter],
    ignore_literals: bool,
    callback: Replacement | None,
    name: str,
) -> list[ReplacedPatterns]:
    graph, wanted = gm.graph, _graph_of(pattern)
    if replacement is None and callback is None:
        raise AssertionError("Must provide either a replacement GraphModule or a replacement callback")
    common = None if replacement is None else _graph_of(replacement)
    found = _Matcher(wanted, graph, ignore_literals, name).matches()
    found = [m for m in found if all(keep(m, graph, wanted) for keep in filters)]
    replaced: dict[Node, Node] = {}
    """What stands for nodes that were replaced before, and that a later place takes as arguments."""
    done = []
    for match in found:
        new = callback(match, graph, wanted) if callback is not None else common
        assert new is not None
        done.append(_replace_one(graph, wanted, match, new, replaced))
    gm.recompile()
    if isinstance(replacement, Module):
        _copy_attributes(gm, replacement)
    return done


def _replace_one(
    graph: Graph, pattern: Graph, match: InternalMatch, new: Graph, replaced: dict[Node, Node]
) -> ReplacedPatterns:
    for pn, gn in match.nodes_map.items():
        if isinstance(gn, Node) and pn.op == "placeholder":
            match.nodes_map[pn] = replaced.get(gn, gn)
    match.placeholder_nodes = [replaced.get(n, n) if isinstance(n, Node) else n for n in match.placeholder_nodes]
    parameters = [n for n in new.nodes if n.op == "placeholder"]
    if len(parameters) != len(match.placeholder_nodes):
        raise AssertionError(f"Placeholder count mismatch: {len(match.placeholder_nodes)} vs {len(parameters)}")
    given = new.output_node().args[0]
    count = 1 if isinstance(given, Node) else len(given)
    if count != len(match.returning_nodes):
        raise AssertionError(f"Returning nodes count mismatch: {len(match.returning_nodes)} vs {count}")
    values: dict[Node, Any] = dict(zip(parameters, match.placeholder_nodes))
    with graph.inserting_before(_first_user(graph, match.returning_nodes)):
        results = graph.graph_copy(new, values)
    results = (results,) if isinstance(results, Node) else tuple(results)
    for old, result in zip(match.returning_nodes, results):
        old.replace_all_uses_with(result)
        replaced[old] = result
    for pn in reversed(pattern.nodes):
        if pn.op not in ("placeholder", "output"):
            graph.erase_node(match.nodes_map[pn])
    made = [n for p, n in values.items() if p not in parameters]
    return ReplacedPatterns(match.anchors[0], match.nodes_map, made)


def _first_user(graph: Graph, nodes: Sequence[Node]) -> Node:
    """The node in front of which new ones go: the first that uses results of these, else the one behind the last."""
    users = {user for n in nodes for user in n.users}
    for n in graph.nodes:
        if n in users:
            return n
    order = list(graph.nodes)
    return order[max(map(order.index, nodes)) + 1]


class _Matcher:
    """Finds a pattern in a graph, from what the pattern returns upwards."""

    def __init__(self, pattern: Graph, graph: Graph, ignore_literals: bool, name: str) -> None:
        self.pattern, self.graph, self.ignore_literals, self.name = pattern, graph, ignore_literals, name
        if not len(pattern.nodes):
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        for n in pattern.nodes:
            if n.op != "output" and not n.users and not n.is_impure():
                raise AssertionError("SubgraphMatcher cannot be initialized with an pattern with dead code")
        self.returned = pattern.output_node().all_input_nodes
        self.anchors = [n for n in self.returned if len(n.users) == 1]
        if any(n.op == "placeholder" for n in self.anchors):
            raise AssertionError(
                "replace_pattern: the pattern returns an argument as it is, which stands for any value"
            )

    def matches(self) -> list[InternalMatch]:
        """The places, without those that overlap an earlier one."""
        taken: set[Node] = set()
        out = []
        for found in self._all(self.anchors, {}) if self.anchors else ():
            own = {gn for pn, gn in found.items() if pn.op != "placeholder"}
            if own & taken or self._is_used_outside(found, own) or _would_be_cycle(own):
                continue
            taken |= own
            parameters = [found[n] for n in self.pattern.nodes if n.op == "placeholder"]
            out.append(InternalMatch(self.anchors, found, parameters, [found[n] for n in self.returned]))
        return out

    def _all(self, anchors: Sequence[Node], found: Found) -> Iterator[Found]:
        if not anchors:
            yield found
            return
        for gn in self.graph.nodes:
            if (more := self._with(found, anchors[0], gn, self.name)) is not None:
                yield from self._all(anchors[1:], more)

    def _with(self, found: Found, pn: Node, gn: Any, name: str = "") -> Found | None:
        """Return what was found, and that a node of the pattern is one of the graph; None if it is not."""
        if pn in found:
            return found if found[pn] is gn or (not isinstance(gn, Node) and found[pn] == gn) else None
        if not isinstance(gn, Node):
            return {**found, pn: gn} if pn.op == "placeholder" else None
        if any(gn is n for n in found.values()):
            return None
        if pn.op == "placeholder":
            return {**found, pn: gn}
        if not (name and name in gn.name) and not self._same_call(pn, gn):
            return None
        if len(pn.args) != len(gn.args) or list(pn.kwargs) != list(gn.kwargs):
            return None
        return self._with_arguments({**found, pn: gn}, [*pn.args, *pn.kwargs.values()], [*gn.args, *gn.kwargs.values()])

    def _with_arguments(self, found: Found, of_pattern: Sequence[Any], of_graph: Sequence[Any]) -> Found | None:
        if len(of_pattern) != len(of_graph):
            return None
        for p, g in zip(of_pattern, of_graph):
            more: Found | None
            if isinstance(p, Node):
                more = self._with(found, p, g)
            elif isinstance(p, list | tuple) and isinstance(g, list | tuple):
                more = self._with_arguments(found, p, g)
            elif self.ignore_literals or (not isinstance(g, Node) and type(p) is type(g) and p == g):
                more = found
            else:
                more = None
            if more is None:
                return None
            found = more
        return found

    @staticmethod
    def _same_call(pn: Node, gn: Node) -> bool:
        if pn.op != gn.op:
            return False
        if pn.op != "get_attr":
            return bool(pn.target == gn.target)
        values = [operator.attrgetter(str(n.target))(n.graph.owning_module) for n in (pn, gn)]
        if type(values[0]) is type(values[1]) and not isinstance(values[0], Tensor):
            raise RuntimeError(f"Unsupported type {values[0]} when matching attributes")
        return type(values[0]) is type(values[1])

    def _is_used_outside(self, found: Found, own: set[Node]) -> bool:
        """Return whether a node outside uses what the pattern keeps to itself."""
        kept = [gn for pn, gn in found.items() if pn.op != "placeholder" and pn not in self.returned]
        return any(user not in own for gn in kept for user in gn.users)


def _would_be_cycle(own: set[Node]) -> bool:
    """Return whether a value goes out of these nodes and comes back to them."""
    waiting = [user for n in own for user in n.users if user not in own]
    seen: set[Node] = set()
    while waiting:
        n = waiting.pop()
        if n in own:
            return True
        if n not in seen:
            seen.add(n)
            waiting += n.users
    return False


def _copy_attributes(gm: GraphModule, replacement: Module) -> None:
    """Copy what new nodes read from the module of the replacement; what the changed module has of that name stays."""
    gm.delete_all_unused_submodules()
    for n in gm.graph.nodes:
        if n.op not in ("call_module", "get_attr") or _attribute(gm, str(n.target)) is not None:
            continue
        value = copy.deepcopy(_attribute(replacement, str(n.target)))
        if value is None:
            raise RuntimeError(
                f'Attempted to create a "{n.op}" node during subgraph rewriting with target {n.target}, but the '
                "referenced attribute does not exist in the replacement GraphModule"
            )
        if isinstance(value, Module):
            gm.add_submodule(str(n.target), value)
        else:
            path, _, last = str(n.target).rpartition(".")
            setattr(gm.get_submodule(path), last, value)
    gm.graph.lint()


def _attribute(module: Module, target: str) -> Any:
    path, _, last = target.rpartition(".")
    try:
        return getattr(module.get_submodule(path), last, None)
    except AttributeError:
        return None


__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]
