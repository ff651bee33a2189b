"""Which operations a stretch of a program runs, and what they take; as in torch.autograd.profiler.

Operations are timed until their results are there, so that times are those of the work and not of
handing it to XLA. What XLA makes of several operations is in the traces of `jax.profiler`, in which
`record_function` names stretches too.
"""

from __future__ import annotations

import contextlib
import copy
import gzip
import json
import os
import socket
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax

from .._core import events
from .._core.errors import warn
from .._core.errors.messages import missing as _missing, no_such_name as _no_such_name
from .._core.files.atomic import replacing
from .._core.signals import restore, uninterrupted
from .._core.state import MODES
from ._chrome_trace import trace
from ._nvprof import EnforceUnique as EnforceUnique, parse_nvprof_trace as parse_nvprof_trace
from ._profiler_recorder import Recorder
from ._profiler_table import format_time as format_time
from .profiler_util import (
    EventList as EventList,
    FunctionEvent as FunctionEvent,
    FunctionEventAvg as FunctionEventAvg,
    MemRecordsAcc as MemRecordsAcc,
)


class Recording:
    """What both classes named `profile` have in common: a recorder, and what is made of its events."""

    use_device: str | None = None

    trace_id = ""

    def __init__(
        self, shapes: bool, memory: bool, stack: bool, flops: bool, acc_events: bool, experimental_config: Any = None
    ) -> None:
        self.record_shapes, self.profile_memory = shapes or flops, memory
        self.with_stack, self.with_flops, self.acc_events = stack, flops, acc_events
        self.experimental_config = _checked(experimental_config, stack)
        self._recorder: Recorder | None = None
        self._events: EventList | None = None
        self._metadata: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_no_such_name(f"torch.profiler.profile.{name}"))

    # -- recording
    def _record(self) -> None:
        self._stop_recording()  # an earlier recorder is there if a signal came before it was stopped
        if self._recorder is None or not self.acc_events:
            self._recorder = Recorder(self.record_shapes, self.profile_memory, self.with_stack, self.with_flops)
        self._recorder.start()

    def _stop_recording(self) -> None:
        if self._recorder is not None:
            self._recorder.stop()
        self._events = None

    def toggle_collection_dynamic(self, enabled: bool, activities: Iterable[Any]) -> None:
        """Pause recording in the midst of a profile, or go on with it.

        Args:
            enabled: whether to record from now on.
            activities: what; ``ProfilerActivity.CPU`` alone is recorded here.
        """
        names = {activity.name for activity in activities}
        if self._recorder is not None and self._recorder.recording and "CPU" in names:
            self._recorder.toggle(enabled)

    # -- results
    def _result(self, what: str) -> EventList:
        if self.experimental_config is not None and self.experimental_config.trace_only:
            raise RuntimeError(
                "events() is not available when trace_only=True in ExperimentalConfig. "
                "Use export_chrome_trace() instead."
            )
        return self._all_events(what)

    def _all_events(self, what: str) -> EventList:
        if self._recorder is None:
            raise AssertionError(f"Profiler must be initialized before {what}")
        if self._events is None or self._recorder.recording:
            self._events = self._recorder.result()
        return self._events

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """One entry per name; see `EventList.key_averages`."""
        events = self._result("getting key averages")
        return events.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def export_chrome_trace(
        self, path: str, metadata: Mapping[str, str] | None = None, use_python_export: bool = False
    ) -> None:
        """Write a trace for chrome://tracing or https://ui.perfetto.dev.

        Args:
            path: the file; compressed if it ends with ``.gz``.
            metadata: more that stands at the top of the trace, each as JSON; with `use_python_export` alone, as in
                torch.
            use_python_export: changes nothing else, because there is one way of writing the file.
        """
        events, path = self._all_events("exporting chrome trace"), os.fspath(path)
        recorder = self._recorder
        assert recorder is not None
        options = ("record_shapes", "profile_memory", "with_stack", "with_flops")
        facts = {"host_name": socket.gethostname(), "baseTimeNanoseconds": recorder.clock_time, "traceName": path}
        facts["trace_id"] = self.trace_id
        facts |= {name: 1 for name in options if getattr(self, name)} | self._metadata
        if use_python_export:
            facts |= {key: json.loads(value) for key, value in (metadata or {}).items()}
        text = json.dumps(trace(events, recorder.records, facts)).encode()
        with replacing(path) as file:
            file.write(gzip.compress(text) if path.endswith(".gz") else text)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write callers' lines with the time spent there; see `EventList.export_stacks`."""
        events = self._result("exporting stacks")
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        events.export_stacks(path, metric)

    def add_metadata(self, key: str, value: str) -> None:
        """Put a text into the trace."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Put a value, given as JSON, into the trace."""
        self._metadata[key] = json.loads(value)


