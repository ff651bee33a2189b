"""A bar that shows how far long work has come, on a terminal alone."""

from __future__ import annotations

import shutil
import sys
import time


def draw(done: int, of: int, differ: int, at: str = "", began: float | None = None, before: int = 0) -> None:
    """Show how much is done, how much of it differs, what time is left, and where the work is; only on a terminal.

    Args:
        began: when the work began, in seconds (`time.time`).
        before: how much was done by then.
    """
    if not sys.stderr.isatty():
        return
    tail = f" {done}/{of}, {differ} differ{left(done, of, began, before)}  {at}"
    width = max(10, min(40, shutil.get_terminal_size().columns - len(tail) - 3))
    full = int(done / of * width)
    print("\r\033[K[" + "#" * full + "." * (width - full) + "]" + tail, end="", file=sys.stderr, flush=True)


def left(done: int, of: int, began: float | None, before: int = 0) -> str:
    """The time that is left, if the rest takes as long as what is done."""
    if began is None or done == before:
        return ""
    seconds = (time.time() - began) / (done - before) * (of - done)
    return f", {seconds / 60:.0f} min left" if seconds > 90 else f", {seconds:.0f} s left"


def clear() -> None:
    """Take the bar away, for what is printed next."""
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
