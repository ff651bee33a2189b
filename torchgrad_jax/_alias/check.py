"""`python -m torchgrad_jax check`: which names of torch a program uses, and which of them are there.

The source is read, not run. A name counts as supported if it can be looked up; what a docstring says
after "Differs from torch:" is told, and so is what a function refuses altogether. A missing name breaks nothing where
the program asks first: within `try` with `except ImportError`, or behind `if torch.xpu.is_available()`. Nor does it in
an annotation that nobody evaluates. A method that the program gives to a class of torch is not a name of torch.
"""

from __future__ import annotations

import ast
import importlib
import importlib.machinery
import importlib.util
import inspect
import json
import re
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._functions import unsupported

_METHODS = unsupported.TENSOR_METHODS.keys() - {"values", "indices"}
"""Methods that no tensor has here, less those that containers have too: what `x.values` is cannot be read off."""
_KINDS = ("missing", "differs", "supported")


@dataclass
class Use:
    """One name of torch, where it is used, and what is to be said about it."""

    name: str
    kind: str
    note: str = ""
    places: list[tuple[str, int]] = field(default_factory=list)
    asked_first: bool = True
    """Whether the program asks whether it can use the name, in all places."""

    @property
    def breaks(self) -> bool:
        """Whether a program that comes here stops."""
        return self.kind == "missing" and not self.asked_first

    def add(self, file: str, line: int, asked: bool) -> None:
        """Note one more place."""
        self.asked_first = self.asked_first and asked
        if (file, line) not in self.places:
            self.places.append((file, line))


# --- looking names up -----------------------------------------------------------------------------


def resolve(name: str) -> tuple[str, str, str]:
    """The longest part of a dotted name that says something, its kind, and a note."""
    parts = re.sub(r"^(torch\.)+(?=torch\b)", "", name).split(".")  # `torch.torch` is torch
    found: Any = importlib.import_module("torchgrad_jax")
    holder = found
    for i, part in enumerate(parts[1:], 1):
        path = ".".join(parts[: i + 1])
        if not isinstance(found, types.ModuleType | type):
            return ".".join(parts[:i]), *_kind_of(found, holder)
        holder = found
        try:
            found = getattr(found, part)
        except AttributeError:
            inner = _submodule(path)
            if inner is None:
                return path, *_absent(path, part, holder)
            found = inner
        except Exception as e:  # what an attribute computes may raise anything; it is reported
            return path, "missing", _line(str(e))
    return name, *_kind_of(found, holder, parts[-1])


def _submodule(path: str) -> Any:
    try:
        return importlib.import_module("torchgrad_jax" + path[len("torch") :])
    except ImportError:
        return None


def _absent(path: str, part: str, holder: Any) -> tuple[str, str]:
    if path.count(".") == 1 and part in unsupported.FUNCTIONS:
        return "missing", unsupported.FUNCTIONS[part]
    if isinstance(holder, type) and part in unsupported.TENSOR_METHODS:
        return "missing", unsupported.TENSOR_METHODS[part]
    return "missing", ""


def _kind_of(found: Any, holder: Any, name: str = "") -> tuple[str, str]:
    if name in unsupported.FUNCTIONS and getattr(holder, "__name__", "") == "torchgrad_jax":
        return "missing", unsupported.FUNCTIONS[name]
    plain = not (callable(found) or isinstance(found, types.ModuleType | property))
    text = inspect.getdoc(holder if plain and isinstance(holder, types.ModuleType) else found) or ""
    if text.startswith("Refused"):
        return "missing", _line(text.partition("\n\n")[0])
    said = re.search(r"Differs from torch: (.*?)(\n\n|\n[A-Z]\w+:\n|$)", text, re.DOTALL)
    return ("differs", _line(said[1])) if said else ("supported", "")


def _line(text: str) -> str:
    return " ".join(text.split())


# --- finding names --------------------------------------------------------------------------------


