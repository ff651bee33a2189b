"""A compiled function: the programs that it keeps, which of them is right for a call, and how a new one is traced."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from ..._core.errors.messages import AsWritten, Unsupported
from ..._core.jax import caches
from ..._core.state import DUAL, FUNCTION_MODE, IN_RUN, INFERENCE, MODES, OBSERVED, PACKING, UNDER_JAX, WRITE_LOCK
from ..._engine.memory.derivative_stops import under_jax
from ..._engine.memory.tensor import Tensor
from .calls import Again, AsIs, Call, Outcome, Ran, Request, WithPlainNumbers
from .inspection import Lowered, ProgramInspected, explanation, lowered
from .many_steps import Batches, StepsDone, run_all
from .program.build import build_program
from .program.donation import surely
from .program.entry import Entry
from .program.program import Program
from .program.quick_look import look_quickly
from .trace.apart import ONE_MEMORY, stand_in
from .trace.first_calls import Once
from .trace.python_watch import PythonWatch
from .verification import StaleProgramError, Verification, describe_difference
from .watch import explain, object_trees
from .watch.array_arguments import is_array_input
from .watch.function_modes import autocast_off, under_autocast
from .watch.keys import OftenAnew, recompile
from .watch.number_arguments import NeedsPlainNumbers, NumberArguments
from .watch.number_log import NumberLog
from .watch.places import place_of
from .watch.stance import POLICY

_OTHER_MODES = IN_RUN | DUAL | OBSERVED | PACKING | FUNCTION_MODE


class Compiled:
    """A function compiled for the kinds of arguments that it is called with."""

    def __init__(
        self,
        fn: Callable[..., Any],
        limit: int | None = None,
        *,
        fullgraph: bool = False,
        written: bool = False,
        checks: bool = True,
        verify: int | str | None = None,
    ) -> None:
        functools.update_wrapper(self, fn, updated=())
        self.fn = self._torchdynamo_orig_callable = fn
        self.limit = limit
        """How many programs are kept; None is the number in force."""
        self.fullgraph = fullgraph
        self.written = written
        """Whether the function runs as it is written, since there is no use in compiling it."""
        self.checks = checks
        """Whether what an eager call checks is checked."""
        self.verification = Verification(verify)
        self._generates = written
        POLICY.compiled.add(self)
        self.carried: dict[Any, tuple[Any, Any]] = {}
        """Places of Python numbers that the function itself was seen to change: (holder, key)."""
        self._run_before = 0
        """`counts["run"]` after the program that was traced last had run."""
        self.wasted = 0
        """How many programs in a row could not be used a second time for what the function does in Python."""
        self.batches = object_trees.BatchClasses()
        self.entries: dict[Any, list[Entry]] = {}
        self.counts = {"traced": 0, "run": 0, "eager": 0}
        """How often the function was traced, its program run, and the function itself run instead."""
        self.evicted = 0
        """How many programs were forgotten to make room for others."""
        self.limit_told = False
        """Whether a warning has said so."""
        self.plain_numbers = False
        """Whether numbers among the arguments are constants, since tracing with other ones failed."""
        self.plain_places = False
        """Whether all other numbers are constants, too."""
        self.last: Entry | None = None
        self.reasons: list[str] = []
        """Why it was traced again, in order."""

    def reset(self) -> None:
        """Forget all programs."""
        self.entries.clear()
        self.carried.clear()
        self.last, self.written, self.wasted = None, self._generates, 0

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        mode = MODES.bits & ~UNDER_JAX
        last = self.last
        stance = POLICY.stance
        if self.written or stance == "force_eager":
            self.counts["eager"] += 1
            return self.fn(*args, **kwargs)
        if MODES.traced and under_jax():  # part of something larger
            self.counts["eager"] += 1
            return self.fn(*args, **kwargs)
        if last is not None and not kwargs:
            if last.run_quickly is None or mode & INFERENCE:
                try:
                    with WRITE_LOCK:
                        try:
                            if last.takes(args, mode):
                                self.counts["run"] += 1
                                return last.run(args)
                        except BaseException:
                            last.undo_numbers()
                            raise
                except AsWritten as error:
                    return self._run_as_written(error)(*args)
            elif last.takes(args, mode):
                self.counts["run"] += 1
                return last.run_quickly(args)
        return self._call(args, kwargs, Entry.run)

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
        mode = MODES.bits & ~UNDER_JAX
        plainly = self.written or POLICY.stance == "force_eager" or (MODES.traced and under_jax())
        self.batches.add_all((args, kwargs))
        batches = Batches(args, kwargs, self.batches.__contains__)
        if plainly or mode & _OTHER_MODES:
            return run_all(lambda args, kwargs, run: self(*args, **kwargs), batches)

        def call(args: tuple[Any, ...], kwargs: dict[str, Any], run: Any) -> Any:
            out = self._call(args, kwargs, run)
            self.counts["run"] += out.count - 1 if isinstance(out, StepsDone) else 0
            return out

        return run_all(call, batches)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The program for these arguments, to be looked at: nothing is run, and nothing outside changes.

        Args:
            args, kwargs: as for a call.

        Returns:
            An object with `as_text()` (StableHLO), `optimized_text()` (HLO), `cost_analysis()`, `memory_analysis()`,
            `collectives()` and `compile()`; `backward` is the one of the backward pass, if the program has one.

        Raises:
            RuntimeError: if the function runs as it is written.

        Example:
            >>> import torchgrad_jax as torch
            >>> double = torch.compile(lambda x: x * 2)
            >>> double.lower(torch.ones(3)).cost_analysis()["flops"]
            3.0
        """
        counts = dict(self.counts)

        def look(entry: Entry, inputs: Any) -> Any:
            try:
                raise ProgramInspected(lowered(entry, inputs))
            finally:
                if entry.program.conditions.log is not None:
                    entry.program.conditions.log.restore()

        try:
            if not self.written:
                with _mode_of_program() as mode, WRITE_LOCK:
                    if mode is not None:
                        self._run_or_trace(args, kwargs, mode, look)
        except ProgramInspected as inspected:
            self.counts["run"] = counts["run"]
            return inspected.result
        why = self.reasons[-1] if self.reasons else "it is part of something larger"
        raise RuntimeError(f"torch.compile: there is no program to look at, the function runs as it is written: {why}")

    def explain(self) -> None:
        """Print what the programs of the function read, write, keep and check, and why it was traced again."""
        print(explanation(self, explain.place(self.fn)))  # noqa: T201 - asked for

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[Entry, Any], Any]) -> Any:
        """Find or make the program for these arguments, and `run` it."""
        ran = None
        if not self.written:
            with _mode_of_program() as mode:
                if mode is None:
                    self._note(_WATCHED)
                else:
                    try:
                        with WRITE_LOCK:
                            ran = self._run_or_trace(args, kwargs, mode, run)
                    except AsWritten as error:
                        return self._run_as_written(error)(*args, **kwargs)
        if ran is not None:
            return ran.result
        # Without the lock: this may take as long as it likes, and start threads.
        self.counts["eager"] += 1
        return self.fn(*args, **kwargs)

    def _run_or_trace(self, args: Any, kwargs: Any, mode: Any, run: Callable[[Entry, Any], Any]) -> Ran | None:
        """The result of a program kept for such arguments, or of a new one; None if there is to be none."""
        if self.written:  # as another thread has found out in the meantime
            return None
        call = Call.of(args, kwargs, mode, self.batches, plain_numbers=self.plain_numbers)
        entries = self.entries.get(call.key, ())
        reason = None if entries else ""
        clashing = []
        for entry in entries:
            try:
                reason = entry.why_stale(call.inputs)
                if reason is ONE_MEMORY:
                    clashing.append(entry)
                if reason is None:
                    if self.verification.is_due():
                        entry.undo_numbers()  # which are as after the run by now
                        if entry.reference is None:  # since the first run has failed
                            self._take_reference(entry, call)
                        elif self._is_stale(entry, call):
                            return None
                        entry.why_stale(call.inputs)
                    self.counts["run"] += 1
                    self.wasted = 0
                    self._used(call.key, entry)
                    self._remember(entry, args, kwargs, mode)
                    return Ran(self._run(entry, call, run))
            except BaseException:
                entry.undo_numbers()
                raise
        stance = POLICY.stance
        if stance == "fail_on_recompile":
            raise RuntimeError(recompile(self.fn))
        late = stance is not None and stance != "eager_on_recompile" and self.counts["eager"]
        if (stance is not None and not late) or any(t._m.device.type == "meta" for t in call.tensors):
            return None
        together = bool(clashing)
        if together and (any(map(_is_together, clashing)) or sum(map(_is_together, entries)) >= _PATIENCE):
            self._one_memory()
            return None
        plain = self.plain_numbers
        try:
            outcome = self._trace(call, reason, run, together=together)
            if isinstance(outcome, WithPlainNumbers):  # and with arrays that are no inputs any more
                return self._run_or_trace(args, kwargs, mode, run)
            return outcome
        except BaseException:
            # Inputs are not to blame where the function fails with constants as well.
            self.plain_numbers = plain
            raise

    def _run(self, entry: Entry, call: Call, run: Callable[[Entry, Any], Any]) -> Any:
        if not entry.program.returned.returns_given:
            return run(entry, call.inputs)
        entry.given = call.given
        try:
            return run(entry, call.inputs)
        finally:
            entry.given = None

    def _run_as_written(self, error: AsWritten) -> Callable[..., Any]:
        """The function itself, for a call for which its program was not run after all."""
        self.counts["run"] -= 1
        self.counts["eager"] += 1
        explain.not_run(self.fn, error)
        self._note(str(error))
        return self.fn

    def _one_memory(self) -> None:
        """The function runs as it is written: no program is right for these arguments."""
        if self.fullgraph:
            raise Unsupported(f"torch.compile: {ONE_MEMORY}")
        self._note(ONE_MEMORY)

    def _remember(self, entry: Entry, args: Any, kwargs: Any, mode: Any) -> None:
        """Let the next call try this entry first, where its arguments are plain tensors."""
        plain = isinstance(mode, int) and all(
            x.__class__ is Tensor and x._al is None and x._x is None and x._m.dense and not x.__dict__ for x in args
        )
        alone = len({id(x._st) for x in args}) == len(args) if plain else False
        if plain and alone and not kwargs and entry.program.only_reads_arguments and not self.verification.every:
            look_quickly(entry, mode, args)
            self.last = entry

    def _used(self, key: Any, entry: Entry) -> None:
        """Put the programs for a key behind all others, and this one behind them, since it is needed now."""
        used = self.entries.get(key)
        if used is None:
            return
        if used[-1] is not entry:
            self.entries[key] = used = [*[e for e in used if e is not entry], entry]
        if next(reversed(self.entries)) != key:
            try:
                del self.entries[key]
            finally:  # so that a signal loses no program
                self.entries[key] = used

    def _drop_oldest(self) -> None:
        """Forget the program whose kind of arguments has not come for longest."""
        oldest = next(iter(self.entries), None)
        programs = self.entries.get(oldest)
        if programs:
            self.evicted += 1
            if len(programs) > 1:
                self.entries[oldest] = programs[1:]
            else:
                del self.entries[oldest]
            del programs
            caches.KERNELS.program_dropped()

    def _trace(
        self, call: Call, reason: str | None, run: Callable[[Entry, Any], Any], *, together: bool
    ) -> Ran | WithPlainNumbers | None:
        """Trace the function until there is a program for the call, which has run, or it is clear that there is none.

        Args:
            call: the call.
            reason: why no kept program is the right one.
            run: what to do with the new one.
            together: whether an argument that the function also knows from elsewhere is one tensor.

        Returns:
            What the program gave; None if the function is to run as it is written; `WithPlainNumbers` if the arguments
            have to be read once more, since numbers and arrays among them are constants from here on.
        """
        once: list[Once] = []
        try:
            outcome = self._trace_until(call, Request(together=together), reason, run, once)
        except BaseException:
            for done in once:
                done.undo()
            raise
        if not isinstance(outcome, Ran):
            for done in once:
                done.undo()
        return outcome

    def _trace_until(
        self, call: Call, request: Request, reason: str | None, run: Callable[[Entry, Any], Any], once: list[Once]
    ) -> Ran | WithPlainNumbers | None:
        """See `_trace`; `once` gets what the function does only in its first call, and is done by now."""
        for _ in range(_MOST_TRACES):
            outcome = self._attempt(call, request, reason, run)
            if isinstance(outcome, Ran):
                return outcome
            if isinstance(outcome, AsIs):
                if outcome.once is not None and outcome.once.is_new(once):
                    once.append(outcome.once)
                    outcome.once.do()
                    request = request._replace(done=tuple(once))
                    continue
                self._take_as_it_is(outcome)
                return None
            if isinstance(outcome, Again):
                request = outcome.request._replace(done=tuple(once))
                continue
            if self.plain_places:
                self._not_traced("it asks for the type of a number that is followed")
                return None
            reads_arrays = not self.plain_numbers and any(map(is_array_input, call.flat))
            self.plain_places, self.plain_numbers = self.plain_numbers, True
            explain.plain_numbers(self.fn, outcome.cause)
            if reads_arrays:
                return outcome
        self._not_traced("it changes other numbers in each trace")
        return None

    def _attempt(self, call: Call, request: Request, reason: str | None, run: Callable[[Entry, Any], Any]) -> Outcome:
        """Trace the function once; if nothing speaks against its program, keep that and run it."""
        if self.counts["traced"]:
            why = reason or "arguments of other shapes, dtypes, flags or values"
            self.reasons.append(why)
            explain.traced_again(self.fn, why)
        for entry in self.entries.get(call.key, ()):  # numbers that were changed from outside may change again
            self._carry(entry.program.conditions.guards.drifted_numbers())
        try:
            attempt = self._begin(call, request)
        except NeedsPlainNumbers:
            return WithPlainNumbers()
        watch, numbers, entry = attempt.watch, attempt.numbers, None
        program = None
        try:
            with watch:
                program = attempt.trace()
                outcome = self._of_what_it_reaches(program, watch, call, request)
            outcome = outcome or self._of_what_it_left(program, watch, numbers)
            if outcome is None:
                entry = Entry(program, watch.switches)
                outcome = self._run_first(entry, call, reason, run, stands_in=attempt.stands_in)
        except BaseException as error:
            outcome = self._of_error(error, traced=program is not None, takes_numbers=numbers.reads_arguments())
            if outcome is None:
                self._undo(entry, watch, numbers)
                raise
        if isinstance(outcome, AsIs):
            self._undo_trace(outcome, entry, watch, numbers)
        elif not isinstance(outcome, Ran):
            self._undo(entry, watch, numbers)
        return outcome

    def _begin(self, call: Call, request: Request) -> _Attempt:
        """What is needed to trace the function for a call; nothing has run yet."""
        given, known_twice = _with_stand_ins(call.given, request.stand_ins)
        tensors = [known_twice.get(id(t), t) for t in call.tensors]
        fn, is_batch = self._under_autocast(call), self.batches.__contains__
        watch = PythonWatch(fn, call.given, call.flat, is_batch)
        watch.done = request.done
        arguments = NumberArguments(given, call.flat, call.tensors, self.plain_numbers, is_batch)
        numbers = watch.log_numbers(arguments, () if self.plain_places else self.carried.values())
        name = functools.partial(explain.argument, self.fn, call.key[1])

        def trace() -> Program:
            kept = arguments.constants_of_key
            return build_program(fn, kept, watch, tensors, numbers, given, checked=self.checks, name=name)

        return _Attempt(watch, numbers, bool(known_twice), trace)

    def _under_autocast(self, call: Call) -> Callable[..., Any]:
        mode = call.key[0]
        return self.fn if isinstance(mode, int) else under_autocast(self.fn, *mode[1:])

    def _of_what_it_reaches(self, program: Program, watch: PythonWatch, call: Call, request: Request) -> Outcome | None:
        """What follows from the tensors and containers that the function was seen to reach."""
        if call.numbers and watch.reaches_arguments() and not self.plain_numbers:
            return WithPlainNumbers()
        if (unknown := program.unknown_tensor(watch)) is not None:
            shape = tuple(unknown.shape)
            return AsIs(AsWritten(f"it takes a tensor {shape} that nothing which it reads leads to", lasting=False))
        reached = watch.guards.reached_tensors
        twice = {id(t): t for t in call.tensors if id(t) in reached}
        if twice and not (request.together or request.stand_ins or watch.guards.compares_identity):
            return Again(request._replace(stand_ins=twice))
        return None

    def _of_what_it_left(self, program: Program, watch: PythonWatch, numbers: NumberLog) -> Outcome | None:
        """What follows from what the function has put where others see it."""
        if numbers.is_held():  # where nobody can put a plain number in its place
            if numbers.reads_arguments():
                return WithPlainNumbers()
            self.wasted += 1
            return AsIs(AsWritten(_HELD_NUMBER, lasting=self.wasted > _PATIENCE))
        effect = watch.describe_effect(program.traced, numbers)
        if effect is None:
            return None
        drifted = watch.guards.drifted_numbers()
        new = [place for place in drifted if place_of(*place) not in self.carried]
        self._carry(drifted)
        return Again(Request()) if new else AsIs(AsWritten(effect, lasting=False), once=watch.once)

    def _run_first(
        self, entry: Entry, call: Call, reason: str | None, run: Callable[[Entry, Any], Any], *, stands_in: bool
    ) -> Outcome:
        """Keep a new program, and run it; `stands_in` if it was traced with other tensors for some arguments."""
        self._keep(call.key, entry, reason)
        if entry.program.conditions.apart.clash(
            entry.program.arguments(call.inputs)
        ):  # arguments share memory with what it knows from elsewhere
            self._forget(entry)
            self.counts["run"] -= 1
            if self.fullgraph and stands_in:
                return Again(Request(together=True))
            self._one_memory()
            return AsIs(AsWritten(ONE_MEMORY, lasting=False), of_these_arguments=True)
        ran = Ran(self._run(entry, call, run))
        caches.KERNELS.program()
        if self.verification.every:
            self._take_reference(entry, call)
        if self.wasted > _PATIENCE:
            self._give_up(reason or "it makes tensors that are kept outside, new ones in each call")
        return ran

    def _of_error(self, error: BaseException, *, traced: bool, takes_numbers: bool) -> AsIs | WithPlainNumbers | None:
        """What follows from what was raised; None if it is the user's.

        Args:
            error: what was raised.
            traced: whether there is a program.
            takes_numbers: whether numbers or arrays among the arguments are inputs, which may be what it failed for.
        """
        lenient = (POLICY.suppress_errors or POLICY.graph_breaks) and not self.fullgraph
        if isinstance(error, AsWritten):
            return AsIs(error, once=Once(imports=error.imports) if error.imports else None)
        if lenient and isinstance(error, Unsupported):
            return AsIs(error)
        if isinstance(error, NeedsPlainNumbers):
            return WithPlainNumbers()
        if not traced and takes_numbers and isinstance(error, Exception):
            return WithPlainNumbers(error)
        return None

    def _undo(self, entry: Entry | None, watch: PythonWatch, numbers: NumberLog) -> None:
        """After an error, or before another trace: everything is as it was before the call."""
        if entry is None or not entry.has_run:
            surely(numbers.restore)
            self._forget(entry)
            surely(watch.undo_call)

    def _undo_trace(self, outcome: AsIs, entry: Entry | None, watch: PythonWatch, numbers: NumberLog) -> None:
        """Before the function runs as it is written: nobody may see an effect of it twice."""
        if entry is None or not entry.has_run:
            surely(numbers.restore)
        left = watch.undo_trace()
        if left is not None:
            why = outcome.why
            raise Unsupported(f"{why} (and {left})") if isinstance(why, AsWritten) else why

    def _take_reference(self, entry: Entry, call: Call) -> None:
        """Keep what a second trace gives, which finds what the first one has made, such as constants.

        Where that is no program, or raises what the next call would, the next call is one to be traced anew.
        """
        try:
            entry.reference = self.traced_again(call, _request_of(entry))
        except (AsWritten, Exception):
            self.entries[call.key] = [kept for kept in self.entries.get(call.key, ()) if kept is not entry]

    def _is_stale(self, entry: Entry, call: Call) -> bool:
        """Whether the function is to run as it is written, since its program is stale, or nobody can tell.

        Raises:
            StaleProgramError: if it is stale, and that is to be an error.
        """
        try:
            fresh = self.traced_again(call, _request_of(entry))
        except AsWritten as error:
            if not error.was_seen:  # such as a view that no program can return, of these arguments: nothing is known
                return True
            difference: str | None = f"it cannot be traced any more: {error}"
        else:  # the second trace had what the first one made, and what its run has left
            assert entry.reference is not None
            difference = describe_difference(entry.reference, fresh) and describe_difference(entry.program, fresh)
        if difference is None:
            return False
        text = f"torch.compile: the program of {explain.place(self.fn)} is stale: {difference}"
        if not self.verification.warns:
            raise StaleProgramError(text)
        explain.stale(text)
        return True

    def traced_again(self, call: Call, request: Request) -> Program:
        """The program that another trace gives, which is not run; what the trace did is undone."""
        attempt = self._begin(call, request)
        try:
            with attempt.watch:
                program = attempt.trace()
                outcome = self._of_what_it_reaches(program, attempt.watch, call, request)
        finally:
            surely(attempt.numbers.restore)
            surely(attempt.watch.undo_call)
        return self.traced_again(call, outcome.request) if isinstance(outcome, Again) else program

    def _carry(self, places: Iterable[tuple[Any, Any]]) -> None:
        """Remember the places of numbers that the function changes."""
        self.carried.update({place_of(*place): place for place in places})

    def _not_traced(self, why: str) -> None:
        """The function runs as it is written, now and from now on."""
        if self.fullgraph:
            raise Unsupported(f"torch.compile: {why}")
        self.written = True
        self.reasons.append(why)
        explain.never_compiled(self.fn, why)

    def _keep(self, key: Any, entry: Entry, reason: str | None) -> None:
        """Keep a program for later calls, unless it made state that the next call finds there."""
        if self.counts["run"] > self._run_before:  # programs were of use since
            self.wasted = 0
        self.counts["traced"] += 1
        self.counts["run"] += 1
        self._run_before = self.counts["run"]
        traced = entry.program.traced
        self.wasted = self.wasted + 1 if traced.new_state or isinstance(reason, OftenAnew) else 0
        # What made state, or changed what it depends on, does other things the next time.
        if not (traced.new_state or traced.state_seen):
            if sum(map(len, self.entries.values())) >= (self.limit or POLICY.recompile_limit):
                self._tell_limit(key, entry)
                self._drop_oldest()
            self.entries.setdefault(key, []).append(entry)
            self._used(key, entry)

    def _tell_limit(self, key: Any, newest: Entry) -> None:
        """Say once that programs are forgotten to make room, and which arguments came in so many kinds."""
        if not self.limit_told:
            self.limit_told = True
            limit = self.limit or POLICY.recompile_limit
            kept = [(key, entry) for key, entries in self.entries.items() for entry in entries]
            keys = [
                explain.with_constants(k, entry.program.conditions.constants) for k, entry in [*kept, (key, newest)]
            ]
            explain.limit_reached(self.fn, limit, keys)

    def _forget(self, entry: Entry | None) -> None:
        """Drop a program that did not run once, and the state with it that was made for it."""
        if entry is not None and entry.program.traced.started_optimizers:
            for key, kept in list(self.entries.items()):
                self.entries[key] = [e for e in kept if e is not entry]

    def _wasted(self, why: Any) -> None:
        """A trace gave no program. If that goes on, there is no use in compiling the function."""
        if self.counts["run"] > self._run_before:  # programs were of use since
            self.wasted = 0
        self._run_before = self.counts["run"]
        self.wasted += 1
        self._note(str(why))
        if self.wasted > (_PATIENCE_OF_FULLGRAPH if self.fullgraph else _PATIENCE):
            if self.fullgraph:
                raise Unsupported(f"torch.compile: {why}")
            self._give_up(why)

    def _note(self, why: str) -> None:
        """Note why the function ran as it is written, once."""
        if why not in self.reasons:
            self.reasons.append(why)

    def _give_up(self, why: Any) -> None:
        """Run the function as it is written from now on, and say so once."""
        self.written = True
        self.reasons.append(f"from now on it runs as it is written: {why}")
        explain.given_up(self.fn, why)

    def _take_as_it_is(self, outcome: AsIs) -> None:
        """Note that the function runs as it is written, and for how long."""
        why = outcome.why
        if not isinstance(why, AsWritten):
            self._always_as_it_is(why)
            explain.unsupported(self.fn, why)
        elif why.lasting:
            if self.fullgraph:
                raise Unsupported(f"torch.compile: {why}")
            self._always_as_it_is(why)
            explain.never_compiled(self.fn, why)
        elif not outcome.of_these_arguments:
            self._wasted(why)

    def _always_as_it_is(self, why: BaseException) -> None:
        self.written = True
        self.reasons.append(str(why))


