"""Collects what runs while a profile is open: events, and bytes of tensors made and gone."""

from __future__ import annotations

import bisect
import itertools
import math
import os
import sys
import weakref
from collections.abc import Callable, Sequence
from threading import get_native_id
from time import perf_counter_ns, time_ns
from typing import Any, NamedTuple

import jax

from .._core import events
from .._engine.graph.node import AccumulateGrad
from .._engine.memory.tensor import Storage, Tensor, tensors_in
from .._ops import TABLE
from .._ops.aten import composite_name, op_name
from .profiler_util import MEMORY, NODE, OPERATION, STRETCH, EventList, FunctionEvent

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_ids = itertools.count(1)
_KNOWN = TABLE.keys() | {"as_strided", "copy", "detach", "item", "sum_to_size", "to"}
_EVALUATE = "autograd::engine::evaluate_function: "


class MemoryRecord(NamedTuple):
    """Bytes of tensor data that came (or went, when negative)."""

    bytes: int
    on_host: bool
    thread: int
    time: float


class Recorder(events.Observer):
    """The observer behind a profile. It may be started again, and goes on with what it has."""

    def __init__(self, shapes: bool, memory: bool, stacks: bool, flops: bool) -> None:
        self.shapes, self.memory, self.stacks, self.flops = shapes, memory, stacks, flops
        self.closed: list[FunctionEvent] = []
        self.records: list[MemoryRecord] = []
        self.alive: dict[int, weakref.ref[Storage]] = {}
        self.began, self.clock_time = perf_counter_ns(), time_ns()
        self.recording = False

    def start(self) -> None:
        """Begin to watch the current thread."""
        self.recording = True
        events.attach(self)

    def stop(self) -> None:
        """End it; once more does nothing."""
        events.detach(self)
        self.recording = False
        self.alive.clear()

    def toggle(self, enabled: bool) -> None:
        """Pause, or go on, in the midst of a recording."""
        events.detach(self)
        if enabled:
            events.attach(self)

    def _now(self) -> float:
        """Microseconds since the beginning."""
        return (perf_counter_ns() - self.began) / 1000

    # -- what the engine tells
    def open_stretch(self, name: str) -> FunctionEvent:
        return self.open(name, STRETCH)

    def close_stretch(self, opened: FunctionEvent) -> None:
        self.close(opened)

    def op(self, name: str, kind: str, args: Sequence[Any], run: events.Run) -> Any:
        label = self._label(name, kind)
        if label is None:
            return run()
        event = self.open(label, OPERATION, args)
        try:
            out = run()
            _wait(out)
            self._describe(event, args, out)
            return out
        finally:
            self.close(event)

    def node(self, node: Any, run: events.Run) -> Any:
        event = self.open(_EVALUATE + node.name(), OPERATION)
        if node.gp is not None:  # torch tells of its own nodes only
            event.sequence_nr, event.fwd_thread = _sequence(node), event.thread
        try:
            return run()
        finally:
            self.close(event)

    def function(self, node: Any, grads: Sequence[Any], run: events.Run) -> Any:
        # Nothing here may hold a gradient: whether one is shared decides where it is added up.
        event = self.open(node.name(), NODE, _held(grads))
        known = {id(t._st) for t in _held(grads) if t is not None}
        event.sequence_nr = _sequence(node)
        event.fwd_thread = 0 if event.sequence_nr < 0 else event.thread
        try:
            out = run()
            made = [node.variable._g] if isinstance(node, AccumulateGrad) else _held(out)
            _wait(made)
            if self.memory:
                self._note_made(made, known)
            del made
            return out
        finally:
            self.close(event)

    @staticmethod
    def _label(name: str, kind: str) -> str | None:
        if kind == "function":
            return name
        if kind == "composite":
            known = composite_name(name)
            return None if known is None else f"aten::{known}"
        if not {name, name.removesuffix("_")} & _KNOWN:
            return name  # a gradient or a transform as an operation of its own: torch has no name for it
        return f"aten::{op_name(name)}"

    # -- events
    def open(self, name: str, scope: int, args: Sequence[Any] = ()) -> FunctionEvent:
        """Begin an event."""
        event = FunctionEvent(
            next(_ids),
            "ProfilerStep*" if name.startswith("ProfilerStep#") else name,
            get_native_id(),
            0,
            0,
            fwd_thread=0,
            input_shapes=[_shape(a) for a in args] if self.shapes else [],
            stack=_user_stack() if self.stacks else [],
            scope=scope,
            flops=0,
            trace_name=name,
            is_user_annotation=scope == STRETCH,
        )
        event.time_range.start = self._now()
        return event

    def close(self, event: FunctionEvent) -> None:
        """End an event; what ends after the profile is not part of it."""
        event.time_range.end = self._now()
        if self.recording:
            self.closed.append(event)

    def _describe(self, event: FunctionEvent, args: Sequence[Any], out: Any) -> None:
        for t in tensors_in(out):
            if t._fn is not None and event.sequence_nr < 0 and not isinstance(t._fn, AccumulateGrad):
                event.sequence_nr = _sequence(t._fn)
        if self.flops and (formula := _FLOPS.get(event.name)):
            event.flops = formula(args, out)
        if self.memory:
            self._note_made(tensors_in(out), {id(t._st) for t in tensors_in(args)})

    # -- memory
    def _note_made(self, made: Any, known: set[int]) -> None:
        """Count storages that were not there before, once, and again when they go."""
        for t in made:
            st = None if t is None else t._st
            if st is None or id(st) in known or id(st) in self.alive:
                continue
            nbytes, on_host = st.meta.extent * st.meta.dtype.itemsize, st.meta.device.type == "cpu"
            self._record_bytes(nbytes, on_host)
            self.alive[id(st)] = weakref.ref(st, self._gone(id(st), -nbytes, on_host))

    def _gone(self, key: int, nbytes: int, on_host: bool) -> Callable[[Any], None]:
        mine = weakref.ref(self)

        def note(ref: Any) -> None:
            recorder = mine()
            if recorder is not None and recorder.alive.pop(key, None) is not None:
                recorder._record_bytes(nbytes, on_host)

        return note

    def _record_bytes(self, nbytes: int, on_host: bool) -> None:
        self.records.append(MemoryRecord(nbytes, on_host, get_native_id(), self._now()))

    # -- the result
    def result(self) -> EventList:
        """Everything, with its tree and its bytes."""
        found = EventList(self.closed, profile_memory=self.memory)
        if self.memory:
            found.extend(self._count_bytes())
        found._build_tree()
        return found

    def _count_bytes(self) -> list[FunctionEvent]:
        """Tell each event of the bytes that came and went in it; gives events for what was in none."""
        times = [r.time for r in self.records]
        counted: set[int] = set()
        for e in self.closed:
            first, last = bisect.bisect_left(times, e.time_range.start), bisect.bisect_right(times, e.time_range.end)
            inside = [i for i in range(first, last) if self.records[i].thread == e.thread]
            counted.update(inside)
            e.cpu_memory_usage = sum(self.records[i].bytes for i in inside if self.records[i].on_host)
            e.device_memory_usage = sum(self.records[i].bytes for i in inside if not self.records[i].on_host)
        alone = []
        for r in (r for i, r in enumerate(self.records) if i not in counted):
            e = FunctionEvent(next(_ids), MEMORY, r.thread, r.time, r.time, None, 0, [], [], flops=0)
            e.cpu_memory_usage, e.device_memory_usage = (r.bytes, 0) if r.on_host else (0, r.bytes)
            alone.append(e)
        return alone


