"""A recorded program: nodes in order, and the Python code that they say."""

from __future__ import annotations

import builtins
import keyword
import operator
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .._core.arrays import dtypes
from .._core.arrays.devices import device
from .._core.signals import uninterrupted
from .node import WRAPPED, Node, Target, map_arg, qualified_name, type_text

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "truediv": "/", "mod": "%", "pow": "**", "lshift": "<<",
    "rshift": ">>", "and_": "&", "or_": "|", "xor": "^", "matmul": "@", "eq": "==", "ne": "!=", "lt": "<", "gt": ">",
    "le": "<=", "ge": ">=",
}  # fmt: skip
_PREFIX = {"pos": "+", "neg": "-", "invert": "~"}
_TAKEN = {"torch", "inf", "nan", "NoneType", "device", "fx_pytree", "pytree"}


class _Names:
    """Names that are valid in code and each used once."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        self.last: dict[str, int] = {}

    def make(self, candidate: str, of: Any = None) -> str:
        name = re.sub("[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if name[0].isdigit():
            name = f"_{name}"
        found = re.match(r"(.*)_(\d+)$", name)
        base, n = (found[1], int(found[2])) if found else (name, None)
        if name in self.used or self._reserved(name, of):
            n = self.last.get(base, 0)
            while name in self.used or self._reserved(name, of):
                n += 1
                name = f"{base}_{n}"
        if n is not None:
            self.last[base] = n
        self.used.add(name)
        return name

    @staticmethod
    def _reserved(name: str, of: Any) -> bool:
        if keyword.iskeyword(name) or name in _TAKEN:
            return True
        there = getattr(builtins, name, None)
        return there is not None and there is not of


@dataclass
class PythonCode:
    """Generated source, and what its names mean."""

    src: str
    globals: dict[str, Any] = field(default_factory=dict)


class _Nodes:
    """The nodes of a graph, in order; also in reverse."""

    def __init__(self, graph: Graph, backwards: bool = False) -> None:
        self._graph, self._backwards = graph, backwards

    def __len__(self) -> int:
        return self._graph._len

    def __iter__(self) -> Iterator[Node]:
        root = self._graph._root
        step = "_prev" if self._backwards else "_next"
        here = getattr(root, step)
        while here is not root:
            if not here._erased:
                yield here
            here = getattr(here, step)

    def __reversed__(self) -> Iterator[Node]:
        return iter(_Nodes(self._graph, not self._backwards))


class _InsertPoint:
    """Where a graph's new nodes go, from the moment that this is made until a `with` block over it ends."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self.graph = graph
        self.orig_insert, graph._insert = graph._insert, insert

    def __enter__(self) -> None:
        pass

    @uninterrupted
    def __exit__(self, *raised: object) -> None:
        self.graph._insert = self.orig_insert


