"""A profile as a text table, laid out as torch lays it out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_WIDTH = 12
_UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}


def format_time(us: float, unit: str | None = None) -> str:
    """Microseconds in the largest unit that they fill, or in a given one."""
    if unit not in _UNITS:
        unit = next((u for u in ("s", "ms") if us >= _UNITS[u]), "us")
    return f"{us / _UNITS[unit]:.3f}{unit}"


def format_share(us: float, total: float) -> str:
    """A part of a total in percent."""
    if total == 0:
        if us != 0:
            raise AssertionError(f"Expected time_us == 0 but got {us}")
        return "NaN"
    return f"{us * 100.0 / total:.2f}%"


def format_memory(nbytes: int) -> str:
    """Bytes in the largest unit that they fill."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} B"


@dataclass(frozen=True)
class _Column:
    title: str
    width: int
    cell: Callable[[Any], Any]
    left: bool = False

    def show(self, value: Any) -> str:
        return f"{value: <{self.width}}" if self.left else f"{value: >{self.width}}"


def _limited(width: int, limit: int | None) -> int:
    return width if limit is None else min(width, limit)


def _cut(name: str, limit: int | None) -> str:
    """A name that would not fit, with an ellipsis."""
    return name if limit is None or len(name) < limit - 3 else name[: limit - 3] + "..."


def _cut_front(path: str, width: int | None) -> str:
    if width is None or len(path) <= width:
        return path
    path = path[len(path) - width :]
    return "..." + path[3:] if len(path) > 3 else path


def build_table(
    events: Sequence[Any],
    *,
    sort_by: str | None,
    header: str | None,
    row_limit: int,
    max_src_column_width: int | None,
    max_name_column_width: int | None,
    max_shapes_column_width: int | None,
    with_flops: bool,
    profile_memory: bool,
    top_level_events_only: bool,
    time_unit: str | None,
) -> str:
    """The table of `EventList.table`."""
    if not events:
        return ""
    if sort_by is not None:
        name = sort_by.replace("cuda", "device").replace("xpu", "device").replace("privateuse1", "device")
        events = sorted(events, key=lambda e: getattr(e, name), reverse=True)
    widths = (max_name_column_width, max_shapes_column_width, max_src_column_width)
    host, device = _totals(events)
    columns = _columns(events, widths, host, device, profile_memory, with_flops, time_unit)
    stacked = columns[-1].left
    rule = "".join("-" * c.width + "  " for c in columns)
    length = sum(c.width + 2 for c in columns) - 2
    lines = [] if header is None else ["=" * length, header]
    if top_level_events_only:
        lines += ["=" * length, "This report only display top-level ops statistics"]
    lines += [rule, _line(columns, [c.title for c in columns]), rule]
    shown = [e for e in events if not top_level_events_only or e.cpu_parent is None]
    for e in shown if row_limit < 0 else shown[:row_limit]:
        lines.append(_line(columns, [c.cell(e) for c in columns]))
        if stacked:
            blank = [""] * (len(columns) - 1)
            rest = [_cut_front(entry, columns[-1].width) for entry in (e.stack or [])[1:]]
            lines += [_line(columns, [*blank, entry]) for entry in [*rest, ""]]
    lines += [rule, f"Self CPU time total: {format_time(host, time_unit)}"]
    if device is not None:
        lines.append(f"Self {_device_name(events)} time total: {format_time(device, time_unit)}")
    return "".join(f"{line}\n" for line in lines)


def _line(columns: Sequence[_Column], values: Sequence[Any]) -> str:
    return "".join(c.show(v) + "  " for c, v in zip(columns, values))


def _device_name(events: Sequence[Any]) -> str:
    return str(events[0].use_device).upper() if events[0].use_device is not None else "None"


def _totals(events: Sequence[Any]) -> tuple[float, float | None]:
    """The host's time, and that of devices where there is any."""
    host = sum(e.self_cpu_time_total for e in events)
    if not any(e.self_device_time_total > 0 for e in events):
        return host, None
    if not events[0].use_device:
        raise RuntimeError("use_device is None, but there is device performance data.")
    own = [e for e in events if (e.is_legacy if e.device_type.name == "CPU" else not e.is_user_annotation)]
    return host, sum(e.self_device_time_total for e in own)


