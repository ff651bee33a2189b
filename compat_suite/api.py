"""The names of torch.autograd and its surroundings, one by one: there or not, and with which signature.

What torch has is read from the live library by `python -m compat_suite record` and kept in
`recorded/api.json`, so that the comparison can be made again where torch is not installed.
"""

from __future__ import annotations

import ast
import enum
import functools
import importlib
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .answers import read, write
from .ledger import Ledger
from .libs import Lib
from .pages import table

FILE = Path(__file__).parent / "recorded" / "api.json"
TESTS = Path(__file__).resolve().parent.parent / "tests"
MODULES = (
    "autograd",
    "autograd.anomaly_mode",
    "autograd.forward_ad",
    "autograd.function",
    "autograd.functional",
    "autograd.grad_mode",
    "autograd.gradcheck",
    "autograd.graph",
    "autograd.profiler",
    "autograd.profiler_util",
    "autograd.variable",
    "overrides",
    "utils.checkpoint",
    "utils.hooks",
)
BUILT_IN = frozenset().union(*(dir(t) for t in (object, tuple, list, dict, type, Exception)))

Signature = list[list[str]] | None
"""Name, kind and default of each parameter; None where Python cannot tell, as for C functions."""


# --- facts about one library ----------------------------------------------------------------------


def facts(lib: Lib) -> dict[str, dict[str, Any]]:
    """What a library has of the names that torch had when it was recorded."""
    out: dict[str, dict[str, Any]] = {}
    for path, names in recorded().items():
        module = _module(lib, path)
        out[path] = {n: _fact(getattr(module, n)) for n in names if hasattr(module, n)}
    return out


def _module(lib: Lib, path: str) -> Any:
    """A module of a library, or None."""
    try:
        return importlib.import_module(path.replace("torch", lib.module.__name__, 1))
    except ModuleNotFoundError:
        return None


def _public(module: Any) -> list[str]:
    """The names that a module lists, and those of torch.autograd that it gives without listing them."""
    listed = set(getattr(module, "__all__", ()))
    return sorted(
        listed
        | {
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and str(getattr(value, "__module__", "")).startswith("torch.autograd")
        }
    )


def _fact(value: Any) -> dict[str, Any]:
    shown = {"example": True} if ">>>" in (getattr(value, "__doc__", None) or "") else {}
    return _kind(value) | shown


def _kind(value: Any) -> dict[str, Any]:
    if inspect.ismodule(value):
        return {"kind": "module"}
    if inspect.isclass(value):
        # What an enumeration takes is Python's, and differs from version to version.
        own = {} if issubclass(value, enum.Enum) else {"signature": _signature(value)}
        return {"kind": "class", **own, "members": dict(_members(value))}
    if callable(value):
        return {"kind": "function", "signature": _signature(value)}
    return {"kind": "value"}


def _members(cls: type) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in sorted(set(dir(cls)) - BUILT_IN):
        if name.startswith("_"):
            continue
        try:
            value = inspect.getattr_static(cls, name)
        except AttributeError:  # of the metaclass
            continue
        inner = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        is_method = callable(inner) and not inspect.isclass(inner)
        shown = {"example": True} if is_method and ">>>" in (inner.__doc__ or "") else {}
        yield (name, {"kind": "method", "signature": _signature(inner)} | shown if is_method else {"kind": "attribute"})


def _signature(value: Any) -> Signature:
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    return [[p.name, p.kind.name, _default(p)] for p in parameters]


def _default(p: inspect.Parameter) -> str:
    if p.default is p.empty:
        return ""
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(p.default))
    return text.replace("torchgrad_jax", "torch")


def record() -> None:
    """Write down what torch has."""
    rows: dict[str, dict[str, Any]] = {}
    for path in MODULES:
        module = importlib.import_module(f"torch.{path}")
        rows[f"torch.{path}"] = {n: _fact(getattr(module, n)) for n in _public(module)}
    write(FILE, rows)


@functools.cache
def recorded() -> dict[str, dict[str, Any]]:
    """What torch had when it was recorded."""
    return read(FILE)


# --- two libraries --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Name:
    """A public name of torch and what became of it."""

    path: str
    state: str
    """`same`, `differs` or `missing`."""
    how: str
    tests: int
    """Tests that use it; where there are none, the state says what its signature says."""


