"""Which operations a stretch of a program runs, and what they take; as in torch.autograd.profiler.

Operations are timed until their results are there, so that times are those of the work and not of
handing it to XLA. What XLA makes of several operations is in the traces of `jax.profiler`, in which
`record_function` names stretches too.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import jax

from .._core.errors import warn
from .._core.files.atomic import replacing
from .._core.state import MODES
from .._engine.entry.bind import NAMESPACES
from ._chrome_trace import trace
from ._profiler_recorder import USER_SCOPE, Recorder, Span
from .profiler_util import (
    EventList as EventList,
    FunctionEvent as FunctionEvent,
    FunctionEventAvg as FunctionEventAvg,
    MemRecordsAcc as MemRecordsAcc,
)

_DEVICES = ("cuda", "xpu", "mtia", "hpu")


@dataclass(frozen=True)
class ProfilerConfig:
    """What a profile records, and its id."""

    record_shapes: bool
    profile_memory: bool
    with_stack: bool
    with_flops: bool
    with_modules: bool
    trace_id: str = ""


class profile:
    """Within it, operations, nodes of backward passes and named stretches of this thread are recorded.

    Args:
        enabled: False makes it do nothing.
        use_cuda: the old way of ``use_device="cuda"``.
        use_device: kernels of a device are not traced here: a warning says so, and they are left out.
        record_shapes: keep the shapes of arguments.
        with_flops: count floating point operations of matrix products, 2d convolutions, `mul`, `add`.
        profile_memory: keep track of the bytes of tensors.
        with_stack: keep the caller's lines.
        with_modules: without effect, as in torch's eager mode.
        use_kineto, use_cpu: events of the CPU are all there are, so that `use_cpu` must be True.
        experimental_config: not supported.
        acc_events: keep the events of earlier uses of this object.
        custom_trace_id_callback: makes the trace's id.
        post_processing_timeout_s: accepted; making events of spans takes no time to speak of.
        activity_filters: not supported.

    Example:
        >>> import torchgrad_jax as torch
        >>> x = torch.ones(3, requires_grad=True)
        >>> with profile() as prof:
        ...     x.exp().sum().backward()
        >>> [e.name for e in prof.function_events if e.scope == 1]
        ['SumBackward0', 'ExpBackward0', 'torch::autograd::AccumulateGrad']
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: Any = None,
    ) -> None:
        self.enabled = enabled
        if not enabled:
            return
        if use_cuda:
            warn.to_user(
                "The attribute `use_cuda` will be deprecated soon, please use ``use_device = 'cuda'`` instead.",
                FutureWarning,
            )
            use_device = "cuda"
        if use_device is not None:
            _explain(use_device)
        self.use_cuda, self.use_device = False, None
        if not use_cpu:
            if not use_kineto:
                raise AssertionError("Device-only events supported only with Kineto (use_kineto=True)")
            raise AssertionError("No activities specified for the profiler")
        for name, value in (("experimental_config", experimental_config), ("activity_filters", activity_filters)):
            if value:
                raise NotImplementedError(f"profile({name}=...) is not supported")
        if post_processing_timeout_s is not None and post_processing_timeout_s < 0:
            raise ValueError("post_processing_timeout_s must be non-negative")
        self.entered = False
        self.record_shapes = record_shapes or with_flops
        self.with_flops, self.profile_memory = with_flops, profile_memory
        self.with_stack, self.with_modules = with_stack, with_modules
        self.use_cpu, self.acc_events = use_cpu, acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.post_processing_timeout_s = post_processing_timeout_s
        self.trace_id = ""
        self.metadata: dict[str, Any] = {}
        self._recorder: Recorder | None = None
        self._events: EventList | None = None
        self._earlier: list[Any] = []

    # -- recording
    def __enter__(self) -> Any:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        try:
            self._prepare_trace()
            self._start_trace()
        except BaseException:  # a signal's, say
            self._stop_recording()
            raise
        return self

    def _stop_recording(self) -> None:
        if self._recorder is not None:
            self._recorder.stop()

    def default_trace_id(self) -> str:
        """A random id."""
        return f"{uuid.uuid4().int:032X}"

    def create_trace_id(self) -> str:
        """The id for a trace that begins: the callback's, or a random one."""
        make = self.custom_trace_id_callback or self.default_trace_id
        return make()

    def config(self, create_trace_id: bool = False) -> ProfilerConfig:
        """What is recorded.

        Args:
            create_trace_id: whether to make a new id first.
        """
        if create_trace_id:
            self.trace_id = self.create_trace_id()
        return ProfilerConfig(
            self.record_shapes, self.profile_memory, self.with_stack, self.with_flops, self.with_modules, self.trace_id
        )

    def _prepare_trace(self) -> None:
        self.entered = True
        self.config(create_trace_id=True)

    def _start_trace(self) -> None:
        self.entered = True
        self._stop_recording()  # an earlier recorder is there if a signal came before it was stopped
        self._recorder = Recorder(self.record_shapes, self.profile_memory, self.with_stack, self.with_flops)
        self._recorder.start()

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> Any:
        if not self.enabled:
            return None
        try:
            self._stop_recording()
        except BaseException:
            self._stop_recording()
            raise
        if self.acc_events and self._events is not None:
            self._earlier = list(self._events)
        self._events = None
        if self.acc_events:
            self._processed()
        return False

    def toggle_collection_dynamic(self, enabled: bool, activities: Iterable[Any]) -> None:
        """Pause or resume recording within the profile.

        Args:
            enabled: whether to record from now on.
            activities: what; only ``ProfilerActivity.CPU`` is recorded here.
        """
        if self._recorder is not None and any(getattr(a, "name", a) == "CPU" for a in activities):
            self._recorder.paused = not enabled

    # -- results
    def _processed(self) -> EventList:
        if self._events is None:
            options = {
                "use_device": self.use_device,
                "profile_memory": self.profile_memory,
                "with_flops": self.with_flops,
            }
            if self._recorder is None:
                self._events = EventList([], **options)
                self._events._tree_built = True
            else:
                self._events = self._recorder.events(**options)
            self._events.extend(self._earlier)
        return self._events

    @property
    def _finished(self) -> bool:
        return self._recorder is not None and self._recorder.ended > 0

    def __repr__(self) -> str:
        return repr(self._processed()) if self._finished else "<unfinished torch.autograd.profile>"

    def __str__(self) -> str:
        return str(self._processed()) if self._finished else "<unfinished torch.autograd.profile>"

    @property
    def function_events(self) -> EventList:
        """All events by time, as `FunctionEvent`."""
        return self._processed()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events, each counted once."""
        return self._processed().self_cpu_time_total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """All events as a text table; see `EventList.table`."""
        return self._processed().table(
            sort_by,
            row_limit,
            max_src_column_width,
            max_name_column_width,
            max_shapes_column_width,
            header,
            top_level_events_only,
        )

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """One entry per name; see `EventList.key_averages`."""
        return self._processed().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def total_average(self) -> FunctionEventAvg:
        """The sum of everything; see `EventList.total_average`."""
        return self._processed().total_average()

    def export_chrome_trace(
        self, path: str, metadata: dict[str, str] | None = None, use_python_export: bool = False
    ) -> None:
        """Write a trace for chrome://tracing or https://ui.perfetto.dev.

        Args:
            path: the file.
            metadata: more top-level entries, as JSON texts by name.
            use_python_export: accepted; there is one way to write.
        """
        recorder = self._recorder
        if recorder is None:
            raise AssertionError("Expected profiling results")
        extra = {k: json.loads(v) for k, v in {**self.metadata, **(metadata or {})}.items()}
        facts = {"trace_id": self.trace_id, "host_name": socket.gethostname(), **extra}
        with replacing(path, "w") as f:
            json.dump(trace(recorder, os.fspath(path), facts), f)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write callers' lines with the time spent there; see `EventList.export_stacks`."""
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        self._processed().export_stacks(path, metric)


