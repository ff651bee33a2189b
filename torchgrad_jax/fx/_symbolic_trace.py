"""Recording: a function or module is run once on stand-ins."""

from __future__ import annotations

import builtins
import functools
import inspect
import math
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from .._core.homes import home_of
from .._core.signals import contextmanager
from .._engine.memory.tensor import Tensor
from ..nn import Module, Parameter, Sequential
from .graph import Graph
from .graph_module import RECORD, GraphModule
from .node import WRAPPED, map_aggregate
from .proxy import Proxy, TracerBase

_wrapped: dict[tuple[int, str], dict[str, Any]] = {}
"""By the globals of a module, and a name in them: those globals."""


def wrap(fn_or_name: str | Callable[..., Any]) -> Any:
    """Let calls of a function of the caller's module be nodes, instead of being looked into.

    Args:
        fn_or_name: the function (then this is a decorator), or the name that the module has for it.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame: Any = inspect.currentframe().f_back  # type: ignore[union-attr]
    if callable(fn_or_name):
        WRAPPED.add(id(fn_or_name))
    elif name in frame.f_globals:
        WRAPPED.add(id(frame.f_globals[name]))
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


def _first_proxy(args: Any) -> Proxy | None:
    found: list[Proxy] = []
    map_aggregate(args, lambda a: found.append(a) if isinstance(a, Proxy) else None)
    return found[0] if found else None


def _recorded(fn: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        proxy = _first_proxy((args, kwargs))
        if proxy is None:
            return fn(*args, **kwargs)
        return proxy.tracer.create_proxy("call_function", fn, args, kwargs)

    call.__name__ = getattr(fn, "__name__", "call")
    return call


@contextmanager
def _patched(tracer: Tracer, wrapped: tuple[Callable[..., Any], ...]) -> Iterator[None]:
    """Calls of modules, their attributes, and calls of wrapped functions come to the tracer."""
    undo: list[tuple[Any, str, Any]] = []
    call, attribute = Module.__call__, Module.__getattr__

    def module_call(self: Module, *args: Any, **kwargs: Any) -> Any:
        return tracer.call_module(self, lambda *a, **k: call(self, *a, **k), args, kwargs)

    def module_attribute(self: Module, name: str) -> Any:
        return tracer.getattr(name, attribute(self, name), {})

    globals_ = list(_wrapped.items())
    for (_, name), holder in globals_:
        there = holder.get(name, getattr(builtins, name, None))
        if there is not None:
            undo.append((holder, name, holder.get(name, undo)))
            holder[name] = _recorded(there)
    ids = {id(fn) for fn in wrapped}
    holders: list[Any] = [tracer.root_globals, *map(vars, tracer._autowrap_modules)]
    for holder in holders:
        for name, value in list(holder.items()):
            if id(value) in ids and not name.startswith("_"):
                undo.append((holder, name, value))
                holder[name] = _recorded(value)
    Module.__call__, Module.__getattr__ = module_call, module_attribute
    try:
        yield
    finally:
        Module.__call__, Module.__getattr__ = call, attribute
        for holder, name, value in reversed(undo):
            if value is undo:
                del holder[name]
            else:
                holder[name] = value


class Tracer(TracerBase):
    """Records a module or function; override `is_leaf_module` to say what is looked into."""

    def __init__(
        self, autowrap_modules: Any = (math,), autowrap_functions: Any = (), param_shapes_constant: bool = False
    ) -> None:
        self._autowrap_modules = tuple(autowrap_modules)
        of_modules = [
            value
            for module in self._autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        ]
        WRAPPED.update(map(id, of_modules))
        self._autowrap = (*of_modules, *autowrap_functions)
        self.root: Any = None
        self.root_globals: dict[str, Any] = {}
        self.module_stack: dict[str, Any] = {}
        self.scope: Any = None

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Return whether calls of a module are nodes: those of torch.nn but Sequential are."""
        own = type(m).__module__
        inside = own.startswith(("torch.nn", "torch.ao.nn", f"{__name__.partition('.')[0]}.nn"))
        return inside and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """Where a submodule is in the root."""
        for name, there in self.root.named_modules(remove_duplicate=False):
            if there is mod:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a submodule: a node if it is a leaf, else looked into."""
        path = self.path_of_module(m)
        if self.is_leaf_module(m, path):
            return self.create_proxy("call_module", path, args, kwargs)
        return forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Return what an attribute of a module stands for: itself."""
        return attr_val

    def _leaf(self, a: Any) -> Any:
        if isinstance(a, Parameter):
            for name, p in self.root.named_parameters():
                if a is p:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, Tensor):
            for name, buffer in self.root.named_buffers():
                if a is buffer:
                    return self.create_node("get_attr", name, (), {})
            for prefix, module in self.root.named_modules():
                for name, value in vars(module).items():
                    if value is a:
                        return self.create_node("get_attr", f"{prefix}.{name}".lstrip("."), (), {})
            i = 0
            while hasattr(self.root, f"_tensor_constant{i}"):
                i += 1
            setattr(self.root, f"_tensor_constant{i}", a)
            return self.create_node("get_attr", f"_tensor_constant{i}", (), {})
        if isinstance(a, Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        return super()._leaf(a)

    def _placeholders(self, fn: Any, concrete: dict[str, Any], is_method: bool) -> tuple[Any, Any]:
        parameters = list(inspect.signature(fn).parameters.values())
        # In the order that a function's local variables have: `*args` after what is given by name.
        parameters.sort(key=lambda p: p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD))
        args: list[Any] = [self.root] if is_method else []
        kwargs: dict[str, Any] = {}
        starred: dict[str, Any] = {}
        fixed: list[tuple[str, Any, Any]] = []
        for p in parameters[1:] if is_method else parameters:
            stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
            default = () if p.default is p.empty or stars else (p.default,)
            kind = None if p.annotation is p.empty or _ours(fn) else p.annotation
            name = f"{p.name}_1" if p.name in concrete else f"{stars}{p.name}"
            value = proxy = self.create_proxy("placeholder", name, default, {}, type_expr=kind)
            if p.name in concrete:
                value = concrete[p.name]
                if not isinstance(value, int | float | str):
                    raise NotImplementedError(
                        f"symbolic_trace: concrete_args for {p.name!r} must be a number or a string, not {type(value)}"
                    )
                fixed.append((p.name, proxy, value))
            if stars:
                starred[p.name] = value
            elif p.kind is p.KEYWORD_ONLY:
                kwargs[p.name] = value
            else:
                args.append(value)
        for name, proxy, value in fixed:
            said = f"{name} has been specialized to have value {value} but got another value"
            check = import_module(__name__.partition(".")[0])._assert
            self.create_proxy("call_function", check, (proxy == value, said), {})
        return _without_stars(fn, starred) if starred else fn, (args, kwargs)

    def trace(self, root: Any, concrete_args: dict[str, Any] | None = None) -> Graph:
        """Run a module's `forward`, or a function, on stand-ins; returns the graph."""
        if isinstance(root, Module):
            self.root, fn = root, type(root).forward
        else:
            self.root, fn = Module(), root
        self.root_globals = getattr(inspect.unwrap(fn), "__globals__", {})
        self.graph = Graph(tracer_cls=type(self))
        self.graph.owning_module = None
        fn, (args, kwargs) = self._placeholders(fn, concrete_args or {}, isinstance(root, Module))
        with _patched(self, self._autowrap):
            found = fn(*args, **kwargs)
            returns = inspect.signature(fn).return_annotation
            self.create_node(
                "output",
                "output",
                (self.create_arg(found),),
                {},
                type_expr=None if returns is inspect.Signature.empty or _ours(fn) else returns,
            )
        return self.graph


