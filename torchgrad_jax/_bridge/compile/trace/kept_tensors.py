"""Tensors that a compiled function keeps outside, other ones in each call.

    def forward(self, x):
        self.state = torch.tanh(self.inner(x) + self.state)
        self.penalty = self.state.square().mean()
        return self.outer(self.state)

The tensor that is left under `penalty` is one more result of the program, and each run puts it there. The one that was
under `state` before is one more argument, too, since the function reads it before it keeps the next one. An attribute
may hold a list, a tuple or a dict of such tensors, and a list or a dict may be filled with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...._core.arrays import tree
from ...._core.python_objects import items_of
from ...._engine.graph.history import requires_grad_of
from ...._engine.memory.kept_traces import made_at, traced_value
from ...._engine.memory.strided import read
from ...._engine.memory.tensor import Storage, Tensor
from ..watch.guards import PythonGuards
from ..watch.places import MISSING
from .traced_program import RunState, TracedProgram


class _Contents:
    """All entries of a list, looked at as one value."""

    __slots__ = ("of",)

    def __init__(self, of: list[Any]) -> None:
        self.of = of

    def get(self, _: Any, default: Any) -> Any:
        """The entries now."""
        return list(self.of)

    def __setitem__(self, _: Any, entries: list[Any]) -> None:
        self.of[:] = entries


class KeptTensors:
    """One place outside in which a function keeps tensors that it made: what was there, and what it left there."""

    __slots__ = (
        "_before", "_holder", "_inputs", "_kinds", "_later_keys", "_spec", "compared", "held_tensors", "key", "value",
    )  # fmt: skip

    def __init__(self, holder: Any, key: Any, before: Any, now: Any) -> None:
        self._holder, self.key, self.value = holder, key, now
        self._before: Any = before
        self._later_keys: list[Any] = []
        """Of an entry that is new: the keys that the function put into its dict after it."""
        self._inputs: dict[int, Storage] = {}
        """Which of the tensors that were there the function read, by their numbers: their storages."""
        leaves, self._spec = tree.flatten(before)
        self.held_tensors = _holds_tensors(leaves, self._spec)
        """Whether tensors were there: then the program is right for others of their kind, too."""
        self._kinds = [_kind_of(x) for x in leaves] if self.held_tensors else []
        self.compared = False
        """Whether the code may ask whether an argument is one of the tensors."""

    @property
    def name(self) -> str:
        """What to call the place."""
        return "the entries of a list" if self.key is None else repr(self.key)

    def tensors_before(self) -> dict[int, Tensor]:
        """The tensors that were there, by their numbers among the leaves."""
        return _tensors_in(self._before) if self.held_tensors else {}

    def holds_the_same_values(self) -> bool:
        """Return whether what is no tensor is as it was, where it is of the same form."""
        leaves, spec = tree.flatten(self.value)
        if not self.held_tensors or spec != self._spec:
            return True
        kinds = [_kind_of(x) for x in leaves]
        return all(a == b or type(x) is Tensor for a, b, x in zip(kinds, self._kinds, leaves))

    def find_inputs(self, state: RunState, guards: PythonGuards) -> bool:
        """Note which of the tensors that were there the function has read; False if the next call cannot be like it."""
        firsts = {id(first) for first in state.peers.values()}
        if any(id(x) in guards.met_again for x in _containers(self._before)):
            return False
        for i, t in self.tensors_before().items():
            st = t._st
            if isinstance(state.named(t), int):
                return False
            if id(t) not in state.known_tensors and not _may_be_read(t, state, guards):
                continue
            seen = state.storages.get(id(st))
            only_read = _is_plain(t) and seen is not None and st.array is seen.array and id(st) not in state.looked_at
            found_twice = id(t) in guards.met_again or any(
                other is not t and other._st is st for other in guards.reached_tensors.values()
            )
            given = any(argument.storage is st for argument in state.swapped)
            if not only_read or found_twice or given or id(st) in state.peers or id(st) in firsts:
                return False
            self._inputs[i] = st
        return True

    def take(self) -> Any:
        """What the function left there; the place is as it was before the call from here on."""
        value, self.value = self.value, None
        if self._before is MISSING:
            keys = list(self._holder)
            self._later_keys = keys[keys.index(self.key) + 1 :]
            del self._holder[self.key]
        else:
            self._holder[self.key] = self._before
        return value

    def settle(self, program: TracedProgram, guards: PythonGuards) -> None:
        """Let the program read what is in the place in each run, whichever tensors these are."""
        if not self.held_tensors:
            self._before = None
            return
        tensors = list(self.tensors_before().values())
        self.compared = guards.compares_identity
        numbers = {id(st): i for i, st in self._inputs.items()}
        for s in program.sources:
            if s.kind == "tensor" and id(s.what) in numbers:
                s.kind, s.what, s.of = "kept", self, numbers[id(s.what)]
        theirs = {id(t) for t in tensors} | {id(_base(t)) for t in tensors}
        program.known_tensors = [row for row in program.known_tensors if id(row[0]()) not in theirs]
        _stop_watching(guards, self._holder, self.key, [*_containers(self._before), *tensors])
        self._before = None

    def __getitem__(self, i: int) -> Any:
        """The elements of the tensor of that number that is there now."""
        return read(tree.flatten(self._holder.get(self.key, None))[0][i])

    def describe_change(self, args: Sequence[Any], written: set[int]) -> str | None:
        """Why the program is not right for what is there now.

        Args:
            args: arguments that the program may write to, or that may be compared.
            written: identities of storages that it writes to.
        """
        if not self.held_tensors:
            return None
        now = self._holder.get(self.key, None)
        leaves, spec = ([now], tree.LEAF) if type(now) is Tensor else tree.flatten(now)
        fits = spec == self._spec and [_kind_of(x) for x in leaves] == self._kinds
        same = self.compared and any(a is x for a in args for x in leaves)
        apart = (
            fits
            and not same
            and all(
                _is_plain(leaves[i])
                and id(leaves[i]._st) not in written
                and not any(type(a) is Tensor and a._st is leaves[i]._st for a in args)
                for i in self._inputs
            )
        )
        return None if apart else f"what is kept ({self.name}) is of another kind"

    def keep(self, value: Any) -> None:
        """Put there what a run has computed."""
        is_new = bool(self._later_keys) and self._holder.get(self.key, MISSING) is MISSING
        self._holder[self.key] = value
        for key in self._later_keys if is_new else ():
            if key in self._holder:
                self._holder[key] = self._holder.pop(key)


def take_kept_tensors(state: RunState, guards: PythonGuards, results: Sequence[Any]) -> list[KeptTensors]:
    """Where the function keeps tensors that it made, and neither returns nor keeps elsewhere what was there before."""
    found = []
    for holder, key, before, now in _changed_places(guards):
        _insist_on_this_trace(state, key, now)
        if _holds_tensors(*tree.flatten(now)) and all(
            state.made(t._st) or isinstance(state.named(t), int) for t in _tensors_in(now).values()
        ):
            kept = KeptTensors(holder, key, before, now)
            if kept.holds_the_same_values() and kept.find_inputs(state, guards):
                found.append(kept)
    all_results = [*results, *(t for kept in found for t in _tensors_in(kept.value).values())]
    outside = {id(x._st) for x in all_results if isinstance(x, Tensor) and not state.made(x._st)}
    return [k for k in found if outside.isdisjoint({id(t._st) for t in k.tensors_before().values()})]


def _insist_on_this_trace(state: RunState, key: Any, value: Any) -> None:
    """Raise where a loop or a branch inside of the function has left a value of one of its steps outside."""
    for x in tree.flatten(value)[0]:
        tracer = traced_value(x)
        if tracer is not None and not state.run.owns(tracer):
            where = "a list" if key is None else repr(key)
            raise RuntimeError(
                "torch.compile: a function that JAX traces for a loop or a branch (jax.lax.scan, torch.cond, "
                f"scan_layers, ...) left a value of one of its steps outside, in {where}, where it is of no use. "
                f"Return it from that function instead. The value was computed here:{made_at(tracer)}"
            )


def _changed_places(guards: PythonGuards) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Places that hold something else than before: (holder, key, what was there, what is there)."""
    for holder, key, before, now, given in guards.changes():
        if now is not MISSING and not given:
            yield holder, key, before, now
    for fact in guards.changed_lists():
        if type(fact.of) is list and not fact.given:
            yield _Contents(fact.of), None, fact.was, list(fact.of)