def _explain(kind: str) -> None:
    """Say why the kernels of a device are left out."""
    if kind not in _DEVICES:
        text = f"The {kind} is not a valid device option."
    elif kind == "cuda" and any(d.platform == "gpu" for d in jax.local_devices()):
        text = (
            "CUDA kernels are not traced here: an operation's time is that until its results are there. "
            "jax.profiler.trace records kernels; disabling CUDA profiling"
        )
    else:
        text = f"{kind.upper()} is not available, disabling {kind.upper()} profiling"
    warn.to_user(text)


class record_function(contextlib.ContextDecorator):
    """A named stretch in profiles, and in the traces that `jax.profiler` collects; also a decorator.

    Args:
        name: what the stretch is called.
        args: more text for the label in JAX's traces.

    Example:
        >>> with profile() as prof:
        ...     with record_function("forward"):
        ...         pass
        >>> prof.function_events[0].name
        'forward'
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self.run_callbacks_on_exit = True
        self.record: Any = None
        self._annotation: Any = None

    def __enter__(self) -> record_function:
        label = self.name if self.args is None else f"{self.name} {self.args}"
        self._annotation = jax.profiler.TraceAnnotation(label)
        self._annotation.__enter__()
        self.record = _open_spans(self.name)
        return self

    def __exit__(self, *exc: Any) -> None:
        spans, self.record = self.record or [], None
        for recorder, span in spans:
            recorder.close(span)
        self._annotation.__exit__(*exc)
        self._annotation = None

    def _recreate_cm(self) -> record_function:
        return type(self)(self.name, self.args)

    def _call_end_callbacks_on_future(self, fut: Any) -> Any:
        raise NotImplementedError("record_function cannot end with a future: there are no torch.futures here")


# --- torch.ops.profiler ---------------------------------------------------------------------------


def _record_function_enter(name: str, args: str | None = None) -> record_function:
    """Begin a named stretch, until `_record_function_exit` is given what this returns."""
    for label, value in (("name", name), ("args", args)):
        if not isinstance(value, str) and (label == "name" or value is not None):
            kind = "str" if label == "name" else "Optional[str]"
            raise RuntimeError(
                f"profiler::_record_function_enter() Expected a value of type '{kind}' for argument '{label}' "
                f"but instead found type '{type(value).__name__}'."
            )
    return record_function(name, args).__enter__()


def _record_function_exit(handle: record_function) -> None:
    """End a named stretch; once more does nothing."""
    if not isinstance(handle, record_function):
        raise RuntimeError(
            "Overloaded torch operator invoked from Python failed to match any schema:\n"
            f"profiler::_record_function_exit() takes what _record_function_enter() gave, not a {type(handle).__name__}"
        )
    if handle.record is not None:
        handle.__exit__(None, None, None)


NAMESPACES["ops.profiler"] = {
    "_record_function_enter": _record_function_enter,
    "_record_function_enter_new": _record_function_enter,
    "_record_function_exit": _record_function_exit,
}


def _profiler_enabled() -> bool:
    """Whether a profile is being recorded."""
    return any(isinstance(o, Recorder) for o in MODES.observers)


def _open_spans(name: str) -> list[tuple[Recorder, Span]]:
    return [
        (o, o.open(name, USER_SCOPE, "user_annotation", ()))
        for o in MODES.observers
        if isinstance(o, Recorder) and not o.paused
    ]


# --- what belongs to other tools ------------------------------------------------------------------


class _Emit:
    """Ranges for a tool that is not there."""

    _tool = ""
    _hint = ""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled, self.record_shapes = enabled, record_shapes
        self.entered = False

    def __enter__(self) -> Any:
        if self.enabled:
            raise NotImplementedError(f"{type(self).__name__}: {self._tool} ranges are not emitted here. {self._hint}")

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        """Nothing: it was not entered, or is not enabled."""


class emit_itt(_Emit):
    """Refused unless disabled: there is no ITT here.

    Args:
        enabled: False makes it do nothing.
        record_shapes: shapes in the ranges.
    """

    _tool = "ITT"
    _hint = "torch.profiler.profile records operations; jax.profiler.trace records what XLA runs"


class emit_nvtx(_Emit):
    """Refused unless disabled: operations do not emit NVTX ranges here.

    Args:
        enabled: False makes it do nothing.
        record_shapes: shapes in the ranges.
    """

    _tool = "NVTX"
    _hint = "XLA names its kernels in NVIDIA's tools by itself, and jax.profiler.trace records them"


def load_nvprof(path: Any) -> EventList:
    """The events of a file that nvprof wrote.

    Args:
        path: an SQLite file.
    """
    return EventList(parse_nvprof_trace(path))


class EnforceUnique:
    """Raises when it sees a key again."""

    def __init__(self) -> None:
        self.seen: set[Any] = set()

    def see(self, *key: Any) -> None:
        """Note a key.

        Args:
            key: its parts.
        """
        if key in self.seen:
            raise RuntimeError("duplicate key: " + str(key))
        self.seen.add(key)


_MARKERS = """
select a.id, a.name, a.timestamp as first, b.timestamp as last
from CUPTI_ACTIVITY_KIND_MARKER a join CUPTI_ACTIVITY_KIND_MARKER b on a.id = b.id
where a.name <> 0 and b.name = 0
"""
_KERNELS = """
select a.id, r._id_ as call, r.cbid, k.name, k.end - k.start as duration
from CUPTI_ACTIVITY_KIND_MARKER a join CUPTI_ACTIVITY_KIND_MARKER b on a.id = b.id
join CUPTI_ACTIVITY_KIND_RUNTIME r on r.start > a.timestamp and r.end < b.timestamp
join CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL k on k.correlationId = r.correlationId
"""
_LAUNCH = 211  # cudaLaunchKernel


def parse_nvprof_trace(path: Any) -> list[FunctionEvent]:
    """The ranges in a file that nvprof wrote, with the kernels that were launched in each.

    Args:
        path: an SQLite file.
    """
    import sqlite3

    with contextlib.closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        texts = {row["_id_"]: row["value"] for row in db.execute("select _id_, value from StringTable")}
        once = EnforceUnique()
        found: dict[int, FunctionEvent] = {}
        for row in db.execute(_MARKERS):
            once.see(row["id"])
            found[row["id"]] = FunctionEvent(
                id=row["id"], node_id=0, name=texts[row["name"]], thread=0, start_us=row["first"], end_us=row["last"]
            )
        once = EnforceUnique()
        for row in db.execute(_KERNELS):
            once.see(row["id"], row["call"])
            if row["cbid"] != _LAUNCH:
                raise AssertionError(f"Expected cbid to be {_LAUNCH}, but got {row['cbid']}")
            found[row["id"]].append_kernel(row["name"], 0, row["duration"])
    return sorted(found.values(), key=lambda e: e.time_range.start)


class KinetoStepTracker:
    """Counts steps for several requesters, such as a profiler and optimizers; the largest count holds."""

    _current_step = 0
    _step_dict: dict[str, int] = defaultdict(int)

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """Let a requester begin at the current step.

        Args:
            requester: its name.
        """
        cls._step_dict[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """Forget a requester; whether it was known.

        Args:
            requester: its name.
        """
        return cls._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """Count a step of a requester; the current step.

        Args:
            requester: its name.
        """
        if requester not in cls._step_dict:
            cls.init_step_count(requester)
        cls._step_dict[requester] += 1
        now = max(cls._step_dict.values())
        if now > cls._current_step:
            if now - cls._current_step > 1:
                warn.to_user(
                    "Profiler step count has increased more than 1 - current_step = "
                    f"{cls._current_step} step dict =  {cls._step_dict}"
                )
            cls._current_step = now
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        """The largest count."""
        return cls._current_step


__all__ = [
    "EnforceUnique",
    "EventList",
    "FunctionEvent",
    "KinetoStepTracker",
    "MemRecordsAcc",
    "emit_itt",
    "emit_nvtx",
    "load_nvprof",
    "parse_nvprof_trace",
    "profile",
    "record_function",
]
