"""`pipeline()`: a module is recorded on an example and cut into stages.

    pipe = pipeline(model, mb_args=(x,), split_spec={"layers.2": SplitPoint.BEGINNING})
    stage = pipe.build_stage(rank, device)

The record is a graph of `torch.fx` whose stand-ins know what the example has: shapes are numbers, and Python code that
looks at them runs as it does on the example. A cut goes through all that is computed before it and used behind it: a
stage gives these values to the next one, which passes on what a later stage uses.
"""

from __future__ import annotations

import enum
import inspect
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..._core.signals import contextmanager, restore
from ..._engine.memory.tensor import Tensor
from ...autograd.grad_mode import no_grad
from ...fx._symbolic_trace import Tracer
from ...fx.graph import Graph
from ...fx.graph_module import GraphModule
from ...fx.node import Node, map_arg
from ...fx.proxy import Proxy, TraceError
from ...nn.modules.module import Module
from ...random import fork_rng, get_rng_state, set_rng_state
from ...utils import _pytree
from ..device_mesh import DeviceMesh
from .stage import PipelineStage


class SplitPoint(enum.Enum):
    """Where a submodule is cut off: before it or behind it."""

    BEGINNING = 1
    END = 2


_MARK = "_pipeline_split_point"
"""The attribute of a submodule that says where it is cut off."""

_TRACERS: list[_Tracer] = []
"""Those that record now."""


def pipe_split() -> None:
    """Cut a module here, when `pipeline` records its forward. Nothing happens otherwise."""
    if _TRACERS:
        _TRACERS[-1].cut()


def annotate_split_points(mod: Module, spec: dict[str, SplitPoint]) -> None:
    """Say where `pipeline` cuts a module.

    Args:
        mod: the module.
        spec: by the names of submodules, where each is cut off.
    """
    for name, point in spec.items():
        below: Any = mod
        for part in name.split("."):
            below = getattr(below, part)
        below.__dict__[_MARK] = SplitPoint(point)


@dataclass
class PipeInfo:
    """What a `Pipe` consists of."""

    graph: Graph
    num_stages: int
    has_loss_and_backward: bool = False


