"""A compiled function: the programs that it keeps, which of them is right for a call, and how a new one is traced."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, NoReturn

import jax
import numpy as np

from ..._core.errors.messages import AsWritten, Unsupported
from ..._core.jax import caches
from ..._core.state import DUAL, FUNCTION_MODE, INFERENCE, LIFT, MODES, OBSERVED, PACKING, TRACED, WRITE_LOCK
from ..._engine.graph.history import requires_grad_of
from ..._engine.memory.derivative_stops import under_jax
from ..._engine.memory.tensor import Tensor
from .inspection import Lowered, ProgramInspected, explanation, lowered
from .many_steps import Batches, StepsDone, run_all
from .program.donation import surely
from .program.entry import OFTEN_ANEW, Entry
from .program.quick_look import look_quickly
from .trace.apart import ONE_MEMORY, stand_in
from .trace.python_watch import PythonWatch
from .verification import StaleProgramError, Verification, describe_difference
from .watch import explain, object_trees
from .watch.array_arguments import is_array_input, tensor_for
from .watch.function_modes import autocast_off, under_autocast
from .watch.keys import recompile, shape_of, shared_with
from .watch.number_arguments import NeedsPlainNumbers, NumberArguments, is_input
from .watch.number_log import CHANGED_NUMBER_DECIDES, NumberLog
from .watch.places import PLAIN_VALUES, place_of
from .watch.reads import NumbersNeeded
from .watch.stance import POLICY


class Request(NamedTuple):
    """How a function is to be traced."""

    together: bool = False
    """Whether an argument that it also knows from elsewhere is one tensor; it is right for no other argument then."""
    stand_ins: dict[int, Tensor] = {}
    """Arguments that it also knows from elsewhere, for which others are given to it."""


class _Again(BaseException):
    """The function has to be traced in another way."""

    def __init__(self, request: Request) -> None:
        super().__init__()
        self.request = request


class NeedsOneTensor(Exception):
    """An argument that the function also knows from elsewhere has to be one tensor for the program."""


_OTHER_MODES = LIFT | DUAL | OBSERVED | PACKING | FUNCTION_MODE


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
        mode = MODES.bits & ~TRACED
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
        mode = MODES.bits & ~TRACED
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
                if entry.log is not None:
                    entry.log.restore()

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
        out = _AS_WRITTEN
        if not self.written:
            with _mode_of_program() as mode:
                if mode is not None:  # else it is part of something larger, or watched
                    try:
                        with WRITE_LOCK:
                            out = self._run_or_trace(args, kwargs, mode, run)
                    except AsWritten as error:
                        return self._run_as_written(error)(*args, **kwargs)
        if out is not _AS_WRITTEN:
            return out
        # Without the lock: this may take as long as it likes, and start threads.
        self.counts["eager"] += 1
        return self.fn(*args, **kwargs)

    def _run_or_trace(self, args: Any, kwargs: Any, mode: Any, run: Callable[[Entry, Any], Any]) -> Any:
        """The result of a program kept for such arguments, or of a new one; `_AS_WRITTEN` if there is to be none."""
        if self.written:  # as another thread has found out in the meantime
            return _AS_WRITTEN
        flat, spec = object_trees.flatten((args, kwargs), self.batches.__contains__)
        tensors: list[Tensor] = []
        numbers: list[Any] = []
        key: list[Any] = [mode, shape_of(spec)]
        for x in flat:
            if isinstance(x, Tensor):
                key.append((x.__class__, x._m, x._rg or requires_grad_of(x), shared_with(tensors, x)))
                if x.__dict__:
                    key.append(_attributes(x))
                tensors.append(x)
            elif is_input(x):
                key.append((x.__class__,))
                numbers.append(x)
            elif isinstance(x, float):
                key.append((x.__class__, float(x).hex()))  # 0.0 and -0.0 are two numbers
            elif isinstance(x, PLAIN_VALUES):
                key.append((x.__class__, x))
            elif isinstance(x, np.ndarray | np.generic):  # constants of the program
                key.append((x.dtype, x.shape, x.tobytes()))
            elif not self.plain_numbers and is_array_input(x):
                key.append((jax.Array, jax.typeof(x)))
                tensors.append(tensor_for(x, flat))
            elif self.batches.comes_anew(x):
                return self._run_or_trace(args, kwargs, mode, run)
            else:
                key.append(id(x))
        whole = tuple(key)
        inputs = tensors + numbers if numbers else tensors
        entries = self.entries.get(whole)
        reason = "" if entries is None else None
        clashing = []
        for entry in entries or ():
            try:
                reason = entry.why_stale(inputs)
                if reason is ONE_MEMORY:
                    clashing.append(entry)
                if reason is None:
                    if self.verification.is_due() and self._is_stale(whole, entry, (args, kwargs), flat, tensors):
                        return _AS_WRITTEN
                    self.counts["run"] += 1
                    self.wasted = 0
                    self._used(whole, entry)
                    self._remember(entry, args, kwargs, mode)
                    return self._run(entry, inputs, (args, kwargs), run)
            except BaseException:
                entry.undo_numbers()
                raise
        stance = POLICY.stance
        if stance == "fail_on_recompile":
            raise RuntimeError(recompile(self.fn))
        late = stance is not None and stance != "eager_on_recompile" and self.counts["eager"]
        if (stance is not None and not late) or any(t._m.device.type == "meta" for t in tensors):
            return _AS_WRITTEN
        together = bool(clashing)
        if together and (
            any(e.apart.fixed for e in clashing) or sum(bool(e.apart.fixed) for e in entries or ()) >= _PATIENCE
        ):
            return self._one_memory()
        plain = self.plain_numbers
        try:
            try:
                return self._trace(whole, (args, kwargs), flat, tensors, reason, run, together=together)
            except NeedsPlainNumbers:
                if plain or not any(map(is_array_input, flat)):
                    raise
            return self._run_or_trace(args, kwargs, mode, run)
        except BaseException:
            # Inputs are not to blame where the function fails with constants as well.
            self.plain_numbers = plain
            raise

    def _run(self, entry: Entry, inputs: Any, given: Any, run: Callable[[Entry, Any], Any]) -> Any:
        if not entry.returns_given:
            return run(entry, inputs)
        entry.given = given
        try:
            return run(entry, inputs)
        finally:
            entry.given = None

    def _run_as_written(self, error: AsWritten) -> Callable[..., Any]:
        """The function itself, for a call for which its program was not run after all."""
        self.counts["run"] -= 1
        self.counts["eager"] += 1
        explain.not_run(self.fn, error)
        if str(error) not in self.reasons:
            self.reasons.append(str(error))
        return self.fn

    def _one_memory(self) -> Any:
        """Let the function run as it is written: no program is right for these arguments."""
        if self.fullgraph:
            raise Unsupported(f"torch.compile: {ONE_MEMORY}")
        if ONE_MEMORY not in self.reasons:
            self.reasons.append(ONE_MEMORY)
        return _AS_WRITTEN

    def _remember(self, entry: Entry, args: Any, kwargs: Any, mode: Any) -> None:
        """Let the next call try this entry first, where its arguments are plain tensors."""
        plain = isinstance(mode, int) and all(
            x.__class__ is Tensor and x._al is None and x._x is None and x._m.dense and not x.__dict__ for x in args
        )
        alone = len({id(x._st) for x in args}) == len(args) if plain else False
        if plain and alone and not kwargs and entry.only_reads_arguments and not self.verification.every:
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
        self, key: Any, given: Any, flat: list[Any], tensors: list[Tensor], reason: Any, run: Any, *, together: bool
    ) -> Any:
        request = Request(together=together)
        for _ in range(_MOST_TRACES):
            try:
                return self._trace_once(key, given, flat, tensors, reason, run, request)
            except NeedsOneTensor:
                request = Request(together=True)
            except _Again as again:
                request = again.request._replace(together=request.together)
            except NeedsPlainNumbers as error:
                if self.plain_places:
                    return self._not_traced("it asks for the type of a number that is followed")
                self.plain_places = self.plain_numbers
                self.plain_numbers = True
                explain.plain_numbers(self.fn, error.__cause__)
                if any(map(is_array_input, flat)):  # which are then no inputs either
                    raise
        return self._not_traced("it changes other numbers in each trace")

    def _trace_once(
        self, key: Any, given: Any, flat: list[Any], tensors: list[Tensor], reason: Any, run: Any, request: Request
    ) -> Any:
        """Trace the function, keep the program and run it.

        Args:
            key, given, flat, tensors: the kind of the arguments, they themselves, their leaves, the tensors of these.
            reason: why no kept program is the right one.
            run: what to do with the new one.
            request: how it is to be traced.
        """
        known = sum(map(len, self.entries.values()))
        if self.counts["traced"]:
            why = reason or "arguments of other shapes, dtypes, flags or values"
            self.reasons.append(why)
            explain.traced_again(self.fn, why)
        fn = self.fn if isinstance(key[0], int) else under_autocast(self.fn, *key[0][1:])
        watch = PythonWatch(fn, given, flat, self.batches.__contains__)
        # Numbers that were changed from outside may change again.
        for entry in self.entries.get(key, ()):
            self._carry(entry.python_guards.drifted_numbers())
        known_twice: dict[int, Tensor] = {}
        if request.stand_ins:
            given, known_twice = _with_stand_ins(given, request.stand_ins)
        traced = [known_twice.get(id(t), t) for t in tensors]
        arguments = NumberArguments(given, flat, tensors, self.plain_numbers, self.batches.__contains__)
        numbers = watch.log_numbers(arguments, () if self.plain_places else self.carried.values())
        lenient = (POLICY.suppress_errors or POLICY.graph_breaks) and not self.fullgraph
        entry: Entry | None = None
        try:
            with watch:
                entry = Entry(
                    fn,
                    arguments.constants_of_key,
                    watch,
                    traced,
                    numbers,
                    self.checks,
                    lambda i: explain.argument(self.fn, key[1], i),
                    given,
                )
                self._refuse_unseen(entry, watch, tensors, request, bool(arguments.values))
            if numbers.is_held():
                self._refuse_held_number(numbers)
            effect = watch.describe_effect(entry.program, numbers)
            if effect:
                self._refuse_effect(effect, watch, numbers)
            if watch.switches:
                entry.switches, entry.run_quickly = watch.switches, None
            self._keep(key, entry, reason, known)
            inputs = [*tensors, *arguments.values]
            if entry.apart.clash(entry.arguments(inputs)):
                self._refuse_one_memory(entry, bool(known_twice))
            out = self._run(entry, inputs, given, run)
            caches.KERNELS.program()
            if self.verification.every:  # a second trace finds what the first one has made, such as constants
                entry.reference = self.traced_again(key, given, flat, tensors)
        except BaseException as error:
            failed = error
            ran = entry is not None and entry.has_run
            if not ran:
                surely(numbers.restore)
            runs_as_written = isinstance(error, AsWritten) or (lenient and isinstance(error, Unsupported))
            if not runs_as_written:
                if not ran:
                    self._forget(entry)
                    surely(watch.undo_call)
                if isinstance(error, NumbersNeeded):
                    raise NeedsPlainNumbers from None
                if entry is None and numbers.reads_arguments() and isinstance(error, Exception):
                    raise NeedsPlainNumbers from error
                raise
        else:
            if self.wasted > _PATIENCE:
                self._give_up(reason or "it makes tensors that are kept outside, new ones in each call")
            return out
        return self._as_written(failed, watch)

    def _is_stale(self, key: Any, entry: Entry, given: Any, flat: list[Any], tensors: list[Tensor]) -> bool:
        """Whether the function no longer does what its program does, where that is to be a warning."""
        try:
            difference = describe_difference(entry.reference, self.traced_again(key, given, flat, tensors))
        except AsWritten as error:
            difference = f"it cannot be traced any more: {error}"
        if difference is None:
            return False
        text = f"torch.compile: the program of {explain.place(self.fn)} is stale: {difference}"
        if not self.verification.warns:
            raise StaleProgramError(text)
        explain.stale(text)
        return True

    def traced_again(self, key: Any, given: Any, flat: list[Any], tensors: list[Tensor]) -> Entry:
        """The program that another trace gives, which is not run; what the trace did is undone."""
        fn = self.fn if isinstance(key[0], int) else under_autocast(self.fn, *key[0][1:])
        watch = PythonWatch(fn, given, flat, self.batches.__contains__)
        arguments = NumberArguments(given, flat, tensors, self.plain_numbers, self.batches.__contains__)
        numbers = watch.log_numbers(arguments, self.carried.values())
        try:
            with watch:
                return Entry(fn, arguments.constants_of_key, watch, tensors, numbers, self.checks, str, given)
        finally:
            surely(numbers.restore)
            surely(watch.undo_call)

    def _refuse_unseen(
        self, entry: Entry, watch: PythonWatch, tensors: list[Tensor], request: Any, numbers: bool
    ) -> None:
        """What was reached besides may need another trace; a tensor that nothing leads to makes it run as written."""
        if numbers and watch.reaches_arguments() and not self.plain_numbers:
            raise NeedsPlainNumbers
        reached = watch.guards.reached_tensors
        twice = {id(t): t for t in tensors if id(t) in reached}
        if (unknown := entry.unknown_tensor(watch)) is not None:
            raise AsWritten(
                f"it takes a tensor {tuple(unknown.shape)} that nothing which it reads leads to", lasting=False
            )
        if twice and not (request.together or request.stand_ins or watch.guards.compares_identity):
            raise _Again(Request(stand_ins=twice))

    def _refuse_effect(self, effect: str, watch: PythonWatch, numbers: NumberLog) -> NoReturn:
        """The function did in Python what a program does not repeat: it is undone, and the function runs as written."""
        drifted = watch.guards.drifted_numbers()
        new = [place for place in drifted if place_of(*place) not in self.carried]
        self._carry(drifted)
        if new:
            raise _Again(Request())
        raise AsWritten(effect, lasting=False)

    def _carry(self, places: Iterable[tuple[Any, Any]]) -> None:
        """Remember the places of numbers that the function changes."""
        self.carried.update({place_of(*place): place for place in places})

    def _refuse_one_memory(self, entry: Entry, known_twice: bool) -> NoReturn:
        """Arguments share memory with what the function knows from elsewhere: its new program cannot run."""
        self._forget(entry)
        self.counts["run"] -= 1
        if self.fullgraph and known_twice:
            raise NeedsOneTensor
        self._one_memory()
        raise AsWritten(ONE_MEMORY, lasting=False)

    def _refuse_held_number(self, numbers: NumberLog) -> NoReturn:
        """The function has put a number of the trace where nobody can put a plain one in its place."""
        if numbers.reads_arguments():
            raise NeedsPlainNumbers
        self.wasted += 1
        raise AsWritten(_HELD_NUMBER, lasting=self.wasted > _PATIENCE)

    def _not_traced(self, why: str) -> Any:
        """Let the function run as it is written, now and from now on."""
        if self.fullgraph:
            raise Unsupported(f"torch.compile: {why}")
        self.written = True
        self.reasons.append(why)
        explain.never_compiled(self.fn, why)
        return _AS_WRITTEN

    def _keep(self, key: Any, entry: Entry, reason: Any, known: int) -> None:
        """Keep a program for later calls, unless it made state that the next call finds there."""
        if self.counts["run"] > self._run_before:  # programs were of use since
            self.wasted = 0
        self.counts["traced"] += 1
        self.counts["run"] += 1
        self._run_before = self.counts["run"]
        wasted = entry.program.new_state or reason in OFTEN_ANEW or (reason or "").startswith(CHANGED_NUMBER_DECIDES)
        self.wasted = self.wasted + 1 if wasted else 0
        # What made state, or changed what it depends on, does other things the next time.
        if not (entry.program.new_state or entry.program.state_seen):
            if known >= (self.limit or POLICY.recompile_limit):
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
            keys = [explain.with_constants(k, entry.constants) for k, entry in [*kept, (key, newest)]]
            explain.limit_reached(self.fn, limit, keys)

    def _forget(self, entry: Entry | None) -> None:
        """Drop a program that did not run once, and the state with it that was made for it."""
        if entry is not None and entry.program.started_optimizers:
            for key, kept in list(self.entries.items()):
                self.entries[key] = [e for e in kept if e is not entry]

    def _wasted(self, why: Any) -> None:
        """A trace gave no program. If that goes on, there is no use in compiling the function."""
        if self.counts["run"] > self._run_before:  # programs were of use since
            self.wasted = 0
        self._run_before = self.counts["run"]
        self.wasted += 1
        if str(why) not in self.reasons:
            self.reasons.append(str(why))
        if self.wasted > _PATIENCE:
            if self.fullgraph:
                raise Unsupported(f"torch.compile: {why}")
            self._give_up(why)

    def _give_up(self, why: Any) -> None:
        """Run the function as it is written from now on, and say so once."""
        self.written = True
        self.reasons.append(f"from now on it runs as it is written: {why}")
        explain.given_up(self.fn, why)

    def _as_written(self, error: BaseException, watch: PythonWatch) -> Any:
        """Let the function run as it is written, once all that the attempt to trace it has done is undone."""
        left = watch.undo_trace()
        if left is not None:  # nobody may see an effect twice
            raise Unsupported(f"{error} (and {left})") if isinstance(error, AsWritten) else error
        if self.fullgraph and isinstance(error, AsWritten) and error.lasting:
            raise Unsupported(f"torch.compile: {error}")
        if not isinstance(error, AsWritten) or error.lasting:
            self.written = True
            self.reasons.append(str(error))
        elif str(error) != ONE_MEMORY:
            self._wasted(error)
        if not isinstance(error, AsWritten):
            explain.unsupported(self.fn, error)
        elif error.lasting:
            explain.never_compiled(self.fn, error)
        return _AS_WRITTEN


def _attributes(x: Tensor) -> Any:
    """What a program takes for granted of the attributes that the user gave a tensor: plain ones by their values."""
    held = x.__dict__
    if all(isinstance(v, PLAIN_VALUES) for v in held.values()):
        return tuple([(name, v.__class__, repr(v)) for name, v in sorted(held.items())])
    return id(x)


@contextlib.contextmanager
def _mode_of_program() -> Iterator[Any]:
    """What a program is made for: the bits of the modes, and what autocast casts; None if there is to be none.

    Within it autocast is off: what was traced runs as it is.
    """
    mode = MODES.bits & ~TRACED
    if not mode & _OTHER_MODES:
        yield mode
    elif mode & _OTHER_MODES == FUNCTION_MODE:
        with autocast_off() as around:
            yield None if around is None else (MODES.bits & ~TRACED, *around)
    else:
        yield None


def _with_stand_ins(given: Any, reached: Any) -> tuple[Any, dict[int, Tensor]]:
    """The arguments, with others in the place of tensors that the function also knows from elsewhere; and those."""
    args, kwargs = given
    known_twice = {id(x): stand_in(x) for x in (*args, *kwargs.values()) if id(x) in reached}
    args = tuple([known_twice.get(id(x), x) for x in args])
    return (args, {name: known_twice.get(id(x), x) for name, x in kwargs.items()}), known_twice


_HELD_NUMBER = (
    "a number that is another one in each call is put into an object that the function makes, "
    "into a closure or into a cache"
)
_AS_WRITTEN = object()
"""Stands for a result where the function is to run as it is written."""
_MOST_TRACES = 6
_PATIENCE = 3
"""After how many programs of no further use a function is no longer compiled."""