def _checked(config: Any, with_stack: bool) -> Any:
    """An `_ExperimentalConfig`, which `with_stack` may change; what it asks for in vain is refused."""
    if config is None:
        return None
    for name in ("profile_all_threads", "record_python_gc_info", "performance_events"):
        if getattr(config, name, None):
            raise NotImplementedError(f"_ExperimentalConfig({name}=...) is not supported (docs/profiler.md)")
    if config.trace_only and with_stack:
        warn.to_user(
            "trace_only=True is incompatible with with_stack=True (stack traces require event post-processing). "
            "Disabling trace_only."
        )
        config = copy.copy(config)
        config.trace_only = False
    return config


class profile(Recording):
    """Within it, operations, nodes of backward passes and named stretches of this thread are recorded.

    Args:
        enabled: False makes it do nothing.
        use_cuda: the old way of ``use_device="cuda"``.
        use_device: kernels of a device are not traced here: a warning says so, and they are left out.
        record_shapes: keep the shapes of arguments.
        with_flops: count floating point operations of matrix products, 2d convolutions, `mul`, `add`.
        profile_memory: keep track of the bytes of tensors.
        with_stack: keep the caller's lines.
        with_modules: changes nothing, as in torch's eager mode.
        use_kineto: changes nothing by itself: Kineto traces devices. Without it, torch refuses ``use_cpu=False``.
        use_cpu: False raises, because nothing but the CPU's events would be recorded.
        experimental_config: a `torch._C._profiler._ExperimentalConfig`. Its `trace_only` leaves only
            `export_chrome_trace`; what would record more than there is here is refused; the rest is for devices.
        acc_events: keep the events of earlier uses of this object.
        custom_trace_id_callback: gives `trace_id`, which is a random one otherwise.
        post_processing_timeout_s: changes nothing, because events are complete when they end. Below 0 it raises.
        activity_filters: changes nothing: it chooses among the events of devices.
        use_mtia: the old way of ``use_device="mtia"``.

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
        activity_filters: dict[Any, set[str]] | None = None,
        use_mtia: bool = False,
    ) -> None:
        config = experimental_config if enabled else None
        super().__init__(record_shapes, profile_memory, with_stack, with_flops, acc_events, config)
        self.enabled, self.entered, self.with_modules = enabled, False, with_modules
        self.use_cpu, self.activity_filters = use_cpu, activity_filters or {}
        self.custom_trace_id_callback = custom_trace_id_callback
        self.post_processing_timeout_s = post_processing_timeout_s
        if not enabled:
            return
        if use_cuda:
            warn.to_user(
                "The attribute `use_cuda` will be deprecated soon, please use ``use_device = 'cuda'`` instead.",
                FutureWarning,
            )
        _check_devices("cuda" if use_cuda else "mtia" if use_mtia else use_device, use_kineto, use_cpu)
        if post_processing_timeout_s is not None and post_processing_timeout_s < 0:
            raise ValueError("post_processing_timeout_s must be non-negative")

    def default_trace_id(self) -> str:
        """A random id."""
        return f"{uuid.uuid4().int:032X}"

    def create_trace_id(self) -> str:
        """An id for a trace that begins: that of the callback, or a random one."""
        return (self.custom_trace_id_callback or self.default_trace_id)()

    # -- recording
    def __enter__(self) -> profile | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered, self.trace_id = True, self.create_trace_id()
        try:
            self._record()
        except BaseException:  # a signal's, say
            self._stop_recording()
            raise
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        restore(self._stop_recording)

    def __str__(self) -> str:
        finished = self._recorder is not None and not self._recorder.recording
        return str(self.function_events) if finished else "<unfinished torch.autograd.profile>"

    __repr__ = __str__

    @property
    def function_events(self) -> EventList:
        """All events by time, as `FunctionEvent`."""
        return EventList() if self._recorder is None else self._result("accessing events")

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events, each counted once."""
        return self.function_events.self_cpu_time_total

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
        widths = (max_src_column_width, max_name_column_width, max_shapes_column_width)
        return self.function_events.table(sort_by, row_limit, *widths, header, top_level_events_only)

    def total_average(self) -> FunctionEventAvg:
        """The sum of everything; see `EventList.total_average`."""
        return self.function_events.total_average()


