"""`python -m torchgrad_jax check`: which names of torch a program uses, and which of them are there.

The source is read, not run. A name counts as supported if it can be looked up; what a docstring says
after "Differs from torch:" is told, and so is what a function refuses altogether.
"""

from __future__ import annotations

import ast
import importlib
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
        self.uses: list[tuple[str, int]] = []
        self.methods: list[tuple[str, int]] = []

    def visit_Import(self, node: ast.Import) -> None:
        for a in node.names:
            if _is_torch(a.name):
                self.bound[a.asname or "torch"] = a.name if a.asname else "torch"
                self.uses.append((a.name, node.lineno))
            else:
                self.bound.pop(a.asname or a.name.partition(".")[0], None)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for a in node.names:
            if node.level == 0 and _is_torch(node.module or "") and a.name != "*":
                self.bound[a.asname or a.name] = f"{node.module}.{a.name}"
                self.uses.append((f"{node.module}.{a.name}", node.lineno))
            elif node.level == 0 and _is_torch(node.module or ""):
                self._star(node.module or "", node.lineno)
            else:
                self.bound.pop(a.asname or a.name, None)

    def _star(self, module: str, line: int) -> None:
        self.uses.append((module, line))
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

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self._dotted(node)
        if name is not None:
            self.uses.append((name, node.lineno))
            return
        if node.attr in _METHODS:
            self.methods.append((node.attr, node.lineno))
        self.visit(node.value)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) and "." in self.bound.get(node.id, ""):
            self.uses.append((self.bound[node.id], node.lineno))

    def visit_Call(self, node: ast.Call) -> None:
        match node:
            case ast.Call(func=ast.Name(id="getattr" | "hasattr"), args=[of, ast.Constant(value=str(attr)), *_]):
                base = self._dotted(of)
                if base is not None and len(node.args) == 2 and node.func.id == "getattr":
                    self.uses.append((f"{base}.{attr}", node.lineno))
        self.generic_visit(node)

    def _function(self, node: Any) -> None:
        """Parameters and local variables hide imports of the same name."""
        before = dict(self.bound)
        for part in (*node.args.defaults, *node.args.kw_defaults):
            if part is not None:
                self.visit(part)
        every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        every += [a for a in (node.args.vararg, node.args.kwarg) if a is not None]
        for a in every:
            if a.annotation is not None:
                self.visit(a.annotation)
        for a in every:
            self.bound.pop(a.arg, None)
        if isinstance(node, ast.Lambda):
            self.visit(node.body)
        else:
            for part in (*node.decorator_list, *([node.returns] if node.returns else []), *node.body):
                self.visit(part)
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
            spec = importlib.util.find_spec(p) if re.fullmatch(r"[\w.]+", p) else None
            if spec is None:
                raise FileNotFoundError(f"no file, folder or package {p!r}")
            for place in spec.submodule_search_locations or ():
                yield from sorted(Path(place).rglob("*.py"))
            if not spec.submodule_search_locations and spec.origin:
                yield Path(spec.origin)


def check(paths: Iterable[str]) -> tuple[list[Use], list[str]]:
    """All uses of torch in some files, and complaints about files that cannot be read."""
    uses: dict[str, Use] = {}
    known: dict[str, tuple[str, str, str]] = {}
    complaints: list[str] = []
    for file in files_of(paths):
        reader = _Reader()
        try:
            reader.visit(ast.parse(file.read_bytes(), filename=str(file)))
        except (SyntaxError, ValueError) as e:
            complaints.append(f"{file}: {e}")
            continue
        for name, line in reader.uses:
            if name not in known:
                known[name] = resolve(name)
            shown, kind, note = known[name]
            if shown == "torch":
                continue
            use = uses.setdefault(shown, Use(shown, kind, note))
            if (str(file), line) not in use.places:
                use.places.append((str(file), line))
        for method, line in reader.methods:
            shown = f"torch.Tensor.{method}"
            note = f"{unsupported.TENSOR_METHODS[method]} (if this is a tensor's)"
            use = uses.setdefault(shown, Use(shown, "missing", note))
            use.places.append((str(file), line))
    return sorted(uses.values(), key=lambda u: u.name), complaints


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


def report(uses: Sequence[Use], complaints: Sequence[str]) -> str:
    """The answer as text."""
    files = {f for u in uses for f, _ in u.places}
    lines = [*complaints]
    counts = {k: sum(u.kind == k for u in uses) for k in _KINDS}
    lines.append(
        f"{len(uses)} names of torch: {counts['supported']} supported, {counts['differs']} differ, "
        f"{counts['missing']} missing"
    )
    for kind in _KINDS:
        group = [u for u in uses if u.kind == kind]
        if group:
            lines += ["", f"{kind} ({len(group)})"]
        for u in group:
            lines.append(f"  {u.name}  [{_places(u, len(files) == 1)}]" + (f": {u.note}" if u.note else ""))
    return "\n".join(lines) + "\n"


def main(args: Sequence[str]) -> int:
    """The command: 0 if everything is there, 1 if something is missing, 2 if files cannot be read."""
    as_json = "--json" in args
    paths = [a for a in args if a != "--json"]
    if not paths or any(p.startswith("-") for p in paths):
        sys.stderr.write("usage: python -m torchgrad_jax check [--json] FILE|FOLDER|PACKAGE ...\n")
        return 2
    try:
        uses, complaints = check(paths)
    except (OSError, ImportError) as e:
        sys.stderr.write(f"{e}\n")
        return 2
    if as_json:
        entries = [{"name": u.name, "kind": u.kind, "note": u.note, "places": u.places} for u in uses]
        sys.stdout.write(json.dumps({"names": entries, "unreadable": complaints}, indent=1) + "\n")
    else:
        sys.stdout.write(report(uses, complaints))
    if complaints:
        return 2
    return 1 if any(u.kind == "missing" for u in uses) else 0
