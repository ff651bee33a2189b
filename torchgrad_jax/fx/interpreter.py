"""Graphs run node by node."""

from __future__ import annotations

from typing import Any

from .graph import Graph
from .graph_module import GraphModule, _find
from .node import Node, map_arg
from .proxy import GraphAppendingTracer, Proxy


class Interpreter:
    """Runs a module's graph; override a method to do something else for that kind of node."""

    def __init__(self, module: Any, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph = module.graph if graph is None else graph
        self.garbage_collect_values = garbage_collect_values
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.extra_traceback = True
        self._last: dict[Node, list[Node]] = {}
        seen: set[Node] = set()
        for node in reversed(self.graph.nodes):
            for used in node.all_input_nodes:
                if used not in seen:
                    seen.add(used)
                    self._last.setdefault(node, []).append(used)

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """The result of the graph for these arguments."""
        self.env = dict(initial_env or {})
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            self.env[node] = self._explained(node)
            if node.op == "output":
                return self.env[node]
            if self.garbage_collect_values:
                for used in self._last.get(node, ()):
                    del self.env[used]
        return None

    def _explained(self, n: Node) -> Any:
        """The result of one node; an error says which node it was."""
        try:
            return self.run_node(n)
        except Exception as e:
            if not self.extra_traceback:
                raise
            where = f"While executing {n.format_node()}"
            where = f"{e.args[0]}\n\n{where}" if e.args else where
            where += (
                f"\nOriginal traceback:\n{n.stack_trace}\nUse tlparse to see full graph. "
                "(https://github.com/pytorch/tlparse?tab=readme-ov-file#tlparse-parse-structured-pt2-logs)"
            )
            e.args = (where, *e.args[1:])
            if isinstance(e, KeyError):
                raise RuntimeError(*e.args) from e
            raise

    def run_node(self, n: Node) -> Any:
        """The result of one node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a node, with results in the place of nodes."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Results in the place of nodes."""
        return map_arg(args, lambda used: self.env[used])

    def fetch_attr(self, target: str) -> Any:
        """An attribute of the module."""
        return _find(self.module, target)

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The next argument."""
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from None

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """An attribute of the module."""
        return self.fetch_attr(target)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Call a function."""
        return target(*args, **kwargs)

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Call a method of the first argument."""
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Call a submodule."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Return what is returned."""
        return args[0]


class Transformer(Interpreter):
    """Makes another module of one, by methods that are given stand-ins and may do something else."""

    def __init__(self, module: Any) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.new_graph = Graph()
        self.tracer = _TransformerTracer(self.new_graph)

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """An argument of the new graph."""
        default = args[0] if args else ...
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The same attribute in the new graph."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A call of the same submodule in the new graph."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A call of the same function in the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The new module."""
        found = self.run()
        if found is not None:
            self.new_graph.output(map_proxies(found))
        return GraphModule(self.module, self.new_graph)


class _TransformerTracer(GraphAppendingTracer):
    pass


def map_proxies(a: Any) -> Any:
    """Nodes in the place of their stand-ins."""
    from .node import map_aggregate

    return map_aggregate(a, lambda x: x.node if isinstance(x, Proxy) else x)
