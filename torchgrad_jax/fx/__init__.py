"""torch.fx: programs recorded as graphs that can be looked at, changed, and turned into code again.

Differs from torch: recording is by `__torch_function__` alone, as a program writes its calls. There are no passes;
`Graph`, `Transformer` and `replace_pattern` are how a graph is changed.
"""

from __future__ import annotations

from .._core.errors.messages import missing as _missing
from . import (
    _symbolic_trace as _symbolic_trace,
    graph as graph,
    graph_module as graph_module,
    immutable_collections as immutable_collections,
    interpreter as interpreter,
    node as node,
    proxy as proxy,
    subgraph_rewriter as subgraph_rewriter,
)
from ._symbolic_trace import Tracer as Tracer, symbolic_trace as symbolic_trace, wrap as wrap
from .graph import Graph as Graph
from .graph_module import GraphModule as GraphModule
from .interpreter import Interpreter as Interpreter, Transformer as Transformer
from .node import Node as Node, has_side_effect as has_side_effect, map_arg as map_arg
from .proxy import Proxy as Proxy
from .subgraph_rewriter import replace_pattern as replace_pattern

__getattr__ = _missing(__name__)
