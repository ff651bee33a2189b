"""A program in use: how it runs, and what each run does to the outside."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ...._core.arrays.out_of_memory import check_memory, complain_of_memory
from ...._core.jax.x64 import with_x64
from ...._core.random.generator import restorable
from ...._engine.memory.tensor import Tensor
from ..trace.checks import is_true
from ..trace.traced_program import resolve_argument
from .compiled_backward import CompiledFunctionBackward, leaf_of
from .donation import put_back, surely
from .inputs import hold_in_jax
from .program import CompiledProgram
from .quick_look import Look, takes_nothing
from .shorter_run import shorter_run

Versions = tuple[Sequence[Any], Sequence[int]]
TIMES = 100
"""So many times as long as it takes to trace a program it runs before it is checked."""


class Entry:
    """One of the programs of a compiled function, and what changes while it is used.

    Args:
        program: the program.
        switches: what the function sets in Python, to the same in each run: (holder, key, value).
        clock: says when it is to be checked.
        way: in which way the function was traced.
        meets_arguments: whether it also reached an argument in another way.
    """

    def __init__(
        self,
        program: CompiledProgram,
        switches: Sequence[tuple[Any, Any, Any]],
        clock: Clock,
        way: Any,
        meets_arguments: bool,
    ) -> None:
        self.program, self.switches, self.clock = program, switches, clock
        self.way, self.meets_arguments = way, meets_arguments
        self.has_run = False
        """Whether anything outside is as a run has left it."""
        self.given: Any = None
        """The arguments of the run that is about to begin, as they were given, for one of them that is returned."""
        self.reference: CompiledProgram | None = None
        """What a second trace gave right after the first run, where the function is checked."""
        self.left = clock.runs_until_a_look()
        """How many runs may follow before one is measured."""
        self.loops: dict[int, Any] = {}
        """Programs that take several steps, by the number of batches that they are given; see `many`."""
        self.takes: Look = takes_nothing
        """Whether `run` may be called on such arguments in such a mode without a closer look."""
        self.taken: tuple[Any, ...] = ()
        """What this look was made for."""
        self.run_quickly: Callable[[Sequence[Tensor]], Any] | None = None if switches else shorter_run(self)
        self._log, self._late = program.conditions.log, bool(program.body.late)
        self._has_more_conditions = program.conditions.are_many
        changed = {i for i, _, _ in program.traced.writes}
        sources = program.traced.sources
        self._is_written = [(~s.what if s.kind == "arg" else i) in changed for i, s in enumerate(sources)]

    @property
    def is_together(self) -> bool:
        """Whether an argument that the function also knows from elsewhere is one tensor in the program."""
        return bool(self.program.conditions.apart.fixed)

    def why_stale(self, given: Sequence[Any]) -> str | None:
        """Why the program must not be used any more for these tensors and numbers, or None."""
        program = self.program
        return program.conditions.describe_change(given, program.arguments(given), self._has_more_conditions)

    def undo_numbers(self) -> None:
        """After an error: numbers that a run has computed ahead are as before, unless it has happened."""
        if self._log is not None:
            surely(self._log.restore_ahead)

    # -- running
    @with_x64
    def run(self, given: Sequence[Any]) -> Any:
        """Run the program on these tensors and numbers, and do to the outside what the function does.

        An exception that a signal raises finds everything as it was, or all of the step done.
        """
        program = self.program
        args = program.arguments(given)
        arrays: list[Any] = []
        """The results; as long as there are none, nothing has happened."""
        drawn: dict[Any, Any] = {}
        replaced: list[Any] = []
        node = None
        versions = program.writes.versions(args)
        try:
            if not self.has_run:
                self._leave_numpy(args)
            if program.parts is not None:
                node = self._differentiable(args, arrays, drawn)
            else:
                inputs = self._inputs(args, drawn)
                together = program.joint and program.joint.begin(inputs)
                kernel, inputs = together or (program.kernel, inputs)
                dropped = ()
                if program.inputs.dropped:
                    dropped = [resolve_argument(leaf, args) for leaf in program.inputs.dropped]
                    if not kernel.settled:
                        replaced = [(leaf, leaf._g) for leaf in dropped]
                kernel.settled = True
                arrays += kernel.results(inputs, dropped)  # no signal comes in between
                check_memory(arrays)
                if self._late and is_true(arrays[-1]):
                    n = len(program.inputs.overwritten)
                    self._raise_failed_check([*arrays[:n], *inputs[n:]])
            self._finish(arrays, args, versions)
        except BaseException as error:
            surely(lambda: self._finish_or_restore(arrays, args, versions, drawn, replaced))
            complain_of_memory(error)
            raise
        return program.returned.of_run(arrays, node, args, self.given)

    def _leave_numpy(self, args: Sequence[Tensor]) -> None:
        """Hold what the program overwrites or reads from outside in arrays of JAX's from the first run on.

        A program that was given an array of NumPy's would be compiled once more for the array of JAX's that follows it,
        and what is only read would be copied in each run.
        """
        writes = self.program.writes
        storages = [*self.program.inputs.storages, *[st for st, _, _ in writes.storages]]
        storages += [source.storage(args) for source, _, _ in writes.elsewhere if not isinstance(source, int)]
        for st in storages:
            hold_in_jax(st)

    def _inputs(self, args: Sequence[Tensor], drawn: dict[Any, Any]) -> list[Any]:
        """Return what the program reads now, in its order; `drawn` gets the states of generators before their draws."""
        program, inputs = self.program, self.program.inputs
        others = inputs.read_others(args, drawn)
        only_read = [st.array for st in inputs.storages]
        checks = program.checks
        if checks is not None and checks.fail_ahead(others, inputs.ahead):
            memory = [None] * len(inputs.spare)
            self._raise_failed_check([*inputs.read_overwritten(args), *memory, *only_read, *others])
        found = [*inputs.arrays_to_overwrite(args), *only_read, *others]
        return self._spread(found if program.one_device is None else program.one_device.put(found))

    def _spread(self, inputs: list[Any]) -> list[Any]:
        """Inputs of a program over several devices, as such a program takes them."""
        over = self.program.on_all_devices
        return inputs if over is None else over.put(inputs)

    def _differentiable(
        self, args: Sequence[Tensor], arrays: list[Any], drawn: dict[Any, Any]
    ) -> CompiledFunctionBackward:
        """Run the forward part, put its results into `arrays`, and make the node for the backward part."""
        program, parts = self.program, self.program.parts
        sources, checks = program.traced.sources, program.checks
        assert parts is not None
        assert program.backward is not None
        with restorable(drawn):
            values = [s.array(args) for s in sources]
        if checks is not None and checks.fail_ahead(values, checks.inputs):
            checks.raise_failed_check(values)
        if program.one_device is not None:
            values = program.one_device.put_all(values)
        check_memory(forward_results := parts.forward(*self._spread(values)))
        if checks is not None and self._late and is_true(forward_results.pop()):
            checks.raise_failed_check(values)
        leaves = tuple([leaf_of(s, args, x, w) for s, x, w in zip(sources, values, self._is_written)])
        saved = forward_results[parts.n_results :]
        arrays += forward_results[: parts.n_results]
        return CompiledFunctionBackward(parts, program.backward, saved, args, leaves)

    def _finish(self, arrays: list[Any], args: Sequence[Tensor], versions: Versions) -> None:
        """The program has run: do to the outside what the function does; once more after an interrupt."""
        self._bring_back(arrays)
        self.store(arrays, args, versions)
        self.has_run = True
        if self._log is not None:
            self._log.settle()

    def _bring_back(self, arrays: list[Any]) -> None:
        """Let results lie where this process keeps them."""
        program = self.program
        if program.joint is not None:
            program.joint.bring_back(arrays)
        if program.one_device is not None and arrays:
            program.one_device.bring_back(arrays)

    def store(self, arrays: Sequence[Any], args: Sequence[Tensor], versions: Versions, times: int = 1) -> None:
        """Write the results of the last of so many runs to where they belong."""
        self.program.writes.store(arrays, args, versions, times)
        for holder, key, value in self.switches:
            holder[key] = value

    def _finish_or_restore(
        self, arrays: list[Any], args: Sequence[Tensor], versions: Versions, drawn: dict[Any, Any], replaced: Any
    ) -> None:
        """After an error or an interrupt: finish the step if its program ran, else let all be as it was."""
        if arrays and not (self._late and self.program.parts is None and is_true(arrays[-1])):
            self._finish(arrays, args, versions)
            return
        self.program.inputs.give_back(arrays, args)
        put_back(drawn, replaced)
        if self._log is not None:
            self._log.restore()

    # -- checks that fail
    def raise_failed_check(self, given: Sequence[Any]) -> NoReturn:
        """Raise what the call with these tensors and numbers raises; the numbers in Python have been computed."""
        program, args = self.program, self.program.arguments(given)
        drawn: dict[Any, Any] = {}
        with restorable(drawn):
            values = [s.array(args) for s in program.traced.sources]
        put_back(drawn, ())
        assert program.checks is not None
        program.checks.raise_failed_check(values)

    def _raise_failed_check(self, inputs: list[Any]) -> NoReturn:
        """Raise what the check raises that fails for these inputs of the program."""
        program = self.program
        if program.joint is not None and self._late:  # the inputs of a program that has run
            program.joint.bring_back(inputs)
        values: list[Any] = [None] * len(program.traced.sources)
        for i, x in zip(program.inputs.positions(), inputs):
            if i is not None:
                values[i] = x
        for i in program.body.constants:
            values[i] = program.traced.sources[i].array(())
        assert program.checks is not None
        program.checks.raise_failed_check(values)


class Clock:
    """How long a program has run since it was traced, measured at a few of its runs.

    Args:
        seconds: how long its trace took.
        why_not: why it is not checked by itself, None if it is.
    """

    def __init__(self, seconds: float, why_not: str | None = None) -> None:
        self.seconds, self.why_not = seconds, why_not
        self.checks = 0
        """How often it was traced again."""
        self._ran = self._one = self._looked = 0.0
        self._between = 1

    def runs_until_a_look(self) -> float:
        """Return how many runs are not measured, from the first one on."""
        return 1 if self.why_not is None else math.inf

    @property
    def is_due(self) -> bool:
        """Whether the time has come, and nobody would notice: a debugger or a profiler stays out of it."""
        due = self.why_not is None and self._ran >= TIMES * self.seconds
        return due and sys.getprofile() is None and sys.gettrace() is None

    def has_run(self, began: float, ended: float) -> float:
        """Take the time of one run for that of all since the last look, and say how many may follow without one.

        Of two looks the shorter one counts, since either may have met something else, such as a pause; and no more time
        counts than has gone by.

        Args:
            began, ended: the time before and after the run.
        """
        if self.why_not is not None:
            return math.inf
        seconds = ended - began
        one = min(seconds, self._one or seconds)
        self._ran += min(one * self._between, ended - (self._looked or began))
        self._one, self._looked = seconds, ended
        missing = (TIMES * self.seconds - self._ran) / max(one, 1e-9)
        self._between = max(1, min(2 * self._between, math.ceil(missing)))
        return self._between - 1

    def was_traced(self, began: float, ended: float) -> None:
        """Begin again."""
        self.checks += 1
        self.seconds, self._looked = ended - began, ended
        self._ran, self._between = 0.0, 1

    def stop(self, why: str) -> None:
        """No longer check the program by itself."""
        self.why_not = why
