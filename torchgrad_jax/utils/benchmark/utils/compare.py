"""Measurements side by side in tables."""

from __future__ import annotations

import enum
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from .common import Measurement, ordered_unique, select_unit, trim_sigfig, unit_to_english

_END, _BOLD = "\033[0m", "\033[1m"
_BEST, _GOOD, _BAD, _WORST = "\033[92m", "\033[34m", "\033[2m\033[91m", "\033[31m"


class Colorize(enum.Enum):
    """With what a time is compared to get its colour."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


def _coloured(text: str, value: float, best: float) -> str:
    if value <= best * 1.01 or value <= best + 100e-9:
        return f"{_BEST}{_BOLD}{text}{_END}{_END}"
    if value <= best * 1.1:
        return f"{_GOOD}{_BOLD}{text}{_END}{_END}"
    if value >= best * 5:
        return f"{_WORST}{_BOLD}{text}{_END}{_END}"
    return f"{_BAD}{text}{_END}{_END}" if value >= best * 2 else text


class _Numbers:
    """How the times of one column are written."""

    def __init__(self, found: Sequence[Measurement | None], scale: float, trim: bool, warn: bool) -> None:
        self.scale, self.trim = scale, trim
        there = [m for m in found if m is not None]
        self.warn = warn and any(m.has_warnings for m in there)
        before = [math.ceil(math.log10(m.median / scale)) for m in there]
        behind = 1
        if trim:
            behind = min(max(m.significant_figures - d, 0) for m, d in zip(there, before, strict=True))
        self.behind = behind
        self.width = max(before) + behind + (1 if behind else 0)

    def text(self, m: Measurement | None) -> str:
        """One cell."""
        value, note = 1.0, ""
        if m is not None:
            value = m.median / self.scale
            if self.trim:
                value = trim_sigfig(value, m.significant_figures)
            if self.warn and m.has_warnings:
                note = f" (! {m.iqr / m.median * 100:.0f}%)"
        out = f"{value:>{self.width}.{self.behind}f}{note:>{7 if self.warn else 0}}"
        return out if m is not None else " " * len(out)


class Table:
    """The measurements of one label: a row for each statement, a column for each description."""

    def __init__(
        self, results: list[Measurement], colorize: Colorize, trim_significant_figures: bool, highlight_warnings: bool
    ) -> None:
        if len({m.label for m in results}) != 1:
            raise AssertionError("All results must share the same label")
        self.results, self.label = results, results[0].label
        self._colorize, self._warn = colorize, highlight_warnings
        self.time_unit, self.time_scale = select_unit(min(m.median for m in results))
        self.row_keys = ordered_unique(self.row_fn(m) for m in results)
        self.row_keys.sort(key=lambda key: key[:2])
        self.column_keys = ordered_unique(m.description for m in results)
        self._cells: dict[Any, Measurement] = {(self.row_fn(m), m.description): m for m in results}
        self._numbers = [
            _Numbers(
                [self._cells.get((r, c)) for r in self.row_keys],
                self.time_scale,
                trim_significant_figures,
                highlight_warnings,
            )
            for c in self.column_keys
        ]

    @staticmethod
    def row_fn(m: Measurement) -> tuple[int, str | None, str]:
        """What makes a row."""
        return m.num_threads, m.env, m.as_row_name

    def _names(self) -> list[str]:
        envs = {m.env for m in self.results}
        width = max(len(e) for e in envs) if len(envs) > 1 else 0
        names, before = [], (None, "")
        for threads, env, name in self.row_keys:
            shown = len(envs) > 1 and env != (before[1] if threads == before[0] else "")
            names.append("  " + (f"({env})" if shown else "").ljust(width + 4) + name)
            before = (threads, env)
        return names

    def _best(self, row: Any, column: Any) -> float | None:
        if self._colorize is Colorize.ROWWISE:
            among = [(row, c) for c in self.column_keys]
        else:
            among = [(r, column) for r in self.row_keys if r[0] == row[0]]
        return min((self._cells[k].median for k in among if k in self._cells), default=None)

    def render(self) -> str:
        """The table as text."""
        names = self._names()
        cells = [
            [n.text(self._cells.get((row, c))) for n, c in zip(self._numbers, self.column_keys)]
            for row in self.row_keys
        ]
        table = [["", *[str(c or "") for c in self.column_keys]]]
        table += [[name, *row] for name, row in zip(names, cells, strict=True)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  |  ".join(t.center(w) for t, w in zip(table[0], widths, strict=True))]
        overall = len(lines[0])
        threads = None
        for row, texts in zip(self.row_keys, table[1:], strict=True):
            if row[0] != threads:
                threads = row[0]
                lines.append(f"{threads} threads: ".ljust(overall, "-"))
            shown = [texts[0].ljust(widths[0])]
            for column, text, width in zip(self.column_keys, texts[1:], widths[1:], strict=True):
                shown.append(self._shown(row, column, text.center(width)))
            lines.append("  |  ".join(shown))
        head = f"[{(' ' + (self.label or '') + ' ').center(overall - 2, '-')}]"
        unit = f"Times are in {unit_to_english(self.time_unit)}s ({self.time_unit})."
        note = ""
        if self._warn and any(m.has_warnings for m in self.results):
            note = "(! XX%) Measurement has high variance, where XX is the IQR / median * 100.\n"
        return "\n".join([head, *lines, "", unit, note])

    def _shown(self, row: Any, column: Any, text: str) -> str:
        found = self._cells.get((row, column))
        if self._colorize is Colorize.NONE or found is None:
            return text
        best = self._best(row, column)
        return text if best is None else _coloured(text, found.median, best)


class Compare:
    """Tables of measurements, one for each label.

    Example:
        >>> from torchgrad_jax.utils.benchmark import Compare, Measurement, TaskSpec
        >>> table = Compare([Measurement(1, [2e-6], TaskSpec("x + y", "", description="ours"))])
        >>> [line.strip() for line in str(table).splitlines()[1:4]]
        ['|  ours', '1 threads: ---------', 'x + y  |  2.0']
    """

    def __init__(self, results: list[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trim = self._warn = False
        self._colorize = Colorize.NONE

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements."""
        results = list(results)
        for m in results:
            if not isinstance(m, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(m)} instead.")
        self._results += results

    def trim_significant_figures(self) -> None:
        """Leave out digits that are noise."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colour times by how they compare with the best of their column, or row."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Mark times that vary suspiciously."""
        self._warn = True

    def print(self) -> None:
        """Print the tables."""
        sys.stdout.write(f"{self}\n")

    def __str__(self) -> str:
        groups: dict[str | None, list[Measurement]] = {}
        for m in Measurement.merge(self._results):
            groups.setdefault(m.label, []).append(m)
        tables = [Table(g, self._colorize, self._trim, self._warn) for g in groups.values()]
        return "\n".join(t.render() for t in tables)
