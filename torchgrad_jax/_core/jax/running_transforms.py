"""When JAX began to trace the code that runs.

Each of JAX's transforms makes a trace before it calls the user's function, and drops it afterwards. Traces are
numbered as storages are (`Storage.born`): a storage with a lower number was made before the transform began.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax

from ..state import MODES, UNDER_JAX, next_level
from .private import current_trace as current_trace, watch_traces


class _Began:
    """A running trace.

    Attributes:
        trace: gives the trace, or None when it is over.
        level: its number.
        before: what `MODES.birth` was when it began.
        running: the running traces of its thread, by identity.
    """

    __slots__ = ("before", "level", "running", "trace")

    def __init__(self, trace: Any, level: int, running: set[int]) -> None:
        number = id(trace)
        self.trace = weakref.ref(trace, lambda _: _end(number))
        self.level, self.before, self.running = level, MODES.birth, running


_BEGAN: dict[int, _Began] = {}
"""By identity of the trace."""

make_watch: Callable[[], Any] | None = None
"""Gives what watches over the outermost trace of a thread: its `finish(failed)` is called when that ends."""


class _Outermost:
    """A trace that began when no other one was running in its thread."""

    __slots__ = ("context", "watch")

    def __init__(self) -> None:
        self.context: Any = None
        """Where JAX called the function that it transforms."""
        self.watch = None if make_watch is None else make_watch()


_OUTERMOST: dict[int, _Outermost] = {}
"""The outermost traces of all threads, by identity."""


def _outermost() -> _Outermost | None:
    """The outermost trace that the code runs in."""
    return next((_OUTERMOST[n] for n in _copied(MODES.open_traces) if n in _OUTERMOST), None)


def _copied(running: set[int] | None) -> set[int]:
    """The numbers now, in a set of their own: where Python collects garbage meanwhile, a trace in it ends."""
    return set() if running is None else running.copy()


def running_watch() -> Any:
    """What watches over the outermost trace that the code runs in, or None."""
    found = _outermost()
    return None if found is None else found.watch


def unwatch(trace: Any) -> None:
    """Do not watch a trace of this package, which itself undoes what code in it changes."""
    found = _OUTERMOST.get(id(trace))
    if found is not None:
        found.watch = None


def _enter(context: Any) -> None:
    """The user's function is about to be called, if this is the first time that a trace is entered since it began."""
    found = _outermost() if _OUTERMOST else None
    if found is not None and found.context is None and began(context.trace):
        found.context = context


def _leave(context: Any, failed: bool) -> None:
    """The user's function has returned or raised, if this is where it was called: its traces are over."""
    found = _outermost() if _OUTERMOST else None
    if found is None or found.context is not context:
        return
    try:
        if found.watch is not None:
            found.watch.finish(failed)
    finally:
        for number in _copied(MODES.open_traces):
            _end(number)


def _begin(trace: Any) -> None:
    """Number a trace that JAX just made, and let every operation of this thread know of it until it ends."""
    number = id(trace)
    running = MODES.open_traces
    if running is None:
        running = MODES.open_traces = set()
    if not running:
        _OUTERMOST[number] = _Outermost()
    _BEGAN[number] = found = _Began(trace, next_level(), running)
    MODES.birth = found.level
    running.add(number)
    MODES.bits |= UNDER_JAX


def _end(number: int) -> None:
    """A trace has ended: JAX invalidated it, or dropped it."""
    found = _BEGAN.get(number)
    if found is None:
        return
    _OUTERMOST.pop(number, None)
    running = found.running
    for other in [n for n in _copied(running) if _parent(n) == number]:
        _end(other)
    running.discard(number)
    _give_back_birth(found)
    # This comes last: if a signal interrupts it, it is done when the trace is freed.
    _BEGAN.pop(number, None)
    if not running and MODES.open_traces is running:
        _forget()


def _give_back_birth(ended: _Began) -> None:
    """Have new storages bear the number that they bore before a trace began; traces may end in any order."""
    for n in _copied(ended.running):
        other = _BEGAN.get(n)
        if other is not None and other.before == ended.level:
            other.before = ended.before
    if MODES.open_traces is ended.running and MODES.birth == ended.level:
        MODES.birth = ended.before


def _parent(number: int) -> int:
    """The identity of the trace that a running one is part of; that of None for one that is over."""
    found = _BEGAN.get(number)
    return id(None if found is None else getattr(found.trace(), "parent_trace", None))


def _forget() -> None:
    """No function of JAX's is running in this thread."""
    MODES.own |= {"bits": MODES.bits & ~UNDER_JAX, "undo": []}


def began(trace: Any) -> int:
    """The number of a trace of JAX's; 0 for traces of this package's own."""
    found = _BEGAN.get(id(trace))
    return 0 if found is None else found.level


def running() -> Iterator[Any]:
    """JAX's traces that the code is in, from the innermost."""
    trace = current_trace()
    while trace is not None and began(trace):
        yield trace
        trace = getattr(trace, "parent_trace", None)


def is_running() -> bool:
    """Whether JAX traces the code that runs: with `MODES.bits & UNDER_JAX` it may have stepped out of all traces."""
    return bool(MODES.bits & UNDER_JAX) and next(running(), None) is not None


HOME_OF_JAX = f"{Path(jax.__file__).parent}{os.sep}"


# A trace ends when JAX invalidates it or the trace that it is part of, or drops it, or when the outermost function that
# is traced has returned or raised. JAX alone may drop it much later: the jaxpr of a function with derivatives of its
# own holds its trace for as long as a kernel lives, and so does an exception that somebody keeps.
watch_traces(_begin, _end, _enter, _leave)
