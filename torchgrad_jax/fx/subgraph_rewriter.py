"""Parts of a graph that look like a pattern, replaced by something else."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..nn import Module
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule, _find, _put
from .node import Node
from .passes.utils.matcher_utils import InternalMatch, SubgraphMatcher

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]

Filter = Callable[[InternalMatch, Graph, Graph], bool]


class Match(NamedTuple):
    """Where a pattern was found: its last node, and what stands for each node of the pattern."""

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """A `Match`, and the nodes that came in its place."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(gm: GraphModule, pattern: Any, replacement: Any) -> list[Match]:
    """Replace every part of a graph that does what a pattern does; parts that overlap are replaced once.

    Args:
        gm: changed in place.
        pattern: a function, module or graph; its arguments stand for anything.
        replacement: one with as many arguments and results.

    Returns:
        Where the pattern was.

    Example:
        >>> import torchgrad_jax as torch
        >>> traced = torch.fx.symbolic_trace(lambda x: torch.neg(x) + 1)
        >>> found = torch.fx.replace_pattern(traced, lambda x: torch.neg(x), lambda x: torch.abs(x))
        >>> [node.name for node in traced.graph.nodes]
        ['x', 'abs_1', 'add', 'output']
    """
    return [Match(m.anchor, m.nodes_map) for m in _replace(gm, pattern, replacement)]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Any,
    replacement: Any = None,
    match_filters: Sequence[Filter] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Any = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """`replace_pattern` of those parts only that every filter accepts.

    Args:
        gm: changed in place.
        pattern: what is looked for.
        replacement: what comes in its place.
        match_filters: called with a match, the graph and the graph of the pattern.
        ignore_literals: whether numbers and other constants need not agree.
        replacement_callback: makes the graph of the replacement from those three.
        node_name_match: part of the name of the nodes where patterns may end.
    """
    options = (match_filters or (), ignore_literals, replacement_callback, node_name_match)
    return _replace(gm, pattern, replacement, *options)


def _graph_of(program: Any) -> Graph:
    if isinstance(program, GraphModule):
        return program.graph
    return program if isinstance(program, Graph) else symbolic_trace(program).graph


def _replace(
    gm: GraphModule,
    pattern: Any,
    replacement: Any,
    filters: Sequence[Filter] = (),
    ignore_literals: bool = False,
    make: Any = None,
    name: str = "",
) -> list[ReplacedPatterns]:
    graph, wanted = gm.graph, _graph_of(pattern)
    matcher = SubgraphMatcher(wanted, ignore_literals=ignore_literals)
    matches = [
        m for m in matcher.match(graph, node_name_match=name) if all(accepts(m, graph, wanted) for accepts in filters)
    ]
    if replacement is None and make is None:
        raise AssertionError("Must provide either replacement GraphModule or replacement_callback")
    common: Any = None if make is not None else _graph_of(replacement)
    found: list[ReplacedPatterns] = []
    changed: dict[Node, Node] = {}
    for match in matches:
        new = make(match, graph, wanted) if make is not None else common
        found.append(_replace_one(graph, wanted, match, new, changed))
    gm.recompile()
    if isinstance(replacement, Module):
        _take_attributes(gm, replacement)
    return found


def _replace_one(
    graph: Graph, pattern: Graph, match: InternalMatch, new: Graph, changed: dict[Node, Node]
) -> ReplacedPatterns:
    arguments = [n for n in new.nodes if n.op == "placeholder"]
    if len(arguments) != len(match.placeholder_nodes):
        raise AssertionError(
            f"The pattern has {len(match.placeholder_nodes)} arguments and its replacement {len(arguments)}"
        )
    # What an argument stands for may itself have been replaced by now; it need not be a node.
    values: dict[Any, Any] = {}
    for argument, given in zip(arguments, match.placeholder_nodes):
        values[argument] = changed.get(given, given) if isinstance(given, Node) else given
    with graph.inserting_before(_first_use(graph, match)):
        copied = graph.graph_copy(new, values)
    results = (copied,) if isinstance(copied, Node) else tuple(copied)
    if len(results) != len(match.returning_nodes):
        raise AssertionError(f"The pattern has {len(match.returning_nodes)} results and its replacement {len(results)}")
    for old, result in zip(match.returning_nodes, results):
        old.replace_all_uses_with(result)
        changed[old] = result
    for node in reversed(pattern.nodes):
        if node.op not in ("placeholder", "output"):
            graph.erase_node(match.nodes_map[node])
    made = [values[n] for n in new.nodes if n.op not in ("placeholder", "output")]
    return ReplacedPatterns(match.anchors[0], match.nodes_map, made)


def _first_use(graph: Graph, match: InternalMatch) -> Node:
    """Before which node the replacement goes: the first that uses a result, or that follows the last result."""
    users = {user for node in match.returning_nodes for user in node.users}
    for node in graph.nodes:
        if node in users:
            return node
    results = set(match.returning_nodes)
    return next(node for node in reversed(graph.nodes) if node in results).next


def _take_attributes(gm: GraphModule, replacement: Module) -> None:
    """Submodules and tensors that the replacement names."""
    gm.delete_all_unused_submodules()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        target = str(node.target)
        if not _has(gm, target):
            if not _has(replacement, target):
                raise RuntimeError(
                    f"Attempted to create a {node.op} node that names {target}, which neither the original GraphModule "
                    "nor the replacement has"
                )
            _put(gm, target, copy.deepcopy(_find(replacement, target)))
    gm.graph.lint()


def _has(module: Module, target: str) -> bool:
    try:
        _find(module, target)
    except AttributeError:
        return False
    return True