def _held(grads: Sequence[Any]) -> list[Any]:
    """The tensors of gradients that may be on their way in a buffer."""
    return [getattr(g, "tensor", g) for g in grads]


def _sequence(node: Any) -> int:
    return -1 if isinstance(node, AccumulateGrad) else node.seq


def _wait(value: Any) -> None:
    """Until the results are there: an event lasts as long as the work, not only until it is handed to XLA."""
    for t in tensors_in(value):
        array = t._st.array
        if not isinstance(array, jax.core.Tracer) and hasattr(array, "block_until_ready"):
            array.block_until_ready()


def _shape(value: Any) -> list[Any]:
    if isinstance(value, Tensor):
        return list(value._m.shape)
    if isinstance(value, list | tuple) and value and all(isinstance(v, Tensor) for v in value):
        return [list(v._m.shape) for v in value]
    return []


def _user_stack() -> list[str]:
    """The caller's lines, innermost first, without those of this package."""
    lines = []
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE):
            lines.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back
    return lines


# --- floating point operations --------------------------------------------------------------------


def _size(t: Any) -> int:
    return math.prod(t._m.shape) if isinstance(t, Tensor) else 0


def _product(first: int) -> Callable[[Sequence[Any], Any], int]:
    """Multiplications and additions of a product of the factors from `first` on: each number is a sum over a row."""
    return lambda args, out: 2 * _size(out) * args[first]._m.shape[-1]


_FLOPS: dict[str, Callable[[Sequence[Any], Any], int]] = {
    **dict.fromkeys(("aten::mm", "aten::bmm"), _product(0)),
    **dict.fromkeys(("aten::addmm", "aten::baddbmm"), _product(1)),
    **dict.fromkeys(("aten::mul", "aten::add"), lambda args, out: _size(args[0])),
    # Each element of the result is a sum over one filter.
    "aten::conv2d": lambda args, out: 2 * _size(out) * math.prod(args[1]._m.shape[1:]) if out._m.ndim == 4 else 0,
}
