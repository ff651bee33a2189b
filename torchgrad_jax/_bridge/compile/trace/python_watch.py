"""What one trace of a function reads and changes in Python, so that it can be checked again or undone.

`compile` makes a `PythonWatch` for each trace. Inside of ``with watch:`` the function runs; afterwards the watch says
what the function did that only its own code can do again, and can put back what it changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax

from ...._core.arrays.python_numbers import form_of
from ...._core.errors.messages import AsWritten
from ...._core.python_objects import parts_of
from ...._core.signals import uninterrupted
from ...._core.state import MODES, UNDER_JAX, WINDOWS
from ...._engine.memory.tensor import Tensor
from ..arguments.changed_numbers import drifted_numbers, put_plain_numbers, take_scalars
from ..arguments.number_arguments import NumberArguments
from ..arguments.number_log import NumberLog, numbers_of, tensors_of_options
from ..arguments.object_trees import containers_of
from ..watch.facts import Place, Scalar
from ..watch.guards import PythonGuards
from ..watch.observer import CALLER, Observer
from ..watch.places import Attributes
from .first_calls import Once, is_of_no_trace
from .traced_program import TracedProgram

_SWITCHES = (bool, str, type(None))
"""Plain values that are no numbers: a program that was traced for one of them sets the same one in each run."""


class PythonWatch:
    """Python's state around one trace of a function.

    Args:
        fn: the function.
        given: its arguments.
        flat: the leaves of these.
        is_object: whether an argument is an object that is a container.
    """

    def __init__(
        self, fn: Callable[..., Any], given: Any, flat: Sequence[Any], is_object: Callable[[Any], bool]
    ) -> None:
        self.guards = PythonGuards(containers_of(given, is_object))
        """What the function has read of Python's state, containers among its arguments included."""
        self.observer = Observer()
        self._fn, self._flat, self.is_object = fn, flat, is_object
        self.guards.are_there([fn, *flat])
        self._modes = MODES.bits & ~(UNDER_JAX | WINDOWS)
        self._log: NumberLog | None = None
        self._taken = 0
        self._settled = False
        self.forms: list[Tensor] = []
        self.flags: list[Tensor] = []
        self.switches: list[tuple[Any, Any, Any]] = []
        """Flags and the like that the function sets, and all that it changes in Python: (holder, key, value)."""
        self.done: Sequence[Once] = ()
        """What an earlier trace for this call has done, and this one found done."""
        self.once: Once | None = None
        """What it did that later calls may find done, where that is all that it did."""

    def knows(self, x: Any) -> bool:
        """Return whether an object was there before the trace."""
        return self.observer.ages.was_there(x, {id(x)} if self.guards.was_there(x) else ())

    def log_numbers(self, arguments: NumberArguments, carried: Iterable[Scalar]) -> NumberLog:
        """The log of the numbers that the function changes; it was seen to change those that are `carried`."""
        there = [place for place in carried if form_of(place.of.get(place.key, None)) is not None]
        self._log = NumberLog([Scalar(place.of, place.key) for place in there], arguments)
        self.observer.reads.found_optimizer = self._follow
        return self._log

    def _follow(self, x: Any) -> None:
        """An optimizer or a schedule is about to be looked at: its numbers are followed from here on."""
        assert self._log is not None
        for scalar in numbers_of(x):
            self._log.follow(scalar)
        for t in tensors_of_options(x):
            self._log.follow_tensor(t)

    def __enter__(self) -> None:
        self.observer.__enter__()
        try:
            reads, code = self.observer.reads, CALLER
            reads.begin_at(code, self._fn)
            for x in self._flat:
                if not isinstance(x, jax.Array):
                    reads.begin_at(code, x)
            for x in self.guards.arguments.values():
                reads.root(code, x)
        except BaseException:
            self.observer.leave()
            raise

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        try:
            self.take(last=True)
        finally:
            self.observer.leave()
            self.guards.reached_tensors.clear()
            self.guards.reached_beside.clear()
            put_plain_numbers(self.guards)

    def function_returned(self) -> None:
        """The function is done; its results are still to be described."""
        self.observer.check()
        self.take()

    def take(self, *, last: bool = False) -> None:
        """Guard what was read up to here; once more, it adds what was read since.

        Args:
            last: whether nothing that runs from here on is the function's.
        """
        if self._settled:
            return
        self._settled = last
        reads, ran = self.observer.reads, list(self.observer.ran.values())
        with self.observer.paused():
            reads.ages.look()
            reads.functions_ran(ran[self._taken :])
            self.guards.compares_identity = any(code.compares_identity for code in ran)
            self.guards.take(reads)
            take_scalars(self.guards, self._scalars())
            self._taken = len(ran)
            reads.settle()
            if last:
                given = set(map(id, self._flat))
                self.forms = [x for x in reads.forms.values() if reads.ages.was_there(x) and id(x) not in given]
                self.flags = [x for x in reads.flags.values() if reads.ages.was_there(x) and id(x) not in given]
        if last:
            self.observer.leave()  # who keeps a tensor of the function is to be found out now, and that is not we

    def _scalars(self) -> list[Scalar]:
        """The numbers that are followed, and those of optimizers and schedules that are numbers by now."""
        followed = {} if self._log is None else self._log.scalars
        theirs = [s for x in (*self.guards.optimizers, *self.guards.schedules) for s in numbers_of(x)]
        return [*followed.values(), *[s for s in theirs if s.at not in followed]]

    def reaches_arguments(self) -> bool:
        """Return whether a list or dict among the arguments is also reached in another way."""
        return any(map(self.guards.knows, self.guards.arguments.values()))

    def describe_effect(self, program: TracedProgram, numbers: NumberLog) -> str | None:
        """What the function did in Python that only its own code can do again; None if there is nothing."""
        guards = self.guards
        guards.forget_unused_states(program.used_optimizers)
        for optimizer in program.started_optimizers:
            guards.optimizer_state_began(optimizer)
        guards.watch_caches()
        self._watch_forms(program)
        changed = self.describe_change()
        if changed is not None:
            switches = self._switches()
            if self.describe_change() is None:
                changed, self.switches = None, switches
            for holder, key, value in switches:
                holder[key] = value
        if changed is not None and self._keeps_traced_array():
            raise AsWritten(
                "it keeps an array of JAX outside that it computes; return the array, or keep a tensor", lasting=True
            )
        replaced = drifted_numbers(guards)
        if replaced and self.observer.takes_a_lock:  # a counter of several threads, and a program takes no lock
            raise AsWritten("it changes a number while it has a lock", lasting=False)
        if not all(once.stays(replaced) for once in self.done):
            raise AsWritten("what it makes in its first call is another one in the next", lasting=False)
        effect = numbers.unrepeatable or changed
        if effect is not None and effect is changed:
            self._find_once()
        if self._modes_changed:
            return "a mode, such as whether operations are recorded, is another one afterwards"
        if effect is None:
            guards.forget_arguments()
        return effect

    def _switches(self) -> list[tuple[Any, Any, Any]]:
        """Where a bool, a text or None has become another one: (holder, key, the new one).

        What was there is put back.
        """
        found = []
        for holder, key, before, now, given in list(self.guards.changes()):
            if issubclass(type(now), _SWITCHES) and issubclass(type(before), _SWITCHES) and not given:
                found.append((holder, key, now))
                holder[key] = before
        return found

    def _keeps_traced_array(self) -> bool:
        """Return whether what the function has put somewhere is an array that JAX traces, of no use after the trace."""
        put = [change.now for change in self.guards.changes()]
        put += [x for fact in self.guards.changed_lists() for x in fact.of]
        parts = parts_of(put, lambda x: issubclass(type(x), list | tuple | dict))
        return any(issubclass(type(x), jax.core.Tracer) for x in parts)

    def _find_once(self) -> None:
        """Return whether new entries are all that has changed, and may stay for the next trace to find."""
        added, young = self.guards.added_entries(), self.observer.ages.young
        if not added or any(change.given or not is_of_no_trace(change.now, young) for change in added):
            return
        once = Once([(change.holder, change.key, change.now) for change in added])
        once.undo()
        if self.describe_change() is None:
            self.once = once
        once.do()

    def _watch_forms(self, program: TracedProgram) -> None:
        """Watch the shapes of tensors that the program does not read; it knows those that it reads."""
        known = {id(ref()) for ref, *_ in program.known_tensors}
        for x in self.forms:
            if id(x) not in known:
                self.guards.add([Place(Attributes(x), "_m", x._m)])
        self.guards.add([Place(Attributes(x), "requires_grad", x.requires_grad) for x in self.flags])
        self.forms, self.flags = [], []

    def undo_trace(self) -> str | None:
        """Put back what the trace has changed; what cannot be put back, in words."""
        self.observer.restore()
        self.guards.restore()
        MODES.bits = MODES.bits & (UNDER_JAX | WINDOWS) | self._modes
        return self.describe_change()

    def undo_call(self) -> None:
        """After an error or an interrupt: what the function has changed in Python is as it was before the call."""
        self.observer.leave()
        self.observer.restore()
        self.guards.restore()
        self.guards.forget_arguments()
        MODES.bits = MODES.bits & (UNDER_JAX | WINDOWS) | self._modes

    @property
    def _modes_changed(self) -> bool:
        return MODES.bits & ~(UNDER_JAX | WINDOWS) != self._modes

    def describe_change(self) -> str | None:
        """Return what the function has changed in Python, in words."""
        return self.guards.describe_effect()