class Graph:
    """A program in straight lines.

    Example:
        >>> import torchgrad_jax as torch
        >>> graph = torch.fx.Graph()
        >>> x = graph.placeholder("x")
        >>> _ = graph.output(graph.call_function(torch.sin, (x,)))
        >>> print(graph)
        graph():
            %x : [num_users=1] = placeholder[target=x]
            %sin : [num_users=1] = call_function[target=torch.sin](args = (%x,), kwargs = {})
            return sin
    """

    def __init__(self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: Any = None) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._names = _Names()
        self.owning_module = owning_module
        self._tracer_cls = tracer_cls

    @property
    def nodes(self) -> _Nodes:
        """The nodes in order."""
        return _Nodes(self)

    # -- making nodes
    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a node at the place where nodes are being inserted: the end, unless changed."""
        for n in _nodes_in((args, kwargs)):
            if n.graph is not self:
                raise RuntimeError(f"argument {n} belongs to another graph")
        made = self._names.make(name if name is not None else self._target_to_str(target))
        node = Node(self, made, op, target, args or (), kwargs or {}, type_expr)
        self._insert(node)
        self._len += 1
        return node

    @staticmethod
    def _target_to_str(target: Target) -> str:
        name = target if isinstance(target, str) else getattr(target, "__name__", "function")
        if name.startswith("__") and name.endswith("__"):
            name = name[2:-2]
        # As in code: words in small letters.
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """An argument of the program."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """A parameter, buffer or other attribute of the module."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: Any = None,
        kwargs: Any = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def call_method(self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None) -> Node:
        """A call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_module(self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None) -> Node:
        """A call of a submodule."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """Return what the program returns."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def output_node(self) -> Node:
        """The node that returns."""
        last = self._root.prev
        if last.op != "output":
            raise AssertionError(f"Expected output node, got op={last.op}")
        return last

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes of one kind."""
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    # -- changing
    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """New nodes go before one, or to the beginning: until a `with` block ends, or for good."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """New nodes go right after one, or to the end: until a `with` block ends, or for good."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return _InsertPoint(self, n.append)

    def erase_node(self, to_erase: Node) -> None:
        """Take out a node that nobody uses."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if not to_erase._erased:
            to_erase._unlink()
            to_erase._erased = True
            self._len -= 1
            to_erase.args, to_erase.kwargs = (), {}

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Take out what nobody uses and what has no other effect."""
        impure, before = is_impure_node or Node.is_impure, self._len
        for node in list(reversed(self.nodes)):
            if not node.users and not impure(node):
                self.erase_node(node)
        return self._len != before

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """A copy of a node of another graph, whose arguments `arg_transform` brings over."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = dict(node.meta)
        return made

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Copies of all nodes of another graph; returns what it returns."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], val_map.__getitem__)
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    def __deepcopy__(self, memo: Any = None) -> Graph:
        memo = {} if memo is None else memo
        made = Graph(tracer_cls=self._tracer_cls)
        found = made.graph_copy(self, values := {}, return_output_node=True)
        if found is not None:
            made.output(found[0], found[1].type).meta = dict(found[1].meta)
        memo[id(self)] = made
        memo.update({id(old): new for old, new in values.items()})
        return made

    # -- looking
    def lint(self) -> None:
        """Raise if a node uses what comes later, or what the module does not have."""
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            for used in node.all_input_nodes:
                if used not in seen:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' was used before it has been defined! Please check that "
                        f"Nodes in the graph are topologically ordered\n{self}"
                    )
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen.add(node)
            names.add(node.name)
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                try:
                    operator.attrgetter(str(node.target))(self.owning_module)
                except AttributeError as e:
                    raise RuntimeError(
                        f"Node {node} target {node.target} references nonexistent attribute {node.target}"
                    ) from e

    def __str__(self) -> str:
        return "\n    ".join(["graph():", *(str(n.format_node()) for n in self.nodes)])

    def print_tabular(self) -> None:
        """Print the nodes as a table."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [tuple(map(str, (n.op, n.name, n.target, n.args, n.kwargs))) for n in self.nodes]
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in rows]
        sys.stdout.write("\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:], ""]))

    def python_code(self, root_module: str = "self", *, verbose: bool = False, **options: Any) -> PythonCode:
        """The code of `forward`."""
        return _Writer(self, root_module).write()


def _nodes_in(a: Any) -> list[Node]:
    found: list[Node] = []
    map_arg(a, found.append)
    return found


class _Writer:
    """Writes a graph as Python."""

    def __init__(self, graph: Graph, root: str) -> None:
        from importlib import import_module

        from .. import __name__ as own

        self.graph, self.root = graph, root
        self.wrapped: dict[str, None] = {}
        self.globals: dict[str, Any] = {
            "torch": import_module(own),
            "inf": float("inf"),
            "nan": float("nan"),
            "NoneType": type(None),
            "device": device,
        }

    def write(self) -> PythonCode:
        last_use: dict[Node, Node] = {}
        for node in self.graph.nodes:
            for used in node.all_input_nodes:
                last_use[used] = node
        dying: dict[Node, list[str]] = {}
        for used, node in last_use.items():
            if used.op != "output":
                dying.setdefault(node, []).append(used.name)
        order = {n: i for i, n in enumerate(self.graph.nodes)}
        arguments, body, returns = [], [], ""
        for node in self.graph.nodes:
            if node.op == "placeholder":
                arguments.append(self._argument(node))
                given = str(node.target).lstrip("*")
                if given != node.name:
                    body.append(f"{node.name} = {given}")
                continue
            if node.op == "output":
                returns = "" if node.type is None else f" -> {type_text(node.type)}"
                body.append(f"return {self._value(node.args[0])}")
                continue
            gone = sorted(dying.get(node, []), key=lambda n: min(i for k, i in order.items() if k.name == n))
            # Names in the order of this node's arguments, then set to None together.
            gone = [n.name for n in node.all_input_nodes if n.name in gone]
            if not node.users:
                gone.append(node.name)
            end = f";  {' = '.join(gone)} = None" if gone else ""
            kind = "" if node.type is None else f" : {type_text(node.type)}"
            body.append(f"{node.name}{kind} = {self._expression(node)}{end}")
        head = f"def forward({', '.join([self.root, *arguments])}){returns}:"
        first = "\n".join(f'torch.fx._symbolic_trace.wrap("{name}")' for name in self.wrapped)
        lines = "".join(f"    {line}\n" for line in body or ["pass"])
        return PythonCode(f"\n{first}\n\n{head}\n{lines}    ".replace("\n\n\n\n", "\n\n\n"), self.globals)

    def _argument(self, node: Node) -> str:
        kind = "" if node.type is None else f" : {type_text(node.type)}"
        default = f" = {self._value(node.args[0])}" if node.args else ""
        return f"{node.target}{kind}{default}"

    def _expression(self, node: Node) -> str:
        args, kwargs = node.args, node.kwargs
        if node.op == "get_attr":
            return self._path(self.root, str(node.target))
        if node.op == "call_module":
            return f"{self._path(self.root, str(node.target))}({self._call(args, kwargs)})"
        if node.op == "call_method":
            return f"{self._value(args[0], True)}.{node.target}({self._call(args[1:], kwargs)})"
        name = getattr(node.target, "__name__", "")
        if getattr(node.target, "__module__", None) == "_operator" and not kwargs:
            if name in _INFIX and len(args) == 2:
                return f"{self._value(args[0])} {_INFIX[name]} {self._value(args[1])}"
            if name in _PREFIX and len(args) == 1:
                return f"{_PREFIX[name]}{self._value(args[0])}"
            if name == "getitem":
                return f"{self._value(args[0])}[{self._value(args[1])}]"
        if node.target is getattr and len(args) == 2 and str(args[1]).isidentifier():
            return f"{self._value(args[0])}.{args[1]}"
        return f"{self._function(node.target)}({self._call(args, kwargs)})"

    @staticmethod
    def _path(root: str, target: str) -> str:
        for part in target.split("."):
            root = f"{root}.{part}" if part.isidentifier() else f'getattr({root}, "{part}")'
        return root

    def _call(self, args: Any, kwargs: Any) -> str:
        return ", ".join([*map(self._value, args), *(f"{k} = {self._value(v)}" for k, v in kwargs.items())])

    def _function(self, fn: Any) -> str:
        name = qualified_name(fn)
        if name.startswith("torch.") or "." not in name:
            return name
        if getattr(fn, "__module__", None) == "_operator":
            name = f"_{name}"
        known = name.replace(".", "_")
        if not known.isidentifier():
            known = re.sub("[^0-9a-zA-Z_]+", "_", known)
        self.globals[known] = fn
        if id(fn) in WRAPPED:
            self.wrapped.setdefault(known)
        return known

    def _value(self, a: Any, alone: bool = False) -> str:
        if isinstance(a, Node):
            return a.name
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            self.globals[type(a).__name__] = type(a)
            return f"{type(a).__name__}({', '.join(map(self._value, a))})"
        if isinstance(a, tuple):
            inside = ", ".join(map(self._value, a))
            return f"({inside},)" if len(a) == 1 else f"({inside})"
        if isinstance(a, list):
            return f"[{', '.join(map(self._value, a))}]"
        if isinstance(a, dict):
            return f"{{{', '.join(f'{k!r}: {self._value(v)}' for k, v in a.items())}}}"
        if isinstance(a, slice):
            return f"slice({self._value(a.start)}, {self._value(a.stop)}, {self._value(a.step)})"
        if isinstance(a, dtypes.dtype):
            return str(a)
        if isinstance(a, type) or (callable(a) and hasattr(a, "__name__")):
            return self._function(a)
        return repr(a)
