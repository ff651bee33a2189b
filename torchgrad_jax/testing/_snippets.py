"""A failing comparison as a program of its own: sources, what they use, and the inputs as literals."""

from __future__ import annotations

import ast
import base64
import builtins
import functools
import inspect
import io
import linecache
import pickle
import sys
import tempfile
import textwrap
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._engine.memory.tensor import Tensor

_SHORT, _LONG = 200, 4000
_LIBRARIES = ("jax", "jaxlib", "numpy", "torch", "torchgrad_jax", "builtins", "math", "functools")


class Program:
    """Collects definitions in the order in which a program needs them."""

    def __init__(self) -> None:
        self.imports: dict[str, str] = {"np": "import numpy as np"}
        self.definitions: list[str] = []
        self.names: dict[str, int] = {}

    def text(self, last: str) -> str:
        """The whole program, with `last` as its last line."""
        parts = [*sorted(set(self.imports.values())), "", 'nan, inf = float("nan"), float("inf")']
        return "\n".join([*parts, *self.definitions, last])

    def define(self, name: str, value: Any) -> None:
        """Make a name mean a value, as the module in which a source stood had it."""
        if name in self.names and self.names[name] == id(value):
            return
        self.names[name] = id(value)
        line = self._line(name, value)
        if line:
            self.definitions.append(line)

    def define_tuple(self, name: str, values: tuple[Any, ...]) -> None:
        """Make a name mean several values."""
        names = [f"{name}_{i}" for i in range(len(values))]
        for n, v in zip(names, values):
            self.define(n, v)
        self.definitions.append(f"{name} = ({', '.join(names)},)")

    def _line(self, name: str, value: Any) -> str:
        if isinstance(value, types.ModuleType):
            self.imports[name] = f"import {value.__name__} as {name}"
            return ""
        home = (getattr(value, "__module__", None) or "").partition(".")[0]
        known = isinstance(value, type | Callable) and home in _LIBRARIES
        if known and (path := _public_path(value)):
            module, _, attribute = path.rpartition(".")
            self.imports[name] = f"from {module} import {attribute} as {name}"
            return ""
        if isinstance(value, functools.partial):
            return self._partial(name, value)
        if isinstance(value, types.FunctionType | type):
            return self._source(name, value)
        return self._object(name, value)

    def _object(self, name: str, value: Any) -> str:
        """A value that is neither a function nor a class: by import, as a literal, or pickled."""
        module, own = getattr(value, "__module__", None), getattr(value, "__name__", "")
        if module in sys.modules and getattr(sys.modules[module], own, None) is value:
            self.imports[name] = f"from {module} import {own} as {name}"
            return ""
        text = literal(value)
        if not text.startswith("<") and not callable(value):
            return f"{name} = {text}"
        try:
            packed = base64.b64encode(pickle.dumps(value)).decode()
        except Exception as e:
            return f"# {name}: {value!r} cannot be written down ({e})".replace("\n", " ")
        self.imports["pickle"] = "import base64, pickle"
        return f"{name} = pickle.loads(base64.b64decode({packed!r}))"

    def _partial(self, name: str, value: functools.partial[Any]) -> str:
        self.define(f"{name}_called", value.func)
        self.imports["functools"] = "import functools as functools"
        given = [literal(v) for v in value.args]
        given += [f"{k}={literal(v)}" for k, v in value.keywords.items()]
        return f"{name} = functools.partial({', '.join([f'{name}_called', *given])})"

    def _source(self, name: str, value: Any) -> str:
        text = source_of(value)
        if text is None:
            return f"# {name}: no source was found for {value!r}"
        for used, what in _used(value, text):
            if used != name and what is not value:
                self.define(used, what)
        if text.startswith("lambda"):
            return f"{name} = {text}"
        own = value.__name__
        return text if own == name else f"{text}\n{name} = {own}"


def _public_path(value: Any) -> str | None:
    """Where a library has a value under a public name, if it does."""
    name = getattr(value, "__name__", "")
    candidates = [getattr(value, "__module__", ""), "torchgrad_jax", "jax.numpy", "jax", "torch"]
    for module in candidates:
        home = sys.modules.get(module or "")
        if name.isidentifier() and home is not None and getattr(home, name, None) is value:
            return f"{module}.{name}"
    return None


def source_of(value: Any) -> str | None:
    """The source of a function or class alone; of a lambda its expression."""
    try:
        if not isinstance(value, types.LambdaType) or value.__name__ != "<lambda>":
            return textwrap.dedent(inspect.getsource(value)).strip()
        return _lambda(value)
    except (OSError, TypeError, SyntaxError):
        return None


