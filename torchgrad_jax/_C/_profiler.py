"""The one name of torch._C._profiler that programs use: further options of a profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .._core.errors.messages import missing as _missing


@dataclass(repr=False, eq=False)
class _ExperimentalConfig:
    """Options for the `experimental_config` of a profile.

    Args:
        trace_only: leave out events and their sums: only `export_chrome_trace` works.
        profile_all_threads, record_python_gc_info, performance_events: refused by the profile. It records the thread
            that it is entered in, and what that runs.
        others: change nothing here. They are about devices and Kineto; stacks, which `verbose` puts into the trace,
            are there with ``with_stack=True``, and operations here have no overloads.
    """

    profiler_metrics: Sequence[str] = ()
    profiler_measure_per_kernel: bool = False
    verbose: bool = False
    performance_events: Sequence[str] = ()
    enable_cuda_sync_events: bool = False
    adjust_profiler_step: bool = False
    disable_external_correlation: bool = False
    profile_all_threads: bool = False
    capture_overload_names: bool = False
    record_python_gc_info: bool = False
    expose_kineto_event_metadata: bool = False
    custom_profiler_config: str = ""
    adjust_timestamps: bool = False
    trace_only: bool = False


__getattr__ = _missing(__name__)
