"""A profile in the trace-event format, which chrome://tracing and Perfetto read."""

from __future__ import annotations

import os
import sys
from typing import Any

from ._profiler_recorder import BACKWARD_FUNCTION, FUNCTION, Recorder, Span
from .profiler_util import MEMORY_EVENT_NAME


def trace(recorder: Recorder, path: str, facts: dict[str, Any]) -> dict[str, Any]:
    """The whole file; `facts` are more entries at its top."""
    pid = os.getpid()
    spans = sorted(recorder.spans, key=lambda s: (s.start, -s.end))
    rows = _names(pid, sorted({s.thread for s in spans}))
    rows += [_span(s, pid, i) for i, s in enumerate(spans)]
    rows += _arrows(spans, pid)
    rows += _memory(recorder, pid)
    return {
        "schemaVersion": 1,
        "deviceProperties": [],
        **facts,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 0,
        "traceEvents": rows,
        "traceName": path,
    }


def _names(pid: int, threads: list[int]) -> list[dict[str, Any]]:
    process = {"name": "process_name", "tid": 0, "args": {"name": os.path.basename(sys.executable)}}
    rows = [process, *[{"name": "thread_name", "tid": t, "args": {"name": f"thread {t}"}} for t in threads]]
    return [{"ph": "M", "pid": pid, "ts": 0, **row} for row in rows]


def _span(s: Span, pid: int, index: int) -> dict[str, Any]:
    args: dict[str, Any] = {"External id": s.id, "Record function id": 0, "Ev Idx": index}
    if s.seq >= 0:
        args |= {"Sequence number": s.seq, "Fwd thread id": s.fwd_thread}
    if s.shapes:
        args |= {"Input Dims": s.shapes, "Input Strides": s.strides, "Input type": s.dtypes}
    if s.stack:
        args["Call stack"] = ";".join(s.stack)
    if s.flops:
        args["flops"] = s.flops
    return {
        "ph": "X",
        "cat": s.activity,
        "name": s.name,
        "pid": pid,
        "tid": s.thread,
        "ts": s.start / 1000,
        "dur": (s.end - s.start) / 1000,
        "args": args,
    }


def _arrows(spans: list[Span], pid: int) -> list[dict[str, Any]]:
    """From each operation to its node in the backward pass."""
    made = {s.seq: s for s in reversed(spans) if s.scope == FUNCTION and s.seq >= 0 and not s.fwd_thread}
    rows = []
    for s in spans:
        source = made.get(s.seq)
        if s.scope == BACKWARD_FUNCTION and source is not None:
            both = {"id": s.id, "pid": pid, "cat": "fwdbwd", "name": "fwdbwd"}
            rows.append({"ph": "s", "tid": source.thread, "ts": source.start / 1000, **both})
            rows.append({"ph": "f", "tid": s.thread, "ts": s.start / 1000, "bp": "e", **both})
    return rows


def _memory(recorder: Recorder, pid: int) -> list[dict[str, Any]]:
    rows, total = [], {True: 0, False: 0}
    for r in recorder.records:
        total[r.is_host] += r.bytes
        args = {"Total Allocated": total[r.is_host], "Bytes": r.bytes, "Device Type": 0 if r.is_host else 1}
        rows.append(
            {
                "ph": "i",
                "cat": "cpu_instant_event",
                "s": "t",
                "name": MEMORY_EVENT_NAME,
                "pid": pid,
                "tid": r.thread,
                "ts": r.time / 1000,
                "args": args,
            }
        )
    return rows