class _Reader(ast.NodeVisitor):
    """Collects dotted names that start at an import of torch."""

    def __init__(self) -> None:
        self.bound: dict[str, str] = {}
        self.uses: list[tuple[str, int, bool]] = []
        self.methods: list[tuple[str, int, bool]] = []
        self.given: list[str] = []
        """Attributes that the program sets."""
        self._asked = 0
        """How many questions the part that is being read stands behind."""
        self._unread_annotations = False
        """Whether annotations stay text when the file runs; those of local variables do in any case."""
        self._functions = 0
        """How many functions the part that is being read is inside of."""

    def _use(self, name: str, line: int) -> None:
        self.uses.append((name, line, self._asked > 0))

    def _visit_all(self, nodes: Iterable[ast.AST], asked: bool) -> None:
        self._asked += asked
        for node in nodes:
            self.visit(node)
        self._asked -= asked

    def visit_Try(self, node: ast.Try) -> None:
        self._visit_all(node.body, any(_catches(h.type) for h in node.handlers))
        self._visit_all([*node.handlers, *node.orelse, *node.finalbody], False)

    def visit_With(self, node: ast.With) -> None:
        calls = [i.context_expr for i in node.items if isinstance(i.context_expr, ast.Call)]
        suppressed = [a for c in calls if _last_name(c.func) == "suppress" for a in c.args]
        self._visit_all(node.items, False)
        self._visit_all(node.body, any(map(_catches, suppressed)))

    def visit_If(self, node: ast.If | ast.IfExp) -> None:
        yes, no = _asks(node.test)
        self.visit(node.test)
        for part, asked in ((node.body, yes), (node.orelse, no)):
            self._visit_all(part if isinstance(part, list) else [part], asked)

    visit_IfExp = visit_If

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        asked = 0
        for value in node.values:
            self.visit(value)
            if _asks(value)[isinstance(node.op, ast.Or)]:
                self._asked, asked = self._asked + 1, asked + 1
        self._asked -= asked

    def visit_Import(self, node: ast.Import) -> None:
        for a in node.names:
            if _is_torch(a.name):
                self.bound[a.asname or "torch"] = a.name if a.asname else "torch"
                self._use(a.name, node.lineno)
            else:
                self.bound.pop(a.asname or a.name.partition(".")[0], None)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.module == "__future__":
            self._unread_annotations |= any(a.name == "annotations" for a in node.names)
        for a in node.names:
            if node.level == 0 and _is_torch(node.module or "") and a.name != "*":
                self.bound[a.asname or a.name] = f"{node.module}.{a.name}"
                self._use(f"{node.module}.{a.name}", node.lineno)
            elif node.level == 0 and _is_torch(node.module or ""):
                self._star(node.module or "", node.lineno)
            else:
                self.bound.pop(a.asname or a.name, None)

    def _star(self, module: str, line: int) -> None:
        self._use(module, line)
        own = _submodule(module)
        for name in getattr(own, "__all__", None) or [n for n in dir(own) if n[0] != "_"]:
            self.bound[name] = f"{module}.{name}"

    def visit_Assign(self, node: ast.Assign) -> None:
        name = self._dotted(node.value)
        self.visit(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                if name is not None:
                    self.bound[target.id] = name
                else:
                    self.bound.pop(target.id, None)
            else:
                self.visit(target)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._visit_all([node.annotation], self._unread_annotations or self._functions > 0)
        self._visit_all([node.target, *([node.value] if node.value else [])], False)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self._dotted(node)
        if name is not None:
            if isinstance(node.ctx, ast.Store):
                self.given.append(name)
            self._use(name, node.lineno)
            return
        if node.attr in _METHODS:
            self.methods.append((node.attr, node.lineno, self._asked > 0))
        self.visit(node.value)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) and "." in self.bound.get(node.id, ""):
            self._use(self.bound[node.id], node.lineno)

    def visit_Call(self, node: ast.Call) -> None:
        match node:
            case ast.Call(func=ast.Name(id="getattr" | "hasattr"), args=[of, ast.Constant(value=str(attr)), *_]):
                base = self._dotted(of)
                if base is not None and len(node.args) == 2 and node.func.id == "getattr":
                    self._use(f"{base}.{attr}", node.lineno)
        self.generic_visit(node)

    def _function(self, node: Any) -> None:
        """Parameters and local variables hide imports of the same name."""
        before = dict(self.bound)
        for part in (*node.args.defaults, *node.args.kw_defaults):
            if part is not None:
                self.visit(part)
        every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        every += [a for a in (node.args.vararg, node.args.kwarg) if a is not None]
        annotations = [a.annotation for a in every] + [getattr(node, "returns", None)]
        self._visit_all([a for a in annotations if a is not None], self._unread_annotations)
        for a in every:
            self.bound.pop(a.arg, None)
        self._functions += 1
        if isinstance(node, ast.Lambda):
            self.visit(node.body)
        else:
            self._visit_all([*node.decorator_list, *node.body], False)
        self._functions -= 1
        self.bound = before

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _function

    def _dotted(self, node: ast.AST) -> str | None:
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.bound:
            return None
        return ".".join([self.bound[node.id], *reversed(parts)])


