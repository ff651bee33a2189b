"""A profile in the trace-event format, which chrome://tracing and Perfetto read."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any


def trace(events: Sequence[Any], memory: Sequence[Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """The whole file: events and `MemoryRecord`s, each by time, and facts that stand at its top."""
    pid = os.getpid()
    calls = [e for e in events if e.name != "[memory]"]
    rows = [_name("process_name", 0, os.path.basename(sys.executable))]
    rows += [_name("thread_name", t, f"thread {t}") for t in sorted({e.thread for e in calls})]
    rows += [_call(e) for e in calls]
    rows += _arrows(calls)
    rows += _memory(memory)
    for row in rows:
        row["pid"] = pid
    return {"schemaVersion": 1, "deviceProperties": [], **facts, "displayTimeUnit": "ms", "traceEvents": rows}


def _name(kind: str, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "ts": 0, "tid": thread, "name": kind, "args": {"name": name}}


def _call(e: Any) -> dict[str, Any]:
    args: dict[str, Any] = {"External id": e.id}
    if e.sequence_nr >= 0:
        args |= {"Sequence number": e.sequence_nr, "Fwd thread id": e.fwd_thread}
    if e.input_shapes:
        args["Input Dims"] = e.input_shapes
    if e.stack:
        args["Call stack"] = ";".join(e.stack)
    if e.flops:
        args["flops"] = e.flops
    span = {"ts": e.time_range.start, "dur": e.time_range.elapsed_us(), "tid": e.thread}
    category = "user_annotation" if e.is_user_annotation else "cpu_op"
    return {"ph": "X", "cat": category, "name": e.trace_name or e.name, **span, "args": args}


def _arrows(calls: Sequence[Any]) -> list[dict[str, Any]]:
    """From each operation to its node in the backward pass."""
    made = {e.sequence_nr: e for e in reversed(calls) if e.scope == 0 and e.sequence_nr >= 0 and not e.fwd_thread}
    rows = []
    for e in calls:
        source = made.get(e.sequence_nr)
        if e.scope == 1 and source is not None:
            both = {"id": e.id, "cat": "fwdbwd", "name": "fwdbwd"}
            rows.append({"ph": "s", "tid": source.thread, "ts": source.time_range.start, **both})
            rows.append({"ph": "f", "tid": e.thread, "ts": e.time_range.start, "bp": "e", **both})
    return rows


def _memory(records: Sequence[Any]) -> list[dict[str, Any]]:
    rows, total = [], {True: 0, False: 0}
    for r in records:
        total[r.on_host] += r.bytes
        args = {"Total Allocated": total[r.on_host], "Bytes": r.bytes, "Device Type": 0 if r.on_host else 1}
        what = {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]"}
        rows.append({**what, "tid": r.thread, "ts": r.time, "args": args})
    return rows
