"""accelerate: the loop with prepared objects, compiled by the user or by the library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .training import Training


@dataclass
class Prepared(Training):
    """A training whose model and optimizer go through an `Accelerator`."""

    library_compiles: bool = False

    def start(self, way: str) -> tuple[Callable[[Any], Any], Any]:
        """The step to call, and what of it is compiled."""
        from accelerate import Accelerator
        from accelerate.state import AcceleratorState, GradientState

        AcceleratorState._reset_state(True)
        GradientState._reset_state()
        by_library = way == "model" and self.library_compiles
        accelerator = Accelerator(cpu=True, **({"dynamo_backend": "inductor"} if by_library else {}))
        optimizer = self.optimizer(self.model.parameters())
        given = torch.compile(self.model) if way == "model" and not by_library else self.model
        model, optimizer = accelerator.prepare(given, optimizer)
        loss_of = self.loss

        def step(batch: Any) -> torch.Tensor:
            with accelerator.accumulate(model):
                loss = loss_of(model, batch)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            return loss

        if way == "step":
            step = torch.compile(step)
        return step, {"model": model, "step": step}.get(way)