def _columns(
    events: Sequence[Any], widths: Any, host: float, device: float | None, memory: bool, flops: bool, unit: str | None
) -> list[_Column]:
    name_limit, shape_limit, source_limit = widths
    name_width = _limited(max(len(e.key) for e in events) + 4, name_limit)

    def time(attribute: str) -> Callable[[Any], str]:
        return lambda e: format_time(getattr(e, attribute), unit)

    def self_share(e: Any) -> str:
        e.self_cpu_percent = format_share(e.self_cpu_time_total, host)
        return e.self_cpu_percent

    def share(e: Any) -> Any:
        e.total_cpu_percent = 0 if e.is_async else format_share(e.cpu_time_total, host)
        return e.total_cpu_percent

    def bytes_of(attribute: str) -> Callable[[Any], str]:
        return lambda e: format_memory(getattr(e, attribute))

    columns = [_Column("Name", name_width, lambda e: _cut(e.key, name_limit))]
    if any(e.overload_name for e in events):
        columns.append(_Column("Overload Name", name_width, lambda e: _cut(e.overload_name, name_limit)))
    columns += [
        _Column("Self CPU %", _WIDTH, self_share),
        _Column("Self CPU", _WIDTH, time("self_cpu_time_total")),
        _Column("CPU total %", _WIDTH, share),
        _Column("CPU total", _WIDTH, time("cpu_time_total")),
        _Column("CPU time avg", _WIDTH, time("cpu_time")),
    ]
    label = _device_name(events)
    if device is not None:

        def device_share(e: Any) -> str:
            e.total_device_percent = format_share(e.self_device_time_total, device)
            return e.total_device_percent

        columns += [
            _Column(f"Self {label}", _WIDTH, time("self_device_time_total")),
            _Column(f"Self {label} %", _WIDTH, device_share),
            _Column(f"{label} total", _WIDTH, time("device_time_total")),
            _Column(f"{label} time avg", _WIDTH, time("device_time")),
        ]
    if memory:
        columns += [
            _Column("CPU Mem", _WIDTH, bytes_of("cpu_memory_usage")),
            _Column("Self CPU Mem", _WIDTH, bytes_of("self_cpu_memory_usage")),
        ]
        if events[0].use_device and any(e.self_device_memory_usage > 0 for e in events):
            columns += [
                _Column(f"{label} Mem", _WIDTH, bytes_of("device_memory_usage")),
                _Column(f"Self {label} Mem", _WIDTH, bytes_of("self_device_memory_usage")),
            ]
    columns.append(_Column("# of Calls", _WIDTH, lambda e: e.count))
    if any(e.node_id != -1 for e in events):
        columns.append(_Column("Node ID", _WIDTH, lambda e: e.node_id))
    if any(e.input_shapes for e in events):
        width = _limited(max(len(str(e.input_shapes)) for e in events) + 4, shape_limit)
        columns.append(_Column("Input Shapes", width, lambda e: str(e.input_shapes)[:width]))
    counted = [e.flops for e in events if e.flops and e.flops > 0] if flops else []
    if counted:
        columns.append(_flops_column(min(counted)))
    stacks = [e.stack for e in events if e.stack]
    if stacks:
        widest = _limited(max(len(entry) for stack in stacks for entry in stack) + 4, source_limit)
        columns.append(
            _Column("Source Location", widest, lambda e: _cut_front(e.stack[0], widest) if e.stack else "", left=True)
        )
    return columns


def _flops_column(smallest: int) -> _Column:
    """Counts in the unit of the smallest."""
    units = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")
    power = min(math.floor(math.log10(smallest) / 3), len(units) - 1)
    scale = 10.0 ** (-3 * power)

    def cell(e: Any) -> str:
        return f"{e.flops * scale:8.3f}" if e.flops and e.flops > 0 else "--"

    return _Column(f"Total {units[power]}", _WIDTH, cell)
