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

_LATER = "what a check of values finds is raised after the run, where the program no longer catches it"
_OTHER_NUMBERS = "numbers that are tried until one is accepted follow the same distribution, but are others"
_ONE_NODE = "the graph of a compiled function is one node"
_NO_VIEW = "a result is no view of what the program has no other use for"
_AT_ONCE = "versions and strides of what is made inside are those of the program's results"
_DIGITS = "a program keeps more digits between steps in half precision"
_AROUND = "it begins and ends what a compiled function runs in"

APART: dict[str, str] = {
    "test_bags::*of_offsets": _LATER,
    "test_bags::dtypes_of_indices_and_offsets": _LATER,
    "test_init::refused": _LATER,
    "test_utils::norms_that_are_not_finite": _LATER,
    "test_families::*": _OTHER_NUMBERS,
    "test_transformer::attention*": _NO_VIEW,
    "test_parameter::shares_storage_and_counter": _AT_ONCE,
    "test_parameter::in_place": _AT_ONCE,
    "test_storage::strided_parameters_and_gradients": _AT_ONCE,
    "test_checkpoint::sequential_module": _ONE_NODE,
    "test_checkpoint_errors::raising_in_the_forward": _ONE_NODE,
    "test_checkpoint::autocast_is_what_it_was": _DIGITS,
    "test_library::functions_of_the_module": _ONE_NODE,
    "test_library::checks": "`opcheck` looks at values",
    "test_state_dicts::read_into_a_compiled_layer": _AT_ONCE,
    "test_state_dicts::missing_names": _AT_ONCE,
    "test_state_dicts::of_an_optimizer_that_made_no_step": _AT_ONCE,
    "test_distributed::tensors_of_one_process": _AROUND,
    "test_module::hooks_of_loading_die_with_the_module": _AROUND,
    "test_storage::whole_numbers": "a learning rate that is a whole number is a real number in a program",
}
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
