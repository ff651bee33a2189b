"""PostLocalSGDOptimizer: steps of one process, after which parameters of all are averaged at times."""

from __future__ import annotations

from typing import Any

from ..._core.errors import warn
from ...optim.optimizer import Optimizer


class PostLocalSGDOptimizer(Optimizer):
    """An optimizer after whose steps an averager brings the parameters of all processes together.

    Args:
        optim: makes the steps.
        averager: a `torch.distributed.algorithms.model_averaging.averagers.ModelAverager`.
    """

    def __init__(self, optim: Optimizer, averager: Any) -> None:
        self.optim, self.averager = optim, averager
        self.param_groups = optim.param_groups

    @property
    def state(self) -> Any:
        """The state of the optimizer."""
        return self.optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def step(self, closure: Any = None) -> Any:
        """A step, and the averages if it is time for them."""
        loss = self.optim.step() if closure is None else self.optim.step(closure)
        self.averager.average_parameters(params=self.param_groups)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Optimize further parameters."""
        self.optim.add_param_group(param_group)

    def state_dict(self) -> dict[str, Any]:
        """The state of the optimizer, and the step of the averager."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take both from a dictionary; an averager whose step is not in it begins again."""
        self.optim.load_state_dict(state_dict)
        if "step" not in state_dict:
            warn.to_user(
                "Loaded state dict does not contain a step counter for an averager. Setting step counter to 0."
            )
        self.averager.step = state_dict.get("step", 0)


__all__ = ["PostLocalSGDOptimizer"]