def _ours(fn: Any) -> bool:
    """Return whether a function is one of this package's, whose annotations are not torch's."""
    return home_of(fn).partition(".")[0] == __name__.partition(".")[0]


def _without_stars(fn: Any, starred: dict[str, Any]) -> Any:
    """The same function with `*args` and `**kwargs` as single values: how many there are cannot be known."""
    code = fn.__code__
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    # Their names follow those of the other arguments, so that they can be arguments by name.
    named = code.co_kwonlyargcount + len(starred)
    code = code.replace(co_flags=flags, co_kwonlyargcount=named)
    made = type(fn)(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    made.__kwdefaults__ = fn.__kwdefaults__

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        return made(*args, **kwargs, **starred)

    return call


class _KeepAll(Tracer):
    """Records a module whose submodules are all leaves, as those of generated code are."""

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return True


RECORD.append(lambda root: _KeepAll().trace(root))


def symbolic_trace(root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """Record a module or function as a module that shows what it does, and can be changed.

    Args:
        root: run once, on stand-ins: control flow that depends on values raises.
        concrete_args: values for arguments that are not to be stand-ins.

    Example:
        >>> import torchgrad_jax as torch
        >>> traced = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
        >>> [node.name for node in traced.graph.nodes]
        ['x', 'relu', 'add', 'output']
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
