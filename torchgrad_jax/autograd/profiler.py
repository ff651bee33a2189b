"""Which operations a stretch of a program runs, and what they take; as in torch.autograd.profiler.

Operations are timed until their results are there, so that times are those of the work and not of
handing it to XLA. What XLA makes of several operations is in the traces of `jax.profiler`, in which
`record_function` names stretches too.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import socket
from collections.abc import Mapping
from typing import Any

import jax

from .._core.errors import warn
from .._core.errors.messages import missing as _missing, no_such_name as _no_such_name
from .._core.files.atomic import replacing
from .._core.signals import restore, uninterrupted
from .._core.state import MODES
from ._chrome_trace import trace
from ._profiler_recorder import Recorder
from ._profiler_table import format_time as format_time
from .profiler_util import (
    STRETCH,
    EventList as EventList,
    FunctionEvent as FunctionEvent,
    FunctionEventAvg as FunctionEventAvg,
)


class Recording:
    """What both classes named `profile` have in common: a recorder, and what is made of its events."""

    use_device: str | None = None

    def __init__(self, shapes: bool, memory: bool, stack: bool, flops: bool, acc_events: bool) -> None:
        self.record_shapes, self.profile_memory = shapes or flops, memory
        self.with_stack, self.with_flops, self.acc_events = stack, flops, acc_events
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

    # -- results
    def _result(self, what: str) -> EventList:
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

    def export_chrome_trace(self, path: str) -> None:
        """Write a trace for chrome://tracing or https://ui.perfetto.dev.

        Args:
            path: the file; compressed if it ends with ``.gz``.
        """
        events, path = self._result("exporting chrome trace"), os.fspath(path)
        recorder = self._recorder
        assert recorder is not None
        options = ("record_shapes", "profile_memory", "with_stack", "with_flops")
        facts = {"host_name": socket.gethostname(), "baseTimeNanoseconds": recorder.clock_time, "traceName": path}
        facts |= {name: 1 for name in options if getattr(self, name)} | self._metadata
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


def refuse(options: Mapping[str, Any]) -> None:
    """Raise for an argument of torch's `profile` that this one does not have."""
    for name, value in options.items():
        if value is not None:
            raise NotImplementedError(f"profile({name}=...) is not supported")


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
        with_modules: without effect, as in torch's eager mode.
        acc_events: keep the events of earlier uses of this object.
        others: torch's other options are refused, unless None.

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
        acc_events: bool = False,
        **others: Any,
    ) -> None:
        super().__init__(record_shapes, profile_memory, with_stack, with_flops, acc_events)
        self.enabled, self.entered, self.with_modules = enabled, False, with_modules
        if not enabled:
            return
        refuse(others)
        if use_cuda or use_device is not None:
            warn_of_device("cuda" if use_cuda else str(use_device))

    # -- recording
    def __enter__(self) -> profile | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered = True
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

    def table(self, *args: Any, **kwargs: Any) -> str:
        """All events as a text table; see `EventList.table`."""
        return self.function_events.table(*args, **kwargs)

    def total_average(self) -> FunctionEventAvg:
        """The sum of everything; see `EventList.total_average`."""
        return self.function_events.total_average()


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
        self._open: list[tuple[Recorder, FunctionEvent]] = []
        self._annotation: Any = None

    def __enter__(self) -> record_function:
        label = self.name if self.args is None else f"{self.name} {self.args}"
        self._annotation = jax.profiler.TraceAnnotation(label)
        self._annotation.__enter__()
        self._open = [(o, o.open(self.name, STRETCH)) for o in MODES.observers if isinstance(o, Recorder)]
        return self

    @uninterrupted
    def __exit__(self, *exc: Any) -> None:
        opened, self._open = self._open, []
        for recorder, event in opened:
            recorder.close(event)
        self._annotation.__exit__(*exc)
        self._annotation = None

    def _recreate_cm(self) -> record_function:
        return type(self)(self.name, self.args)


def _profiler_enabled() -> bool:
    """Whether a profile is being recorded."""
    return any(isinstance(o, Recorder) for o in MODES.observers)


# --- what belongs to other tools ------------------------------------------------------------------


class emit_nvtx:
    """Refused unless `enabled` is False: operations do not emit ranges for another tool here."""

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
    """Refused unless disabled, as `emit_nvtx`."""


__getattr__ = _missing(__name__)

__all__ = ["EventList", "FunctionEvent", "emit_itt", "emit_nvtx", "profile", "record_function"]