def _holds_tensors(leaves: Sequence[Any], spec: tree.Spec) -> bool:
    """Return whether something is a tensor, or a list, a tuple or a dict of tensors and of plain values."""
    kinds = set(map(type, leaves))
    return Tensor in kinds and kinds <= _KINDS_OF_LEAVES and _has_plain_containers(spec)


_KINDS_OF_LEAVES = {Tensor, bool, int, float, str, type(None)}


def _kind_of(x: Any) -> tuple[Any, ...]:
    """What is the same of a leaf in all calls that a program serves: all of a plain value."""
    return (Tensor, x._m, requires_grad_of(x)) if type(x) is Tensor else (type(x), repr(x))


def _tensors_in(x: Any) -> dict[int, Tensor]:
    return {i: t for i, t in enumerate(tree.flatten(x)[0]) if type(t) is Tensor}


def _has_plain_containers(spec: tree.Spec) -> bool:
    return spec.kind in (None, list, tuple, dict) and all(map(_has_plain_containers, spec.children))


def _is_plain(t: Tensor) -> bool:
    """Return whether a tensor reads all of its memory as it is, and has nothing to do with gradients."""
    al, base = t._al, _base(t)
    whole = al is None or not (al.offset or al.conj or al.neg or al.chain)
    recorded = t._rg or t._fn is not None or t._g is not None or (base is not None and base._rg)
    return whole and t._m is t._st.meta and not recorded


def _may_be_read(t: Tensor, state: RunState, guards: PythonGuards) -> bool:
    """Whether the function may have read a tensor: its memory, and not through another tensor that it reaches."""
    readers = state.readers.get(id(t._st), set())
    if not readers or _base(t) is not None:
        return bool(readers)
    return any(r == id(t) or r not in guards.reached_tensors for r in readers)


def _base(t: Tensor) -> Tensor | None:
    return None if t._al is None else t._al.base


def _containers(x: Any) -> Iterator[Any]:
    if issubclass(type(x), list | tuple | dict):
        yield x
        for part in items_of(x):
            yield from _containers(part)


def _stop_watching(guards: PythonGuards, holder: Any, key: Any, held: Sequence[Any]) -> None:
    """Watch neither a place nor the containers and tensors in it, and keep none of these alive."""
    gone = {id(x) for x in held} | {id(vars(x)) for x in held if hasattr(x, "__dict__")}
    if isinstance(holder, _Contents):
        gone.add(id(holder.of))
    guards.stop_watching(holder, key, gone)
