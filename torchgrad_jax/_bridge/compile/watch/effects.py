"""What a run does or asks for that steps of XLA cannot repeat: output, random numbers of Python's, the time.

A function is traced once and its steps are run again and again. Whoever prints or asks for the time in it expects to do
so in each run. Such calls are noticed while a function is traced, and its program is not kept.
"""

from __future__ import annotations

import builtins
import logging
import math
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from ...._core.arrays.python_numbers import MATH, tracked
from ...._core.errors.messages import AsWritten, users_place
from .impure_calls import describe_impure_call, is_clock
from .unread_attributes import CodeThatRan

_CLOCKS = (
    "time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time",
    "process_time_ns", "thread_time", "thread_time_ns",
)  # fmt: skip
_SILENT = ("torchgrad_jax", "jax", "jaxlib", "logging", "warnings")
"""Who may print, warn and ask for the time without that being the function's doing."""
_ON_BEHALF = ("etils",)
"""Packages that JAX handles the files of its caches with: what they do is done for their caller."""


class EffectWatcher:
    """A context that notices such calls of the thread that entered it.

    Output waits for `release_output`, and is lost after `restore`.

    Args:
        iterators: identities of iterators from outside.
        calls: whether calls of C functions are to be looked at, which takes time.
        code: what is to be told of the functions of Python that run, which takes time, too.
        stops: whether to end the run before something is done that cannot be undone.
    """

    def __init__(
        self, iterators: Iterable[int] = (), calls: bool = False, stops: bool = False, code: CodeThatRan | None = None
    ) -> None:
        self._iterators = frozenset(iterators)
        self._looks_at_c_calls, self._stops_before_effects, self._profiles = calls, stops, False
        self._code = code
        self.first_effect: str | None = None
        """What was noticed, in words."""
        self._held_output: list[Callable[[], Any]] = []
        self._outer: EffectWatcher | None = None
        self._random: Any = None

    def __enter__(self) -> EffectWatcher:
        self._numpy = np.random.get_state()  # noqa: NPY002 - the old generator
        self._random = random.getstate()
        self._outer, _thread.watcher = _thread.watcher, self
        _replaced.enter(self)
        wanted = self._looks_at_c_calls or self._code is not None
        self._profiles = wanted and sys.getprofile() is None
        if self._profiles:
            if self._code is not None:
                self._code.complete = True
            sys.setprofile(self._profile)
        return self

    def __exit__(self, *exc: object) -> None:
        self.leave()
        if random.getstate() != self._random:
            self.first_effect = self.first_effect or "a number was drawn from the module random"
        drawn: Any = np.random.get_state()  # noqa: NPY002 - the old generator
        then: Any = self._numpy
        if drawn[2:] != then[2:] or not np.array_equal(drawn[1], then[1]):
            self.first_effect = self.first_effect or "a number was drawn from numpy.random"

    def leave(self) -> None:
        """Notice nothing any more; once more after an interrupt, what was left to do."""
        if self._profiles:
            sys.setprofile(None)
            self._profiles = False
        if _thread.watcher is self:
            _thread.watcher = self._outer
        _replaced.leave(self)

    def release_output(self) -> None:
        """Let the output out that was held back."""
        held, self._held_output = self._held_output, []
        for call in held:
            call()

    def restore(self) -> None:
        """Put the random numbers back that were drawn, and forget the output that was held back."""
        if self._random is not None:
            random.setstate(self._random)
            np.random.set_state(self._numpy)  # noqa: NPY002 - the old generator
        self._held_output.clear()

    def note(self, what: str) -> None:
        """Remember what was done first, and where."""
        if self.first_effect is None:
            self.first_effect = f"{what} at {users_place()}"

    def stop_or_note(self, what: str) -> None:
        """Something that cannot be undone is about to be done."""
        if self._stops_before_effects:
            raise AsWritten(f"{what} at {users_place()}", lasting=True)
        self.note(what)

    def _profile(self, frame: Any, event: str, called: Any) -> None:
        if event == "call" and self._code is not None:
            self._code.note(frame)
        if (
            event != "c_call"
            or not self._looks_at_c_calls
            or not (what := describe_impure_call(called))
            or not _is_user_code(frame)
        ):
            return
        if is_clock(called):
            self.note(what)
        else:
            self.stop_or_note(what)

    def before_next(self, iterator: Any) -> None:
        """`next` is about to be called."""
        if id(iterator) in self._iterators:
            self.stop_or_note(f"next() of a {type(iterator).__name__} from outside was called")

    def hold_output(self, what: str, call: Callable[[], Any]) -> None:
        """Hold a piece of output back."""
        self.note(what)
        self._held_output.append(call)


