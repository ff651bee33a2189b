"""Adadelta: steps scaled by the ratio of past steps to past gradients."""

from __future__ import annotations

from typing import Any

from .._engine.memory.tensor import Tensor
from ._ruled import CAPTURABLE_DEFAULTS, Ruled, check_capturable, check_lr, check_steps, hyper, insist
from ._rules import add_, addcmul_, as_real, descent, narrow, penalized, rest, run
from ._scalars import advance
from .optimizer import ParamsT


class Adadelta(Ruled):
    """Adadelta.

    Args:
        params: what to optimize.
        lr: factor on each step.
        rho: how slowly the averages forget.
        eps: added under the square roots.
        weight_decay: L2 penalty.
        maximize: go up instead of down.
        foreach: accepted; the compiled kernel is the same.
        capturable: keep step counts with the parameters; only on accelerators.
        differentiable: record the step.
    """

    _STATE = ("square_avg", "acc_delta")
    _OPTIONS = ("lr", "rho", "eps", "weight_decay", "capturable")
    _GROUP_DEFAULTS = CAPTURABLE_DEFAULTS

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        insist(0.0 <= rho <= 1.0, f"Invalid rho value: {rho}")
        insist(eps >= 0.0, f"Invalid epsilon value: {eps}")
        insist(weight_decay >= 0.0, f"Invalid weight_decay value: {weight_decay}")
        options = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        options |= {"capturable": capturable, "foreach": foreach, "differentiable": differentiable}
        super().__init__(params, options)

    def _update(self, group: dict[str, Any]) -> None:
        columns = self._collect(group, *self._STATE, "step")
        adadelta(*columns, **self._given(group))


@narrow
def _rule(p: Any, g: Any, s: Any, h: Any) -> None:
    g = penalized(p, descent(g, h), h)
    p, g, square, past = as_real(p, g, s.square_avg, s.acc_delta)
    addcmul_(square.mul_(h.rho), g, g, rest(h, "rho"))
    change = past.add(h.eps).sqrt().div(square.add(h.eps).sqrt()).mul(g)
    addcmul_(past.mul_(h.rho), change, change, rest(h, "rho"))
    add_(p, change, -h.lr)


def adadelta(
    params: list[Any],
    grads: list[Any],
    square_avgs: list[Any],
    acc_deltas: list[Any],
    state_steps: list[Any],
    capturable: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """One step of `Adadelta` on lists of tensors.

    Args:
        params, grads, square_avgs, acc_deltas, state_steps: what is updated, gradients, state.
        foreach, has_complex: accepted; the same kernel serves them.
        capturable, differentiable, lr, rho, eps, weight_decay, maximize: as in `Adadelta`.
    """
    check_steps(state_steps)
    check_capturable(capturable, "params and state_steps", params, state_steps, xla=False)
    h = hyper(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize)
    advance(state_steps)
    run(_rule, params, grads, {"square_avg": square_avgs, "acc_delta": acc_deltas}, h)


__all__ = ["Adadelta", "adadelta"]
