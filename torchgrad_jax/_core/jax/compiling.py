"""Messages about kernels while they are compiled.

A program that compiles for seconds looks as if it hung. On a terminal, one line on the standard error says what it is
doing:

    torchgrad_jax: compiling conv2d, 37 kernels in 9 s so far; the next run finds them

The line is there only while JAX traces, lowers or compiles and has done little else for three seconds, and it is gone
before the program writes its own next line. `TORCHGRAD_JAX_PROGRESS=0` turns it off. `TORCHGRAD_JAX_LOGS=kernels` lists
every kernel instead, also where the standard error is a file: its name, shapes, time, and the line of the program.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import threading
import time
from collections import deque
from typing import Any

import jax

from ..errors.messages import users_place
from .kernel_files import folder_of_kernels
from .own_kernels import PREFIX
from .private import KERNEL_LOGGER

PROGRESS = "TORCHGRAD_JAX_PROGRESS"
LOGS = "TORCHGRAD_JAX_LOGS"
_OFF = ("0", "off", "no")
_STAGES = "/jax/core/compile/"
_COMPILED = _STAGES + "backend_compile_duration"
_READ = "/jax/compilation_cache/cache_hits"
_WINDOW, _BUSY = 3.0, 2.0
"""The line is shown where so many of the last seconds went into compiling."""
_TICK = 0.25
"""Seconds between two looks at a kernel that takes long."""


def asks_for(name: str) -> bool:
    """Whether `TORCHGRAD_JAX_LOGS`, a list of names with commas in between, or the program asks for these messages."""
    return name in ASKED or name in [n.strip().lstrip("+") for n in os.environ.get(LOGS, "").split(",")]


ASKED: set[str] = set()
"""Names of messages that the program itself asked for."""


class Progress:
    """The line about what is being compiled.

    Args:
        stream: where it is written.
        clock: gives seconds.
    """

    def __init__(self, stream: Any, clock: Any = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._lock = threading.RLock()
        self._running: dict[int, list[float]] = {}
        """By thread: when the stages began that it is in, the outermost first. One stage may call for another."""
        self._spans: deque[tuple[float, float]] = deque()
        """When compiling began and ended lately."""
        self._shown = False
        self._total, self._kernels, self._name = 0.0, 0, ""
        self._started = threading.Event()
        self._ticker: threading.Thread | None = None

    def begin(self, name: str) -> None:
        """A stage of compiling begins in this thread."""
        with self._lock:
            self._running.setdefault(threading.get_ident(), []).append(self._clock())
            self._name = name
            self._update()
            self._tick()

    def end(self, event: str) -> None:
        """The last stage of this thread is over."""
        with self._lock:
            me, now = threading.get_ident(), self._clock()
            begun = self._running.get(me)
            if begun is None:
                return
            first = begun.pop()
            if not begun:
                del self._running[me]
                self._spans.append((first, now))
                self._total += now - first
            self._kernels += event == _COMPILED
            if not self._running:
                self._erase()

    def _update(self) -> None:
        now = self._clock()
        while self._spans and self._spans[0][1] < now - _WINDOW:
            self._spans.popleft()
        spans = [*self._spans, *[(begun[0], now) for begun in self._running.values()]]
        if sum(end - max(begin, now - _WINDOW) for begin, end in spans) > _BUSY:
            seconds = self._total + sum(now - begun[0] for begun in self._running.values())
            self._write(self._text(seconds))

    def _text(self, seconds: float) -> str:
        after = "the next run finds them" if folder_of_kernels() else "TORCHGRAD_JAX_CACHE keeps them"
        many = f"{self._kernels} kernel{'s'[: self._kernels != 1]} in {seconds:.0f} s"
        return f"torchgrad_jax: compiling {_plain(self._name)}, {many} so far; {after}"

    def _write(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        self._put(f"\r{text[:width]}\x1b[K")
        self._shown = True

    def _erase(self) -> None:
        if self._shown:
            self._put("\r\x1b[K")
            self._shown = False

    def _put(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the terminal was closed
            self._stream = None

    def _tick(self) -> None:
        """Start the thread that looks at the clock while a kernel is compiled."""
        if self._ticker is None:
            self._ticker = threading.Thread(target=self._look, name="torchgrad_jax-progress", daemon=True)
            self._ticker.start()
        self._started.set()

    def _look(self) -> None:
        while self._stream is not None:
            self._started.wait()
            time.sleep(_TICK)
            with self._lock:
                if self._running:
                    self._update()
                else:
                    self._started.clear()


class Listing:
    """A line for each kernel: what it is called, what it takes, how long it took, and who asked for it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._of_thread = threading.local()

    def note_shapes(self, record: logging.LogRecord) -> None:
        """Remember the shapes that JAX logs just before it compiles a kernel."""
        if record.msg.startswith("Compiling") and isinstance(record.args, tuple) and len(record.args) > 1:
            self._of_thread.shapes = record.args[1]

    def read(self) -> None:
        """The kernel at hand was found in the folder of kernels."""
        self._of_thread.read = True

    def end(self, name: str, seconds: float) -> None:
        """A kernel is there."""
        own = vars(self._of_thread)
        shapes, read = own.pop("shapes", ()), own.pop("read", False)
        given = ", ".join(a.str_short() if hasattr(a, "str_short") else str(a) for a in shapes)
        how = "read" if read else "compiled"
        line = f"[kernels] {_plain(name)}({given}): {how} in {seconds * 1e3:.0f} ms, for {users_place()}\n"
        try:
            self._stream.write(line)
        except (OSError, ValueError):
            pass  # the program closed it


