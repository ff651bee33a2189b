"""A compiled function that checks itself: it is traced again before a run, and has to give the program that is in use.

    step = torch.compile(f, verify=1)  # before each run; verify=100 before every hundredth

What differs is something that the function has read and no guard watches. `TORCHGRAD_JAX_VERIFY=1` in the environment
does the same to every compiled function.

Where nobody asks, a function does that for at most a hundredth of its time: a program that has run for a hundred times
as long as a trace of it takes is due. What differs is told once, and the function is retraced.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import jax
import numpy as np

from ..._core.errors import warn
from ..._core.errors.messages import AsWritten, NeedsPlainNumbers
from ..._core.python_code import is_ours
from ..._core.python_values import PLAIN_VALUES, is_same_value
from . import explain
from .calls import AsIs, How
from .program.entry import Clock, Entry
from .program.program import CompiledProgram
from .program.results import is_known
from .stance import POLICY
from .trace.outside_results import GivenContainer, OutsideTensor, OutsideView
from .trace.traced_program import TracedProgram

_ADDRESS = re.compile(r" at 0x[0-9a-f]+|id=\d+|\bname=\w+")
"""What differs in the text of two programs without meaning anything."""


class StaleProgramError(RuntimeError):
    """A compiled function no longer does what its program does, and nothing that is watched has changed."""


class Verification:
    """How often a function is checked, and what is done about a difference.

    Args:
        fn: the function.
        asked: a number of runs, 0 for never, "warn" for every run, or None for what the environment says.
    """

    def __init__(self, fn: Callable[..., Any], asked: int | str | None) -> None:
        given = os.environ.get("TORCHGRAD_JAX_VERIFY", "") if asked is None else asked
        self._fn, self._warns = fn, given == "warn"
        if not self._warns and not str(given or 0).isdecimal():
            raise ValueError(f"torch.compile: verify has to be a number of runs or 'warn', but is {given!r}")
        self.every = 1 if self._warns else int(given or 0)
        """After how many runs; 0 if nobody asks for a number."""
        self._by_budget = given == ""
        self._runs = 0
        self._told = False

    def clock(self, program: CompiledProgram, seconds: float) -> Clock:
        """Return what says when a new program is due, whose trace has taken so many seconds."""
        if not self._by_budget:
            return Clock(seconds, "")
        several = program.joint is not None or jax.process_count() > 1
        return Clock(seconds, SEVERAL_PROCESSES if several else None)

    def is_due(self, entry: Entry) -> bool:
        """Return whether the run that is about to begin is to be checked."""
        if self.every:
            self._runs += 1
            return self._runs % self.every == 0
        return entry.left <= 0 and entry.clock.is_due

    def take_reference(self, entry: Entry, again: Callable[[], CompiledProgram | None]) -> bool:
        """Keep what a second trace gives, which finds what the first one has made, such as constants.

        Returns:
            False where that is no program, or raises what the next call would: the next call is to be retraced.
        """
        try:
            entry.reference = again()
        except (AsWritten, Exception):
            return False
        return True

    def check(self, entry: Entry, again: Callable[[], CompiledProgram | None]) -> AsIs | str | None:
        """Trace a function again.

        Args:
            entry: the program in use.
            again: traces the function; it gives None where the two programs do not compare.

        Returns:
            None if the program is the right one, or nothing is known; a text says why it is to be dropped, and the
            function retraced. As it was asked to, the function runs eagerly instead.

        Raises:
            StaleProgramError: if the program is stale, and that is to be an error.
        """
        began = time.perf_counter()
        try:
            difference = self._difference(entry, again)
        except (AsWritten, NeedsPlainNumbers) as error:
            if isinstance(error, AsWritten) and error.was_seen:
                difference = f"it cannot be traced any more: {error}"
            else:  # such as a view that no program can return, of these arguments: nothing is known
                entry.clock.stop(f"it could not be traced again: {error.__cause__ or error}")
                return AsIs(error, How.NOW) if self.every else None
        finally:
            entry.clock.was_traced(began, time.perf_counter())
        return difference and self._stale(difference)

    def _difference(self, entry: Entry, again: Callable[[], CompiledProgram | None]) -> str | None:
        fresh = again()
        if fresh is None or _kept(entry.program) != _kept(fresh):
            return None
        # The second trace had what the first one made, and what its run has left.
        if entry.reference is not None and describe_difference(entry.reference, fresh) is None:
            return None
        return describe_difference(entry.program, fresh)

    def _stale(self, difference: str) -> AsIs | str:
        text = f"torch.compile: the program of {explain.place(self._fn)} is stale: {difference}"
        if not self.every:
            if not self._told:
                self._told = True
                _warn(f"{text}. Results of earlier calls may be wrong. It is dropped, and the function is retraced")
            return f"a check has found that {difference}"
        if not self._warns:
            raise StaleProgramError(text)
        explain.stale(text)
        return AsIs(text, How.NOW)


def _kept(program: CompiledProgram) -> int:
    """How many inputs are tensors that an earlier call has kept; where somebody puts others, they may be none."""
    return sum(source.kind == "kept" for source in program.traced.sources)


SEVERAL_PROCESSES = "several processes run it, and a trace in one of them might wait for the others"


def _warn(text: str) -> None:
    if POLICY.graph_breaks:
        explain.log.warning("%s", text)
    else:
        warn.to_user(text)


def describe_difference(used: CompiledProgram, fresh: CompiledProgram) -> str | None:
    """Where the program of a new trace parts from the one in use, in words; None if they are the same."""
    where = next(filter(None, (check(used, fresh) for check in _CHECKS)), None)
    if where is None:
        return None
    return where + next(_unseen(used, fresh), "")


def _unseen(used: CompiledProgram, fresh: CompiledProgram) -> Iterator[str]:
    """Yield what in Python is not as the program in use takes for granted, and the fact that should have told."""
    watched = [fact for fact in used.conditions.guards.facts if fact.is_compared]
    for fact in watched:
        if not fact.holds():
            yield f"; {fact.describe()}, which its guard ({type(fact).__name__}) has not seen"
    known = {(type(fact), id(fact.object), getattr(fact, "key", None)) for fact in watched}
    for fact in fresh.conditions.guards.facts:
        if fact.given or not fact.is_compared:
            continue
        key = getattr(fact, "key", None)
        if (type(fact), id(fact.object), key) not in known:
            what = f"a {type(fact.object).__name__}" if key is None else repr(key)
            yield f"; it reads {what}, which no guard ({type(fact).__name__}) watches"


class _Steps:
    """The values that programs compute, each with a number: the same number if it is computed in the same way.

    So a step counts once wherever it stands, and whichever steps were put into one function around it.
    """

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self.texts: dict[int, str] = {}
        """What step gives a value, by its number."""
        self._integers: dict[int, int] = {}
        """Numbers of constants that are integers."""
        self._updates: dict[int, tuple[int, list[int], tuple[int, ...]]] = {}
        """By the number of an array that is another one but for a part: that one, where the part is, and its shape."""

    def _number(self, key: Any, text: str = "") -> int:
        number = self._numbers.setdefault(key, len(self._numbers))
        self.texts.setdefault(number, text)
        return number

    def _constant(self, value: Any) -> int:
        content = _content(value)
        number = self._number(content, "a constant")
        if content[2:3] == ((),) and content[1].startswith(("int", "uint")):
            self._integers[number] = int(value)
        return number

    def _before_updates(self, number: int, slices: dict[str, Any]) -> int:
        """The array of which a slice may be taken just as well, before other parts of it were written to.

        A backward pass that writes to parts of one memory does so in one function, once it is known.
        """
        while (update := self._updates.get(number)) is not None:
            before, starts, shape = update
            rows = zip(slices["start_indices"], slices["limit_indices"], starts, shape)
            if all(low < start + n and start < high for low, high, start, n in rows):
                break
            number = before
        return number

    def of_program(self, program: TracedProgram) -> tuple[list[int], list[int]]:
        """The numbers of its results, and of all values in their order."""
        part, found = program.jaxpr, list[int]()
        inputs = [self._number(("input", i)) for i, _ in enumerate(part.invars)]
        return self._of(part, inputs, program.consts, found), found

    def _of(self, part: Any, inputs: Sequence[int], consts: Sequence[Any], found: list[int]) -> list[int]:
        known = dict(zip(part.invars, inputs))
        known.update((v, self._constant(c)) for v, c in zip(part.constvars, consts))

        def number(v: Any) -> int:
            return known[v] if v in known else self._constant(v.val)

        for eqn in part.eqns:
            args = [self._constant(v.val) if hasattr(v, "val") else number(v) for v in eqn.invars]
            inner = eqn.params.get("jaxpr") if eqn.primitive.name in _CALLS else None
            if inner is not None:
                outs = self._of(inner.jaxpr, args, inner.consts, found)
            elif eqn.primitive.name == "convert_element_type" and eqn.invars[0].aval.dtype == eqn.outvars[0].aval.dtype:
                outs = args  # what JAX calls a weak type, no value
            else:
                if eqn.primitive.name == "slice":
                    args = [self._before_updates(args[0], eqn.params)]
                params = _ADDRESS.sub("", str(sorted((k, str(v)) for k, v in eqn.params.items())))
                text = f"{eqn.primitive.name} {', '.join(str(v.aval) for v in eqn.outvars)}"
                outs = [self._number((eqn.primitive.name, params, i, *args), text) for i, _ in enumerate(eqn.outvars)]
                found += outs
                starts = [self._integers[n] for n in args[2:] if n in self._integers]
                if eqn.primitive.name == "dynamic_update_slice" and len(starts) == len(args) - 2:
                    self._updates[outs[0]] = args[0], starts, eqn.invars[1].aval.shape
            known.update(zip(eqn.outvars, outs))
        return [self._constant(v.val) if hasattr(v, "val") else number(v) for v in part.outvars]


_CALLS = ("jit", "pjit", "closed_call")


def _content(value: Any) -> Any:
    try:
        array = np.asarray(value)
    except TypeError:  # random keys
        return "object", id(value)
    large = array.nbytes > _SMALL
    held = (
        hashlib.blake2b(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).digest()
        if large
        else array.tobytes()
    )
    return "constant", str(array.dtype), array.shape, held


_SMALL = 4096
"""Bytes of a constant that are kept for a comparison; of more of them it is a digest."""


def _other_steps(used: CompiledProgram, fresh: CompiledProgram) -> str | None:
    steps = _Steps()
    (before, known), (now, found) = steps.of_program(used.traced), steps.of_program(fresh.traced)
    if before == now:
        return None
    new = next((steps.texts[n] for n in found if n not in known), None)
    return "its results are other ones" if new is None else f"it takes a step that the program does not have ({new})"


def _other_sources(used: CompiledProgram, fresh: CompiledProgram) -> str | None:
    for before, now in zip_longest(_inputs(used), _inputs(fresh)):
        if before is None or now is None or not before.is_same(now):
            kinds = [one.kind for one in (before, now) if one is not None]
            return f"an input of the program ({kinds[0]}) is another one"
    return None


class _Input(NamedTuple):
    """Where a program takes an input from."""

    kind: str
    name: Any
    is_constant: bool
    array: Callable[[], Any]

    def is_same(self, other: _Input) -> bool:
        """Whether two programs take the same: a constant that the first trace put into a cache is found there later."""
        if self.kind != other.kind:
            return False
        constant = self.is_constant or other.is_constant
        if self.name == other.name and not (constant and self.name is None):
            return True
        return constant and _content(self.array()) == _content(other.array())


def _inputs(program: CompiledProgram) -> Iterator[_Input]:
    for i, source in enumerate(program.traced.sources):
        array = functools.partial(source.array, ())
        if (held := program.body.constants.get(i)) is not None:
            yield _Input("tensor", None, True, held.array)
        elif source.kind in ("tensor", "grad"):
            made = source.kind == "tensor" and id(source.what) in program.traced.constants
            yield _Input(source.kind, _name(source.what), made, array)
        else:
            yield _Input(source.kind, None, False, array)


def _other_results(used: CompiledProgram, fresh: CompiledProgram) -> str | None:
    if used.returned.spec != fresh.returned.spec:
        return "the result has another structure"
    for before, now in zip(used.returned.outs, fresh.returned.outs):
        if type(before) is not type(now) or (isinstance(before, PLAIN_VALUES) and not is_same_value(before, now)):
            return f"a result was {before!r} and is {now!r}"
        if isinstance(before, OutsideView) and _view(before) != _view(now):
            return "a result is another view of a tensor"
        if isinstance(before, OutsideTensor) and isinstance(before.of, int) and before.of != now.of:
            return "a result is another argument"
        if isinstance(before, GivenContainer) and before.path != now.path:
            return "a result is another argument"
        if before is not now and not (isinstance(before, PLAIN_VALUES) or is_known(before) or is_ours(type(before))):
            return f"a result was one {type(before).__name__} and is another one"
    return None


def _view(x: OutsideView) -> tuple[Any, ...]:
    al = x.alias
    return x.meta, None if al is None else (al.offset, al.conj, al.neg)


def _other_effects(used: CompiledProgram, fresh: CompiledProgram) -> str | None:
    for before, now in zip_longest(_effects(used.traced), _effects(fresh.traced)):
        if before != now:
            return f"what the program writes outside ({(before or now)[0]}) is something else"
    return None


def _effects(program: TracedProgram) -> Iterator[tuple[Any, ...]]:
    yield from (("elements of a tensor", *row) for row in program.writes)
    for leaf, k, m, version in program.grads:
        yield "a gradient", _name(leaf), k if m is not None else type(k), m, version
    yield from (("a flag", _name(leaf), requires) for leaf, requires in program.flags)


def _name(leaf: Any) -> int:
    return leaf if isinstance(leaf, int) else id(leaf)


_CHECKS: tuple[Callable[[CompiledProgram, CompiledProgram], str | None], ...] = (
    _other_steps,
    _other_sources,
    _other_effects,
    _other_results,
)