_CAUGHT = ("ImportError", "ModuleNotFoundError", "AttributeError", "NotImplementedError", "Exception", "BaseException")
_QUESTION = re.compile(r"hasattr|find_spec|TYPE_CHECKING|(_?(is|has|have|supports)_\w*)|\w*available\w*", re.IGNORECASE)
_OTHER_DEVICES = ("cuda", "hip", "hpu", "mlu", "mps", "mtia", "musa", "neuron", "npu", "xla", "xpu")


def _last_name(node: ast.AST | None) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _catches(kind: ast.AST | None) -> bool:
    """Return whether an `except` with this catches that a name is missing."""
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(k is None or _last_name(k) in _CAUGHT for k in kinds)


def _asks(test: ast.AST) -> tuple[bool, bool]:
    """Return whether what comes where a test is true stands behind a question, and what comes where it is false.

    `torch.xpu.is_available()`, `HAS_TRITON`, `hasattr(torch, "npu")` and `device.type == "mps"` are questions.
    """
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            yes, no = _asks(inner)
            return no, yes
        case ast.BoolOp(op=ast.And(), values=values):
            return any(_asks(v)[0] for v in values), False
        case ast.BoolOp(op=ast.Or(), values=values):
            return all(_asks(v)[0] for v in values), any(_asks(v)[1] for v in values)
        case ast.Compare(ops=[ast.Eq() | ast.In()], comparators=[other]):
            texts = [n.value for n in ast.walk(other) if isinstance(n, ast.Constant)]
            return any(isinstance(t, str) and t.partition(":")[0] in _OTHER_DEVICES for t in texts), False
        case ast.Compare(ops=[ast.IsNot()], left=left):
            return _asks(left)[0], False
        case ast.Call(func=called):
            return bool(_QUESTION.fullmatch(_last_name(called))), False
        case _:
            return bool(_QUESTION.fullmatch(_last_name(test))), False


def _is_torch(name: str) -> bool:
    return name == "torch" or name.startswith("torch.")


def files_of(paths: Iterable[str]) -> Iterator[Path]:
    """The Python files that paths name: files, folders, or packages that can be imported."""
    for p in paths:
        path = Path(p)
        if path.is_dir():
            yield from sorted(path.rglob("*.py"))
        elif path.exists():
            yield path
        else:
            spec = _spec(p) if re.fullmatch(r"\w+(\.\w+)*", p) else None
            if spec is None:
                raise FileNotFoundError(f"no file, folder or package {p!r}")
            for place in spec.submodule_search_locations or ():
                yield from sorted(Path(place).rglob("*.py"))
            if not spec.submodule_search_locations and spec.origin:
                yield Path(spec.origin)


def _is_class(name: str) -> bool:
    parts = name.split(".")
    holder: Any = _submodule(".".join(parts[:-1]))
    return isinstance(getattr(holder, parts[-1], None), type)


def _spec(name: str) -> importlib.machinery.ModuleSpec | None:
    """Where a module is, which `importlib.util.find_spec` says only after it has run the packages around it."""
    top, *parts = name.split(".")
    spec = importlib.util.find_spec(top)
    for part in parts:
        if spec is None or spec.submodule_search_locations is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(part, spec.submodule_search_locations)
    return spec


def check(paths: Iterable[str]) -> tuple[list[Use], list[str]]:
    """All uses of torch in some files, and complaints about files that cannot be read."""
    uses: dict[str, Use] = {}
    known: dict[str, tuple[str, str, str]] = {}
    given: set[str] = set()
    complaints: list[str] = []
    for file in files_of(paths):
        reader = _Reader()
        try:
            reader.visit(ast.parse(file.read_bytes(), filename=str(file)))
        except (SyntaxError, ValueError) as e:
            complaints.append(f"{file}: {e}")
            continue
        given.update(name for name in reader.given if _is_class(name.rpartition(".")[0]))
        for name, line, asked in reader.uses:
            if name not in known:
                known[name] = resolve(name)
            shown, kind, note = known[name]
            if shown == "torch":
                continue
            uses.setdefault(shown, Use(shown, kind, note)).add(str(file), line, asked)
        for method, line, asked in reader.methods:
            shown = f"torch.Tensor.{method}"
            note = f"{unsupported.TENSOR_METHODS[method]} (if this is a tensor's)"
            uses.setdefault(shown, Use(shown, "missing", note)).add(str(file), line, asked)
    own = {name for name, use in uses.items() if use.kind == "missing" and name in given}
    return sorted((u for u in uses.values() if u.name not in own), key=lambda u: u.name), complaints


