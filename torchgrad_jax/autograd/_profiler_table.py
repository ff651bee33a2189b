"""A profile as a text table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple

_UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}


def format_time(us: float, unit: str | None = None) -> str:
    """Microseconds in the largest unit that they fill, or in a given one."""
    if unit not in _UNITS:
        unit = next((u for u in ("s", "ms") if us >= _UNITS[u]), "us")
    return f"{us / _UNITS[unit]:.3f}{unit}"


def format_memory(nbytes: int) -> str:
    """Bytes in the largest unit that they fill."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} B"


class Column(NamedTuple):
    """One column: its title, and what it says of an event."""

    title: str
    cell: Callable[[Any], str]
    width: int = 12


def build_table(columns: Sequence[Column], rows: Sequence[Any], titles: Sequence[str], source_width: int) -> str:
    """The table. With `source_width` each row ends with the caller's lines, one below the other."""
    rule = "".join("-" * c.width + "  " for c in columns)
    head = "".join(c.title.rjust(c.width) + "  " for c in columns)
    margin, source_rule = " " * len(rule), "-" * source_width + "  " if source_width else ""
    lines = [text for title in titles for text in ("=" * (len(rule + source_rule) - 2), title)]
    lines += [rule + source_rule, head + ("Source Location".ljust(source_width) + "  " if source_width else "")]
    lines.append(rule + source_rule)
    for e in rows:
        row = "".join(c.cell(e).rjust(c.width) + "  " for c in columns)
        if not source_width:
            lines.append(row)
            continue
        stack = [_cut_front(line, source_width) for line in e.stack] or [""]
        lines += [
            f"{start}{text:<{source_width}}  " for start, text in zip([row, *[margin] * len(stack)], [*stack, ""])
        ]
    return "\n".join([*lines, rule + source_rule, ""])


def html_table(columns: Sequence[Column], rows: Sequence[Any]) -> str:
    """Return the table as HTML, which a notebook shows."""
    head = "".join(f"<th>{escape(c.title)}</th>" for c in columns)
    lines = ["".join(f"<td>{escape(c.cell(e))}</td>" for c in columns) for e in rows]
    return f"<table><tr>{head}</tr>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def columns_of(
    events: Sequence[Any], most_name: int, most_shapes: int, *, memory: bool, unit: str | None
) -> list[Column]:
    """The columns for these events, with the largest widths of names and shapes."""
    total = sum(e.self_cpu_time_total for e in events)

    def time(title: str, name: str) -> Column:
        return Column(title, lambda e: format_time(getattr(e, name), unit))

    def share(title: str, name: str) -> Column:
        return Column(title, lambda e: f"{getattr(e, name) * 100.0 / total:.2f}%" if total else "NaN")

    def size(title: str, name: str) -> Column:
        return Column(title, lambda e: format_memory(getattr(e, name)))

    columns = [
        Column("Name", lambda e: _cut(e.key, most_name), width_of((e.key for e in events), most_name)),
        share("Self CPU %", "self_cpu_time_total"),
        time("Self CPU", "self_cpu_time_total"),
        share("CPU total %", "cpu_time_total"),
        time("CPU total", "cpu_time_total"),
        time("CPU time avg", "cpu_time"),
    ]
    if memory:
        columns += [size("CPU Mem", "cpu_memory_usage"), size("Self CPU Mem", "self_cpu_memory_usage")]
        if any(e.device_memory_usage for e in events):
            columns += [size("Device Mem", "device_memory_usage"), size("Self Dev Mem", "self_device_memory_usage")]
    columns.append(Column("# of Calls", lambda e: str(e.count)))
    if any(e.input_shapes for e in events):
        width = width_of((str(e.input_shapes) for e in events), most_shapes)
        columns.append(Column("Input Shapes", lambda e: str(e.input_shapes)[:width], width))
    counted = [e.flops for e in events if e.flops]
    if counted:
        power = min(int(math.log10(min(counted)) // 3), 5)
        columns.append(
            Column(
                f"Total {' KMGTP'[power].strip()}FLOPs", lambda e: f"{e.flops / 1000**power:8.3f}" if e.flops else "--"
            )
        )
    return columns


def width_of(texts: Any, most: int | None) -> int:
    """How wide a column of such texts is."""
    width = max(map(len, texts), default=-4) + 4
    return width if most is None else min(width, most)


def _cut(name: str, most: int | None) -> str:
    """A name that would not fit, with an ellipsis."""
    return name if most is None or len(name) < most - 3 else name[: most - 3] + "..."


def _cut_front(line: str, width: int) -> str:
    return line if len(line) <= width else "..." + line[len(line) - width + 3 :]
