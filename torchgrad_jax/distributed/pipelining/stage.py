"""A stage of a pipeline: consecutive layers, on devices of their own."""

from __future__ import annotations

from typing import Any

from ..._engine.memory.tensor import Tensor
from ...autograd import backward
from ...nn.modules.module import Module
from ..device_mesh import DeviceMesh
from ..tensor._api import replicate_rest
from ..tensor._dtensor import spread
from ..tensor.placement_types import Replicate


class PipelineStage:
    """One stage of a pipeline.

    Args:
        submodule: what the stage computes.
        stage_index: which stage it is, from 0.
        num_stages: how many there are.
        device: a `DeviceMesh` whose devices are the stage's: parameters that are on no mesh yet go to all of them, and
            what comes from the stage before is moved there. A `torch.device` leaves things where they are.
        input_args: not needed, shapes are found when the stage runs.
        output_args: not needed.
        group: the processes that have the stages; the default group if None. It has no meaning where one
            process has all stages.
        dw_builder: not supported.

    Differs from torch: a `DeviceMesh` as `device`; one process may have all stages.
    """

    def __init__(
        self,
        submodule: Module,
        stage_index: int,
        num_stages: int,
        device: Any,
        input_args: Any = None,
        output_args: Any = None,
        group: Any = None,
        dw_builder: Any = None,
    ) -> None:
        if not 0 <= stage_index < num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages}")
        if dw_builder is not None:
            raise NotImplementedError(
                "PipelineStage(): dw_builder splits a backward pass in two, and no schedule does that here"
            )
        self.submod = submodule
        self.stage_index, self.num_stages = stage_index, num_stages
        self.device, self.group = device, group
        self.takes_keywords = True
        """Whether the module takes the arguments by name that all stages get."""
        self.inputs: dict[int, tuple[Any, ...]] = {}
        """What microbatches came in that have not gone back yet."""
        self.outputs: dict[int, Any] = {}
        """What came out of them: an output, or on the last stage a loss."""
        self.peak = 0
        """How many microbatches were on their way in this stage at most."""
        if isinstance(device, DeviceMesh):
            for part in submodule.modules():
                replicate_rest(part, device)

    @property
    def is_first(self) -> bool:
        """Whether the stage gets the batch."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether the stage gives the output."""
        return self.stage_index == self.num_stages - 1

    def forward(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute a microbatch.

        Args:
            number: which one.
            args: its part of the batch, or what the stage before gave.
            kwargs: its part of what all stages get.
        """
        taken = tuple(self._taken(x) for x in args)
        self.inputs[number] = taken
        self.peak = max(self.peak, len(self.inputs))
        out = self.outputs[number] = self.submod(*taken, **(kwargs if self.takes_keywords else {}))
        return out

    def _taken(self, x: Any) -> Any:
        """An input on the stage's devices, with a graph that begins here."""
        if not isinstance(x, Tensor):
            return x
        moved = self.moved(x.detach())
        return moved.requires_grad_(not self.is_first and moved.is_floating_point())

    def moved(self, x: Tensor) -> Tensor:
        """A tensor without history, on the stage's devices."""
        if not isinstance(self.device, DeviceMesh):
            return x
        return spread(x, self.device, (Replicate(),) * self.device.ndim).detach()

    def backward(self, number: int, gradients: tuple[Any, ...] | None) -> tuple[Any, ...]:
        """Differentiate a microbatch, and forget it.

        Args:
            number: which one.
            gradients: of its outputs; None where they are a loss.

        Returns:
            The gradients of its inputs.
        """
        out = self.outputs.pop(number)
        row = out if isinstance(out, tuple | list) else (out,)
        if gradients is None:
            backward(row)
        else:
            pairs = [
                (t, self.moved(g)) for t, g in zip(row, gradients, strict=True) if g is not None and t.requires_grad
            ]
            backward([t for t, _ in pairs], [g for _, g in pairs])
        return tuple(getattr(x, "grad", None) for x in self.inputs.pop(number))

    def clear(self) -> None:
        """Forget what a batch that failed has left behind."""
        self.inputs.clear()
        self.outputs.clear()
        self.peak = 0
