"""Collects what runs while a profile is open: spans of time, and bytes of tensors made and gone."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

import jax

from .._core import events
from .._engine.graph.node import AccumulateGrad
from .._engine.memory.tensor import Storage, Tensor, tensors_in
from .._ops import TABLE
from .._ops.aten import composite_name, op_name
from .profiler_util import MEMORY_EVENT_NAME, DeviceType, EventList, FunctionEvent, MemRecordsAcc

FUNCTION, BACKWARD_FUNCTION, USER_SCOPE = 0, 1, 7
"""Values of `FunctionEvent.scope`."""

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_threads: dict[int, int] = {}
_thread_numbers = itertools.count(1)
_ids = itertools.count(1)
_KNOWN = TABLE.keys() | {"as_strided", "copy", "detach", "item", "sum_to_size", "to"}
_EVALUATE = "autograd::engine::evaluate_function: "


class Span:
    """One call, as it was seen."""

    __slots__ = (
        "activity",
        "dtypes",
        "end",
        "flops",
        "fwd_thread",
        "id",
        "name",
        "scope",
        "seq",
        "shapes",
        "stack",
        "start",
        "strides",
        "thread",
    )

    def __init__(self, name: str, scope: int, activity: str) -> None:
        self.name, self.scope, self.activity = name, scope, activity
        self.id = next(_ids)
        self.seq, self.fwd_thread, self.flops = -1, 0, 0
        self.shapes: list[Any] = []
        self.strides: list[Any] = []
        self.dtypes: list[str] = []
        self.stack: list[str] = []
        self.thread = thread_number()
        self.start = self.end = 0


class MemoryRecord:
    """Bytes of tensor data that came (or went, when negative)."""

    __slots__ = ("bytes", "is_host", "thread", "time")

    def __init__(self, nbytes: int, is_host: bool) -> None:
        self.bytes, self.is_host = nbytes, is_host
        self.thread = thread_number()
        self.time = perf_counter_ns()

    def start_ns(self) -> int:
        """When."""
        return self.time


def thread_number() -> int:
    """A small number for the current thread."""
    ident = threading.get_ident()
    if ident not in _threads:
        _threads[ident] = next(_thread_numbers)
    return _threads[ident]


class Recorder(events.Observer):
    """The observer behind a profile."""

    def __init__(self, shapes: bool, memory: bool, stacks: bool, flops: bool) -> None:
        self.shapes, self.memory, self.stacks, self.flops = shapes, memory, stacks, flops
        self.spans: list[Span] = []
        self.records: list[MemoryRecord] = []
        self.alive: dict[int, weakref.ref[Storage]] = {}
        self.began = self.ended = 0
        self.paused = False

    def start(self) -> None:
        """Begin to watch the current thread."""
        self.began = perf_counter_ns()
        events.attach(self)

    def stop(self) -> None:
        """End it; once more does nothing."""
        events.detach(self)
        self.ended = self.ended or perf_counter_ns()
        self.alive.clear()

    # -- what the engine tells
    def op(self, name: str, kind: str, args: Sequence[Any], run: events.Run) -> Any:
        label = name if kind == "function" else self._label(name, kind)
        if label is None or self.paused:
            return run()
        span = self.open(label, FUNCTION, "cpu_op", args)
        try:
            out = run()
            _wait(out)
            self._describe(span, args, out)
            return out
        finally:
            self.close(span)

    def node(self, node: Any, run: events.Run) -> Any:
        if self.paused:
            return run()
        span = self.open(_EVALUATE + _node_name(node), FUNCTION, "cpu_op", ())
        if node.gp is not None:  # torch tells of its own nodes only
            span.seq, span.fwd_thread = _sequence(node), span.thread
        try:
            return run()
        finally:
            self.close(span)

    def function(self, node: Any, grads: Sequence[Any], run: events.Run) -> Any:
        if self.paused:
            return run()
        # Nothing here may hold a gradient: whether one is shared decides where it is added up.
        span = self.open(_node_name(node), BACKWARD_FUNCTION, "cpu_op", _held(grads))
        known = {id(t._st) for t in _held(grads) if t is not None}
        span.seq = _sequence(node)
        span.fwd_thread = 0 if span.seq < 0 else span.thread
        try:
            out = run()
            made = [node.variable._g] if isinstance(node, AccumulateGrad) else _held(out)
            _wait(made)
            if self.memory:
                self._note_made(made, known)
            del made
            return out
        finally:
            self.close(span)

    @staticmethod
    def _label(name: str, kind: str) -> str | None:
        if kind == "composite":
            known = composite_name(name)
            return None if known is None else f"aten::{known}"
        if not {name, name.removesuffix("_")} & _KNOWN:
            return name  # a gradient or a transform as an operation of its own: torch has no name for it
        return f"aten::{op_name(name)}"

    # -- spans
    def open(self, name: str, scope: int, activity: str, args: Sequence[Any]) -> Span:
        """Begin a span."""
        span = Span(name, scope, activity)
        if self.shapes:
            span.shapes = [_shape(a) for a in args]
            span.strides = [list(a._m.strides) if isinstance(a, Tensor) else [] for a in args]
            span.dtypes = [_dtype_name(a) for a in args]
        if self.stacks:
            span.stack = user_stack()
        span.start = perf_counter_ns()
        return span

    def close(self, span: Span) -> None:
        """End a span; what ends after the profile is not part of it."""
        span.end = perf_counter_ns()
        if not self.ended:
            self.spans.append(span)

    def _describe(self, span: Span, args: Sequence[Any], out: Any) -> None:
        for t in tensors_in(out):
            if t._fn is not None and span.seq < 0 and not isinstance(t._fn, AccumulateGrad):
                span.seq = _sequence(t._fn)
        if self.flops:
            formula = _FLOPS.get(span.name)
            span.flops = 0 if formula is None else formula(args, out)
        if self.memory:
            self._note_made(tensors_in(out), {id(t._st) for t in tensors_in(args)})

    # -- memory
    def _note_made(self, made: Any, known: set[int]) -> None:
        """Count storages that were not there before, once, and again when they go."""
        for t in made:
            st = None if t is None else t._st
            if st is None or id(st) in known or id(st) in self.alive:
                continue
            nbytes = st.meta.extent * st.meta.dtype.itemsize
            host = st.meta.device.type == "cpu"
            self.records.append(MemoryRecord(nbytes, host))
            self.alive[id(st)] = weakref.ref(st, self._gone(id(st), -nbytes, host))

    def _gone(self, key: int, nbytes: int, host: bool) -> Callable[[Any], None]:
        mine = weakref.ref(self)

        def note(ref: Any) -> None:
            recorder = mine()
            if recorder is not None and recorder.alive.pop(key, None) is not None:
                recorder.records.append(MemoryRecord(nbytes, host))

        return note

    # -- the result
    def events(self, **options: Any) -> EventList:
        """Everything as `FunctionEvent`s with their tree."""
        found = EventList(self._function_events(options.get("use_device")), **options)
        found._build_tree()
        return found

    def _function_events(self, use_device: str | None) -> list[FunctionEvent]:
        out: list[FunctionEvent] = []
        counted: set[int] = set()
        memory = MemRecordsAcc([[r] for r in self.records])
        for s in self.spans:
            inside = [r for (r,) in memory.in_interval(s.start, s.end) if r.thread == s.thread]
            counted.update(map(id, inside))
            out.append(
                FunctionEvent(
                    id=s.id, name=_with_wildcard(s.name), trace_name=s.name, overload_name="", thread=s.thread,
                    start_us=(s.start - self.began) / 1000, end_us=(s.end - self.began) / 1000,
                    fwd_thread=s.fwd_thread, input_shapes=s.shapes, concrete_inputs=[], kwinputs={},
                    stack=s.stack, scope=s.scope, use_device=use_device,
                    cpu_memory_usage=sum(r.bytes for r in inside if r.is_host),
                    device_memory_usage=sum(r.bytes for r in inside if not r.is_host), sequence_nr=s.seq,
                    flops=s.flops, is_user_annotation=s.activity == "user_annotation", activity_type=s.activity,
                    structured_input_shapes=s.shapes, structured_input_strides=s.strides, input_dtypes=s.dtypes,
                )
            )  # fmt: skip
        for r in self.records:
            if id(r) not in counted:
                at = (r.time - self.began) / 1000
                out.append(
                    FunctionEvent(
                        id=next(_ids),
                        name=MEMORY_EVENT_NAME,
                        overload_name="",
                        thread=r.thread,
                        start_us=at,
                        end_us=at,
                        fwd_thread=r.thread,
                        input_shapes=[],
                        stack=[],
                        use_device=use_device,
                        cpu_memory_usage=r.bytes if r.is_host else 0,
                        device_memory_usage=0 if r.is_host else r.bytes,
                        device_type=DeviceType.CPU,
                    )
                )
        out.sort(key=lambda e: (e.time_range.start, -e.time_range.end))
        return out


def _held(grads: Sequence[Any]) -> list[Any]:
    """The tensors of gradients that may be on their way in a buffer."""
    return [getattr(g, "tensor", g) for g in grads]


def _with_wildcard(name: str) -> str:
    return "ProfilerStep*" if name.startswith("ProfilerStep#") else name


def _node_name(node: Any) -> str:
    return node.name()


def _sequence(node: Any) -> int:
    return -1 if isinstance(node, AccumulateGrad) else node.seq


def _wait(value: Any) -> None:
    """Until the results are there: a span is the time of the work, not of handing it to XLA."""
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


_CPP = {
    "float32": "float",
    "float64": "double",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "int64": "long int",
    "int32": "int",
    "int16": "short int",
    "int8": "signed char",
    "uint8": "unsigned char",
    "bool": "bool",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}


def _dtype_name(value: Any) -> str:
    if isinstance(value, Tensor):
        name = str(value._m.dtype).removeprefix("torch.")
        return _CPP.get(name, name)
    return "Scalar" if isinstance(value, int | float | complex) else ""


def user_stack() -> list[str]:
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
    return t._m.numel if isinstance(t, Tensor) else 0


def _product(a: Tensor, b: Tensor) -> int:
    """Multiplications and additions of a matrix product, batched or not."""
    return 2 * a._m.numel * b._m.shape[-1]


_FLOPS: dict[str, Callable[[Sequence[Any], Any], int]] = {
    "aten::mm": lambda args, out: _product(args[0], args[1]),
    "aten::bmm": lambda args, out: _product(args[0], args[1]),
    "aten::addmm": lambda args, out: _product(args[1], args[2]),
    "aten::baddbmm": lambda args, out: _product(args[1], args[2]),
    "aten::mul": lambda args, out: _size(args[0]),
    "aten::add": lambda args, out: _size(args[0]),
    # Each element of the result is a sum over one filter.
    "aten::conv2d": lambda args, out: (
        2 * out._m.numel * (args[1]._m.numel // args[1]._m.shape[0]) if out._m.ndim == 4 else 0
    ),
}