def _lambda(f: types.FunctionType) -> str | None:
    lines = linecache.getlines(f.__code__.co_filename)
    source = "".join(lines)
    found = [
        ast.get_source_segment(source, n)
        for n in ast.walk(ast.parse(source))
        if isinstance(n, ast.Lambda) and n.lineno == f.__code__.co_firstlineno
    ]
    texts = [t for t in found if t is not None]
    same = [t for t in texts if _code(t) == _parts(f.__code__)]
    text = (same or texts or [None])[0]
    return text and text.replace("\n", " ")


def _code(text: str) -> tuple[Any, ...] | None:
    try:
        compiled = compile(f"({text})", "<lambda>", "eval").co_consts
    except SyntaxError:
        return None
    return next((_parts(c) for c in compiled if isinstance(c, types.CodeType)), None)


def _parts(code: types.CodeType) -> tuple[Any, ...]:
    """Return what tells one lambda of a line from another; names from a closure are global when it stands alone."""
    constants = [c if not isinstance(c, types.CodeType) else _parts(c) for c in code.co_consts]
    return {*code.co_names, *code.co_freevars}, code.co_varnames, repr(constants)


def _used(value: Any, text: str) -> list[tuple[str, Any]]:
    """Names from outside that a source uses, with what they mean."""
    functions = [value] if isinstance(value, types.FunctionType) else _methods(value)
    scope: dict[str, Any] = {}
    for f in functions:
        closed = zip(f.__code__.co_freevars, f.__closure__ or ())
        scope |= f.__globals__ | {n: c.cell_contents for n, c in closed if _full(c)}
    tree = ast.parse(text if not text.startswith("lambda") else f"({text})")
    names = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name)]
    own = {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    loaded = {n for f in functions for n in _loaded(f.__code__)}
    outside = [n for n in dict.fromkeys(names) if n in loaded or n not in own]
    return [(n, scope[n]) for n in outside if n in scope and not hasattr(builtins, n)]


def _loaded(code: types.CodeType) -> set[str]:
    """Names that a code and those within it take from outside."""
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return {*code.co_names, *code.co_freevars}.union(*(_loaded(c) for c in inner))


def _methods(value: type) -> list[types.FunctionType]:
    found = [getattr(v, "__func__", v) for v in vars(value).values()]
    return [f for f in found if isinstance(f, types.FunctionType)]


def _full(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def literal(x: Any) -> str:
    """An expression that gives a value again; large arrays as compressed text."""
    if isinstance(x, Mapping):
        return "{" + ", ".join(f"{k!r}: {literal(v)}" for k, v in x.items()) + "}"
    if isinstance(x, list | tuple) and type(x) in (list, tuple):
        inner = ", ".join(literal(v) for v in x)
        return f"[{inner}]" if isinstance(x, list) else f"({inner}{',' if len(x) == 1 else ''})"
    if hasattr(x, "detach"):
        module = "torchgrad_jax" if isinstance(x, Tensor) else "torch"
        return f"__import__({module!r}).tensor({literal(x.detach().numpy())})"
    if hasattr(x, "dtype") and hasattr(x, "shape"):
        return _array(np.asarray(x))
    return repr(x)


def _array(x: np.ndarray) -> str:
    name = x.dtype.name
    if x.size <= _SHORT:
        return f"np.array({x.tolist()}, {name!r})"
    file = io.BytesIO()
    plain = x if name != "bfloat16" else x.astype(np.float32)
    np.savez_compressed(file, x=plain)
    text = base64.b64encode(file.getvalue()).decode()
    if len(text) > _LONG:
        with tempfile.NamedTemporaryFile(suffix=".npz", delete=False) as kept:
            kept.write(file.getvalue())
        return f"np.load({kept.name!r})['x'].astype({name!r})"
    load = "np.load(__import__('io').BytesIO(__import__('base64').b64decode"
    return f"{load}({text!r})))['x'].astype({name!r})"


def snippet(check: str, functions: Sequence[tuple[str, Any]], inputs: Any, options: Mapping[str, Any]) -> str:
    """A program that imports `check` from `torchgrad_jax.testing` and calls it on the same."""
    program = Program()
    program.imports["check"] = f"from torchgrad_jax.testing import {check}"
    called = []
    for name, value in functions:
        if isinstance(value, types.FunctionType | type | functools.partial) or callable(value):
            program.define(name, value)
        elif isinstance(value, tuple):
            program.define_tuple(name, value)
        called.append(name)
    program.definitions.append(f"inputs = {literal(inputs)}")
    extra = [f"{k}={k if k in called else literal(v)}" for k, v in options.items()]
    given = [n for n in called if n not in options]
    return program.text(f"{check}({', '.join([*given, 'inputs', *extra])})")