class Pipe(Module):
    """A module in stages, as `pipeline` makes it.

    Calling it runs all stages, one after another, and gives what the module gives as a tuple.

    Args:
        split_gm: the module whose submodules are the stages.
        num_stages: how many there are.
    """

    def __init__(self, split_gm: GraphModule, num_stages: int) -> None:
        super().__init__()
        self.split_gm, self.num_stages = split_gm, num_stages
        self.has_loss_and_backward = False

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run all stages."""
        return tuple(_pytree.tree_leaves(self.split_gm(*args, **kwargs)))

    def get_stage_module(self, stage_idx: int) -> Module:
        """The module of a stage, which has the parameters and their names."""
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"Invalid stage index {stage_idx}!")
        return getattr(self.split_gm, _name(stage_idx))

    def build_stage(self, stage_index: int, device: Any, group: Any = None) -> PipelineStage:
        """A stage for a schedule.

        Args:
            stage_index: which one.
            device: where its parameters go; or a `DeviceMesh`.
            group: the processes that have the stages.
        """
        module = self.get_stage_module(stage_index)
        if not isinstance(device, DeviceMesh):
            module.to(device)
        stage = PipelineStage(module, stage_index, self.num_stages, device, group=group)
        stage.takes_keywords = stage_index == 0  # later stages get from it what they use
        return stage

    def info(self) -> PipeInfo:
        """The graph, and how many stages it has."""
        return PipeInfo(self.split_gm.graph, self.num_stages, self.has_loss_and_backward)

    def print_readable(self) -> None:
        """Print the code that calls the stages."""
        self.split_gm.print_readable()

    def __str__(self) -> str:
        return str(self.split_gm)

    __repr__ = __str__


def pipeline(
    module: Module,
    mb_args: tuple[Any, ...],
    mb_kwargs: dict[str, Any] | None = None,
    split_spec: dict[str, SplitPoint] | None = None,
    split_policy: Callable[[GraphModule], GraphModule] | None = None,
) -> Pipe:
    """Cut a module into stages.

    Args:
        module: stays as it is; the stages have its parameters.
        mb_args: the arguments of an example: a part of a batch. What is no tensor is the same in each call.
        mb_kwargs: arguments by name.
        split_spec: by the names of submodules, where each is cut off; besides where the module calls `pipe_split`.
        split_policy: gets the record and puts calls of `pipe_split` into it.

    Raises:
        ValueError: both `split_spec` and `split_policy` are given.
        RuntimeError: the module looks at values, so that the record would be right for the example alone.
    """
    if split_spec is not None and split_policy is not None:
        raise ValueError("Cannot specify both `split_spec` and `split_policy`. Please use only one of them.")
    if split_spec is not None:
        annotate_split_points(module, split_spec)
    tracer = _Tracer(mb_args, mb_kwargs or {})
    try:
        graph = tracer.trace(module)
    except TraceError as error:
        raise RuntimeError(
            f"pipeline(): the module cannot be recorded on an example: {error}. Make a module for each stage, and "
            "give it to PipelineStage"
        ) from error
    reads = [str(n.target) for n in graph.nodes if n.op in ("get_attr", "call_module")]
    held = {name: operator.attrgetter(name)(module) for name in reads if name not in tracer.constants}
    recorded = GraphModule({**held, **tracer.constants}, graph, type(module).__name__)
    recorded.training = module.training
    if split_policy is not None:
        recorded = split_policy(recorded)
    return _cut(recorded, list(tracer.constants))


# --- the record -----------------------------------------------------------------------------------


class _Known(Proxy):
    """A stand-in that knows the value of the example."""

    @property
    def value(self) -> Any:
        """The value of the example."""
        return self.node.meta["example"]

    def __getattr__(self, k: str) -> Any:
        if k in ("node", "tracer") or (k.startswith("__") and k.endswith("__")):
            raise AttributeError(k)
        found = getattr(self.value, k)
        if callable(found):
            return super().__getattr__(k)
        if not _has_tensor(found):
            return found
        return self.tracer.create_proxy("call_function", getattr, (self, k), {})

    def __iter__(self) -> Iterator[Any]:
        step = self.tracer.create_proxy
        count = len(self.value)
        return (step("call_function", operator.getitem, (self, i), {}) for i in range(count))

    def __len__(self) -> int:
        return len(self.value)


class _Tracer(Tracer):
    """Records a module on an example."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self._args, self._kwargs = args, kwargs
        self._at_work = False
        """Whether a value of the example is being computed, which is not recorded."""
        self._read: dict[int, Any] = {}
        """Stand-ins of parameters and buffers."""
        self.constants: dict[str, Any] = {}
        """Tensors that the module made of no argument, by the names that the record has for them."""

    def trace(self, root: Any, concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a module, which is left as it is."""
        buffers = [(b, b.detach().clone()) for b in root.buffers()]
        own = set(vars(root))
        _TRACERS.append(self)
        try:
            with fork_rng(), no_grad():
                drawn = get_rng_state()
                graph = super().trace(root)
                if not get_rng_state().equal(drawn):
                    raise TraceError("it draws random numbers that would be the same in each call")
        finally:
            _TRACERS.remove(self)
            for name in set(vars(root)) - own:  # constants that the record reads
                self.constants[name] = vars(root).pop(name)
            with no_grad():
                for b, before in buffers:
                    b.copy_(before)
        return graph

    def cut(self) -> None:
        """Cut the module here."""
        if not self._at_work:
            self.create_node("call_function", pipe_split, (), {})

    def _placeholders(self, fn: Any, concrete: dict[str, Any], is_method: bool) -> tuple[Any, Any]:
        bound = inspect.signature(fn).bind(self.root, *self._args, **self._kwargs)
        names = iter(bound.arguments)
        next(names)
        given: dict[str, Any] = {}
        for name in names:
            kind = bound.signature.parameters[name].kind
            value = bound.arguments[name]
            if kind is inspect.Parameter.VAR_POSITIONAL:
                given[name] = tuple(self._input(f"{name}_{i}", x) for i, x in enumerate(value))
            elif kind is inspect.Parameter.VAR_KEYWORD:
                given[name] = {key: self._input(key, x) for key, x in value.items()}
            else:
                given[name] = self._input(name, value)
        bound.arguments.update(given)
        return fn, (bound.args, bound.kwargs)

    def _input(self, name: str, value: Any) -> Any:
        node = self.create_node("placeholder", name, (), {})
        if not _has_tensor(value):
            return value
        node.meta["example"] = _pytree.tree_map(lambda x: x.detach().clone() if isinstance(x, Tensor) else x, value)
        return _Known(node, self)

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a submodule, cut off where it is marked."""
        if self._at_work:
            return forward(*args, **kwargs)
        point = m.__dict__.get(_MARK)
        if point is SplitPoint.BEGINNING:
            self.cut()
        out = super().call_module(m, forward, args, kwargs)
        if point is SplitPoint.END:
            self.cut()
        return out

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What an attribute of a module stands for: a parameter or a buffer is read in each call."""
        if self._at_work or not isinstance(attr_val, Tensor):
            return attr_val
        if id(attr_val) not in self._read:
            node = self._leaf(attr_val)
            node.meta["example"] = attr_val
            self._read[id(attr_val)] = _Known(node, self)
        return self._read[id(attr_val)]

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: Any,
        kwargs: Any,
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Any = None,
    ) -> Any:
        """The stand-in of a step's result; the result itself where it holds no tensor."""
        args, kwargs = self.create_arg(tuple(args)), self.create_arg(dict(kwargs or {}))
        if kind == "call_method" and target in _VALUES:
            raise TraceError(f"it asks for values, by {target}()")
        node = self.create_node(kind, target, args, kwargs, name, type_expr)
        value = self._value(node)
        if not _has_tensor(value):
            self.graph.erase_node(node)
            return value
        node.meta["example"] = value
        return _Known(node, self)

    def _value(self, node: Node) -> Any:
        """Return what a step gives for the example."""
        args, kwargs = map_arg(node.args, self._example), map_arg(node.kwargs, self._example)
        target: Any = node.target
        with self._working():
            if node.op == "call_function":
                return target(*args, **kwargs)
            if node.op == "call_method":
                return getattr(args[0], str(node.target))(*args[1:], **kwargs)
            return self.root.get_submodule(str(node.target))(*args, **kwargs)

    def _example(self, node: Node) -> Any:
        """The value of the example; of a constant what the module has under the name of the node."""
        if "example" in node.meta:
            return node.meta["example"]
        return operator.attrgetter(str(node.target))(self.root)

    @contextmanager
    def _working(self) -> Iterator[None]:
        before, self._at_work = self._at_work, True
        drawn = get_rng_state()
        try:
            yield
        finally:
            self._at_work = before
            restore(set_rng_state, drawn)


_VALUES = ("item", "tolist", "numpy", "__bool__", "__float__", "__int__", "__index__")


def _has_tensor(value: Any) -> bool:
    return any(isinstance(x, Tensor) for x in _pytree.tree_leaves(value))


# --- the cut --------------------------------------------------------------------------------------


def _name(stage: int) -> str:
    return f"submod_pp_{stage}"


def _cut(recorded: GraphModule, constants: Sequence[str]) -> Pipe:
    """The stages of a record, whose constants are no part of their state."""
    inputs = [n for n in recorded.graph.nodes if n.op == "placeholder"]
    output = next(n for n in recorded.graph.nodes if n.op == "output")
    stages: list[list[Node]] = [[]]
    for node in recorded.graph.nodes:
        if node.target is pipe_split:
            stages += [[]] if stages[-1] else []
        elif node.op not in ("placeholder", "get_attr", "output"):
            stages[-1].append(node)
    if not stages[-1] and len(stages) > 1:
        stages.pop()
    used_later = _used_later(stages, output)
    whole, attributes = Graph(), {}
    values = {n: whole.placeholder(str(n.target)) for n in inputs}
    arrived = inputs
    for i, (nodes, later) in enumerate(zip(stages, used_later, strict=True)):
        last = i == len(stages) - 1
        there = [*arrived, *nodes]
        leaving = [n for n in there if n in later]
        module = _stage(recorded, i, arrived, nodes, output if last else leaving)
        module._non_persistent_buffers_set.update(set(constants) & set(module._buffers))
        attributes[_name(i)] = module
        called = whole.call_module(_name(i), tuple(values[n] for n in arrived))
        if last:
            whole.output(called)
        elif len(leaving) == 1:
            values[leaving[0]] = called
        else:
            for k, n in enumerate(leaving):
                values[n] = whole.call_function(operator.getitem, (called, k))
        arrived = leaving
    return Pipe(GraphModule(attributes, whole), len(stages))


def _used_later(stages: Sequence[Sequence[Node]], output: Node) -> list[set[Node]]:
    """For each stage what is used behind it."""
    later = set(output.all_input_nodes)
    found: list[set[Node]] = []
    for nodes in reversed(stages):
        found.append(set(later))
        later.update(used for n in nodes for used in n.all_input_nodes)
    return found[::-1]


def _stage(
    recorded: GraphModule, number: int, arrived: Sequence[Node], nodes: Sequence[Node], leaving: Any
) -> GraphModule:
    """The module of a stage, with the names that parameters have in the whole module."""
    graph, made = Graph(), {}
    for n in arrived:
        made[n] = graph.placeholder(n.name if number else str(n.target))

    def copied(n: Node) -> Node:
        if n not in made:  # what the module holds is read where it is used
            made[n] = graph.get_attr(str(n.target))
        return made[n]

    for n in nodes:
        args, kwargs = map_arg(n.args, copied), map_arg(n.kwargs, copied)
        made[n] = graph.create_node(n.op, n.target, args, kwargs, n.name)
    if isinstance(leaving, Node):
        graph.output(map_arg(leaving.args[0], copied))
    else:
        row = tuple(made[n] for n in leaving)
        graph.output(row[0] if len(row) == 1 else row)
    return GraphModule(recorded, graph, "GraphModule")
