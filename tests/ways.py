"""Ways to run a program here, beside line by line, as torch runs it: they have to give the same.

A program of a folder in `COMPILED` is also compiled as a whole, with its seeds, modules, optimizers and passes.
Programs of other folders ask what a graph looks like; a compiled function is one node of it. A program that is refused
by `compile` is skipped: the error says why it cannot be compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.differential import Program

COMPILED = ("distributions", "nn", "optim", "tensor", "utils")

_LATER = "what a check of values finds is raised after the run, where the program no longer catches it"
_OTHER_NUMBERS = "numbers that are tried until one is accepted follow the same distribution, but are others"
_ONE_NODE = "the graph of a compiled function is one node"
_NO_VIEW = "a result is no view of what the program has no other use for"
_VERSIONS = "the versions of results are counted from the end of the call"
_SWAPPED = "tensors that a trace has met have weak references, and such tensors cannot be swapped"
_NOT_COUNTED = "operations of a compiled program are counted by XLA's cost analysis"

APART: dict[str, str] = {
    "test_bags::shapes_of_offsets": _LATER,
    "test_init::refused": _LATER,
    "test_utils::norms_that_are_not_finite": _LATER,
    "test_small_names::assertions_and_shapes": _LATER,
    "test_small_names::tensors_exchanged": _SWAPPED,
    "test_small_names::exchanges_refused": _SWAPPED,
    **dict.fromkeys(
        (
            "test_families::Chi2", "test_families::FisherSnedecor", "test_families::InverseGamma",
            "test_families::LKJCholesky", "test_families::NegativeBinomial", "test_families::NegativeBinomialLogits",
            "test_families::Poisson", "test_families::VonMises", "test_families::Wishart",
            "test_families::slopes of FisherSnedecor", "test_families::slopes of Gamma",
            "test_families::slopes of InverseGamma", "test_families::slopes of StudentT",
        ),
        _OTHER_NUMBERS,
    ),
    "test_transformer::attention_batch_first": _NO_VIEW,
    "test_transformer::attention_without_a_batch": _NO_VIEW,
    "test_parameter::shares_storage_and_counter": _VERSIONS,
    "test_parameter::in_place": _VERSIONS,
    "test_state_dicts::read_into_a_compiled_layer": _VERSIONS,
    "test_state_dicts::missing_names": _VERSIONS,
    "test_state_dicts::of_an_optimizer_that_made_no_step": _VERSIONS,
    "test_checkpoint::sequential_module": _ONE_NODE,
    "test_checkpoint_errors::raising_in_the_forward": _ONE_NODE,
    "test_library::functions_of_the_module": _ONE_NODE,
    "test_flop_counter::products": _NOT_COUNTED,
    "test_flop_counter::convolutions": _NOT_COUNTED,
    "test_flop_counter::models": _NOT_COUNTED,
    "test_flop_counter::other_formulas": _NOT_COUNTED,
    "test_checkpoint::autocast_is_what_it_was": "a program keeps more digits between steps in half precision",
    "test_library::checks": "`opcheck` looks at values, which are not known yet",
    "test_distributed::tensors_of_one_process": "the group is gone when the program runs",
    "test_module::hooks_of_loading_die_with_the_module": "a program keeps the modules that it was made of",
    "test_storage::strided_parameters_and_gradients": "a momentum buffer is laid out as its parameter is",
    "test_storage::whole_numbers": "a learning rate that is a whole number is a real number in a program",
}  # fmt: skip
"""Programs that do something else where they are compiled, by file and name, and why. They have to go on doing so."""


def compiled(program: Program) -> Program:
    """The program as one compiled function."""

    def run(m: Any) -> Any:
        return m.compile(lambda: program(m))()

    return run


WAYS: dict[str, Callable[[Program], Program]] = {"compiled": compiled}


def parametrize(metafunc: pytest.Metafunc, folder: str) -> None:
    """Let the tests of a folder that take `same` run in all ways."""
    if "same" in metafunc.fixturenames and folder in COMPILED:
        metafunc.parametrize("same", [pytest.param(None, id=pytest.HIDDEN_PARAM), *WAYS], indirect=True)
