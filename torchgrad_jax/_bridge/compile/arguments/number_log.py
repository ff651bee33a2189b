"""Numbers of Python that a compiled function changes: learning rates, schedules, counters.

While a function is traced, the numbers at the *carried places* (an optimizer's learning rates, what a schedule
counts, places where an earlier trace saw the function change a number) are replaced by `Number`s, so that it is known
what the function computes of them and where it puts the result. What a schedule does in `step` runs in Python for
real. The log of all that is a little Python program, which each later run of the compiled function runs
first: it reads the places, computes, takes the schedules' steps, writes the places, and gives the numbers that
the tensor program reads, each as it is at that point of the function. Where a number that decided a branch, a shape
or a text is another one, everything is put back, and the function is traced again.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from ...._core.arrays.python_numbers import (
    ARRAY,
    CHECK,
    EVENT,
    GIVEN,
    OP,
    READ,
    WRITE,
    Number,
    Recording,
    form_of,
    plain,
    with_plain_numbers,
)
from ...._core.errors.messages import Unsupported
from ...._core.python_values import same
from ...._core.signals import contextmanager
from ...._engine.memory.tensor import Tensor
from ..watch.facts import Scalar
from ..watch.places import place_of
from .keys import OftenAnew
from .number_arguments import NumberArguments

_MAKERS: dict[type, Callable[..., Any]] = {list: lambda *items: [*items], tuple: lambda *items: items}
"""What makes a container of numbers."""


class NumberLog(Recording):
    """The numbers at some places, and what a function does with them: written down once, then done in each run."""

    def __init__(self, scalars: Sequence[Scalar], given: NumberArguments) -> None:
        super().__init__()
        self.number_arguments = given
        """The arguments, whose numbers are read again in each run as well."""
        self.first_number_input = 0
        """How many inputs of the program come before the numbers among the arguments."""
        self._argument_of_slot: dict[int, int] = {}
        """The slots of these numbers, and which of them they are."""
        self.scalars = {scalar.at: scalar for scalar in scalars}
        """The places of numbers, lists and tuples of them, by identity."""
        self.tensors: list[Tensor] = []
        """Tensors that schedules may write to: learning rates."""
        self.run_state: Any = None
        self.inputs: dict[int, Any] = {}
        self._places = [(scalar.of, scalar.key) for scalar in self.scalars.values()]
        self._before: list[tuple[Any, Any, Any]] = []
        self._arrays_before: list[tuple[Tensor, Any, int, int]] = []
        self._written_lists: list[tuple[list[Any], list[Any]]] = []
        """Lists that the function wrote to, and what was in them."""
        self._ahead = False
        """Whether numbers are as after a run whose program has yet to write its results."""
        self._wrapped: dict[Any, tuple[Any, Any]] = {}
        """By place: what was put there, and what was there."""
        self._arrays: dict[int, int] = {}
        self.returned: list[int] = []
        """Slots of numbers that the function returns."""
        self.unrepeatable: str | None = None
        """What the function does that the log cannot repeat, in words."""

    # -- while the function is traced
    def begin(self, state: Any) -> None:
        """Put numbers that are carried in the places of all others."""
        self.run_state = state
        self._snapshot()
        self._wrap()

    def follow(self, scalar: Scalar) -> None:
        """Follow the number at one more place, before the function looks at it."""
        if scalar.at in self.scalars:
            return
        self.scalars[scalar.at] = scalar
        self._places.append((scalar.of, scalar.key))
        self._before.append((scalar.of, scalar.key, scalar.value))
        if self.run_state is not None and self.records():  # else `begin` puts a number that is carried there
            self._wrap_place(scalar)

    def follow_tensor(self, t: Tensor) -> None:
        """Follow one more tensor that schedules may write to."""
        if not any(t is known for known in self.tensors):
            self.tensors = [*self.tensors, t]
            self._arrays_before.append((t, t._st.array, t._st.stamp, t._vc.version))

    def arguments(self) -> Any:
        """The arguments with numbers in them that are inputs."""
        return self.number_arguments.with_numbers(self._argument)

    def reads_arguments(self) -> bool:
        """Return whether numbers or arrays among the arguments are inputs."""
        return bool(self._argument_of_slot) or self.number_arguments.has_arrays()

    def _argument(self, i: int) -> Number:
        value = self.number_arguments.values[i]
        slot = self.slot_of(value)
        self._argument_of_slot[slot] = i
        self.steps.append((GIVEN, slot, i))
        return Number(self, slot, value)

    def is_last_rate(self, t: Tensor) -> bool:
        """Return whether a tensor is one that a schedule makes again in each step, which a program cannot read."""
        lists = [s.value for s in self.scalars.values() if s.key == "_last_lr" and isinstance(s.value, list)]
        return any(t is v for held in lists for v in held)

    def _snapshot(self) -> None:
        self._before = [(of, key, of[key]) for of, key in self._places]
        self._arrays_before = [(t, t._st.array, t._st.stamp, t._vc.version) for t in self.tensors]

    def _wrap(self) -> None:
        self._wrapped.clear()
        for scalar in self.scalars.values():
            self._wrap_place(scalar)

    def _wrap_place(self, scalar: Scalar) -> None:
        value = scalar.value
        form = form_of(value)
        if form is None:
            return
        slot = self.slot_of(value)
        self.steps.append((READ, slot, scalar, form, scalar.of, scalar.key))
        followed = Number(self, slot, value) if form is type(value) else type(value)(self._items(slot, value))
        self._wrapped[scalar.at] = followed, value
        scalar.of[scalar.key] = followed

    def _items(self, container: int, values: Sequence[Any]) -> Iterator[Number]:
        """The numbers in a list or tuple, which is in a slot."""
        for i, value in enumerate(values):
            slot = self.slot_of(value)
            self.steps.append((OP, slot, itemgetter(i), [container]))
            yield Number(self, slot, value)

    def _unwrap(self) -> None:
        """Put plain numbers back into all places, and write down which of them the function has put there."""
        first = {place_of(of, key): value for of, key, value in self._before}
        for at, scalar in self.scalars.items():
            now = scalar.value
            put, before = self._wrapped.get(at, (None, first[at]))
            if now is None:
                self.unrepeatable = self.unrepeatable or f"{scalar.key!r} was removed or set to None"
            elif now is (before if put is None else put):
                if type(now) is list and list(map(plain, now)) != before:
                    self.unrepeatable = self.unrepeatable or f"the list under {scalar.key!r} was written to"
                    self._written_lists.append((before, [*before]))
                    before[:] = map(plain, now)
                scalar.of[scalar.key] = before
            else:
                self._write(scalar, now)
        self._wrapped.clear()

    def _write(self, scalar: Scalar, value: Any) -> None:
        slot = self._slot_of_all(value)
        scalar.of[scalar.key] = plain_value = with_plain_numbers(value)
        if form_of(plain_value) is not None:
            self.steps.append((WRITE, slot, scalar.of, scalar.key))
        elif scalar.key != "_last_lr":
            self.unrepeatable = self.unrepeatable or f"{scalar.key!r} became a {type(plain_value).__name__}"

    def _slot_of_all(self, value: Any) -> int:
        """The slot of a number, or of a list or tuple of numbers."""
        if type(value) not in _MAKERS:
            return self.slot_of(value)
        slots = [self.slot_of(v) for v in value]
        slot = self.slot_of(None)
        self.steps.append((OP, slot, _MAKERS[type(value)], slots))
        return slot

    def event(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run bookkeeping in Python for real, now and in each run."""
        given = [*args, *kwargs.values()]
        if not self.records() or any(isinstance(x, Tensor) for x in given):
            return fn(*args, **kwargs)
        for t in self.tensors:
            self._before_event(t)
        self._unwrap()
        slots = [self.slot_of(a) for a in args]
        named = {k: self.slot_of(v) for k, v in kwargs.items()}
        try:
            with self.run_state.run.outside():
                out = fn(*map(plain, args), **{k: plain(v) for k, v in kwargs.items()})
        finally:
            self.steps.append((EVENT, None, fn, slots, named))
            for t in self.tensors:
                self._after_event(t)
            self._wrap()
        return out

    def _before_event(self, t: Tensor) -> None:
        """A tensor that bookkeeping may write to: what the program has read of it so far was read at its time."""
        st = t._st
        known = self.run_state.storages.get(id(st))
        if self.run_state.run.ours(st.array) or id(st) in self.run_state.peers or t._al is not None:
            raise Unsupported(
                "torch.compile: a compiled function writes to a learning rate that a schedule changes too"
            )
        if known is None or id(st) in self._arrays:
            return
        slot = self.slot_of(st.array)
        self.steps.insert(0, (ARRAY, slot, st))
        self._arrays[id(st)] = slot
        source = self.run_state.sources[known.source]
        if source.kind != "number":
            source.kind, source.what, source.of = "number", self.values, slot

    def _after_event(self, t: Tensor) -> None:
        """From here on the program reads what the tensor holds now."""
        slot = self.slot_of(t._st.array)
        self.steps.append((ARRAY, slot, t._st))
        self._arrays[id(t._st)] = slot
        self.run_state.rewritten(t, self.values, slot)

    def input(self, slot: int) -> Any:
        """An array of the program that stands for the number in a slot."""
        array = self.inputs.get(slot)
        if array is None:
            array = self.inputs[slot] = self.run_state.number(self.values, slot)
        return array

    def end(self) -> None:
        """The function is done: plain numbers take their places again."""
        if self.open:
            self._unwrap()
            if not self.number_arguments.put_plain_numbers():
                self.unrepeatable = self.unrepeatable or "a number in an argument was written to"
            self.open = False
            self._explain_checks()
            self._prune()
            self.run_state = None

    def is_held(self) -> bool:
        """Whether somebody holds a number of the trace when it is over: an object that the function made, a closure."""
        if not any(ref() is not None for ref in self.made):
            return False
        gc.collect()  # of cycles that the trace has left
        return any(ref() is not None for ref in self.made)

    def state(self) -> Any:
        """What everything was before the run."""
        return self._before, self._arrays_before

    def resume(self, state: Any) -> None:
        """Everything is as it was before the run that had this `state()`."""
        self._before, self._arrays_before = state
        self.restore()

    def restore(self) -> None:
        """Everything is as it was before the run."""
        self.open = False
        self.number_arguments.put_plain_numbers()
        for of, key, before in self._before:
            of[key] = before
        for held, items in reversed(self._written_lists):
            held[:] = items
        self._written_lists.clear()
        for t, array, stamp, version in self._arrays_before:
            t._st.array, t._st.stamp, t._vc.version = array, stamp, version
        self._ahead = False

    def settle(self) -> None:
        """The program has written its results: the run has happened."""
        self._ahead = False

    def restore_ahead(self) -> None:
        """`restore`, unless the run has happened or has yet to begin."""
        if self._ahead:
            self.restore()

    def _explain_checks(self) -> None:
        """Leave out numbers among the arguments that are constants, and tell of other values why they matter."""
        changed: set[int] = set()
        steps = []
        for step in self.steps:
            kind, slot = step[0], step[1]
            if kind == CHECK and slot in self._argument_of_slot:
                self.number_arguments.constants.setdefault(self._argument_of_slot[slot], step[3])
                continue
            if kind in (READ, ARRAY) or (kind == OP and not changed.isdisjoint(step[3])):
                changed.add(slot)
            steps.append((*step, slot in changed) if kind == CHECK else step)
        self.steps = steps

    def _prune(self) -> None:
        """Leave out what nobody asks for."""
        used = set(self.inputs)
        used.update(s.of for s in self.run_state.sources if s.what is self.values)
        used.update(self.returned)
        kept: list[tuple[Any, ...]] = []
        for step in reversed(self.steps):
            kind, slot = step[0], step[1]
            # Code may have asked for the class of a number, or for the length of a list, without looking at its value.
            if not (kind in (CHECK, WRITE, EVENT, READ) or slot in used):
                continue
            used.add(slot)
            if kind == OP:
                used.update(step[3])
            elif kind == EVENT:
                used.update([*step[3], *step[4].values()])
            kept.append(step)
        self.steps = kept[::-1]

    def is_plain(self) -> bool:
        """Return whether the log does nothing but read numbers in dicts, which the program can do by itself."""
        return not self.returned and all(
            s[0] == GIVEN or (s[0] == READ and type(s[3]) is type and type(s[2].of) is dict) for s in self.steps
        )

    def origins(self) -> dict[int, Any]:
        """Where a program reads the numbers by itself, by slot: a place, or the number of an argument."""
        if not self.is_plain():
            return {}
        return {s[1]: self.first_number_input + s[2] if s[0] == GIVEN else s[2] for s in self.steps}

    # -- in each run
    def replay(self, args: Sequence[Any]) -> str | None:
        """Do what the function does with numbers; why it does other things this time, or None."""
        try:
            self._snapshot()
        except (LookupError, AttributeError, ValueError):
            return "a number is no longer where it was"
        self._ahead = True
        try:
            why = _replay_steps(self.steps, self.values.own, args[self.first_number_input :])
        except Exception:  # the function is traced again, and the user sees the error then
            why = "computing a number failed"
        except BaseException:
            self.restore()
            raise
        if why is not None:
            self.restore()
        return why


