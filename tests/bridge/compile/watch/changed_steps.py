"""Steps written as text, with what changes around them or what they do outside: how rows are read, run and observed.

    a number in a dict                      what a user would have lost
        held = {"a": 2.0}                   the file of the step; `enclosed:` is the function around it instead
        step: return x * held["a"]          the body of the step
        then: held["a"] = 3.0               runs once, after the second of four calls
        each: ...                           runs before each call
        look: ...                           an expression, observed after each call
        whole: len(set(results))            stands for all results, where these differ from run to run
        kind: input                         the program has what changes as an input, and so cannot be stale

The tables are the files in `changes` and `effects`. A part goes on in lines that are indented further. A row can use
`torch`, `nn`, `F`, `patch` (pytest's, undone afterwards), `afterwards(fn, *args)` and `user_module(name, text)`, and
works in a folder of its own, whose files are observed.
"""

import contextlib
import importlib
import re
import sys
import textwrap
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import torchgrad_jax as torch

WAYS = {
    "function": "def step(x):\n{body}",
    "module": "class Step(nn.Module):\n    def forward(self, x):\n{deeper}\nstep = Step()",
    "method": "class Step:\n    def step(self, x):\n{deeper}\nstep = Step().step",
    "helper": "def helper(x):\n{body}\ndef step(x):\n    return helper(x)",
    "library": "def step(x):\n{body}",
}
ENCLOSED = "def make():\n{setting}\n    def change():\n{then}\n    return step, change\nstep, change = make()\n"
HEAD = "import torchgrad_jax as torch\nfrom torchgrad_jax import nn\nfrom torchgrad_jax.nn import functional as F\n"
PART = re.compile(r"(enclosed|step|then|each|look|whole|kind):")

UNSEEN = {
    "an operator of tensors patched": "no name in the code says which of its operators act on tensors, and comparing "
    "all of them would cost each step of everybody 60 comparisons"
}
"""Rows whose change stays unseen, and why."""


class Row:
    """One step, and what happens around its calls."""

    def __init__(self, text: str) -> None:
        self.label, _, rest = text.partition("\n")
        parts: dict[str, list[str]] = {"before": []}
        name = "before"
        for line in textwrap.dedent(rest).splitlines():
            if found := PART.match(line):
                name, line = found[1], line[found.end() :].strip()
            elif not line.startswith(" "):
                name = "before"
            parts.setdefault(name, []).append(line)
        self.parts = {k: "\n".join(v[:1]) + "\n" + textwrap.dedent("\n".join(v[1:])) for k, v in parts.items()}
        self.parts["before"] = "\n".join(parts["before"])

    def __getattr__(self, name: str) -> str:
        return self.parts.get(name, "").strip()

    def source(self, way: str) -> str:
        """The file of the step."""
        body = textwrap.indent(self.step, "    ")
        step = WAYS[way].format(body=body, deeper=textwrap.indent(body, "    "))
        if not self.enclosed:
            return f"{HEAD}{self.before}\n{step}\n"
        setting, then = textwrap.indent(f"{self.enclosed}\n{step}", "    "), textwrap.indent(self.then, " " * 8)
        return f"{HEAD}{self.before}\n{ENCLOSED.format(setting=setting, then=then or ' ' * 8 + 'pass')}"


def rows_of(folder: str) -> list[Row]:
    """The rows of all tables of a folder: paragraphs whose first line is the label."""
    names = sorted(path.stem for path in Path(__file__).with_name(folder).glob("*.py"))
    tables = [importlib.import_module(f"{__package__}.{folder}.{name}").ROWS for name in names]
    return [Row(text) for table in tables for text in re.split(r"\n\s*\n", table.strip("\n"))]


def to_five_digits(v: Any) -> Any:
    """A result as something that compares: numbers rounded as eager and compiled arithmetic may differ."""
    if isinstance(v, torch.Tensor):
        return to_five_digits(v.tolist())
    if isinstance(v, float):
        return float(f"{v:.5g}")
    if isinstance(v, list | tuple):
        return [to_five_digits(item) for item in v]
    return {k: to_five_digits(item) for k, item in v.items()} if isinstance(v, dict) else v


class Observer:
    """Runs a row in a fresh file and a fresh folder, and collects what its calls give and leave behind."""

    def __init__(self, row: Row, way: str, name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.row, self.way, self.capfd = row, way, capfd
        self.folder = tmp_path / name / "work"
        self.code = tmp_path / name / ("site-packages" if way == "library" else "code")
        for folder in (self.folder, self.code):
            folder.mkdir(parents=True)

    def user_module(self, name: str, text: str, **given: Any) -> types.ModuleType:
        """A file of the user's, imported under this name."""
        path = self.code / f"{name}.py"
        path.write_text(text)
        module = types.ModuleType(name)
        vars(module).update(given, __file__=str(path))
        self.patch.setitem(sys.modules, name, module)
        exec(compile(text, str(path), "exec"), vars(module))
        return module

    def change(self) -> None:
        """What happens around the step, after its second call."""
        if self.row.enclosed:
            self.module.change()
        else:
            exec(self.row.then, vars(self.module))

    def observe(self, wrap: Callable[[Any], Any]) -> list[Any]:
        """For each call: its result or error, what was printed and warned, the files, and what the row looks at."""
        row, x, results, rest = self.row, torch.tensor([1.0, 2.0]), [], []
        with contextlib.ExitStack() as stack, warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            self.patch = stack.enter_context(pytest.MonkeyPatch.context())
            self.patch.chdir(self.folder)
            torch.manual_seed(0)
            self.patch.setattr(sys, "path", [str(self.code), *sys.path])
            given = {"patch": self.patch, "afterwards": stack.callback, "user_module": self.user_module}
            self.module = self.user_module("a_users_file", row.source(self.way), **given)
            step = wrap(self.module.step)
            for i in range(4 if row.then else 3):
                if row.then and i == 2:
                    self.change()
                exec(row.each, vars(self.module))
                try:
                    results.append(to_five_digits(step(x)))
                except Exception as e:
                    results.append(f"{type(e).__name__}: {e}")
                look = to_five_digits(eval(row.look, vars(self.module))) if row.look else None
                texts = [str(w.message) for w in told if not str(w.message).startswith("torch.compile")]
                told.clear()
                rest.append([*self.capfd.readouterr(), texts, self.files(), look])
            if row.whole:
                results = [eval(row.whole, {**vars(self.module), "results": results})] * len(results)
        return list(zip(map(repr, results), rest))  # as text 1 differs from 1.0 and from True, and nan is nan

    def files(self) -> dict[str, bytes | None]:
        """What lies in the folder of the step."""
        return {p.name: p.read_bytes() if p.is_file() else None for p in sorted(self.folder.rglob("*"))}
