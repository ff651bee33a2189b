"""Adamax: Adam with the largest gradient so far in place of the average square."""

from __future__ import annotations

from typing import Any

from .._engine.memory.tensor import Tensor
from ._ruled import CAPTURABLE_DEFAULTS, Ruled, check_adam, check_capturable, check_steps, hyper
from ._rules import addcdiv_, as_real, descent, forgotten, kept, narrow, penalized, rest, run_by_step
from .optimizer import ParamsT


class Adamax(Ruled):
    """Adamax.

    Args:
        params: what to optimize.
        lr: learning rate.
        betas: how slowly the average gradient and the largest one forget.
        eps: added to the gradient's magnitude.
        weight_decay: L2 penalty.
        maximize: go up instead of down.
        foreach: accepted; the compiled kernel is the same.
        capturable: keep step counts with the parameters; only on accelerators.
        differentiable: record the step.
    """

    _STATE = ("exp_avg", "exp_inf")
    _OPTIONS = ("lr", "beta1", "beta2", "eps", "weight_decay", "capturable")
    _GROUP_DEFAULTS = CAPTURABLE_DEFAULTS

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_adam(lr, eps, betas, weight_decay)
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach}
        options |= {"maximize": maximize, "differentiable": differentiable, "capturable": capturable}
        super().__init__(params, options)

    def _update(self, group: dict[str, Any]) -> None:
        columns = self._collect(group, *self._STATE, "step")
        adamax(*columns, **self._given(group))


@narrow
def _rule(p: Any, g: Any, s: Any, h: Any) -> None:
    g = penalized(p, descent(g, h), h)
    p, g, average, largest = as_real(p, g, s.exp_avg, s.exp_inf)
    average.lerp_(g, rest(h, "beta1"))
    largest.copy_(kept(largest.mul_(h.beta2)).maximum(g.abs().add(h.eps)))
    addcdiv_(p, average, largest, -(h.lr / forgotten(h, "beta1")))


def adamax(
    params: list[Any],
    grads: list[Any],
    exp_avgs: list[Any],
    exp_infs: list[Any],
    state_steps: list[Any],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
) -> None:
    """One step of `Adamax` on lists of tensors.

    Args:
        params, grads, exp_avgs, exp_infs, state_steps: what is updated, gradients, state.
        foreach, has_complex: accepted; the same kernel serves them.
        maximize, differentiable, capturable, eps, beta1, beta2, lr, weight_decay: as in `Adamax`.
    """
    check_steps(state_steps)
    check_capturable(capturable, "params and state_steps", params, state_steps)
    h = hyper(lr=lr, beta1=beta1, beta2=beta2, eps=eps, weight_decay=weight_decay, maximize=maximize)
    columns = {"exp_avg": exp_avgs, "exp_inf": exp_infs}
    run_by_step(_rule, params, grads, columns, state_steps, h)


__all__ = ["Adamax", "adamax"]
