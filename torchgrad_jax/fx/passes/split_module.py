"""A graph cut into several modules, called one after another."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...nn import Module
from ..graph import Graph
from ..graph_module import GraphModule, _find
from ..node import Node, map_arg

__all__ = ["Partition", "split_module"]

_OUTSIDE = ("placeholder", "get_attr", "output")


@dataclass
class Partition:
    """One of the modules while it is made."""

    name: str
    submod_name: str
    graph: Graph = field(default_factory=Graph)
    inputs: dict[Node, None] = field(default_factory=dict)
    outputs: dict[Node, None] = field(default_factory=dict)
    dependencies: dict[str, None] = field(default_factory=dict)
    environment: dict[Node, Node] = field(default_factory=dict)
    targets: dict[str, Any] = field(default_factory=dict)


def split_module(
    m: GraphModule,
    root_m: Module | None,
    split_callback: Callable[[Node], int],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """A module that calls one submodule for each part of a graph.

    Args:
        m: the module.
        root_m: not used, as in torch.
        split_callback: the part that a node belongs to.
        qualname_map: filled with what the attributes of the new modules were called.
        keep_original_order: whether parts come in the order in which they begin.
        keep_original_node_name: whether nodes keep their names.
        keep_original_input_name: whether the arguments of parts are called as the nodes that they are.
        partition_affix: part of the names of the submodules.
        tuple_return: whether submodules return tuples of one, too.

    Raises:
        RuntimeError: the parts need each other's results in a circle.
    """
    part_of: dict[Node, Partition] = {}
    parts: dict[str, Partition] = {}
    for node in m.graph.nodes:
        if node.op not in _OUTSIDE:
            name = str(split_callback(node))
            called = f"submod_{name}" if partition_affix is None else f"submod_{partition_affix}_{name}"
            part_of[node] = parts.setdefault(name, Partition(name, called))
    _connect(m.graph, part_of)
    _fill(m, part_of, parts, qualname_map, bool(keep_original_node_name), keep_original_input_name)
    order = list(parts.values()) if keep_original_order else _sorted(parts)
    return _assembled(m, order, tuple_return)


def _connect(graph: Graph, part_of: dict[Node, Partition]) -> None:
    """What the parts take and give."""
    for node in graph.nodes:
        user = part_of.get(node)
        for used in node.all_input_nodes:
            maker = part_of.get(used)
            if maker is user:
                continue
            if maker is not None:
                maker.outputs.setdefault(used)
            if user is not None:
                user.inputs.setdefault(used)
                if maker is not None:
                    user.dependencies.setdefault(maker.name)


def _fill(
    m: GraphModule,
    part_of: dict[Node, Partition],
    parts: dict[str, Partition],
    names: dict[str, str] | None,
    keep_name: bool,
    keep_input: bool,
) -> None:
    """The nodes of the parts."""
    for part in parts.values():
        for i, used in enumerate(part.inputs):
            name = used.name if keep_input else f"arg_{i}"
            made = part.graph.placeholder(name, type_expr=used.type)
            made.meta = dict(used.meta)
            part.environment[used] = made
    for node in m.graph.nodes:
        if node not in part_of:
            continue
        part = part_of[node]
        target = node.target
        if node.op == "call_module":
            target = str(node.target).replace(".", "_")
            part.targets[target] = _find(m, str(node.target))
            if names is not None:
                names[f"{part.submod_name}.{target}"] = str(node.target)
        args = map_arg(node.args, part.environment.__getitem__)
        kwargs = map_arg(node.kwargs, part.environment.__getitem__)
        made = part.graph.create_node(node.op, target, args, kwargs, node.name if keep_name else None, node.type)
        made.meta = dict(node.meta)
        part.environment[node] = made


def _sorted(parts: dict[str, Partition]) -> list[Partition]:
    """Parts after those whose results they take."""
    left = {name: set(part.dependencies) for name, part in parts.items()}
    ready = [name for name, needed in left.items() if not needed]
    ordered: list[Partition] = []
    while ready:
        name = ready.pop(0)
        ordered.append(parts[name])
        for other, needed in left.items():
            if name in needed:
                needed.remove(name)
                if not needed:
                    ready.append(other)
    if len(ordered) != len(parts):
        raise RuntimeError("cycle exists between partitions!")
    return ordered


def _assembled(m: GraphModule, order: list[Partition], tuple_return: bool) -> GraphModule:
    """The module that calls the parts."""
    graph, made, attributes = Graph(), {}, {}
    for node in m.graph.nodes:
        if node.op == "placeholder":
            default = node.args[0] if node.args else ...
            made[node] = graph.placeholder(str(node.target), node.type, default)
        elif node.op == "get_attr":
            made[node] = graph.get_attr(str(node.target))
            attributes[str(node.target)] = _find(m, str(node.target))
        else:
            continue
        made[node].meta = dict(node.meta)
    for part in order:
        results = tuple(part.environment[n] for n in part.outputs)
        several = len(results) != 1 or tuple_return
        part.graph.output(results if several else results[0])
        attributes[part.submod_name] = GraphModule(part.targets, part.graph, part.submod_name)
        called = graph.call_module(part.submod_name, tuple(made[n] for n in part.inputs))
        for i, n in enumerate(part.outputs):
            made[n] = graph.call_function(operator.getitem, (called, i)) if several else called
    for node in m.graph.nodes:
        if node.op == "output":
            graph.output(map_arg(node.args[0], made.__getitem__)).meta = dict(node.meta)
    return GraphModule(attributes, graph)
