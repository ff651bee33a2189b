"""torch.distributed.pipelining: the layers of a module on different devices, and a batch in parts through them."""

from __future__ import annotations

from typing import Any

from ..._core.errors import no_such_name as _no_such_name
from .schedules import (
    Schedule1F1B as Schedule1F1B,
    ScheduleDualPipeV as ScheduleDualPipeV,
    ScheduleGPipe as ScheduleGPipe,
    ScheduleInterleaved1F1B as ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble as ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS as ScheduleLoopedBFS,
    ScheduleZBVZeroBubble as ScheduleZBVZeroBubble,
)
from .stage import PipelineStage as PipelineStage

__all__ = [
    "PipelineStage",
    "Schedule1F1B",
    "ScheduleDualPipeV",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble",
    "ScheduleLoopedBFS",
    "ScheduleZBVZeroBubble",
]


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.distributed.pipelining.{name}"))
