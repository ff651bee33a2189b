"""Ways to run a program here, beside line by line, as torch runs it: they have to give the same.

A program of a folder in `COMPILED` is also compiled as a whole, with its seeds, modules, optimizers and passes.
Programs of other folders ask what a graph looks like; a compiled function is one node of it. A program that is refused
by `compile` is skipped: the error says why it cannot be compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatch
from typing import Any

import pytest

from tests.differential import Program

COMPILED = ("distributions", "nn", "optim", "tensor", "utils")

APART: dict[str, str] = {}
"""Programs that do something else where they are compiled, by file and name, and why that is right."""


def compiled(program: Program) -> Program:
    """The program as one compiled function."""

    def run(m: Any) -> Any:
        return m.compile(lambda: program(m))()

    return run


WAYS: dict[str, Callable[[Program], Program]] = {"compiled": compiled}


def parametrize(metafunc: pytest.Metafunc, folder: str) -> None:
    """Let the tests of a folder that take `same` run in all ways."""
    if "same" in metafunc.fixturenames and folder in COMPILED:
        ways = [pytest.param(way, marks=pytest.mark.long) for way in WAYS]
        metafunc.parametrize("same", [pytest.param(None, id=pytest.HIDDEN_PARAM), *ways], indirect=True)


def reason(file: str, name: str) -> str | None:
    """Why a program does something else where it is compiled."""
    return next((why for pattern, why in APART.items() if fnmatch(f"{file}::{name}", pattern)), None)
