"""Tables of expressions over `torch`, each judged by what torch makes of it.

An expression is text: statements and a final value separated by "; ". Its answer is the described
value, or the exception, and the warnings. "~" in front means that only the type of the exception
counts, where torch's own text is about its build or its internals.

A line that ends in a colon names the test of all lines below it, and braces stand for several
expressions::

    a size that is none is refused in torch's words:
    torch.zeros({2.5 | "a" | -1})
    torch.full((-2,), 3)

Lines above the first name are a test each, called after their text.
"""

from __future__ import annotations

import importlib.util
import math
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.differential import Program, Recording, bare, describe, everything, outcome

Look = Callable[[Any], dict[str, Any]]
"""What is asked of a tensor: `everything`, or only its `numbers`."""


def exact(t: Any) -> str:
    """A tensor's values to the last bit."""
    t = t.detach()
    if t.element_size() > 2 or not t.is_floating_point():
        return t.numpy().tobytes().hex()
    return t.float().numpy().astype(str(t.dtype).rpartition(".")[2]).tobytes().hex()


def _seen(value: Any, look: Look) -> Any:
    """A value as data, with the kind of every sequence."""
    if isinstance(value, list | tuple):
        return [type(value).__name__, *[_seen(v, look) for v in value]]
    if isinstance(value, dict):
        return {str(k): _seen(v, look) for k, v in value.items()}
    return look(value) if hasattr(value, "grad_fn") else describe(value)


def program(text: str, prelude: str, look: Look) -> Program:
    """The expression, after the prelude, as a function of the module that both call `torch`."""
    loose = text.startswith("~")
    *statements, value = text.removeprefix("~").split("; ")

    def value_of(m: Any) -> Any:
        names = {"torch": m, "np": np, "math": math, "inf": math.inf, "nan": math.nan, "exact": exact}
        exec(prelude, names)
        for statement in statements:
            exec(statement, names)
        return _seen(eval(value, names), look)

    def run(m: Any) -> Any:
        m.manual_seed(0)
        try:
            return _type_of_error(value_of, m) if loose else value_of(m)
        finally:
            m.set_default_dtype(m.float32)
            m.set_grad_enabled(True)

    run.text = value  # names what differs
    return run


def _type_of_error(fn: Program, m: Any) -> Any:
    """What a program gives, without texts: neither that of an error nor those of warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return fn(m)
        except Exception as error:
            return {"raised": type(error).__name__}


def together(texts: Sequence[str], prelude: str, look: Look) -> Program:
    """All expressions, one after the other: the answer to each."""
    programs = [program(text, prelude, look) for text in texts]

    def run(m: Any) -> Any:
        return [bare(outcome(each, m)) for each in programs]

    run.returned = texts  # names what differs
    return run


def table(test_file: str, *groups: str, prelude: Sequence[str] = (), look: Look = everything) -> Callable[..., None]:
    """A test function with one case for each name or line of the given texts, each run after the prelude.

    A text that ends in ".txt" is that of a file beside the test.
    """
    before = "\n".join(_read(test_file, text) for text in prelude)
    recording = Recording(test_file)
    rows = _rows("\n".join(_read(test_file, text) for text in groups))

    @pytest.mark.parametrize("text", rows)
    def test_expression(text: str, request: pytest.FixtureRequest) -> None:
        recorded = request.config.getoption("--oracle") == "recorded"
        live = not recorded and importlib.util.find_spec("torch") is not None
        texts = rows[text]
        make = together(texts, before, look) if texts else program(text, before, look)
        recording.check(text, make, live)

    return test_expression


def _rows(text: str) -> dict[str, list[str]]:
    """The tests by name, with their expressions; those that are called after their only one have none here."""
    rows: dict[str, list[str]] = {}
    below = None
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("#"):
            continue
        if line.endswith(":"):
            name, below = line[:-1], []
            assert name not in rows, name
            rows[name] = below
        elif below is not None:
            below += _expanded(line)
        else:
            assert line not in rows, line
            rows[line] = []
    assert all(len(texts) == len(set(texts)) for texts in rows.values()), [
        t for texts in rows.values() for t in texts if texts.count(t) > 1
    ]
    return rows


def _expanded(line: str) -> list[str]:
    """What the line says with each of the alternatives in braces."""
    found = re.search(r"\{([^{}]* \| [^{}]*)\}", line)
    if not found:
        return [line]
    return [
        text for part in found[1].split(" | ") for text in _expanded(line[: found.start()] + part + line[found.end() :])
    ]


def _read(test_file: str, text: str) -> str:
    return Path(test_file).with_name(text).read_text() if text.endswith(".txt") else text
