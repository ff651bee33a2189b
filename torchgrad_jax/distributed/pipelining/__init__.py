"""torch.distributed.pipelining: the layers of a module on different devices, and a batch in parts through them."""

from __future__ import annotations

from ..._core.errors.messages import missing as _missing
from ._cutting import Pipe as Pipe, SplitPoint as SplitPoint, pipe_split as pipe_split, pipeline as pipeline
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
    "Pipe", "PipelineStage", "Schedule1F1B", "ScheduleDualPipeV", "ScheduleGPipe", "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble", "ScheduleLoopedBFS", "ScheduleZBVZeroBubble", "SplitPoint", "pipe_split",
    "pipeline",
]  # fmt: skip

__getattr__ = _missing(__name__)
