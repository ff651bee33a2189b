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
from types import TracebackType
from typing import Any

import numpy as np

_CLOCKS = ("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns")
_SILENT = ("torchgrad_jax", "jax", "jaxlib", "logging", "warnings")
"""Who may print, warn and ask for the time without that being the function's doing."""


class Noticing:
    """A context that notices such calls of the thread that it was made in.

    Output waits for `release`, and is lost after `undo`.
    """

    def __init__(self) -> None:
        self.found: str | None = None
        """What was noticed, in words."""
        self._held: list[Callable[[], Any]] = []
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        self._thread = threading.get_ident()

    def __enter__(self) -> Noticing:
        self._random, self._numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - the old generator
        self._replace(builtins, "print", self._printing)
        self._replace(logging.Logger, "handle", self._logging)
        self._replace(warnings, "warn", self._warning)
        for name in _CLOCKS:
            self._replace(time, name, self._clock)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        for owner, name, before, ours in self._replaced:
            if getattr(owner, name) is ours:
                setattr(owner, name, before)
        self._replaced.clear()
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
        np.random.set_state(self._numpy)  # noqa: NPY002
        self._held.clear()

    def _replace(self, owner: Any, name: str, make: Callable[[str, Any], Any]) -> None:
        before = getattr(owner, name)
        ours = make(name, before)
        setattr(owner, name, ours)
        self._replaced.append((owner, name, before, ours))

    def _is_the_users(self) -> bool:
        """Whether who called what calls this is no part of this package, in the thread that is watched."""
        if threading.get_ident() != self._thread:
            return False
        module = sys._getframe(2).f_globals.get("__name__") or ""
        return module.partition(".")[0] not in _SILENT

    def _say(self, what: str, call: Callable[[], Any]) -> None:
        self.found = what
        self._held.append(call)

    def _printing(self, name: str, before: Any) -> Any:
        def output(*args: Any, **kwargs: Any) -> None:
            if not self._is_the_users():
                before(*args, **kwargs)
                return
            texts = [str(x) for x in args]  # as they are now
            self._say(name, lambda: before(*texts, **kwargs))

        return output

    def _logging(self, name: str, before: Any) -> Any:
        def handle(logger: Any, record: Any) -> Any:
            foreign = threading.get_ident() != self._thread
            if foreign or logger.name.partition(".")[0] in _SILENT:
                return before(logger, record)
            return self._say("a log line", lambda: before(logger, record))

        return handle

    def _warning(self, name: str, before: Any) -> Any:
        def warn(
            message: Any, category: Any = None, stacklevel: int = 1, source: Any = None, **more: Any
        ) -> None:
            if self._is_the_users():
                self.found = "warnings.warn"
            before(message, category, stacklevel + 1, source, **more)

        return warn

    def _clock(self, name: str, before: Any) -> Any:
        def clock() -> Any:
            if self._is_the_users():
                self.found = f"time.{name}"
            return before()

        return clock


__all__ = ["Noticing"]
