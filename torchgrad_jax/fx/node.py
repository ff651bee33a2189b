"""The steps of a graph: what is called, with which arguments, and who uses the result."""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable
from importlib import import_module
from typing import Any

from .._core.homes import home_of
from .immutable_collections import immutable_dict, immutable_list

Target = Callable[..., Any] | str
Argument = Any
_OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output", "root")


WRAPPED: set[int] = set()
"""By identity, the functions whose calls are nodes by `wrap`."""

_side_effectful_functions: set[Callable[..., Any]] = set()
"""Functions that `has_side_effect` was told of."""


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Keep calls of a function, also those whose result nobody uses."""
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Tuples, lists, dicts and slices with `fn` applied to whatever they hold."""
    if isinstance(a, tuple):
        mapped = [map_aggregate(x, fn) for x in a]
        return type(a)(*mapped) if hasattr(a, "_fields") else tuple(mapped)
    if isinstance(a, list):
        return immutable_list([map_aggregate(x, fn) for x in a])
    if isinstance(a, dict):
        return immutable_dict({k: map_aggregate(v, fn) for k, v in a.items()})
    if isinstance(a, slice):
        return slice(*(map_aggregate(x, fn) for x in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """Arguments with `fn` applied to the nodes among them."""
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def qualified_name(fn: Any) -> str:
    """How generated code names a function."""
    if getattr(builtins, getattr(fn, "__name__", ""), None) is fn:
        return fn.__name__
    name = getattr(fn, "__name__", None)
    if name is None:
        raise RuntimeError(f"{fn!r} has no name that code could call it by")
    own = __name__.partition(".")[0]
    top = import_module(own)
    for where, holder in (
        *([("torch.functional", top.functional)] if home_of(fn) == top.functional.__name__ else []),
        ("torch", top),
        ("torch.nn.functional", top.nn.functional),
        ("torch.special", top.special),
    ):
        if getattr(holder, name, None) is fn:
            return f"{where}.{name}"
    if getattr(top.Tensor, name, None) is fn:
        return f"torch.Tensor.{name}"
    module = home_of(fn)
    if not module:
        return name
    module = "operator" if module == "_operator" else module
    if module == own or module.startswith(own + "."):
        module = "torch" + module[len(own) :]
    return f"{module}.{name}"


class Node:
    """One step. Nodes are in the order of a doubly linked list; assigning `args` keeps `users` right."""

    def __init__(
        self,
        graph: Any,
        name: str,
        op: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        return_type: Any = None,
    ) -> None:
        if op not in _OPS:
            raise AssertionError(f"op {op!r} is not in _legal_ops")
        if op == "call_function" and not callable(target):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target).__name__} "
                "but a Callable is expected"
            )
        if op != "call_function" and not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target).__name__} "
                "but a str is expected"
            )
        self.graph, self.name, self.op, self.target, self.type = (graph, name, op, target, return_type)
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._prev = self._next = self
        self._erased = False
        self._inputs: dict[Node, None] = {}
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._set(args, kwargs)

    def _set(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for node in self._inputs:
            node.users.pop(self, None)
        self._inputs = {}

        def used(n: Node) -> Node:
            self._inputs.setdefault(n)
            return n

        self._args, self._kwargs = map_arg(tuple(args), used), map_arg(dict(kwargs), used)
        for node in self._inputs:
            node.users.setdefault(self)

    @property
    def args(self) -> tuple[Any, ...]:
        """Positional arguments; nodes among them stand for their results."""
        return self._args

    @args.setter
    def args(self, args: tuple[Any, ...]) -> None:
        self._set(args, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """Arguments by name."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Any]) -> None:
        self._set(self._args, kwargs)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes whose results this one takes."""
        return list(self._inputs)

    @property
    def next(self) -> Node:
        """The following node; after the last one, the root of the list."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before; before the first one, the root of the list."""
        return self._prev

    @property
    def stack_trace(self) -> str | None:
        """Where the node was recorded, if somebody noted it in `meta`."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def prepend(self, x: Node) -> None:
        """Move `x` to just before this node."""
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            return
        x._unlink()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: Node) -> None:
        """Move `x` to just after this node."""
        self._next.prepend(x)

    def _unlink(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def update_arg(self, idx: int, arg: Any) -> None:
        """Replace one positional argument."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Put in one more positional argument."""
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Set one argument by name."""
        self.kwargs = {**self.kwargs, key: arg}

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] = lambda user: True,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Let everybody who uses this node use another one; returns who did."""
        if propagate_meta:
            replace_with.meta.update(self.meta)
        users = [user for user in self.users if delete_user_cb(user)]
        for user in users:
            user.replace_input_with(self, replace_with)
        return users

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Use another node in the place of one."""

        def swap(n: Node) -> Node:
            return new_input if n is old_input else n

        self._set(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def is_impure(self, impure_random: bool = True) -> bool:
        """Return whether removing the node could change more than its result."""
        if self.op in ("placeholder", "output"):
            return True
        name = self.target if isinstance(self.target, str) else getattr(self.target, "__name__", "")
        if self.op == "call_function":
            return (
                self.target in _side_effectful_functions
                or name in ("_assert", "setitem", "__setitem__", "manual_seed")
                or (name.endswith("_") and not name.endswith("__"))
            )
        if self.op == "call_method":
            return name.endswith("_") and not name.endswith("__")
        return False

    def format_node(self, *args: Any, **options: Any) -> str | None:
        """One line about this node."""
        if self.op == "placeholder":
            default = f"(default={self.args[0]})" if self.args else ""
            return f"{self._head()} = placeholder[target={self.target}]{default}"
        if self.op == "output":
            return f"return {self.args[0]}"
        target = f"[target={self._target_text()}]"
        if self.op == "get_attr":
            return f"{self._head()} = get_attr{target}"
        shown = f"(args = {_shown(self.args)}, kwargs = {_shown(self.kwargs)})"
        return f"{self._head()} = {self.op}{target}{shown}"

    def _head(self) -> str:
        kind = "" if self.type is None else f"{type_text(self.type)} "
        return f"%{self.name} : {kind}[num_users={len(self.users)}]"

    def _target_text(self) -> str:
        if isinstance(self.target, str):
            return self.target
        name = qualified_name(self.target)
        return f"builtins.{name}" if "." not in name else name

    def __repr__(self) -> str:
        return self.name


def type_text(kind: Any) -> str:
    """An annotation as code shows it."""
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        return kind.__name__ if kind.__module__ == "builtins" else qualified_name(kind)
    return repr(kind).replace("NoneType", "None")


def _shown(a: Any) -> str:
    """Arguments as `format_node` writes them."""
    if isinstance(a, tuple):
        inside = ", ".join(map(_shown, a))
        return f"({inside},)" if len(a) == 1 else f"({inside})"
    if isinstance(a, list):
        return f"[{', '.join(map(_shown, a))}]"
    if isinstance(a, dict):
        return f"{{{', '.join(f'{k}: {_shown(v)}' for k, v in a.items())}}}"
    return f"%{a.name}" if isinstance(a, Node) else str(a)
