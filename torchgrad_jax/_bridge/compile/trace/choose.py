"""Writes that happen only where a tensor says so, inside of a compiled function.

`choose(flag, then, otherwise)` is `then() if flag else otherwise()` for two functions that write to tensors. In eager
code it is just that. While a function is compiled nobody knows the flag: both functions run, and in each storage that
one of them wrote to the program keeps what the flag selects. A gradient scaler leaves out an optimizer's step that way.
What cannot be selected (Python values, new state, gradients that are replaced, random draws) is refused.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from ...._core.arrays.python_numbers import EVENT
from ...._core.errors.messages import Unsupported
from ...._core.state import MODES
from ...._engine.memory.tensor import Tensor
from .traced_program import RunState


def choose(flag: Tensor, then: Callable[[], Any], otherwise: Callable[[], Any] = lambda: None) -> None:
    """Run one of two functions for what it writes to tensors.

    Args:
        flag: a bool of one element.
        then: runs if it is true.
        otherwise: runs if it is false.
    """
    state = MODES.run.uses
    if not isinstance(state, RunState):
        (then if bool(flag) else otherwise)()
        return
    which = state.run.array_of(flag).reshape(())
    before = _Snapshot(state)
    then()
    before.insist_on_writes()
    chosen = _Snapshot(state)
    before.put_back()
    otherwise()
    before.insist_on_writes()
    chosen.select(which)


class _Snapshot:
    """What a compiled run has written so far."""

    def __init__(self, state: RunState) -> None:
        self.state = state
        self.arrays = {id(st): (st, st.array) for st in self._storages()}
        self.counts = {(id(owner), name): getattr(owner, name) for owner, name, _ in self._counters()}
        self.gradients = {key: known.tensor._g for key, known in state.known_tensors.items()}
        self.born = len(state.born)
        self.facts = self._facts()

    def _storages(self) -> list[Any]:
        born = [ref() for ref in self.state.born]
        return [*[s.storage for s in self.state.storages.values()], *[st for st in born if st is not None]]

    def _counters(self) -> list[tuple[Any, str, int]]:
        """Counters of writes to what is outside, and what they were before the run."""
        versions = [(vc, "version", first) for vc, first in self.state.counters.values()]
        return [*versions, *[(st, "stamp", first) for st, _, first, _ in self.state.storages.values()]]

    def _before(self, st: Any) -> Any:
        """What a storage held then; one from outside that the run had not met is as it was before the run."""
        found = self.arrays.get(id(st))
        return self.state.storages[id(st)].array if found is None else found[1]

    def put_back(self) -> None:
        """Let storages and counters be as they were then."""
        for st in self._storages():
            if id(st) in self.arrays or id(st) in self.state.storages:
                st.array = self._before(st)
        for owner, name, first in self._counters():
            setattr(owner, name, self.counts.get((id(owner), name), first))

    def select(self, flag: Any) -> None:
        """Keep what was written then where the flag is true; counters grow as they do for either."""
        found: dict[tuple[int, int], tuple[Any, ...]] = {}
        for st in self._storages():
            if id(st) not in self.arrays and id(st) not in self.state.storages:
                continue  # made since
            one, other = self._before(st), st.array
            if one is other:
                continue
            key = id(one), id(other)  # storages that share an array go on sharing one
            if key not in found:
                pair = self._traced(st, one), self._traced(st, other)
                found[key] = (jnp.where(flag, *pair), one, other)
            st.array = found[key][0]
        for owner, name, first in self._counters():
            count = self.counts.get((id(owner), name), first)
            setattr(owner, name, max(count, getattr(owner, name)))

    def _traced(self, st: Any, array: Any) -> Any:
        """An array of the run: an outside storage's own array is an input."""
        outside = self.state.storages.get(id(st))
        return self.state.tracers[id(st)] if outside is not None and array is outside.array else array

    def _facts(self) -> dict[str, Any]:
        """Return what a flag cannot choose between."""
        log: Any = self.state.log
        return {
            "random numbers are drawn": sum(s.kind == "draw" for s in self.state.sources),
            "something is checked": len(self.state.checks),
            "a number in Python is changed": [id(scalar.value) for scalar in log.scalars.values()] if log else [],
            "a schedule takes a step": sum(s[0] == EVENT for s in log.steps) if log else 0,
        }

    def insist_on_writes(self) -> None:
        """Refuse everything that was done since but writing to tensors."""
        wrong = [fact for fact, value in self._facts().items() if value != self.facts[fact]]
        for key, known in self.state.known_tensors.items():
            if known.tensor._g is not self.gradients.get(key, known.gradient):
                wrong.append("a gradient is replaced")
        if self._new_state():
            gc.collect()
            if self._new_state():
                wrong.append("new state is made")
        if wrong:
            raise Unsupported(
                f"torch.compile: {wrong[0]} in a part of the function that the values of a tensor may leave out"
            )

    def _new_state(self) -> bool:
        return any(ref() is not None for ref in self.state.born[self.born :])
