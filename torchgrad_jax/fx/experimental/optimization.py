"""Modules made smaller for inference: batch norms folded into convolutions, no dropout."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from ... import nn
from ..._core.errors.messages import missing as _missing
from ...nn.utils.fusion import fuse_conv_bn_eval
from .._symbolic_trace import symbolic_trace
from ..graph_module import GraphModule
from ..interpreter import Transformer
from ..node import Node

__all__ = ["fuse", "matches_module_pattern", "remove_dropout", "replace_node_module"]


def _parent_name(target: str) -> tuple[str, str]:
    """A qualified name as that of the parent and the last part."""
    *parent, name = target.rsplit(".", 1)
    return (parent[0] if parent else ""), name


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, nn.Module]) -> bool:
    """Whether a node calls a module of the last class, on the result of one of the class before."""
    if not node.args:
        return False
    for kind, current in zip(pattern, (node.args[0], node)):
        if not isinstance(current, Node) or current.op != "call_module":
            return False
        if type(modules.get(str(current.target))) is not kind:
            return False
    return True


def replace_node_module(node: Node, modules: dict[str, Any], new_module: nn.Module) -> None:
    """Put another module where a node calls one."""
    parent, name = _parent_name(str(node.target))
    modules[str(node.target)] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model: nn.Module, inplace: bool = False, no_trace: bool = False) -> GraphModule:
    """A module in evaluation mode with its batch norms folded into the convolutions before them.

    Args:
        model: recorded with `symbolic_trace`.
        inplace: whether its convolutions may be replaced.
        no_trace: whether a `GraphModule` is taken as it is.
    """
    kinds = [(nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d), (nn.Conv3d, nn.BatchNorm3d)]
    if not inplace:
        model = copy.deepcopy(model)
    taken = no_trace and isinstance(model, GraphModule)
    traced: Any = model if taken else symbolic_trace(model)
    modules = dict(traced.named_modules())
    graph = copy.deepcopy(traced.graph)
    for kind in kinds:
        for node in graph.nodes:
            if not matches_module_pattern(kind, node, modules) or len(node.args[0].users) > 1:
                continue
            norm = modules[str(node.target)]
            if norm.track_running_stats:
                line = node.args[0]
                fused = fuse_conv_bn_eval(modules[str(line.target)], norm)
                replace_node_module(line, modules, fused)
                node.replace_all_uses_with(line)
                graph.erase_node(node)
    return GraphModule(traced, graph)


def remove_dropout(model: nn.Module) -> nn.Module:
    """A module without calls of `Dropout` modules."""

    class Without(Transformer):
        def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
            if isinstance(self.submodules[target], nn.Dropout):
                return args[0]
            return super().call_module(target, args, kwargs)

    return Without(symbolic_trace(model)).transform()


__getattr__ = _missing(__name__)
