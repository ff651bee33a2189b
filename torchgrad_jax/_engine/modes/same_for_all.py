"""What a run of `vmap` computes that is the same for all examples: its values are to be had at once.

Forward mode inside of `vmap` is the common case: the batch is of tangents, and the primals are one row for all.
Python may read such values, while the steps go on to be written down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..memory.tape import Tape, Value


class SameForAll:
    """The values of a tape that do not depend on the example; each is computed once, when it is asked for."""

    __slots__ = ("at", "known", "made", "mapped", "outside", "places", "tape", "varying")

    def __init__(self, tape: Tape, mapped: Sequence[bool]) -> None:
        self.tape, self.mapped = tape, mapped
        self.varying = set(range(len(tape.inputs)))
        self.made: dict[int, Any] = {}
        """The step that gives a value, by its number."""
        self.known: dict[int, Any] = {}
        self.places: dict[int, int] = {}
        """The numbers of captured tensors by those of their values."""
        self.at = self.outside = 0
        """So many steps, and so many outside values, were looked through."""

    def __contains__(self, value: Value) -> bool:
        """Return whether a value of the tape is known not to differ between examples."""
        self._catch_up()
        return value.number not in self.varying

    def _catch_up(self) -> None:
        tape, varying = self.tape, self.varying
        captured = tape.outside[self.outside :]
        varying.update([number for number, i in captured if self.mapped[i]])
        self.places.update(captured)
        self.outside += len(captured)
        steps = tape.steps[self.at :]
        for step in steps:
            _, refs, at, n = step
            numbers = range(at, at + abs(n))
            if varying.isdisjoint([r for r in refs if r.__class__ is int]):
                self.made.update(dict.fromkeys(numbers, step))
            else:
                varying.update(numbers)
        self.at += len(steps)

    def value(self, value: Value, captured: Callable[[int], Any]) -> Any:
        """The array outside of the run; `captured` gives it for a captured tensor's number."""
        self._catch_up()
        known = self.known
        stack = [value.number]
        while stack:
            number = stack[-1]
            step = self.made.get(number)
            if number in known:
                stack.pop()
            elif step is None:
                at = self.places.get(number)
                known[number] = dict(self.tape.consts)[number] if at is None else captured(at)
            else:
                fn, refs, at, n = step
                missing = [r for r in refs if r.__class__ is int and r not in known]
                stack += missing
                if not missing:
                    out = fn(*[known[r] if r.__class__ is int else r.value for r in refs])
                    known.update([(at, out)] if n < 0 else zip(range(at, at + n), out))
        return known[value.number]
