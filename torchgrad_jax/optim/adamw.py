"""Adam whose weight decay shrinks the parameters themselves."""

from __future__ import annotations

from typing import Any

from .._engine.memory.tensor import Tensor
from .adam import Adam, adam
from .optimizer import ParamsT


class AdamW(Adam):
    """Adam with decoupled weight decay.

    Args:
        params: what to optimize.
        lr: learning rate.
        betas: how slowly the averages of the gradient and of its square forget.
        eps: added to the denominator.
        weight_decay: how much the parameters shrink, times the learning rate.
        amsgrad: divide by the largest average so far.
        maximize: go up instead of down.
        foreach, fused: accepted; one compiled kernel serves both.
        capturable: keep step counts with the parameters; only on accelerators.
        differentiable: record the step.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:  # also in what an older version saved
            group["decoupled_weight_decay"] = True


def adamw(
    params: list[Any], grads: list[Any], exp_avgs: list[Any], exp_avg_sqs: list[Any],
    max_exp_avg_sqs: list[Any], state_steps: list[Any], foreach: bool | None = None,
    capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
    grad_scale: Tensor | None = None, found_inf: Tensor | None = None, has_complex: bool = False,
    *, amsgrad: bool, beta1: float | Tensor, beta2: float | Tensor, lr: float | Tensor,
    weight_decay: float, eps: float, maximize: bool,
) -> None:  # fmt: skip
    """One step of `AdamW` on lists of tensors: `adam` with decoupled weight decay."""
    options = {k: v for k, v in locals().items() if k not in _LISTS}
    adam(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, decoupled_weight_decay=True, **options)


_LISTS = {"params", "grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs", "state_steps"}

__all__ = ["AdamW", "adamw"]
