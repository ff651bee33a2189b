"""torch.utils.benchmark: how long statements take, told with how sure one can be of it."""

from __future__ import annotations

import math
import statistics
import sys
import textwrap
import timeit
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any

import jax
import numpy as np

from .._core.errors.messages import missing as _missing
from .._settings import get_num_threads, set_num_threads

_UNITS = {-3: ("ns", 1e-9, "nanoseconds"), -2: ("us", 1e-6, "microseconds"), -1: ("ms", 1e-3, "milliseconds")}
_LARGEST = 2**31 - 1


def _unit(seconds: float) -> tuple[str, float, str]:
    """The unit to tell a time in: its short name, its length in seconds, and its name."""
    return _UNITS.get(int(math.log10(seconds) // 3), ("s", 1.0, "seconds"))


def timer() -> float:
    """Seconds on a clock, read once everything that was dispatched is there."""
    for array in jax.live_arrays():
        array.block_until_ready()
    return timeit.default_timer()


@dataclass(repr=False, frozen=True)
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
        return name if self.sub_label is None else f"{name}{': ' if name else ''}{self.sub_label}"

    def summarize(self) -> str:
        """Title, description and setup on lines of their own."""
        setup = "" if self.setup == "pass" or not self.setup else f"setup: {self.setup}"
        if "\n" in setup:
            setup = "setup:\n" + textwrap.indent(self.setup, "  ")
        return "\n".join(f"{p}\n" if "\n" in p else p for p in (self.title, self.description or "", setup) if p)


_FACTS = tuple(f.name for f in fields(TaskSpec))


@dataclass(repr=False)
class Measurement:
    """Times of a statement.

    Args:
        number_per_run: how often the statement ran for each time.
        raw_times: the times, in seconds.
        task_spec: what was measured; its fields can be read from here.
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec

    def __getattr__(self, name: str) -> Any:
        if name in (*_FACTS, "title"):
            return getattr(self.task_spec, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def times(self) -> list[float]:
        """Seconds for one run of the statement."""
        return [t / self.number_per_run for t in self.raw_times]

    def _quantile(self, q: float) -> float:
        return float(np.quantile(self.times, q))

    @property
    def median(self) -> float:
        """The time in the middle."""
        return self._quantile(0.5)

    @property
    def mean(self) -> float:
        """The mean time."""
        return float(np.mean(self.times))

    @property
    def iqr(self) -> float:
        """What the middle half of the times spans."""
        return self._quantile(0.75) - self._quantile(0.25)

    @property
    def significant_figures(self) -> int:
        """How many digits of the median can be told apart from noise: from one to four."""
        n = len(self.raw_times)
        middle = sorted(self.times)[n // 4 : math.ceil(3 * n / 4)]
        # Nine times out of ten; and no clock is trusted further than 25 ns.
        doubt = max(1.645 * float(np.std(middle)) / math.sqrt(len(middle)), 25e-9)
        return min(max(math.floor(math.log10(self.median / doubt)), 1), 4)

    def meets_confidence(self, threshold: float = 0.1) -> bool:
        """Return whether the middle half of the times spans less than a share of the median."""
        return self.iqr / self.median < threshold

    def __repr__(self) -> str:
        n, (unit, scale, _), threads = len(self.raw_times), _unit(self.median), self.task_spec.num_threads
        one = n == 1
        lines = [object.__repr__(self), self.task_spec.summarize()]
        lines.append(f"  {'' if one else 'Median: '}{self.median / scale:.2f} {unit}")
        if n >= 4:
            low, high = self._quantile(0.25) / scale, self._quantile(0.75) / scale
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})")
        lines.append(
            f"  {n} measurement{'' if one else 's'}, {self.number_per_run} runs {',' if one else 'per measurement,'} "
            f"{threads} thread{'s' if threads > 1 else ''}"
        )
        if not self.meets_confidence():
            lines.append(f"  WARNING: the middle half of the times spans {self.iqr / self.median:.1%} of the median.")
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """One measurement for each task, of all its times."""
        found: dict[TaskSpec, list[float]] = {}
        for m in measurements:
            found.setdefault(m.task_spec, []).extend(m.times)
        return [Measurement(1, times, spec) for spec, times in found.items()]


class Timer:
    """How long a statement takes.

    Differs from torch: only Python is timed, `num_threads` does not bind XLA, and there are no counts of
    instructions (`collect_callgrind`).

    Args:
        stmt: what is timed, as source text.
        setup: runs before it, outside of the time.
        global_setup: only for C++, which is not supported.
        timer: a clock.
        globals: names for the statement; `torch` is among them in any case.
        label, sub_label, description, env: names for tables.
        num_threads: told in tables.
        language: "python".

    Example:
        >>> from torchgrad_jax.utils.benchmark import Timer
        >>> m = Timer("x + x", "x = torch.ones(3)", label="sums").timeit(5)
        >>> m.number_per_run, len(m.times), m.title
        (5, 1, 'sums')
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: str = "python",
    ) -> None:
        if language not in ("py", "python") or global_setup:
            raise NotImplementedError("torch.utils.benchmark.Timer: only statements in Python are timed")
        names = {"torch": sys.modules[__name__.partition(".")[0]]} | (globals or {})
        stmt, setup = (textwrap.dedent(text.lstrip("\n")).rstrip() if "\n" in text else text for text in (stmt, setup))
        self._timer = timeit.Timer(stmt, setup, timer, names)
        self._task_spec = TaskSpec(stmt, setup, "", label, sub_label, description, env, num_threads)

    def _timeit(self, number: int) -> float:
        # A clock that stands still would make rates infinite.
        return max(self._timer.timeit(number), 1e-9)

    def _measured(self, number: int, measure: Callable[[], list[float]]) -> Measurement:
        """Return what `measure` gives, with the number of threads that was asked for."""
        before = get_num_threads()
        set_num_threads(self._task_spec.num_threads)
        try:
            return Measurement(number, measure(), self._task_spec)
        finally:
            set_num_threads(before)

    def timeit(self, number: int = 1000000) -> Measurement:
        """One time of `number` runs, after a few to warm up."""
        self._timeit(max(number // 100, 2))
        return self._measured(number, lambda: [self._timeit(number)])

    def _block_size(self, min_run_time: float) -> int:
        """So many runs that reading the clock does not count."""
        overhead = statistics.median(self._timeit(0) for _ in range(5))
        number = 1
        while number * 10 <= _LARGEST:
            taken = self._timeit(number)
            if taken > min_run_time or (overhead <= taken * 1e-4 and taken >= min_run_time / 1000):
                break
            number *= 10
        return number

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Times of blocks of runs, long enough each for the clock not to matter, in at least `min_run_time` seconds."""
        number = self._block_size(min_run_time)
        return self._measured(number, lambda: self._times(number, min_run_time, math.inf, math.inf, callback))

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Times of blocks of runs, until their middle half spans less than `threshold` of the median."""
        number = self._block_size(0.05)
        return self._measured(number, lambda: self._times(number, min_run_time, max_run_time, threshold, callback))

    def _times(self, number: int, least: float, most: float, threshold: float, callback: Any) -> list[float]:
        """Times that take together as long as asked for, and agree; `callback` gets the number and time of each."""
        times: list[float] = []
        while sum(times) <= most and (sum(times) < least or not self._agree(times, threshold)):
            times.append(self._timeit(number))
            if callback:
                callback(number, times[-1])
        return times

    def _agree(self, times: list[float], threshold: float) -> bool:
        return threshold == math.inf or (
            len(times) > 3 and Measurement(1, times, self._task_spec).meets_confidence(threshold)
        )


class Compare:
    """Tables of measurements, one for each label: a row for each statement, a column for each description.

    Example:
        >>> from torchgrad_jax.utils.benchmark import Compare, Measurement, TaskSpec
        >>> table = Compare([Measurement(1, [2e-6], TaskSpec("x + y", "", description="ours"))])
        >>> [line.strip() for line in str(table).splitlines()[1:4]]
        ['|  ours', '1 threads: -----', 'x + y  |   2.0']
    """

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results = list(results)
        self._trim, self._colours = False, ""

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements."""
        self._results += results

    def trim_significant_figures(self) -> None:
        """Leave out digits that are noise."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Show the best time of each column, or row, in green, and those that take twice as long in red."""
        self._colours = "row" if rowwise else "column"

    def print(self) -> None:
        """Print the tables."""
        sys.stdout.write(f"{self}\n")

    def __str__(self) -> str:
        groups: dict[str | None, list[Measurement]] = {}
        for m in Measurement.merge(self._results):
            groups.setdefault(m.label, []).append(m)
        return "\n".join(self._table(label or "", group) for label, group in groups.items())

    def _table(self, label: str, group: list[Measurement]) -> str:
        unit, scale, english = _unit(min(m.median for m in group))
        rows = sorted(dict.fromkeys(_row(m) for m in group), key=lambda row: row[0])
        columns = list(dict.fromkeys(m.description for m in group))
        cells = {(_row(m), m.description): m for m in group}
        texts = {key: self._number(m, m.median / scale) for key, m in cells.items()}
        names = [f"  {name}" for _, name in rows]
        widths = [max(len(c or ""), *(len(texts.get((r, c), "")) for r in rows)) for c in columns]
        margin = max(map(len, names))
        lines = ["  |  ".join([" " * margin, *((c or "").center(w) for c, w in zip(columns, widths))])]
        length, threads = len(lines[0]), None
        for row, name in zip(rows, names):
            if row[0] != threads:
                threads = row[0]
                lines.append(f"{threads} threads: ".ljust(length, "-"))
            shown = [self._coloured(cells, row, c, texts.get((row, c), "").rjust(w)) for c, w in zip(columns, widths)]
            lines.append("  |  ".join([name.ljust(margin), *shown]))
        head = f"[{f' {label} '.center(length - 2, '-')}]"
        return "\n".join([head, *lines, "", f"Times are in {english} ({unit}).\n"])

    def _number(self, m: Measurement, value: float) -> str:
        digits = m.significant_figures - math.ceil(math.log10(value)) if self._trim else 1
        return f"{round(value, digits):.{max(digits, 0)}f}"

    def _coloured(self, cells: dict[Any, Measurement], row: Any, column: Any, text: str) -> str:
        if not self._colours or (row, column) not in cells:
            return text
        same = [(r, c) for r, c in cells if (r == row if self._colours == "row" else c == column and r[0] == row[0])]
        times = cells[row, column].median / min(cells[key].median for key in same)
        return f"\033[92m{text}\033[0m" if times <= 1.01 else f"\033[91m{text}\033[0m" if times >= 2 else text


def _row(m: Measurement) -> tuple[int, str]:
    """Return what makes a row of a table: the number of threads, and a name."""
    name = m.sub_label or m.stmt
    return m.num_threads, name if m.env is None else f"({m.env}) {name}"


__getattr__ = _missing(__name__)

__all__ = ["Compare", "Measurement", "TaskSpec", "Timer", "timer"]
