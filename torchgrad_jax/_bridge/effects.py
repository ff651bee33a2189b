"""What a run does or asks for that steps of XLA cannot repeat: output, random numbers of Python's, the time.

A function is traced once and its steps are run again and again. Whoever prints or asks for the time in it expects to do
so in each run. Such calls are noticed while a function is traced, and its program is not kept.
"""

from __future__ import annotations

import builtins
import logging
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

_CLOCKS = ("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns")
_SILENT = ("torchgrad_jax", "jax", "jaxlib", "logging", "warnings")
"""Who may print, warn and ask for the time without that being the function's doing."""


class Noticing:
    """A context that notices such calls of the thread that entered it.

    Output waits for `release`, and is lost after `undo`.
    """

    def __init__(self) -> None:
        self.found: str | None = None
        """What was noticed, in words."""
        self._held: list[Callable[[], Any]] = []
        self._outer: Noticing | None = None

    def __enter__(self) -> Noticing:
        self._random, self._numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - the old generator
        self._outer, _here.noticing = _here.noticing, self
        _replaced.enter()
        return self

    def __exit__(self, *exc: object) -> None:
        _here.noticing = self._outer
        _replaced.leave()
        if random.getstate() != self._random:
            self.found = "random"
        drawn: Any = np.random.get_state()  # noqa: NPY002 - the old generator
        then: Any = self._numpy
        if drawn[2:] != then[2:] or not np.array_equal(drawn[1], then[1]):
            self.found = "numpy.random"

    def release(self) -> None:
        """Let the output out that was held back."""
        held, self._held = self._held, []
        for call in held:
            call()

    def undo(self) -> None:
        """Put the random numbers back that were drawn, and forget the output that was held back."""
        random.setstate(self._random)
        np.random.set_state(self._numpy)  # noqa: NPY002 - the old generator
        self._held.clear()

    def say(self, what: str, call: Callable[[], Any]) -> None:
        """Hold a piece of output back."""
        self.found = what
        self._held.append(call)


class _Here(threading.local):
    noticing: Noticing | None = None
    """Who notices what this thread does."""


_here = _Here()


def _users() -> Noticing | None:
    """Who notices, if what called the function that calls this is no part of this package."""
    noticing = _here.noticing
    if noticing is None:
        return None
    module = sys._getframe(2).f_globals.get("__name__") or ""
    return None if module.partition(".")[0] in _SILENT else noticing


def _printing(name: str, before: Any) -> Any:
    def output(*args: Any, **kwargs: Any) -> None:
        noticing = _users()
        if noticing is None:
            before(*args, **kwargs)
            return
        texts = [str(x) for x in args]  # as they are now
        noticing.say(name, lambda: before(*texts, **kwargs))

    return output


def _logging(name: str, before: Any) -> Any:
    def handle(logger: Any, record: Any) -> Any:
        noticing = _here.noticing
        if noticing is None or logger.name.partition(".")[0] in _SILENT:
            return before(logger, record)
        return noticing.say("a log line", lambda: before(logger, record))

    return handle


def _warning(name: str, before: Any) -> Any:
    def warn(
        message: Any, category: Any = None, stacklevel: int = 1, source: Any = None, **more: Any
    ) -> None:
        noticing = _users()
        if noticing is not None:
            noticing.found = "warnings.warn"
        before(message, category, stacklevel + 1, source, **more)

    return warn


def _clock(name: str, before: Any) -> Any:
    def clock() -> Any:
        noticing = _users()
        if noticing is not None:
            noticing.found = f"time.{name}"
        return before()

    return clock


class _Replaced:
    """The functions that are noticed, replaced while some thread wants to know: once, however many do."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted = 0
        self._put: list[tuple[Any, str, Any, Any]] = []

    def enter(self) -> None:
        """One more thread wants to know."""
        with self._lock:
            self._wanted += 1
            if self._wanted > 1:
                return
            self._replace(builtins, "print", _printing)
            self._replace(logging.Logger, "handle", _logging)
            self._replace(warnings, "warn", _warning)
            for name in _CLOCKS:
                self._replace(time, name, _clock)

    def leave(self) -> None:
        """One less."""
        with self._lock:
            self._wanted -= 1
            if self._wanted:
                return
            for owner, name, before, ours in self._put:
                if getattr(owner, name) is ours:  # else it is somebody else's, who may call ours
                    setattr(owner, name, before)
            self._put.clear()

    def _replace(self, owner: Any, name: str, make: Callable[[str, Any], Any]) -> None:
        before = getattr(owner, name)
        ours = make(name, before)
        setattr(owner, name, ours)
        self._put.append((owner, name, before, ours))


_replaced = _Replaced()

__all__ = ["Noticing"]
