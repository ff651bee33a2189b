"""How a traced run begins and ends: JAX traces it, or its steps are written on a tape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from ..._core.jax.running_transforms import current_trace
from ..._core.signals import uninterrupted
from ..._core.state import IN_RUN, MODES, UNDER_JAX, WINDOWS
from ..memory.tape import Tape
from .batch import Batch
from .runs import TracedRun
from .uses import NO_USES
from .written_steps import JaxprSteps, TapedSteps


class within:
    """Inside, the code belongs to a run; new storages bear the number `birth`, or that of a transform begun since."""

    __slots__ = ("before", "bits", "run", "values")

    def __init__(self, run: TracedRun, birth: int) -> None:
        self.run = run
        self.values = {"run": run, "runs": (*run.around["runs"], run), "birth": max(birth, MODES.birth)}
        self.values["bits"] = MODES.bits & ~(UNDER_JAX | WINDOWS) | run.outer_traced | IN_RUN
        self.before = {name: getattr(MODES, name) for name in ("run", "runs", "birth")}
        self.bits = MODES.bits & (IN_RUN | UNDER_JAX | WINDOWS)

    def __enter__(self) -> None:
        MODES.own |= self.values

    @uninterrupted
    def __exit__(self, *error: Any) -> None:
        MODES.own |= {**self.before, "bits": MODES.bits & ~(IN_RUN | UNDER_JAX | WINDOWS) | self.bits}
        self.run.uses = NO_USES  # which may know the run: no cycle is left


def trace(function: Callable[[list[Any]], list[Any]], avals: Sequence[Any], run: TracedRun | None = None) -> JaxprSteps:
    """Run a function on tracers of the given avals; it gives arrays. The tensors are the caller's affair."""
    from jax.extend.core import set_current_trace

    traced = run or TracedRun()

    def pure(*arrays: Any) -> list[Any]:
        current = current_trace()
        traced.traces.append(current)
        with set_current_trace(current), within(traced, traced.birth):
            return function(list(arrays))

    closed = jax.make_jaxpr(pure)(*avals)
    return JaxprSteps(closed.jaxpr, closed.consts, traced)


def write_on_tape(
    function: Callable[[list[Any]], list[Any]], avals: Sequence[Any], batch: Batch, randomness: str
) -> TapedSteps:
    """Run a function for `vmap`, its steps written on a tape instead of traced by JAX.

    Two runs that take the same steps have the same key.
    """
    from jax.extend.core import set_current_trace

    run = TracedRun(batch, randomness=randomness)
    tape = run.tape = Tape(avals, run.outer_trace)
    run.traces.append(tape)
    try:
        with set_current_trace(tape), within(run, run.birth):
            arrays = function(list(tape.inputs))
        return TapedSteps(run, tape.steps, [tape.number_of(a) for a in arrays])
    finally:
        tape.invalidate()
