"""torch.distributed.pipelining: the layers of a module on different devices, and a batch in parts through them."""

from __future__ import annotations

from typing import Any

from ..._core.errors import no_such_name as _no_such_name
from .schedules import (
    Schedule1F1B as Schedule1F1B,
    ScheduleGPipe as ScheduleGPipe,
    ScheduleInterleaved1F1B as ScheduleInterleaved1F1B,
    ScheduleLoopedBFS as ScheduleLoopedBFS,
)
from .stage import PipelineStage as PipelineStage

__all__ = [
    "PipelineStage",
    "Schedule1F1B",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleLoopedBFS",
]


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.distributed.pipelining.{name}"))