class _ThreadState(threading.local):
    watcher: EffectWatcher | None = None
    """Who notices what this thread does."""


_thread = _ThreadState()


def effects_so_far() -> Any:
    """What was noticed in this thread up to here; it changes with the first effect, and with each output."""
    watcher = _thread.watcher
    return None if watcher is None else (watcher.first_effect, len(watcher._held_output))


def _watcher_of_user_code() -> EffectWatcher | None:
    """Who notices, if what called the function that calls this is no part of this package."""
    watcher = _thread.watcher
    if watcher is None:
        return None
    module = sys._getframe(2).f_globals.get("__name__") or ""
    return None if module.partition(".")[0] in _SILENT else watcher


def _is_user_code(frame: Any) -> bool:
    """Whether code of the user's runs, or code of the standard library for it."""
    while frame is not None:
        top = (frame.f_globals.get("__name__") or "").partition(".")[0]
        if top in (*_SILENT, "numpy"):
            return False
        if top == "__main__" or (top not in sys.stdlib_module_names and top not in _ON_BEHALF):
            return True
        frame = frame.f_back
    return False


def _printing(name: str, before: Any) -> Any:
    def output(*args: Any, **kwargs: Any) -> None:
        watcher = _watcher_of_user_code()
        if watcher is None:
            before(*args, **kwargs)
            return
        texts = [str(x) for x in args]  # the texts are taken now, since the objects may change
        watcher.hold_output(f"{name}() was called", lambda: before(*texts, **kwargs))

    return output


def _logging(name: str, before: Any) -> Any:
    def handle(logger: Any, record: Any) -> Any:
        watcher = _thread.watcher
        if watcher is None or logger.name.partition(".")[0] in _SILENT:
            return before(logger, record)
        return watcher.hold_output("a log line was written", lambda: before(logger, record))

    return handle


def _warning(name: str, before: Any) -> Any:
    def warn(message: Any, category: Any = None, stacklevel: int = 1, source: Any = None, **more: Any) -> None:
        watcher = _watcher_of_user_code()
        if watcher is not None:
            watcher.note("warnings.warn() was called")
        before(message, category, stacklevel + 1, source, **more)

    return warn


def _next(name: str, before: Any) -> Any:
    def advance(iterator: Any, *default: Any) -> Any:
        if (watcher := _watcher_of_user_code()) is not None:
            watcher.before_next(iterator)
        return before(iterator, *default)

    return advance


def _clock(name: str, before: Any) -> Any:
    def clock() -> Any:
        watcher = _watcher_of_user_code()
        if watcher is not None:
            watcher.note(f"time.{name}() was called")
        return before()

    return clock


def _thread_work(name: str, before: Any) -> Any:
    """No trace goes on in other threads, and one of them that writes to a tensor would wait for the trace to end."""

    def work(owner: Any, *args: Any, **kwargs: Any) -> Any:
        waits = not (isinstance(owner, Future) and owner.done())
        if waits and _watcher_of_user_code() is not None:
            raise AsWritten(f"{name}() of a {type(owner).__name__} was called at {users_place()}", lasting=True)
        return before(owner, *args, **kwargs)

    return work


class _ReplacedFunctions:
    """The functions that are noticed, replaced while some thread wants to know: once, however many do."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted: set[EffectWatcher] = set()
        self._put: list[tuple[Any, str, Any, Any]] = []

    def enter(self, who: EffectWatcher) -> None:
        """One more wants to know."""
        with self._lock:
            self._wanted.add(who)
            if self._put:
                return
            self._replace(builtins, "print", _printing)
            self._replace(builtins, "next", _next)
            self._replace(logging.Logger, "handle", _logging)
            self._replace(warnings, "warn", _warning)
            self._replace(threading.Thread, "start", _thread_work)
            self._replace(ThreadPoolExecutor, "submit", _thread_work)
            self._replace(Future, "result", _thread_work)
            for name in _CLOCKS:
                self._replace(time, name, _clock)
            for name in MATH:
                self._replace(math, name, tracked)

    def leave(self, who: EffectWatcher) -> None:
        """One less."""
        with self._lock:
            self._wanted.discard(who)
            if self._wanted:
                return
            for owner, name, before, ours in self._put:
                # Otherwise it is somebody else's function, which may call ours.
                if getattr(owner, name) is ours:
                    setattr(owner, name, before)
            self._put.clear()

    def _replace(self, owner: Any, name: str, make: Callable[[str, Any], Any]) -> None:
        before = getattr(owner, name)
        ours = make(name, before)
        self._put.append((owner, name, before, ours))
        setattr(owner, name, ours)


_replaced = _ReplacedFunctions()