def numbers_of(x: Any) -> list[Scalar]:
    """The numbers of an optimizer or a schedule that are read again in each run.

    These are learning rates (and momenta, where a schedule of cycles has left its bounds in the group), and what
    schedules count.
    """
    found: list[Scalar] = []
    held = vars(x)
    if "param_groups" in held:
        for group in held["param_groups"]:
            cycled = ("momentum", "betas") if "max_momentum" in group else ()
            found += [Scalar(group, key) for key in ("lr", *cycled) if form_of(group.get(key))]
        return found
    # Tensors in `_last_lr` are read by nobody else.
    return [Scalar(held, key) for key, v in held.items() if form_of(v) in (int, float) or key == "_last_lr"]


def tensors_of_options(x: Any) -> list[Tensor]:
    """Options of the optimizer of a schedule that are tensors, which the schedule may write to."""
    groups = getattr(vars(x).get("optimizer"), "param_groups", ()) if "optimizer" in vars(x) else ()
    return list({id(t): t for group in groups for t in _tensors_in(group)}.values())


def _tensors_in(group: dict[str, Any]) -> Iterator[Tensor]:
    for key, value in group.items():
        if isinstance(value, Tensor):
            yield value
        elif key != "params" and isinstance(value, list | tuple):
            yield from (v for v in value if isinstance(v, Tensor))


