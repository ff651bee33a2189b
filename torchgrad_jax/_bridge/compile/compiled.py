"""A compiled function: it finds the program for the arguments of a call among those it keeps, or traces a new one."""

from __future__ import annotations

import functools
import importlib
import os
import time
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax

from ..._core.errors.messages import AsWritten, NeedsPlainNumbers, Unsupported
from ..._core.jax import caches
from ..._core.jax.target import Target
from ..._core.signals import contextmanager
from ..._core.state import (
    DUAL,
    FUNCTION_MODE,
    IN_RUN,
    INFERENCE,
    MODES,
    OBSERVED,
    PACKING,
    UNDER_JAX,
    WINDOWS,
    WRITE_LOCK,
)
from ..._engine.memory.derivative_stops import under_jax
from ..._engine.memory.tensor import Tensor
from . import explain
from .arguments import object_trees
from .arguments.array_arguments import is_array_input
from .arguments.changed_numbers import drifted_numbers
from .arguments.keys import recompile
from .as_written import in_windows
from .attempt import Attempt, Function
from .calls import Again, AsIs, Call, How, Outcome, Ran, Request, WithPlainNumbers
from .function_modes import autocast_off
from .inspection import Lowered, ProgramInspected, explanation, folded, lowered
from .many_steps import Batches, StepsDone, run_all
from .new_sizes import NewSizes
from .patience import Patience
from .plans.batches import largest_batch_of
from .plans.layers import plan_by_layers
from .plans.plan import Plan, plan_of
from .program.donation import IN_PARTS
from .program.entry import Entry
from .program.program import CompiledProgram
from .programs import Programs
from .stance import POLICY, ProgramCounter
from .trace.apart import ONE_MEMORY
from .trace.first_calls import Once
from .travel import load, save
from .verification import StaleProgramError, Verification

_OTHER_MODES = IN_RUN | DUAL | OBSERVED | PACKING | FUNCTION_MODE
Run = Callable[[Entry, Any], Any]
"""What is done with a program and the inputs of a call."""