# --- telling --------------------------------------------------------------------------------------


def _places(use: Use, single: bool) -> str:
    by_file: dict[str, list[int]] = {}
    for file, line in use.places:
        by_file.setdefault(file, []).append(line)
    shown = []
    for file, lines in by_file.items():
        few = ", ".join(map(str, lines[:8])) + (", ..." if len(lines) > 8 else "")
        shown.append(f"line{'s' if len(lines) > 1 else ''} {few}" if single else f"{file}:{few}")
    return "; ".join(shown[:5]) + ("; ..." if len(shown) > 5 else "")


_ROWS = 25
"""How many names of a kind are listed, unless all are asked for."""


def report(uses: Sequence[Use], complaints: Sequence[str], *, every: bool = False) -> str:
    """The answer as text: a page, on which names that more files use come first.

    Args:
        uses: all names.
        complaints: about files that cannot be read.
        every: list all names, and not only those that matter most.
    """
    files = {f for u in uses for f, _ in u.places}
    broken = {f for u in uses if u.breaks for f, _ in u.places}
    counts = {k: sum(u.kind == k for u in uses) for k in _KINDS}
    guarded = [u for u in uses if u.kind == "missing" and u.asked_first]
    lines = [*complaints]
    lines.append(
        f"{len(uses)} names of torch: {counts['supported']} supported, "
        f"{counts['differs']} {'differs' if counts['differs'] == 1 else 'differ'}, "
        f"{counts['missing']} missing" + (f" ({len(guarded)} of them where the program asks first)" if guarded else "")
    )
    if len(files) > 1:
        lines.append(f"{len(files)} files use torch; {len(broken)} of them use names that are missing")
    groups = {
        "missing": [u for u in uses if u.breaks],
        "missing, where the program asks first": guarded,
        "differs": [u for u in uses if u.kind == "differs"],
        "supported": [u for u in uses if u.kind == "supported" and (every or len(files) == 1)],
    }
    for title, group in groups.items():
        lines += _listed(title, group, len(files) == 1, every)
    return "\n".join(lines) + "\n"


def _listed(title: str, group: Sequence[Use], single: bool, every: bool) -> list[str]:
    if not group:
        return []
    ordered = sorted(group, key=lambda u: (-len({f for f, _ in u.places}), -len(u.places), u.name))
    shown = ordered if every or single else ordered[:_ROWS]
    lines = ["", f"{title} ({len(group)})"]
    lines += [f"  {u.name}  [{_places(u, single)}]" + (f": {u.note}" if u.note else "") for u in shown]
    rest = len(group) - len(shown)
    return lines + ([f"  and {rest} more, which --all lists"] if rest else [])


def main(args: Sequence[str]) -> int:
    """The command: 0 if everything is there, 1 if something is missing, 2 if files cannot be read.

    A name that is missing where the program asks first does not count.
    """
    options = {a for a in args if a in ("--json", "--all")}
    paths = [a for a in args if a not in options]
    if not paths or any(p.startswith("-") for p in paths):
        sys.stderr.write("usage: python -m torchgrad_jax check [--json] [--all] FILE|FOLDER|PACKAGE ...\n")
        return 2
    try:
        uses, complaints = check(paths)
    except (OSError, ImportError) as e:
        sys.stderr.write(f"{e}\n")
        return 2
    if "--json" in options:
        kept = ("name", "kind", "note", "places", "asked_first")
        entries = [{k: getattr(u, k) for k in kept} for u in uses]
        sys.stdout.write(json.dumps({"names": entries, "unreadable": complaints}, indent=1) + "\n")
    else:
        sys.stdout.write(report(uses, complaints, every="--all" in options))
    if complaints:
        return 2
    return 1 if any(u.breaks for u in uses) else 0
