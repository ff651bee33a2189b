"""A bar that shows how far long work has come, on a terminal alone."""

from __future__ import annotations

import shutil
import sys


def draw(done: int, of: int, differ: int, at: str = "") -> None:
    """Show how much is done, how much of it differs, and where the work is; nothing where nobody looks."""
    if not sys.stderr.isatty():
        return
    tail = f" {done}/{of}, {differ} differ  {at}"
    width = max(10, min(40, shutil.get_terminal_size().columns - len(tail) - 3))
    full = int(done / of * width)
    print(
        "\r\033[K[" + "#" * full + "." * (width - full) + "]" + tail,
        end="",
        file=sys.stderr,
        flush=True,
    )


def clear() -> None:
    """Take the bar away, for what is printed next."""
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