_CHANGED_NUMBER_DECIDES = (
    "a number that the function changes itself decides what it does or is turned into text or a size at "
)
_NUMBER_DECIDES = "what the function does, a text or a size depends on numbers among its arguments at "


def _replay_steps(steps: Sequence[tuple[Any, ...]], values: list[Any], args: Sequence[Any]) -> str | None:
    """Take all steps with the numbers among some arguments; why they are other steps this time, or None."""
    for step in steps:
        kind, slot = step[0], step[1]
        if kind == READ:
            value = step[4][step[5]]
            if type(value) is not step[3] and form_of(value) != step[3]:
                return f"{step[5]!r} has become a {type(value).__name__}"
            values[slot] = value
        elif kind == GIVEN:
            values[slot] = args[step[2]]
        elif kind == OP:
            values[slot] = step[2](*[values[i] for i in step[3]])
        elif kind == CHECK:
            if not same(values[slot], step[2]):
                return OftenAnew(_CHANGED_NUMBER_DECIDES + step[3]) if step[4] else _NUMBER_DECIDES + step[3]
        elif kind == WRITE:
            step[2][step[3]] = values[slot]
        elif kind == EVENT:
            step[2](*[values[i] for i in step[3]], **{k: values[i] for k, i in step[4].items()})
        else:
            values[slot] = step[2].array
    return None


class ReturnedNumber:
    """A result of a compiled function that is a carried number."""

    __slots__ = ("slot", "values")

    def __init__(self, number: Any) -> None:
        self.values, self.slot = number._log.values, number._slot
        number._log.returned.append(self.slot)

    def tensor(self, args: Any) -> Any:
        """The number of this run."""
        return self.values[self.slot]


@contextmanager
def logging_numbers(log: NumberLog | None, state: Any) -> Iterator[None]:
    """A run whose numbers are carried."""
    if log is None:
        yield
        return
    log.begin(state)
    try:
        yield
    finally:
        log.end()
