"""A program as a function of arrays, which JAX compiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp

from ...._core.arrays.placement import is_complete, place
from ...._core.jax.evaluate import Take, evaluate, first_of
from ...._engine.modes.written_steps import outside
from ..trace.checks import any_of
from ..trace.equal_steps import evaluate_equal_steps_once
from ..trace.kernel_calls import Kernels, as_kernels
from ..trace.traced_program import TracedProgram
from .constant_tensors import ConstantTensor
from .donation import Donating, Keeping
from .inputs import Inputs


@dataclass(frozen=True, slots=True)
class Body:
    """The steps of a program, from its inputs to its results."""

    traced: TracedProgram
    inputs: Inputs
    constants: Mapping[int, ConstantTensor]
    """Sources that are no inputs, by their numbers, since they are the same in each run."""
    result_order: list[int]
    """The results in the order in which the kernel gives them."""
    pins: Mapping[int, Any]
    """The shardings of results that are written to something on several devices, by their numbers."""

    @property
    def late(self) -> list[Any]:
        """The flags of checks that the program computes. If there are any, its last result is whether one fails."""
        return [] if self.traced.checks is None else self.traced.checks.late

    def kernel(self) -> Donating | Keeping:
        """The program as JAX compiles it, or as the kernels that it calls."""
        if self.traced.kernels is not None:
            return Keeping(partial(self._calling_kernels, self.traced.kernels))

        def compiled_step(*xs: Any) -> list[Any]:
            return self.results(xs)

        return Donating(compiled_step, self.inputs.n_given_away, bool(self.inputs.spare), self.placements())

    def _calling_kernels(self, kernels: Kernels) -> Callable[..., list[Any]]:
        """The function of the inputs that calls these kernels."""
        late = bool(self.late)

        def build(xs: list[Any], take: Take) -> list[Any]:
            values = self._of_sources(xs)
            for i, constant in self.constants.items():
                values[i] = constant.array()
            whole = self.traced.jaxpr._replace(outvars=[*self.traced.jaxpr.outvars, *self.late])
            results = evaluate(whole, self.traced.consts, first_of(outside(values), take))
            n = len(self.result_order)
            return [*[results[k] for k in self.result_order], *results[n:]]

        run = as_kernels(kernels, len(self.inputs.positions()), build)

        def checked(*xs: Any) -> list[Any]:
            found, n = run(*xs), len(self.result_order)
            return [*found[:n], any_of(found[n:])]

        return checked if late else run

    def placements(self) -> list[Any] | None:
        """For each result where it has to lie, or None where XLA may choose; None if it always may."""
        if not self.pins:
            return None
        pinned = {k: there for k, there in self.pins.items() if is_complete(there)}
        return [pinned.get(k) for k in self.result_order] + [None] * bool(self.late)

    def results(self, xs: Sequence[Any], instead: Take | None = None) -> list[Any]:
        """What the kernel gives for its inputs; `instead` takes some of its steps in another way."""
        results = self.steps(self._of_sources(xs), instead)
        out = [results[k] for k in self.result_order]
        if not self.late:
            return out
        failed = any_of(results[len(self.result_order) :])
        n = len(self.inputs.overwritten)
        out[:n] = [jnp.where(failed, old, new) for old, new in zip(xs, out[:n])]
        return [*out, failed]

    def _of_sources(self, xs: Sequence[Any]) -> list[Any]:
        """The inputs by the numbers of their sources."""
        values: list[Any] = [None] * len(self.traced.sources)
        for i, x in zip(self.inputs.positions(), xs):
            if i is not None:
                values[i] = x
        return values

    def steps(self, values: Sequence[Any], instead: Take | None = None) -> list[Any]:
        """The results on these values of the sources, in the order of the trace, and after them the flags of checks."""
        values = list(values)
        for i, constant in self.constants.items():
            values[i] = constant.array()
        whole = self.traced.jaxpr._replace(outvars=[*self.traced.jaxpr.outvars, *self.late])
        results = evaluate_equal_steps_once(whole, values, self.traced.consts, instead)
        for k, there in self.pins.items():
            results[k] = place(results[k], there)
        return results
