"""What one trace of a function reads and changes in Python, so that it can be checked again or undone.

`compile` makes a `PythonWatch` for each trace. Inside of ``with watch:`` the function runs; afterwards the watch says
what the function did that only its own code can do again, and can put back what it changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax

from ...._core.errors.messages import AsWritten
from ...._core.state import MODES, TRACED
from ...._engine.memory.tensor import Tensor
from ..watch.effects import EffectWatcher
from ..watch.number_arguments import NumberArguments
from ..watch.number_log import NumberLog
from ..watch.places import Attributes, place_of
from ..watch.python_guards import PythonGuards
from ..watch.unread_attributes import CodeThatRan
from .traced_program import Program

_ASKS_FOR_FORM = {
    "device", "dim", "dtype", "element_size", "is_complex", "is_contiguous", "is_floating_point", "itemsize", "len",
    "nbytes", "ndim", "ndimension", "nelement", "numel", "shape", "size", "storage_offset", "stride", "type",
}  # fmt: skip
"""Names in code that looks at the shape, dtype or layout of a tensor."""


class PythonWatch:
    """Python's state around one trace of a function.

    Args:
        fn: the function.
        given: its arguments.
        flat: the leaves of these.
    """

    def __init__(self, fn: Callable[..., Any], given: Any, flat: Sequence[Any]) -> None:
        self.guards = guards = PythonGuards()
        """What the function can read of Python's state."""
        self.containers = PythonGuards()
        """What the containers among its arguments hold."""
        guards.add_function(fn)
        for x in flat:
            if isinstance(x, Tensor):
                guards.add_attributes_of_tensor(x)
            elif not isinstance(x, jax.Array):
                guards.add_value(x)
        self.containers.add_value(given)
        for guards in self:
            guards.add_optimizer_states()
            guards.add_flags_of_tensors()
        self._forms = [
            (guards, x, x._m)
            for guards in self
            if not _ASKS_FOR_FORM.isdisjoint(guards.names)
            for x in guards.lasting_tensors()
        ]
        """Tensors whose shape or dtype the function may look at, with these."""
        self._modes = MODES.bits & ~TRACED
        self.effects = EffectWatcher()
        self.code: CodeThatRan | None = None
        """The code that ran, where that tells attributes that it cannot have looked at."""
        self.switches: list[tuple[Any, Any, Any]] = []
        """Flags and the like that the function sets, and all that it changes in Python: (holder, key, value)."""

    def __iter__(self) -> Iterator[PythonGuards]:
        yield self.guards
        yield self.containers

    def knows(self, x: Any) -> bool:
        """Whether an object was there before the trace."""
        return any(id(x) in guards.visited_ids for guards in self)

    def describe_unknowable_state(self) -> str | None:
        """Why the function's state cannot be known, in words; None if it can."""
        return next(filter(None, (g.describe_unknowable_state() for g in self)), None)

    def log_numbers(self, arguments: NumberArguments, carried: Iterable[tuple[Any, Any]]) -> NumberLog:
        """The log of the numbers that the function changes; it was seen to change those at `carried`."""
        carried = list(carried)
        places = {place_of(*place): place for g in self for place in g.take_number_places(carried)}
        tensors = {id(t): t for g in self for t in g.optimizer_tensors()}
        return NumberLog(list(places.values()), list(tensors.values()), arguments)

    def prepare_effects(self, stops: bool) -> None:
        """Look out for calls with effects, and with `stops` end the trace before one that cannot be undone."""
        iterators = [id(hidden.of) for g in self for hidden in g.hidden]
        self.code = CodeThatRan() if self.guards.instances or self.guards.class_containers else None
        self.effects = EffectWatcher(iterators, self.guards.may_be_impure, stops, self.code)

    def __enter__(self) -> None:
        self.effects.__enter__()

    def __exit__(self, *exc: object) -> None:
        try:
            self.effects.__exit__(*exc)
        finally:
            for guards in self:
                guards.reached_tensors.clear()
            watched = frozenset([id(held) for guards in self for held, _ in (*guards.dicts, *guards.lists)])
            for guards in self:
                guards.put_plain_numbers(watched)

    def describe_effect(self, program: Program, numbers: NumberLog) -> Any:
        """What the function did in Python that only its own code can do again; None if there is nothing."""
        for guards in self:
            guards.forget_unused_states(program.used_optimizers)
            for optimizer in program.started_optimizers:
                guards.optimizer_state_began(optimizer)
            guards.watch_caches()
        self._watch_forms(program)
        changed = self._describe_change()
        if changed is not None:
            switches = [s for guards in self for s in guards.switches()]
            if self._describe_change() is None:
                changed, self.switches = None, switches
            for holder, key, value in switches:
                holder[key] = value
        if changed is not None and any(guards.keeps_traced_array() for guards in self):
            raise AsWritten(
                "it keeps an array of JAX outside that it computes; return the array, or keep a tensor", lasting=True
            )
        effect = self.effects.first_effect or numbers.unrepeatable or changed
        if effect is None and self.code is not None and (names := self.code.names()) is not None:
            self.guards.forget_unread(names)
        if self._modes_changed:
            return "a mode, such as whether operations are recorded, is another one afterwards"
        return effect

    def _watch_forms(self, program: Program) -> None:
        """Watch the shapes of tensors that the program does not read; it knows those that it reads."""
        known = {id(ref()) for ref, *_ in program.known_tensors}
        for guards, x, form in self._forms:
            if id(x) not in known and x._m is form:
                guards.places.append((Attributes(x), "_m", form))
                guards.quick_places = None
        self._forms.clear()

    def undo_trace(self) -> str | None:
        """Put back what the trace has changed; what cannot be put back, in words."""
        self.effects.restore()
        for guards in self:
            guards.restore()
        done = self._describe_change()
        return done or ("a mode is another one afterwards" if self._modes_changed else None)

    def undo_call(self) -> None:
        """After an error or an interrupt: what the function has changed in Python is as it was before the call."""
        self.effects.leave()
        self.effects.release_output()
        self.effects.restore()
        for guards in self:
            guards.restore()
        MODES.bits = MODES.bits & TRACED | self._modes

    @property
    def _modes_changed(self) -> bool:
        return MODES.bits & ~TRACED != self._modes

    def _describe_change(self) -> str | None:
        changes = (g.describe_advanced_state() or g.describe_change() for g in self)
        return next(filter(None, changes), None)