class Compiled:
    """A function compiled for the kinds of arguments that it is called with.

    A call ends in an `Outcome`: its program has run, or the function runs eagerly. `Programs` keeps programs,
    `Attempt` makes one, and `Patience` decides what becomes of a function that has none.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        limit: int | None = None,
        *,
        fullgraph: bool = False,
        written: bool = False,
        checks: bool = True,
        exact: bool = False,
        dynamic: bool | None = None,
        verify: int | str | None = None,
        counter: ProgramCounter | None = None,
    ) -> None:
        functools.update_wrapper(self, fn, updated=())
        self.fn = self._torchdynamo_orig_callable = fn
        self.batches = object_trees.BatchClasses()
        self.counts = {"traced": 0, "run": 0, "eager": 0}
        """How often the function was traced, its program run, and the function itself run instead."""
        self.programs = Programs(fn, limit)
        self.patience = Patience(fn, fullgraph, written, self.counts, counter)
        self.new_sizes = NewSizes(dynamic, exact)
        self.verification = Verification(fn, verify)
        self.settings = {
            "limit": limit,
            "fullgraph": fullgraph,
            "written": written,
            "checks": checks,
            "verify": verify,
            "exact": exact,
            "dynamic": dynamic,
        }
        if counter is not None:
            self.settings["counter"] = counter
        """What it was compiled with, for another one like it."""
        self.target: Any = None
        """The hardware that its programs are for, if it is not here."""
        self._function = Function(fn, self.batches, checks, exact)
        POLICY.compiled.add(self)

    @property
    def entries(self) -> dict[Any, list[Entry]]:
        """The programs, by the kind of arguments."""
        return self.programs.by_key

    @property
    def reasons(self) -> list[str]:
        """Why it was traced again or ran eagerly, in order."""
        return self.patience.reasons

    def reset(self) -> None:
        """Forget all programs."""
        self.programs.clear()
        self.patience.reset()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        last = self.programs.last
        if last is None or kwargs or last.left <= 0 or POLICY.stance == "force_eager" or (MODES.traced and under_jax()):
            return self._as_written(args, kwargs) if self._runs_plainly() else self._call(args, kwargs, Entry.run)
        mode = MODES.bits & ~(UNDER_JAX | WINDOWS)
        if last.run_quickly is None or mode & INFERENCE:
            try:
                with WRITE_LOCK:
                    try:
                        if last.takes(args, mode):
                            last.left -= 1
                            self.counts["run"] += 1
                            return last.run(args)
                    except BaseException:
                        last.undo_numbers()
                        raise
            except AsWritten as error:
                return self._as_written(args, kwargs, self._not_run(error))
        elif last.takes(args, mode):
            last.left -= 1
            self.counts["run"] += 1
            return last.run_quickly(args)
        return self._call(args, kwargs, Entry.run)

    def _runs_plainly(self) -> bool:
        """Whether there is no question of a program: nothing of the call is noted."""
        return self.patience.written or POLICY.stance == "force_eager" or (MODES.traced and under_jax())

    def many(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function once for each row of its tensors, all calls in one program where they can be.

        Args:
            args, kwargs: as for a single call, but each tensor and each array of JAX has one more dimension in front:
                the steps. All else is the same for each step.

        Returns:
            What the calls return: tensors (without a graph) and arrays stacked; numbers as lists; one and the same
            object as it is.

        Raises:
            ValueError: if tensors have different numbers of rows, or require a gradient.

        Example:
            >>> import torchgrad_jax as torch
            >>> total = torch.zeros(())
            >>> @torch.compile
            ... def add(x):
            ...     total.add_(x)
            ...     return total * 1
            >>> add.many(torch.tensor([1.0, 2.0, 3.0]))
            tensor([1., 3., 6.])
            >>> total
            tensor(6.)
        """
        mode = MODES.bits & ~(UNDER_JAX | WINDOWS)
        plainly = self._runs_plainly()
        self.batches.add_all((args, kwargs))
        batches = Batches(args, kwargs, self.batches.__contains__)
        if plainly or mode & _OTHER_MODES or self._function.exact:
            return run_all(lambda args, kwargs, run: self(*args, **kwargs), batches)

        def call(args: tuple[Any, ...], kwargs: dict[str, Any], run: Any) -> Any:
            out = self._call(args, kwargs, run)
            self.counts["run"] += out.count - 1 if isinstance(out, StepsDone) else 0
            return out

        return run_all(call, batches)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Return the program for these arguments, to be looked at: nothing is run, and nothing outside changes.

        Args:
            args, kwargs: as for a call.

        Returns:
            An object with `as_text()` (StableHLO), `optimized_text()` (HLO), `cost_analysis()`, `memory_analysis()`,
            `collectives()` and `compile()`; `backward` is the one of the backward pass, if the program has one.

        Raises:
            RuntimeError: if the function runs eagerly.

        Example:
            >>> import torchgrad_jax as torch
            >>> double = torch.compile(lambda x: x * 2)
            >>> double.lower(torch.ones(3)).cost_analysis()["flops"]
            3.0
        """
        if MODES.target is None:
            return self._lower(args, kwargs)
        there = Compiled(self.fn, **{**self.settings, "verify": 0})
        there.target = MODES.target
        return there._lower(args, kwargs)

    def save(self, path: str | os.PathLike[str], /, *args: Any, **kwargs: Any) -> None:
        """Compile the program for these arguments, and write it to a file with the names of its state; nothing is run.

        In the block of `interop.target` the program is one for that hardware, which need not be here. A function whose
        results have a graph is saved with its backward pass. A step that starts its optimizer is called once before,
        so that the state is part of the program.

        Args:
            path: the file.
            args, kwargs: as for a call.

        Raises:
            RuntimeError: if the function runs eagerly, or if its program calls functions of this process.

        Example:
            >>> import tempfile
            >>> import torchgrad_jax as torch
            >>> double = torch.compile(lambda x: x * 2)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     double.save(f"{folder}/double.bin", torch.ones(3))
            ...     double.load(f"{folder}/double.bin")
            >>> double(torch.ones(3))
            tensor([2., 2., 2.])
        """
        save(path, self.lower(*args, **kwargs))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Use the programs of a file that `save` has written, instead of compiling them.

        The first call traces the function as ever. It compiles only if its program is not the one in the file: for
        arguments of other shapes, or after a change of the code. Load only what you have saved yourself: programs are
        code of the machine, which runs as it is.

        Raises:
            RuntimeError: the file is damaged, it was made for another kind of device or by other versions, or a tensor
                of the function differs in its dtype or shape. Nothing was loaded.
        """
        load(path, self.fn)

    def aot_compile(self, example_inputs: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
        """Compile the function for some arguments, as one that a file can hold without its source; it is not run.

        Gradients with respect to the arguments are compiled, too, if one of these requires a gradient.

        Args:
            example_inputs: the arguments by position, and those by name.

        Returns:
            What is called with such arguments; its `save_compiled_function(path)` writes the file that
            `torch.compiler.load_compiled_function` reads.

        Raises:
            RuntimeError: `torch.compile` was called without `fullgraph=True`, or the function cannot be compiled ahead,
                because it looks at values, say.

        Example:
            >>> import torchgrad_jax as torch
            >>> double = torch.compile(lambda x: x * 2, fullgraph=True)
            >>> double.aot_compile(((torch.ones(2),), {}))(torch.ones(2))
            tensor([2., 2.])
        """
        if not self.patience.fullgraph:
            raise RuntimeError(
                "Graph breaks are not supported with aot compile. Please use torch.compile(fullgraph=True)."
            )
        # What exports functions lies above this package, and is imported by those who need it.
        ahead = importlib.import_module(f"{__name__.partition('.')[0]}.compiler._ahead")
        return ahead.compile_ahead(self.fn, *example_inputs)

    def _lower(self, args: Any, kwargs: Any) -> Lowered:
        if self._function.exact:
            raise Unsupported(IN_PARTS)
        counts = dict(self.counts)

        def look(entry: Entry, inputs: Any) -> Any:
            try:
                raise ProgramInspected(lowered(entry, inputs, self.fn))
            finally:
                if entry.program.conditions.log is not None:
                    entry.program.conditions.log.restore()

        try:
            outcome = self._outcome(args, kwargs, look)
        except ProgramInspected as inspected:
            self.counts["run"] = counts["run"]
            return inspected.result
        assert isinstance(outcome, AsIs)
        self.patience.book(outcome)
        raise RuntimeError(f"torch.compile: there is no program to look at, the function runs eagerly: {outcome.why}")

    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        """Say what the program for these arguments needs on the hardware of `interop.target`, which need not be here.

        Where the arguments are on the target, the function is called once before, on shapes alone, as a training
        script does: then the state of its optimizer is part of the program.

        Args:
            args, kwargs: as for a call.

        Returns:
            Memory by what it is for, arithmetic, memory traffic, the least time of a step, exchanges between devices,
            64-bit arithmetic that is emulated. `print` shows it as a table.

        Raises:
            RuntimeError: if there is no target, or if the function runs eagerly.
        """
        return plan_of(self._target(), self._lower_later(args, kwargs))

    def plan_by_layers(self, *args: Any, **kwargs: Any) -> Plan:
        """Plan a model with many equal layers: 2 of them are compiled, then 4, and a line gives the others.

        The plan says so in `layers`.

        Args:
            args, kwargs: as for a call.

        Raises:
            RuntimeError: as `plan`, and if the function reaches no list of more than 4 equal layers.
        """
        return plan_by_layers(self._target(), self.fn, lambda: self._lower_later(args, kwargs))

    def largest_batch(self, *args: Any, **kwargs: Any) -> int:
        """Return with how many samples the program fits into the memory of `interop.target`; see `plan`.

        The batch is the first dimension that most of the tensors among the arguments share. The step is compiled for
        it, for twice as many samples, and for the result.

        Args:
            args, kwargs: as for a call.

        Returns:
            The number of samples; 0 if the step fits with none.

        Raises:
            RuntimeError: if there is no target, if the function runs eagerly, or if no argument has a batch.
        """
        return largest_batch_of(self, args, kwargs)

    def _lower_later(self, args: Any, kwargs: Any) -> Lowered:
        """Return the program of the calls after the first one, which is made where it is one on shapes alone."""
        tensors = [x for x in jax.tree.leaves((args, kwargs)) if isinstance(x, Tensor)]
        if tensors and all(t._m.device.type == "meta" for t in tensors):
            self(*args, **kwargs)
        return self.lower(*args, **kwargs)

    @staticmethod
    def _target() -> Target:
        if MODES.target is None:
            raise RuntimeError(
                "a plan is made for a target: with torch.interop.target('v5e:2x2'): step.plan(...) plans for four TPUs"
            )
        return MODES.target

    def explain(self) -> None:
        """Print what the programs of the function read, write, keep and check, and why it was traced again."""
        print(explanation(self, explain.place(self.fn)))  # noqa: T201 - asked for

    def _repr_html_(self) -> str:
        """Return what `explain` prints, folded below its first line, which a notebook shows."""
        return folded(explanation(self, explain.place(self.fn)))

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], run: Run) -> Any:
        """Find or make the program for these arguments, and `run` it; or run the function."""
        outcome = self._outcome(args, kwargs, run)
        return outcome.result if isinstance(outcome, Ran) else self._as_written(args, kwargs, outcome)

    def _as_written(self, args: tuple[Any, ...], kwargs: dict[str, Any], outcome: AsIs | None = None) -> Any:
        """Run the function itself, without the lock: this may take as long as it likes, and start threads."""
        if outcome is not None:
            self.patience.book(outcome)
            if self.patience.written:
                self.programs.last = None
        self.counts["eager"] += 1
        with in_windows(POLICY.stance is None and not self.patience.is_generator):
            return self.fn(*args, **kwargs)

    def _not_run(self, error: AsWritten) -> AsIs:
        """A call for which its program was not run after all."""
        self.counts["run"] -= 1
        explain.not_run(self.fn, error)
        return AsIs(error, How.NOTED)

    def _outcome(self, args: tuple[Any, ...], kwargs: dict[str, Any], run: Run) -> Ran | AsIs:
        """What a call comes to; nothing is noted of it yet."""
        with _mode_of_program() as mode:
            if mode is None:
                return AsIs(_WATCHED, How.NOTED)
            try:
                with WRITE_LOCK:
                    return self._find_or_trace(args, kwargs, mode, run)
            except AsWritten as error:  # by what is looked at before a run
                return AsIs(error, How.NOTED)

    def _find_or_trace(self, args: tuple[Any, ...], kwargs: dict[str, Any], mode: Any, run: Run) -> Ran | AsIs:
        if self.patience.written:  # as another thread has found out in the meantime
            return AsIs(self.reasons[-1] if self.reasons else "it is a generator or a coroutine", How.NOW)
        call = Call.of(args, kwargs, mode, self.batches, plain_numbers=self.patience.plain_numbers)
        found = self._run_kept(call, run)
        if not isinstance(found, _Missed):
            return found
        if run is Entry.run and found.is_new and self.new_sizes.run_eagerly(call, self.programs.by_key):
            return AsIs(_NEW_SIZES, How.NOTED)
        if (refused := self._refusal(call, found)) is not None:
            return refused
        plain = self.patience.plain_numbers
        try:
            outcome = self._trace(call, found, run)
            if isinstance(outcome, WithPlainNumbers):  # and with arrays that are no inputs any more
                return self._find_or_trace(args, kwargs, mode, run)
            return outcome
        except BaseException:
            # Inputs are not to blame where the function fails with constants as well.
            self.patience.plain_numbers = plain
            raise

    # -- a program that is there
    def _run_kept(self, call: Call, run: Run) -> Ran | AsIs | _Missed:
        """Run the program that is right for a call, if one is."""
        reason, clashing = None, []
        for entry in self.programs.of(call.key):
            try:
                reason = entry.why_stale(call.inputs)
                if reason is None:
                    checked = self._checked(entry, call) if self.verification.is_due(entry) else None
                    if checked is None:
                        return self._run_right(entry, call, run)
                    if isinstance(checked, AsIs):
                        return checked
                    reason = checked
            except BaseException:
                entry.undo_numbers()
                raise
            if reason is ONE_MEMORY:
                clashing.append(entry)
        return _Missed(reason, clashing)

    def _run_right(self, entry: Entry, call: Call, run: Run) -> Ran | AsIs:
        self.counts["run"] += 1
        self.patience.program_was_right()
        self.programs.used(call.key, entry)
        if not call.kwargs and not self.verification.every:
            self.programs.try_first(entry, call.args, call.key[0])
        try:
            if entry.left > 0:
                entry.left -= 1
                return Ran(self._run(entry, call, run))
            began = time.perf_counter()
            ran = Ran(self._run(entry, call, run))
            entry.left = entry.clock.has_run(began, time.perf_counter())
            return ran
        except AsWritten as error:
            entry.undo_numbers()
            return self._not_run(error)

    def _run(self, entry: Entry, call: Call, run: Run) -> Any:
        if not entry.program.returned.returns_given:
            return run(entry, call.inputs)
        entry.given = call.given
        try:
            return run(entry, call.inputs)
        finally:
            entry.given = None

    def _checked(self, entry: Entry, call: Call) -> AsIs | str | None:
        """Check a program that is due: what follows, or None if it may run."""
        if entry.way != self.patience.way and not self.verification.every:
            entry.clock.stop("numbers are traced in another way by now")
            return None
        entry.undo_numbers()  # which are as after the run by now
        again = functools.partial(self.traced_again, call, entry)
        if self.verification.every and entry.reference is None:  # since the first run has failed
            if not self.verification.take_reference(entry, again):
                self.programs.drop(entry)
            return entry.why_stale(call.inputs)
        try:
            found = self.verification.check(entry, again)
        except Exception as error:  # of the function, or of a signal
            if not isinstance(error, StaleProgramError):
                self.programs.drop(entry)
            raise
        if isinstance(found, str):
            self.programs.drop(entry)
        return entry.why_stale(call.inputs) if found is None else found

    def traced_again(self, call: Call, entry: Entry | None = None) -> CompiledProgram | None:
        """Return the program that another trace gives, which is not run; what the trace did is undone.

        Args:
            call: the call.
            entry: the program that it is to be compared with. None comes if it was made for a call of another kind: an
                argument is also reached in another way in one of the two.
        """
        outcome = Again(Request(together=entry is not None and entry.is_together))
        while isinstance(outcome, Again):
            attempt = Attempt(self._function, call, outcome.request, self.patience)
            try:
                outcome = attempt.look()
            except Exception as error:
                if attempt.numbers.reads_arguments():  # which may be what it failed for
                    raise NeedsPlainNumbers from error
                raise
            finally:
                attempt.undo()
        comparable = entry is None or attempt.meets_arguments is entry.meets_arguments
        return attempt.program if comparable else None

    # -- a new program
    def _refusal(self, call: Call, missed: _Missed) -> AsIs | None:
        """Why a call for which there is no program is not to be traced."""
        stance = POLICY.stance
        if stance == "fail_on_recompile":
            raise RuntimeError(recompile(self.fn))
        if MODES.target is not self.target:
            if MODES.target is not None and MODES.target.called is not None:
                MODES.target.called(self, call.args, call.kwargs)
            return AsIs("programs for a target are made by `lower`, and do not run", How.NOW)
        if self.target is not None:
            return None
        late = stance is not None and stance != "eager_on_recompile" and self.counts["eager"]
        if (stance is not None and not late) or any(t._m.device.type == "meta" for t in call.tensors):
            return AsIs("it is not traced in this stance, or with tensors on the meta device", How.NOW)
        tried = [entry.is_together for entry in self.programs.of(call.key)]
        if missed.clashing and (any(e.is_together for e in missed.clashing) or sum(tried) >= _MOST_TOGETHER):
            return AsIs(ONE_MEMORY, How.ARGUMENTS)
        return None

    def _trace(self, call: Call, missed: _Missed, run: Run) -> Ran | AsIs | WithPlainNumbers:
        """Trace the function until there is a program for the call, which has run, or it is clear that there is none.

        Returns:
            What the call comes to; `WithPlainNumbers` if the arguments have to be read once more, since numbers and
            arrays among them are constants from here on.
        """
        once: list[Once] = []
        outcome, numbers = None, self.patience.constants
        try:
            outcome = self._trace_until(call, missed, run, once)
            return outcome
        except Exception:  # which is not due to numbers that were followed
            self.patience.constants = numbers
            raise
        finally:
            if not isinstance(outcome, Ran):
                for done in once:
                    done.undo()

    def _trace_until(self, call: Call, missed: _Missed, run: Run, once: list[Once]) -> Ran | AsIs | WithPlainNumbers:
        """See `_trace`; `once` gets what the function does only in its first call, and is done by now."""
        request = Request(together=bool(missed.clashing))
        for _ in range(_MOST_TRACES):
            outcome = self._attempt(call, request, missed.reason, run)
            if isinstance(outcome, AsIs) and outcome.once is not None and outcome.once.is_new(once):
                once.append(outcome.once)
                outcome.once.do()
                request = request._replace(done=tuple(once))
                continue
            if isinstance(outcome, Ran | AsIs):
                return outcome
            if isinstance(outcome, Again):
                request = outcome.request._replace(done=tuple(once))
                continue
            reads_arrays = not self.patience.plain_numbers and any(map(is_array_input, call.flat))
            if (refused := self.patience.take_constants(outcome)) is not None:
                return refused
            if reads_arrays:
                return outcome
        return AsIs("it changes other numbers in each trace", How.ALWAYS)

    def _attempt(self, call: Call, request: Request, reason: str | None, run: Run) -> Outcome:
        """Trace the function once; if nothing speaks against its program, keep that and run it."""
        self.patience.trace_begins(reason)
        for entry in self.programs.of(call.key):  # numbers that were changed from outside may change again
            self.patience.carry(drifted_numbers(entry.program.conditions.guards))
        try:
            attempt = Attempt(self._function, call, request, self.patience)
        except NeedsPlainNumbers:
            return WithPlainNumbers()
        entry = None
        try:
            outcome = attempt.trace()
            if outcome is None:
                clock = self.verification.clock(attempt.program, attempt.seconds)
                entry = Entry(attempt.program, attempt.watch.switches, clock, attempt.way, attempt.meets_arguments)
                outcome = self._run_first(entry, attempt, reason, run)
        except BaseException as error:
            outcome = attempt.outcome_of(error)
            if outcome is None:
                self._undo(attempt, entry)
                raise
        if isinstance(outcome, AsIs):
            attempt.undo_trace(outcome)
        elif not isinstance(outcome, Ran):
            self._undo(attempt, entry)
        return outcome

    def _run_first(self, entry: Entry, attempt: Attempt, reason: str | None, run: Run) -> Outcome:
        """Keep a new program, and run it."""
        program, call = entry.program, attempt.call
        if self.patience.new_program(program, reason):
            self.programs.keep(call.key, entry)
        if program.conditions.apart.clash(program.arguments(call.inputs)):
            # Arguments share memory with what it knows from elsewhere.
            self._forget(entry)
            self.counts["run"] -= 1
            if self.patience.fullgraph and attempt.stands_in:
                return Again(Request(together=True))
            return AsIs(ONE_MEMORY, How.ARGUMENTS)
        try:
            ran = Ran(self._run(entry, call, run))
        except AsWritten:
            self.counts["run"] -= 1
            raise
        caches.KERNELS.program()
        if self.verification.every:
            again = functools.partial(self.traced_again, call, entry)
            if not self.verification.take_reference(entry, again):
                self.programs.drop(entry)
        self.patience.program_has_run(reason)
        return ran

    def _undo(self, attempt: Attempt, entry: Entry | None) -> None:
        """After an error, or before another trace: everything is as it was before the call."""
        if entry is None or not entry.has_run:
            self._forget(entry)
            attempt.undo()

    def _forget(self, entry: Entry | None) -> None:
        """Drop a program that did not run once, and the state with it that was made for it."""
        if entry is not None and entry.program.traced.started_optimizers:
            self.programs.drop(entry)


