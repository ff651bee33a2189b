"""The list of planted faults: small mistakes in the package, each of which some test should find.

A fault is a line of a function, and the line that stands there instead. `planted.txt` has those that were drawn at
random. `chosen.txt` has those that were chosen by hand: above each group a comment says what users would lose.

    # The order of the pass: hooks would run in another order.
    _engine/graph/edges.py :: Edges.order #2 = found
    -     if a.number > b.number:
    +     if a.number >= b.number:

``#2`` names the second line, where a function has several that read the same. ``= found`` says that tests failed.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "torchgrad_jax"
LISTS = (Path(__file__).with_name("planted.txt"), Path(__file__).with_name("chosen.txt"))
"""Faults that were drawn at random, and those that were chosen by hand."""
FOUND = " = found"


@dataclass(frozen=True)
class Fault:
    """One line that is wrong."""

    path: str
    """The file, from the package's folder."""
    function: str
    """The qualified name of the function or class around the line; empty in the module's own code."""
    line: str
    wrong: str
    nth: int = 1
    found: bool = False

    @property
    def name(self) -> str:
        """A short name that stays the same as long as the fault does."""
        text = "\n".join((self.path, self.function, self.line.strip(), self.wrong.strip(), str(self.nth)))
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    def place(self, source: str) -> int | None:
        """The number of the line in a source, from 0, or None if the line is not there any more."""
        first, last = span(source, self.function)
        lines = source.splitlines()
        same = [i for i in range(first, last) if lines[i].strip() == self.line.strip()]
        return same[self.nth - 1] if len(same) >= self.nth else None

    def planted(self, source: str) -> str | None:
        """The source with the fault in it."""
        at = self.place(source)
        if at is None:
            return None
        lines = source.splitlines(keepends=True)
        lines[at] = lines[at].replace(self.line.strip(), self.wrong.strip())
        return "".join(lines)


def functions(tree: ast.AST, above: str = "") -> dict[str, ast.AST]:
    """All functions and classes of a module by their qualified names; of several with one name the first."""
    found: dict[str, ast.AST] = {}
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            name = f"{above}.{node.name}" if above else node.name
            found.setdefault(name, node)
            for inner, of in functions(node, name).items():
                found.setdefault(inner, of)
        else:
            for inner, of in functions(node, above).items():
                found.setdefault(inner, of)
    return found


def span(source: str, function: str) -> tuple[int, int]:
    """The first line of a function, from 0, and the one behind its last; empty where there is no such function."""
    if not function:
        return 0, len(source.splitlines())
    node = functions(ast.parse(source)).get(function)
    return (node.lineno - 1, node.end_lineno or 0) if isinstance(node, ast.stmt) else (0, 0)


def read(path: Path) -> list[Fault]:
    """The faults of a list."""
    return [fault for _, fault in _entries(path.read_text().splitlines() if path.exists() else [])]


def _entries(lines: list[str]) -> Iterator[tuple[int, Fault]]:
    """The number of the line that names the function, and the fault."""
    at, line = 0, ""
    for i, text in enumerate(lines):
        if text.startswith("- "):
            line = text[2:]
        elif text.startswith("+ "):
            place, _, state = lines[at].partition(" = ")
            file, _, function = place.partition(" ::")
            function, _, nth = function.partition("#")
            yield at, Fault(file.strip(), function.strip(), line, text[2:], int(nth or 1), state == "found")
        elif text and not text.startswith("#"):
            at = i


def write(path: Path, faults: list[Fault]) -> None:
    """Replace a list, in the order of files."""
    parts = []
    for fault in sorted(faults, key=lambda f: (f.path, f.function, f.line, f.nth)):
        nth = f" #{fault.nth}" if fault.nth > 1 else ""
        found = FOUND if fault.found else ""
        parts.append(f"{fault.path} :: {fault.function}{nth}{found}\n- {fault.line}\n+ {fault.wrong}\n")
    path.write_text("\n".join(parts))


def mark(found: set[str], lists: Iterable[Path] = LISTS) -> None:
    """Note in the lists which faults were found; their order and their comments stay."""
    for path in lists:
        lines = path.read_text().splitlines()
        for at, fault in list(_entries(lines)):
            if fault.name in found and not fault.found:
                lines[at] += FOUND
        path.write_text("\n".join(lines) + "\n")


def complaints(faults: Sequence[Fault], package: Path = PACKAGE) -> list[str]:
    """What is wrong with faults: a line is not there any more, is no Python with the fault in it, or comes twice."""
    out = []
    for fault, n in Counter(replace(f, found=False) for f in faults).items():
        wrong = fault.planted((package / fault.path).read_text()) if (package / fault.path).exists() else None
        why = "is not there" if wrong is None else "is no Python" if not is_python(wrong) else "comes twice" * (n > 1)
        if why:
            out.append(f"{why}: {fault.path} :: {fault.function}\n- {fault.line}\n+ {fault.wrong}")
    return out


def is_python(source: str) -> bool:
    """Whether a source can be compiled."""
    try:
        compile(source, "fault", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True
