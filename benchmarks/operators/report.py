"""What was measured, summed up: for each size and direction, how much longer than torch, and what takes longest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from .measure import Measured

WORST = 15


@dataclass(frozen=True)
class Summary:
    """The ratios of all operators on one size in one direction."""

    size: str
    direction: str
    measured: list[Measured]
    """The operators, those that take longest beside torch first."""

    @property
    def geometric_mean(self) -> float:
        """The factor between torch and this package, over all operators."""
        return math.exp(sum(math.log(m.ratio) for m in self.measured) / len(self.measured))

    def above(self, limit: float) -> float:
        """The share of operators with a ratio above a limit."""
        return sum(m.ratio > limit for m in self.measured) / len(self.measured)


def summaries(measured: Sequence[Measured]) -> list[Summary]:
    """One for each size and direction, in the order of their first operator."""
    keys = dict.fromkeys((m.size, m.direction) for m in measured)
    by_ratio = sorted(measured, key=lambda m: -m.ratio)
    return [Summary(*key, [m for m in by_ratio if (m.size, m.direction) == key]) for key in keys]


def overview(found: Sequence[Summary]) -> str:
    """Means and shares as markdown."""
    lines = ["| size | | operators | geometric mean | above 2x | above 4x |", "| --- | --- | --- | --- | --- | --- |"]
    for s in found:
        shares = " | ".join(f"{s.above(limit):.0%}" for limit in (2, 4))
        lines.append(f"| {s.size} | {s.direction} | {len(s.measured)} | {s.geometric_mean:.2f} | {shares} |")
    return "\n".join(lines)


def worst(found: Sequence[Summary]) -> str:
    """The operators that take longest beside torch, a table for each direction with a column for each size."""
    tables = []
    for direction in dict.fromkeys(s.direction for s in found):
        columns = [s for s in found if s.direction == direction]
        header = "| " + " | ".join(f"{s.size}, {direction}" for s in columns) + " |"
        cells = [[f"`{m.name}` {m.ratio:.1f}" for m in s.measured[:WORST]] for s in columns]
        rows = zip_longest(*cells, fillvalue="")
        lines = [header, "| --- " * len(columns) + "|", *("| " + " | ".join(row) + " |" for row in rows)]
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def each(measured: Sequence[Measured]) -> str:
    """All operators, with the time of a call in microseconds."""
    lines = ["| operator | size | | us | torch, us | x torch |", "| --- | --- | --- | --- | --- | --- |"]
    for m in measured:
        times = f"{m.microseconds:.1f} | {m.torch_microseconds:.1f} | {m.ratio:.2f}"
        lines.append(f"| {m.name} | {m.size} | {m.direction} | {times} |")
    return "\n".join(lines)