class _Missed(NamedTuple):
    """None of the programs that are kept is right for a call."""

    reason: str | None
    """Why the last one is not."""
    clashing: list[Entry]
    """Those that would be right if arguments did not share memory."""

    @property
    def is_new(self) -> bool:
        """Whether there is no program for arguments of this kind."""
        return self.reason is None and not self.clashing


@contextmanager
def _mode_of_program() -> Iterator[Any]:
    """What a program is made for: the bits of the modes, and what autocast casts; None if there is to be none.

    Within it autocast is off: what was traced runs as it is.
    """
    mode = MODES.bits & ~(UNDER_JAX | WINDOWS)
    if not mode & _OTHER_MODES:
        yield mode
    elif mode & _OTHER_MODES == FUNCTION_MODE:
        with autocast_off() as around:
            yield None if around is None else (MODES.bits & ~(UNDER_JAX | WINDOWS), *around)
    else:
        yield None


_MOST_TRACES = 6
_MOST_TOGETHER = 3
"""So many programs are made for arguments that share memory."""
_NEW_SIZES = "sizes that are new run eagerly at first; dynamic=False compiles each of them"
_WATCHED = (
    "it runs as part of something that sees each operation: a transform, forward mode, anomaly checks, a profiler, "
    "hooks of saved tensors (as in a checkpoint), or a mode for functions or dispatch"
)
