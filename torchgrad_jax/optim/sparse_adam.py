"""SparseAdam: Adam for gradients of which most rows are zero."""

from __future__ import annotations

import math
from typing import Any

from .._engine.memory.tensor import Tensor
from ._ruled import Ruled, call, check_betas, insist
from .optimizer import ParamsT


class SparseAdam(Ruled):
    """Adam that changes a row, and what it keeps of the row, only in steps where its gradient is not zero.

    Args:
        params: what to optimize.
        lr: learning rate.
        betas: how slowly the averages of the gradient and of its square forget.
        eps: added to the denominator.
        maximize: go up instead of down.

    Differs from torch: gradients are dense, as `nn.Embedding(sparse=True)` gives them here. torch refuses dense ones,
    and a row that was looked up counts there even if its gradient is zero.
    """

    _GROUP_DEFAULTS: dict[str, Any] = {}

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        insist(not isinstance(lr, Tensor) or lr._m.numel == 1, "Tensor lr must be 1-element")
        insist(lr > 0.0, f"Invalid learning rate: {lr}")
        insist(eps > 0.0, f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        at = [
            [i, j] for i, group in enumerate(self.param_groups) for j, p in enumerate(group["params"]) if p.is_complex()
        ]
        insist(not at, f"Complex params at indices {at}: SparseAdam does not support complex parameters")

    def _update(self, group: dict[str, Any]) -> None:
        for p in group["params"]:
            if p.grad is not None:
                state = vars(self)["state"][p]
                if not state:
                    state["step"] = 0
                    state["exp_avg"], state["exp_avg_sq"] = call("zeros_like", p), call("zeros_like", p)
                state["step"] += 1
                _step(p, -p.grad if group["maximize"] else p.grad, state, group)


def _step(p: Any, g: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    (beta1, beta2), n = group["betas"], state["step"]
    touched = (g != 0).flatten(1).any(1).view(-1, *[1] * (g.ndim - 1)) if g.ndim > 1 else g != 0
    average, square = state["exp_avg"], state["exp_avg_sq"]
    average.add_((g - average) * (1 - beta1) * touched)
    square.add_((g * g - square) * (1 - beta2) * touched)
    size = group["lr"] * math.sqrt(1 - beta2**n) / (1 - beta1**n)
    p.sub_(size * average / (square.sqrt() + group["eps"]) * touched)


__all__ = ["SparseAdam"]
