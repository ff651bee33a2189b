"""SparseAdam, whose gradients must be sparse, which no tensor here is."""

from __future__ import annotations

from typing import Any

from .._engine.memory.tensor import Tensor
from ._ruled import Ruled, check_betas, insist
from .optimizer import ParamsT


class SparseAdam(Ruled):
    """Adam for sparse gradients. It can be made, and refuses every dense gradient as torch does.

    Args:
        params: what to optimize.
        lr: learning rate.
        betas: how slowly the averages of the gradient and of its square forget.
        eps: added to the denominator.
        maximize: go up instead of down.
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
        if any(p.grad is not None for p in group["params"]):
            raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")


__all__ = ["SparseAdam"]
