"""What windows did so far, and where the program ended them: what `torch.interop.windows()` shows."""

from __future__ import annotations

import logging
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from ..._core.jax.compiling import asks_for

_MOST = 1024
"""Places of the program that are counted one by one."""
_log = logging.getLogger("torchgrad_jax.windows")
READ = "a value is read"
"""The cause for which the function that reads is told as well."""
_LOCK = threading.Lock()


class Cut(NamedTuple):
    """Where windows ended.

    `cause` says why, `where` is a file and a line of the program, `count` says how often.
    """

    cause: str
    where: str
    count: int


class Counts(NamedTuple):
    """What windows did: how many ran with how many steps, and what was started for them.

    `met` of them ran kernel by kernel, because a window like that never came before. The others ran as programs:
    `starts` are the programs and kernels that were started for all of them. `cuts` has the most frequent first.
    """

    windows: int
    steps: int
    met: int
    starts: int
    cuts: list[Cut]

    def __str__(self) -> str:
        lines = [
            f"{self.windows} windows of {self.steps} steps, {self.met} kernel by kernel; {self.starts} starts",
            *[f"{c.count:7} times {c.cause}, at {c.where}" for c in self.cuts],
        ]
        return "\n".join(lines)


_cuts: Counter[tuple[str, str]] = Counter()
_counts = {"windows": 0, "steps": 0, "met": 0, "starts": 0}


def note(cause: str, steps: int, program: Any, reader: Callable[[], tuple[str, str]]) -> None:
    """Count a window that ran; `program` is None if it ran kernel by kernel, and `reader` says what ended it."""
    name, where = reader()
    cause = f"{cause} by `{name}`" if name and cause == READ else cause
    with _LOCK:
        _counts["windows"] += 1
        _counts["steps"] += steps
        _counts["met"] += program is None
        _counts["starts"] += steps if program is None else program.starts
        key = cause, where
        if key in _cuts or len(_cuts) < _MOST:
            _cuts[key] += 1
    if asks_for("windows"):
        how = "kernel by kernel" if program is None else f"{program.starts} starts"
        print(f"[windows] {steps} steps, {how}: {key[0]}, at {where}", file=sys.stderr)  # noqa: T201 - asked for


def note_alone(steps: int) -> None:
    """Count the kernels that were started for a value that was computed alone."""
    with _LOCK:
        _counts["starts"] += steps


def counts(reset: bool = False) -> Counts:
    """Return what windows did since the process began, or since that was last forgotten; `reset` forgets it."""
    with _LOCK:
        found = Counts(**_counts, cuts=[Cut(*key, n) for key, n in _cuts.most_common()])
        if reset:
            _cuts.clear()
            _counts.update(dict.fromkeys(_counts, 0))
    return found
