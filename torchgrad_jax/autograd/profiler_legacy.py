"""The oldest profiler, as in torch.autograd.profiler_legacy: the same events, with fewer arguments."""

from __future__ import annotations

import warnings
from typing import Any

from ._profiler_recorder import Recorder
from .profiler import ProfilerConfig
from .profiler_util import (
    EventList as EventList,
    FunctionEvent as FunctionEvent,
    FunctionEventAvg,
)


class profile:
    """Records what runs within it; use `torch.profiler.profile` instead.

    Args:
        enabled: False makes it do nothing.
        use_cuda: kernels are not traced here: a warning says so.
        record_shapes: keep the shapes of arguments.
        with_flops: count floating point operations.
        profile_memory: keep track of the bytes of tensors.
        with_stack: keep the caller's lines.
        with_modules: without effect, as in torch's eager mode.

    Example:
        >>> import torchgrad_jax as torch
        >>> with profile() as prof:
        ...     x = torch.ones(2)
        >>> prof.function_events[0].name
        'aten::ones'
    """

    def __init__(
        self, enabled: bool = True, *, use_cuda: bool = False, record_shapes: bool = False,
        with_flops: bool = False, profile_memory: bool = False, with_stack: bool = False,
        with_modules: bool = False,
    ) -> None:  # fmt: skip
        self.enabled = enabled
        if not enabled:
            return
        if use_cuda:
            warnings.warn("CUDA is not available, disabling CUDA profiling", stacklevel=2)
        self.use_cuda = False
        self.function_events: EventList | None = None
        self.entered = False
        self.record_shapes = record_shapes or with_flops
        self.with_flops, self.profile_memory = with_flops, profile_memory
        self.with_stack, self.with_modules = with_stack, with_modules

    def config(self) -> ProfilerConfig:
        """What is recorded."""
        return ProfilerConfig(
            self.record_shapes, self.profile_memory, self.with_stack, self.with_flops, self.with_modules
        )  # fmt: skip

    def __enter__(self) -> Any:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered = True
        self._recorder = Recorder(
            self.record_shapes, self.profile_memory, self.with_stack, self.with_flops
        )
        self._recorder.start()
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> Any:
        if not self.enabled:
            return None
        self._recorder.stop()
        self.function_events = self._recorder.events(
            profile_memory=self.profile_memory, with_flops=self.with_flops
        )
        return False

    def __repr__(self) -> str:
        events = self.function_events
        return "<unfinished profiler_legacy.profile>" if events is None else repr(events)

    def __str__(self) -> str:
        events = self.function_events
        return "<unfinished profile.profiler_legacy.profile>" if events is None else str(events)

    def _finished(self) -> EventList:
        if self.function_events is None:
            raise RuntimeError("Profiler didn't finish running")
        return self.function_events

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
        return self._finished().table(
            sort_by, row_limit, max_src_column_width, max_name_column_width, max_shapes_column_width, header,
            top_level_events_only,
        )  # fmt: skip

    def export_chrome_trace(self, path: str) -> None:
        """Write the events for chrome://tracing; see `EventList.export_chrome_trace`."""
        self._finished().export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write callers' lines with the time spent there; see `EventList.export_stacks`."""
        events = self._finished()
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        events.export_stacks(path, metric)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0
    ) -> EventList:
        """One entry per name; see `EventList.key_averages`."""
        return self._finished().key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> FunctionEventAvg:
        """The sum of everything; see `EventList.total_average`."""
        return self._finished().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events, each counted once."""
        return self._finished().self_cpu_time_total


__all__ = ["profile"]
