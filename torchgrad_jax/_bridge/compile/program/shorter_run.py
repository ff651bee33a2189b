"""A shorter way to run a compiled program that only computes one tensor of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.errors import JaxRuntimeError

from ...._core.arrays import devices
from ...._core.arrays.out_of_memory import check_memory, complain_of_memory
from ...._engine.memory.tensor import Tensor, make
from .inputs import GivenAgain
from .results import ResultTensor


def shorter_run(entry: Any) -> Callable[[Sequence[Tensor]], Any] | None:
    """A shorter `run` for a program that only computes one tensor of plain ones; None for any other."""
    program, traced, inputs = entry.program, entry.program.traced, entry.program.inputs
    does_more = (
        traced.writes,
        traced.grads,
        traced.counters,
        traced.new_state,
        traced.peers,
        traced.flags,
        program.conditions.log,
        program.parts,
        program.one_device,
        program.joint,
        program.returned.spec.kind is not None,
    )
    if any(does_more) or not program.only_reads_arguments:
        return None
    (out,) = program.returned.outs
    if type(out) is not ResultTensor or out.requires:
        return None
    if inputs.arguments is None or program.body.late:
        return None
    places, kept = [program.places[i] for i in inputs.arguments], inputs.storages
    kernel, index, m = program.kernel.call, out.index, out.meta
    checks, ahead, given = program.checks, inputs.ahead, GivenAgain(len(places))
    may_run_out = not devices.no_accelerator()

    def run(args: Sequence[Tensor]) -> Any:
        others = [args[i]._st.array for i in places]
        if np.ndarray in map(type, others):
            others = given.hold_in_jax([args[i]._st for i in places], others)
        if checks is not None and checks.fail_ahead(others, ahead):
            return entry.run(args)  # which raises
        try:
            arrays = kernel(*[st.array for st in kept], *others) if kept else kernel(*others)
            if may_run_out:
                check_memory(arrays)
        except JaxRuntimeError as error:
            complain_of_memory(error)
            raise
        return make(arrays[index], m)

    return run
