"""The installed torch."""

from __future__ import annotations

from ..execute import Result, run
from ..jobs import Job
from ..libs import live_torch


class LiveTorch:
    """Runs each job on torch."""

    kind = "torch"
    attributes = True

    def __init__(self) -> None:
        self.lib = live_torch()
        self.name = f"torch {self.lib.module.__version__.partition('+')[0]}"

    def result(self, job: Job) -> Result:
        """What torch shows."""
        return run(self.lib, job)
