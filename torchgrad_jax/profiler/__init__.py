"""torch.profiler: what operations a program runs and what they take, by a schedule of steps."""

from __future__ import annotations

from .._core.errors.messages import missing as _missing
from ..autograd.profiler import record_function as record_function
from ..autograd.profiler_util import DeviceType as DeviceType
from .compiled import CompiledProfile as CompiledProfile, profile_compiled as profile_compiled
from .launches import Launched as Launched, Launches as Launches, profile_launches as profile_launches
from .profiler import (
    ProfilerAction as ProfilerAction,
    ProfilerActivity as ProfilerActivity,
    profile as profile,
    schedule as schedule,
    supported_activities as supported_activities,
    tensorboard_trace_handler as tensorboard_trace_handler,
)


def kineto_available() -> bool:
    """False: there is no Kineto library behind this profiler, which works without."""
    return False


__getattr__ = _missing(__name__)