def _check_devices(kind: str | None, use_kineto: bool, use_cpu: bool) -> None:
    """Say what of a device is left out, and raise where nothing else would be recorded."""
    if not use_cpu and not use_kineto:
        raise AssertionError("Device-only events supported only with Kineto (use_kineto=True)")
    if kind == "mtia":
        raise AssertionError("Legacy MTIA profiling is not supported. Requires use_kineto=True on MTIA devices.")
    if kind in ("cuda", "xpu", "hpu"):
        warn_of_device(kind)
    elif kind is not None:
        warn.to_user(f"The {kind} is not a valid device option.")
    if not use_cpu:
        raise AssertionError("No activities specified for the profiler")


def warn_of_device(kind: str) -> None:
    """Say why the kernels of a device are left out."""
    if kind == "cuda" and any(d.platform == "gpu" for d in jax.local_devices()):
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
        self.name, self.args = name, args
        self._open: list[tuple[events.Observer, Any]] = []
        self._annotation: Any = None

    def __enter__(self) -> record_function:
        label = self.name if self.args is None else f"{self.name} {self.args}"
        self._annotation = jax.profiler.TraceAnnotation(label)
        self._annotation.__enter__()
        self._open = [(o, o.open_stretch(self.name)) for o in MODES.observers]
        return self

    @uninterrupted
    def __exit__(self, *exc: Any) -> None:
        opened, self._open = self._open, []
        for observer, stretch in opened:
            observer.close_stretch(stretch)
        self._annotation.__exit__(*exc)
        self._annotation = None

    def _recreate_cm(self) -> record_function:
        return type(self)(self.name, self.args)


def _profiler_enabled() -> bool:
    """Return whether a profile is being recorded."""
    return any(isinstance(o, Recorder) for o in MODES.observers)


# --- what belongs to other tools ------------------------------------------------------------------


class emit_nvtx:
    """Refused unless `enabled` is False: operations do not emit ranges for another tool here.

    Use `torch.profiler.profile` for a table of operations. Use `jax.profiler.trace` for the kernels of a GPU: it
    writes a file for Perfetto or TensorBoard, in which the blocks of `record_function` are ranges. A program that is
    written with this context runs on once `enabled` is False.

    Example:
        >>> import torchgrad_jax as torch
        >>> import jax, tempfile
        >>> with tempfile.TemporaryDirectory() as folder, jax.profiler.trace(folder):
        ...     with torch.autograd.profiler.record_function("forward"), emit_nvtx(enabled=False):
        ...         y = torch.ones(2).exp()
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled, self.record_shapes = enabled, record_shapes

    def __enter__(self) -> Any:
        if self.enabled:
            raise NotImplementedError(
                f"{type(self).__name__}: no ranges are emitted here. torch.profiler.profile records operations, "
                "and jax.profiler.trace what XLA runs"
            )

    def __exit__(self, *exc: object) -> None:
        """Nothing: it was not entered, or is not enabled."""


class emit_itt(emit_nvtx):
    """Refused unless disabled, as `emit_nvtx`, which says what to use instead."""


def load_nvprof(path: str | os.PathLike[str]) -> EventList:
    """Read a file of nvprof: its ranges, each with the kernels that were started in it.

    Args:
        path: the SQLite file that ``nvprof -o`` wrote.

    Raises:
        sqlite3.Error: the file is not there, or nvprof did not write it.
    """
    return EventList(parse_nvprof_trace(path))


class KinetoStepTracker:
    """Counts the steps of several requesters, such as optimizers. The step that holds is that of the furthest one."""

    _current_step = 0
    _step_dict: dict[str, int] = defaultdict(int)

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """Let a requester begin at the step that holds."""
        cls._step_dict[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """Forget a requester, and say whether it was known."""
        return cls._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """Count a step of a requester, and give the step that holds."""
        if requester not in cls._step_dict:
            cls.init_step_count(requester)
        cls._step_dict[requester] += 1
        furthest = max(cls._step_dict.values())
        if furthest > cls._current_step + 1:
            warn.to_user(
                f"Profiler step count has increased more than 1 - current_step = {cls._current_step} "
                f"step dict =  {cls._step_dict}"
            )
        cls._current_step = max(cls._current_step, furthest)
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        """Give the step that holds."""
        return cls._current_step


__getattr__ = _missing(__name__)

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