def _plain(name: str) -> str:
    """Return the name of a function that JAX compiles, without what JAX did with it: conv2d of jit(torch.conv2d)."""
    return (name.partition("(")[2].rpartition(")")[0] or name).removeprefix(PREFIX)


def watch_compiling() -> None:
    """Begin to report what is compiled, in the way that the environment and the terminal ask for."""
    stream = sys.stderr
    if asks_for("kernels"):
        list_kernels()
    elif stream is not None and _is_terminal(stream) and _wanted():
        _show_progress(Progress(stream))


def _wanted() -> bool:
    return os.environ.get(PROGRESS, "1").lower() not in _OFF


def _is_terminal(stream: Any) -> bool:
    try:
        return stream.isatty() and os.environ.get("TERM") != "dumb"
    except (AttributeError, ValueError):
        return False


def _show_progress(progress: Progress) -> None:
    def began(event: str, value: float, **about: Any) -> None:
        if event.startswith(_STAGES):
            progress.begin(str(about.get("fun_name", "")))

    def ended(event: str, duration_secs: float, **about: Any) -> None:
        if event.startswith(_STAGES):
            progress.end(event)

    jax.monitoring.register_scalar_listener(began)
    jax.monitoring.register_event_duration_secs_listener(ended)


def list_kernels() -> None:
    """Begin to list every kernel that is compiled, on the standard error; once more does nothing."""
    if not _LISTING:
        _LISTING.append(Listing(sys.stderr))
        _list_kernels(_LISTING[0])


_LISTING: list[Listing] = []
"""What writes the list, if it was asked for."""


def _list_kernels(listing: Listing) -> None:
    before = KERNEL_LOGGER.getEffectiveLevel()
    KERNEL_LOGGER.setLevel(min(before, logging.DEBUG))

    def heard(record: logging.LogRecord) -> bool:
        listing.note_shapes(record)
        return record.levelno >= before

    def ended(event: str, duration_secs: float, **about: Any) -> None:
        if event == _COMPILED and asks_for("kernels"):
            listing.end(str(about.get("fun_name", "")), duration_secs)

    def happened(event: str, **about: Any) -> None:
        if event == _READ:
            listing.read()

    KERNEL_LOGGER.addFilter(heard)
    jax.monitoring.register_event_duration_secs_listener(ended)
    jax.monitoring.register_event_listener(happened)
