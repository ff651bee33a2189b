"""What was measured, of what, and how it is told."""

from __future__ import annotations

import contextlib
import math
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ...._settings import get_num_threads, set_num_threads

MOST_FIGURES = 4
SHORTEST_DOUBT = 25e-9
"""Seconds: no clock is trusted further than that."""
SUSPICIOUS, USELESS = 0.1, 0.25
"""Shares of the median that the middle half of the times may span, before that is told."""
CONFIDENT = 1.645
"""Standard deviations on either side of the mean for nine times out of ten."""

_UNITS = {-3: ("ns", 1e-9), -2: ("us", 1e-6), -1: ("ms", 1e-3)}
_ENGLISH = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}


@dataclass(init=True, repr=False, eq=True, frozen=True)
class TaskSpec:
    """What is measured, and under which names it is told."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The labels, or the statement."""
        name = self.label or self.stmt
        if self.sub_label is None:
            return name
        return f"{name}{': ' if name else ''}{self.sub_label}"

    def setup_str(self) -> str:
        """The setup, if there is one to speak of."""
        if self.setup == "pass" or not self.setup:
            return ""
        if "\n" in self.setup:
            return "setup:\n" + textwrap.indent(self.setup, "  ")
        return f"setup: {self.setup}"

    def summarize(self) -> str:
        """Title, description and setup on lines of their own."""
        parts = (self.title, self.description or "", self.setup_str())
        return "\n".join(f"{p}\n" if "\n" in p else p for p in parts if p)


_FACTS = tuple(f.name for f in fields(TaskSpec))


@dataclass(init=True, repr=False)
class Measurement:
    """Times of a statement.

    Args:
        number_per_run: how often the statement ran for each time.
        raw_times: the times, in seconds.
        task_spec: what was measured; its fields can be read from here.
        metadata: anything.
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name in _FACTS:
            return getattr(self.task_spec, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def times(self) -> list[float]:
        """Seconds for one run of the statement."""
        return [t / self.number_per_run for t in self.raw_times]

    def _quantile(self, q: float) -> float:
        return float(np.quantile(self.times, q)) if self.raw_times else -1.0

    @property
    def median(self) -> float:
        """The time in the middle."""
        return self._quantile(0.5)

    @property
    def mean(self) -> float:
        """The mean time."""
        return float(np.mean(self.times)) if self.raw_times else -1.0

    @property
    def iqr(self) -> float:
        """What the middle half of the times spans."""
        return self._quantile(0.75) - self._quantile(0.25)

    @property
    def significant_figures(self) -> int:
        """How many digits of the median can be told apart from noise."""
        n = len(self.raw_times)
        middle = sorted(self.times)[n // 4 : math.ceil(3 * n / 4)]
        doubt = max(CONFIDENT * float(np.std(middle)) / math.sqrt(len(middle)), SHORTEST_DOUBT)
        return min(max(math.floor(math.log10(self.median / doubt)), 1), MOST_FIGURES)

    @property
    def has_warnings(self) -> bool:
        """Whether the times vary suspiciously."""
        return bool(self._warnings())

    def meets_confidence(self, threshold: float = SUSPICIOUS) -> bool:
        """Whether the middle half of the times spans less than a share of the median."""
        return self.iqr / self.median < threshold

    def _warnings(self) -> str:
        if not self.raw_times or self.meets_confidence(SUSPICIOUS):
            return ""
        gross = not self.meets_confidence(USELESS)
        cause = "suggests significant environmental influence" if gross else "could indicate system fluctuation"
        share = self.iqr / self.median * 100
        return f"\n  WARNING: Interquartile range is {share:.1f}% of the median measurement.\n           This {cause}."

    @property
    def title(self) -> str:
        """The title of what was measured."""
        return self.task_spec.title

    @property
    def as_row_name(self) -> str:
        """What a row of a table is called."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def __repr__(self) -> str:
        n = len(self.raw_times)
        unit, scale = select_unit(self.median)
        one = n <= 1
        lines = [
            object.__repr__(self),
            self.task_spec.summarize(),
            f"  {'' if one else 'Median: '}{self.median / scale:.2f} {unit}",
        ]
        if n >= 4:
            low, high = self._quantile(0.25) / scale, self._quantile(0.75) / scale
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})")
        threads = self.task_spec.num_threads
        lines.append(
            f"  {n} measurement{'' if one else 's'}, {self.number_per_run} runs {',' if one else 'per measurement,'} "
            f"{threads} thread{'s' if threads > 1 else ''}"
        )
        return "\n".join(lines) + self._warnings()

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """One measurement for each task, of all its times."""
        found: dict[TaskSpec, list[float]] = {}
        for m in measurements:
            found.setdefault(m.task_spec, []).extend(m.times)
        return [Measurement(1, times, spec) for spec, times in found.items()]


def select_unit(t: float) -> tuple[str, float]:
    """The unit to tell a time in, and its length in seconds."""
    return _UNITS.get(int(math.log10(t) // 3), ("s", 1))


def unit_to_english(u: str) -> str:
    """The name of a unit."""
    return _ENGLISH[u]


def trim_sigfig(x: float, n: int) -> float:
    """A number with only its first n digits."""
    scale = 10.0 ** (math.ceil(math.log10(abs(x))) - n)
    # In single precision, as torch has it.
    return float(np.float32(np.float32(x / scale).round() * np.float32(scale)))


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """Each element once, in order."""
    return list(dict.fromkeys(elements))


@contextlib.contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """`torch.set_num_threads` for a while; it does not bind XLA."""
    before = get_num_threads()
    set_num_threads(n)
    try:
        yield
    finally:
        set_num_threads(before)
