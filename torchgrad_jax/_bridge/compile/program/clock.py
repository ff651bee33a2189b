"""How long a program runs, beside how long a trace of it takes: when it is to be checked."""

from __future__ import annotations

import math
import sys


class Clock:
    """How long a program has run since it was traced, measured at a few of its runs.

    Args:
        seconds: how long its trace took.
        why_not: why it is not checked by itself, None if it is.
    """

    def __init__(self, seconds: float, why_not: str | None = None) -> None:
        self.seconds, self.why_not = seconds, why_not
        self.checks = 0
        """How often it was traced again."""
        self._ran = self._one = 0.0
        self._between = 1

    def runs_until_a_look(self) -> float:
        """How many runs are not measured, from the first one on."""
        return 1 if self.why_not is None else math.inf

    @property
    def is_due(self) -> bool:
        """Whether the time has come, and nobody would notice: a debugger or a profiler stays out of it."""
        due = self.why_not is None and self._ran >= TIMES * self.seconds
        return due and sys.getprofile() is None and sys.gettrace() is None

    def has_run(self, seconds: float) -> float:
        """Take the time of one run for that of all since the last look, and say how many may follow without one.

        Of two looks the shorter one counts, since either may have met something else, such as a pause.
        """
        one = min(seconds, self._one or seconds)
        self._one = seconds
        self._ran += one * self._between
        missing = (TIMES * self.seconds - self._ran) / max(one, 1e-9)
        self._between = max(1, min(2 * self._between, math.ceil(missing)))
        return self._between - 1

    def was_traced(self, seconds: float) -> None:
        """Begin anew."""
        self.checks += 1
        self.seconds, self._ran, self._between = seconds, 0.0, 1

    def stop(self, why: str) -> None:
        """No longer check the program by itself."""
        self.why_not = why


TIMES = 100
"""So many times as long as it takes to trace a program it runs before it is checked."""
