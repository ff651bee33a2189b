"""Which tests run the lines where faults are planted.

A copy of the tree says at each of these lines that it is reached; the tests run there once. Each process writes a line
for each test and fault into a file of `build/faults/reaching/`. When all is over, `build/faults/reached.json` holds the
tests that reach each fault. Tests that fail in the copy are left out: they would fail with any fault.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from .listed import PACKAGE, ROOT, Fault

BUILD = ROOT / "build" / "faults"
REACHING, REACHED = BUILD / "reaching", BUILD / "reached.json"

_WATCH = """
def _say_what_is_reached():
    import builtins
    import os

    seen = set()

    def reached(name):
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
        if (test, name) not in seen:
            seen.add((test, name))
            with open(os.path.join({folder!r}, str(os.getpid())), "a") as file:
                file.write(name + " " + test + "\\n")

    builtins._reached = reached


_say_what_is_reached()
"""


def copy_of_tree(place: Path) -> Path:
    """What git knows of, in another folder."""
    shutil.rmtree(place, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in listed.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name)
    return place


def environment(place: Path) -> dict[str, str]:
    """What tests in a copy need to find that copy, and the kernels that are compiled already."""
    kernels = os.environ.get("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".jax_cache"))
    return {**os.environ, "PYTHONPATH": str(place), "JAX_COMPILATION_CACHE_DIR": kernels}


def command(*arguments: str, remembers: bool = False) -> list[str]:
    """How tests run for faults: against recorded answers; with a note of those that failed, if one is wanted."""
    remembering = [] if remembers else ["-p", "no:cacheprovider"]
    return [sys.executable, "-m", "pytest", "-q", *remembering, "--oracle=recorded", *arguments]


def survey(faults: list[Fault], jobs: int, tests: list[str]) -> None:
    """Run the tests in a copy that says which faulty lines they reach."""
    place = copy_of_tree(BUILD / "survey")
    by_file: dict[str, list[Fault]] = defaultdict(list)
    for fault in faults:
        by_file[fault.path].append(fault)
    for path, planted in by_file.items():
        source = (PACKAGE / path).read_text()
        (place / "torchgrad_jax" / path).write_text(watched(source, planted))
    first = place / "torchgrad_jax" / "__init__.py"
    lines = first.read_text().splitlines(keepends=True)
    at = _first_statement(ast.parse("".join(lines)))
    first.write_text("".join([*lines[:at], _WATCH.format(folder=str(REACHING)), *lines[at:]]))
    failed = _run(place, jobs, tests)
    found: dict[str, set[str]] = {fault.name: set() for fault in faults}
    for path in REACHING.iterdir():
        for line in path.read_text().splitlines():
            name, _, test = line.partition(" ")
            found[name].add(test)
    known = tests_of() | {name: sorted(reaching - failed) for name, reaching in found.items()}
    REACHED.write_text(json.dumps(known, indent=1))


def _run(place: Path, jobs: int, tests: list[str]) -> set[str]:
    """Run the tests in the copy; those that fail there."""
    shutil.rmtree(REACHING, ignore_errors=True)
    REACHING.mkdir(parents=True)
    options = ["-n", str(jobs), "--dist=worksteal", "--seconds=600", "-o", "cache_dir=.cache_of_tests"]
    done = subprocess.run([*command(*options, *tests, remembers=True)], cwd=place, env=environment(place), check=False)
    if done.returncode not in (0, 1):
        raise SystemExit("the survey did not come to its end; nothing of it is kept")
    failed = place / ".cache_of_tests" / "v" / "cache" / "lastfailed"
    return set(json.loads(failed.read_text())) if failed.exists() else set()


def watched(source: str, faults: list[Fault]) -> str:
    """A source that says of each fault's line when it is reached: in front of the statement that holds the line."""
    lines = source.splitlines(keepends=True)
    statements = _lines_of_statements(ast.parse(source))
    for at, fault in sorted(((f.place(source), f) for f in faults), key=lambda item: -(item[0] or 0)):
        first = None if at is None else statements.get(at + 1)
        if first is not None:
            text = lines[first - 1]
            indent = text[: len(text) - len(text.lstrip())]
            lines.insert(first - 1, f'{indent}_reached("{fault.name}")\n')
    return "".join(lines)


def _lines_of_statements(tree: ast.AST) -> dict[int, int]:
    """For each line the first line of the innermost statement around it, before which another one can stand."""
    out: dict[int, int] = {}

    def visit(node: ast.AST, chained: bool) -> None:
        for name, value in ast.iter_fields(node):
            parts = value if isinstance(value, list) else [value]
            for part in parts:
                if not isinstance(part, ast.AST):
                    continue
                goes_on = isinstance(node, ast.If) and name == "orelse" and len(parts) == 1 and isinstance(part, ast.If)
                if isinstance(part, ast.stmt) and not (goes_on and part.col_offset == getattr(node, "col_offset", -1)):
                    first = min([part.lineno, *(d.lineno for d in getattr(part, "decorator_list", ()))])
                    out.update(dict.fromkeys(range(first, (part.end_lineno or first) + 1), first))
                visit(part, goes_on)

    visit(tree, False)
    return out


def _first_statement(tree: ast.Module) -> int:
    """The number of lines before the first statement that does something."""
    for node in tree.body:
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_text and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            return node.lineno - 1
    return 0


def tests_of() -> dict[str, list[str]]:
    """The tests that reach each fault that was looked for; an empty name stands for code that every import runs."""
    return json.loads(REACHED.read_text()) if REACHED.exists() else {}
