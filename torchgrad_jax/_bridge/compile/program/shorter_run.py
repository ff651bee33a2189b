"""A shorter way to run a compiled program that only computes one tensor of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.errors import JaxRuntimeError

from ...._core.arrays import devices
from ...._core.arrays.out_of_memory import check_memory, complain_of_memory
from ...._engine.memory.tensor import Tensor, make
from .held_in_jax import GivenAgain
from .results import ResultTensor


def shorter_run(entry: Any) -> Callable[[Sequence[Tensor]], Any] | None:
    """A shorter `run` for a program that only computes one tensor of plain ones; None for any other."""
    program, kept = entry.program, entry.kept_storages
    does_more = (
        program.writes,
        program.grads,
        program.counters,
        program.new_state,
        program.peers,
        program.flags,
        entry.log,
        entry.parts,
        entry.one_device,
        entry.over_processes,
        entry.spec.kind is not None,
    )
    if any(does_more) or not entry.only_reads_arguments:
        return None
    (out,) = entry.outs
    if type(out) is not ResultTensor or out.requires:
        return None
    if entry.kept_args is None or entry.late:
        return None
    places = [entry.args[i] for i in entry.kept_args]
    kernel, index, m = entry.kernel, out.index, out.meta
    checks, ahead, given = entry.checks, entry.ahead, GivenAgain(len(places))
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