class _Attempt(NamedTuple):
    """A trace that is about to begin."""

    watch: PythonWatch
    numbers: NumberLog
    stands_in: bool
    """Whether it is given other tensors for some arguments."""
    trace: Callable[[], Program]
    """Traces the function."""


@contextlib.contextmanager
def _mode_of_program() -> Iterator[Any]:
    """What a program is made for: the bits of the modes, and what autocast casts; None if there is to be none.

    Within it autocast is off: what was traced runs as it is.
    """
    mode = MODES.bits & ~UNDER_JAX
    if not mode & _OTHER_MODES:
        yield mode
    elif mode & _OTHER_MODES == FUNCTION_MODE:
        with autocast_off() as around:
            yield None if around is None else (MODES.bits & ~UNDER_JAX, *around)
    else:
        yield None


def _request_of(entry: Entry) -> Request:
    """How a program was traced."""
    return Request(together=_is_together(entry))


def _is_together(entry: Entry) -> bool:
    """Whether an argument that the function also knows from elsewhere is one tensor in a program."""
    return bool(entry.program.conditions.apart.fixed)


def _with_stand_ins(given: Any, reached: Any) -> tuple[Any, dict[int, Tensor]]:
    """The arguments, with others in the place of tensors that the function also knows from elsewhere; and those."""
    if not reached:
        return given, {}
    args, kwargs = given
    known_twice = {id(x): stand_in(x) for x in (*args, *kwargs.values()) if id(x) in reached}
    args = tuple([known_twice.get(id(x), x) for x in args])
    return (args, {name: known_twice.get(id(x), x) for name, x in kwargs.items()}), known_twice


_HELD_NUMBER = (
    "a number that is another one in each call is put into an object that the function makes, "
    "into a closure or into a cache"
)
_MOST_TRACES = 6
_WATCHED = (
    "it runs as part of something that sees each operation: a transform, forward mode, anomaly checks, a profiler, "
    "hooks of saved tensors (as in a checkpoint), or a mode for functions or dispatch"
)
_PATIENCE = 3
"""After how many programs of no further use a function is no longer compiled."""
_PATIENCE_OF_FULLGRAPH = 1
"""The same where it must not run as it is written; what only its first call did, such as an import, is none of it."""
