"""Stand-ins for values while a program is recorded: whatever is done to them becomes a node."""

from __future__ import annotations

import dis
import operator
import sys
from types import FrameType
from typing import Any

from ..overrides import is_tensor_method_or_property
from .node import Node, map_aggregate


class TraceError(ValueError):
    """What is wanted of a value cannot be known while recording."""


class TracerBase:
    """Makes nodes and proxies; see `Tracer`."""

    graph: Any
    record_stack_traces = False
    param_shapes_constant = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"

    def create_node(
        self, kind: str, target: Any, args: Any, kwargs: Any, name: str | None = None, type_expr: Any = None
    ) -> Node:
        """Add a node to the graph."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy:
        """The stand-in for a node's result."""
        return Proxy(node, self)

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
        """Add a node, given arguments that may be proxies, and return the stand-in for its result."""
        args, kwargs = self.create_arg(tuple(args)), self.create_arg(dict(kwargs or {}))
        node = self.create_node(kind, target, args, kwargs, name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Any) -> Any:
        """A value as an argument of a node."""
        return map_aggregate(a, self._leaf)

    def _leaf(self, a: Any) -> Any:
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, Node) or a is None or a is ... or callable(a):
            return a
        from .._core.arrays import dtypes, formats
        from .._core.arrays.devices import device
        from .._engine.tensor.attributes import layout

        plain = (int, float, complex, str, bytes, range, dtypes.dtype, device, layout, formats.memory_format)
        if isinstance(a, plain):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def to_bool(self, obj: Proxy) -> bool:
        """Return whether a stand-in is true: not known."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Any:
        """The elements of a stand-in: not known, unless the statement says how many it unpacks."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
            "**kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed explanation of what "
            "types of control flow can be traced, and check out the Proxy docstring for help troubleshooting Proxy "
            "iteration errors"
        )

    def keys(self, obj: Proxy) -> Any:
        """The keys of a stand-in, as one more."""
        return Attribute(obj, "keys")()


def _unpacked(frame: FrameType) -> int | None:
    """How many names the statement that a frame is at assigns the elements of a value to; None if it is another."""
    for step in dis.get_instructions(frame.f_code):
        if step.offset == frame.f_lasti:
            return step.argval if step.opname == "UNPACK_SEQUENCE" else None
    return None


class Proxy:
    """The result of a node, while the program is recorded."""

    def __init__(self, node: Node, tracer: Any = None) -> None:
        if tracer is None:
            tracer = GraphAppendingTracer(node.graph)
        self.tracer, self.node = tracer, node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Any:
        if k.startswith("__") and k.endswith("__"):  # protocols that others ask for
            raise AttributeError(k)
        return Attribute(self, k)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Any:
        count = _unpacked(sys._getframe(1))
        if count is None:
            return self.tracer.iter(self)
        step = self.tracer.create_proxy
        return (step("call_function", operator.getitem, (self, i), {}) for i in range(count))

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """See `TracerBase.keys`."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(cls, orig_method: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        found: list[Any] = []
        map_aggregate((args, kwargs), lambda a: found.append(a.tracer) if isinstance(a, Proxy) else None)
        tracer = found[0]
        if is_tensor_method_or_property(orig_method):
            name = orig_method.__name__
            if name == "__get__":
                name = orig_method.__self__.__name__
                return tracer.create_proxy("call_function", getattr, (args[0], name), {})
            return tracer.create_proxy("call_method", name, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs)


class Attribute(Proxy):
    """`x.name` of a proxy: a call of a method if it is called, else the attribute itself."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:
        """The node that reads the attribute, made when it is first needed."""
        found = self._node
        if found is None:
            made = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {})
            found = self._node = made.node
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class GraphAppendingTracer(TracerBase):
    """Adds nodes to a graph that exists."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph


_BINARY = ("add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor", "matmul")
_OTHER = ("eq", "ne", "lt", "gt", "le", "ge", "getitem", "pos", "neg", "invert", "abs")


def _install() -> None:
    def method(fn: Any, swapped: bool) -> Any:
        def call(self: Proxy, *args: Any) -> Any:
            operands = (args[0], self) if swapped else (self, *args)
            return self.tracer.create_proxy("call_function", fn, operands, {})

        return call

    for name in (*_BINARY, *_OTHER):
        setattr(Proxy, f"__{name.strip('_')}__", method(getattr(operator, name), False))
        if name in _BINARY:
            setattr(Proxy, f"__r{name.strip('_')}__", method(getattr(operator, name), True))
    Proxy.__hash__ = object.__hash__

    def setitem(self: Proxy, key: Any, value: Any) -> None:
        raise TypeError(f"'{type(self).__name__}' object does not support item assignment")

    Proxy.__setitem__ = setitem  # type: ignore[attr-defined]


_install()