def compare(theirs: dict[str, Any], mine: dict[str, Any]) -> list[str]:
    """How a name differs from torch's; nothing where it does not."""
    if theirs["kind"] != mine["kind"]:
        return [f"is a {mine['kind']}, not a {theirs['kind']}"]
    found = _signature_differences(theirs.get("signature"), mine["signature"]) if "signature" in mine else []
    for name, fact in theirs.get("members", {}).items():
        own = mine["members"].get(name)
        if own is None:
            found.append(f"`.{name}` is missing")
        else:
            found += [f"`.{name}`: {text}" for text in compare(fact, own)]
    return found


def _signature_differences(theirs: Signature, mine: Signature) -> list[str]:
    """Keyword parameters of our own, with defaults, take nothing away from torch's signature."""
    if theirs is None or theirs == mine:
        return []
    if mine is None:
        return ["its signature cannot be read"]
    names = {p[0] for p in theirs}
    kept = [p for p in mine if p[0] in names or p[1] != "KEYWORD_ONLY" or not p[2]]
    return [] if kept == theirs else [f"takes `{_shown(mine)}`, not `{_shown(theirs)}`"]


def _shown(signature: list[list[str]]) -> str:
    marks = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}
    parts = [f"{marks.get(k, '')}{n}{'=' + d if d else ''}" for n, k, d in signature]
    return f"({', '.join(parts)})"


def names(lib: Lib, ledger: Ledger) -> list[Name]:
    """Every public name of torch with its state here."""
    own, used = facts(lib), uses()
    return [
        _state(f"{module}.{name}", fact, own[module].get(name), used[name], ledger)
        for module, rows in recorded().items()
        for name, fact in rows.items()
    ]


def _state(path: str, fact: Any, mine: Any, tests: int, ledger: Ledger) -> Name:
    entry = ledger.expected_failure(f"api {path}", "torch")
    if mine is None:
        return Name(path, "missing", entry.reason if entry else "not there yet", tests)
    found = compare(fact, mine)
    if entry:
        return Name(path, "differs", entry.reason, tests)
    return Name(path, "differs" if found else "same", "; ".join(found), tests)


@functools.cache
def uses() -> Counter[str]:
    """For each name, how many tests, programs and tables of the tests use it."""
    found: Counter[str] = Counter()
    for file in sorted(TESTS.rglob("*.py")):
        for part in ast.parse(file.read_text(encoding="utf-8")).body:
            if not isinstance(part, ast.Import | ast.ImportFrom):
                found.update(_identifiers(part))
    for file in sorted(TESTS.rglob("*.txt")):  # programs, one per line
        for line in file.read_text(encoding="utf-8").splitlines():
            found.update(set(re.findall(r"\w+", line)))
    return found


def _identifiers(part: ast.stmt) -> set[str]:
    """Names, attributes and strings that are one word."""
    return {
        text
        for node in ast.walk(part)
        for text in (
            getattr(node, "attr", None),
            getattr(node, "id", None),
            node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None,
        )
        if text
    }


ABOUT = """## Names of torch.autograd

Every public name of `torch.autograd`, its submodules, `torch.overrides`, `torch.utils.checkpoint` and
`torch.utils.hooks`, compared by kind, signature (names, kinds and defaults of parameters) and, for classes, public
members. *Tested* says whether a test uses the name; most tests compare with torch
what it does, returns, raises and warns of. What differs in behaviour is entered in the ledger.

Same: {share}, of these {unused} that no test uses; differing: {differs}; missing: {missing}.
"""


def page(lib: Lib, ledger: Ledger) -> str:
    """The part of the coverage page about names."""
    rows = names(lib, ledger)
    counts = Counter(row.state for row in rows)
    text = ABOUT.format(
        share=f"{counts['same']}/{len(rows)} = {100 * counts['same'] / len(rows):.1f}%",
        unused=sum(1 for r in rows if r.state == "same" and not r.tests),
        differs=counts["differs"],
        missing=counts["missing"],
    )
    return text + "\n" + table(["name", "state", "tested"], [_row(r) for r in rows])


def _row(r: Name) -> list[str]:
    return [f"`{r.path}`", r.state + (f": {r.how}" if r.how else ""), "yes" if r.tests else ""]
