"""RMSprop: gradients divided by the running average of their magnitude."""

from __future__ import annotations

from typing import Any

from .._engine.memory.tensor import Tensor
from ._ruled import CAPTURABLE_DEFAULTS, Ruled, check_capturable, check_lr, check_steps, hyper, insist
from ._rules import add_, addcdiv_, addcmul_, as_real, descent, narrow, penalized, rest, run
from ._scalars import advance
from .optimizer import ParamsT


class RMSprop(Ruled):
    """RMSprop.

    Args:
        params: what to optimize.
        lr: learning rate.
        alpha: how slowly the average square forgets.
        eps: added to the denominator.
        weight_decay: L2 penalty.
        momentum: how much of the last update goes into the next one.
        centered: subtract the squared average gradient.
        maximize: go up instead of down.
        foreach: accepted; the compiled kernel is the same.
        capturable: keep step counts with the parameters; only on accelerators.
        differentiable: record the step.
    """

    _STATE = ("square_avg",)
    _OPTIONS = ("lr", "alpha", "eps", "weight_decay", "momentum", "centered", "capturable")
    _GROUP_DEFAULTS = {"momentum": 0, "centered": False, **CAPTURABLE_DEFAULTS}

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        insist(eps >= 0.0, f"Invalid epsilon value: {eps}")
        insist(momentum >= 0.0, f"Invalid momentum value: {momentum}")
        insist(weight_decay >= 0.0, f"Invalid weight_decay value: {weight_decay}")
        insist(alpha >= 0.0, f"Invalid alpha value: {alpha}")
        options = {"lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered}
        options |= {"weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize}
        options["differentiable"] = differentiable
        super().__init__(params, options)

    def _start(self, state: dict[str, Any], group: dict[str, Any], p: Any) -> None:
        super()._start(state, group, p)
        if group["momentum"] > 0:
            state["momentum_buffer"] = self._zeros(p)
        if group["centered"]:
            state["grad_avg"] = self._zeros(p)

    def _update(self, group: dict[str, Any]) -> None:
        columns = self._collect(group, "square_avg", "grad_avg", "momentum_buffer", "step")
        rmsprop(*columns, **self._given(group))


@narrow
def _rule(p: Any, g: Any, s: Any, h: Any) -> None:
    g = penalized(p, descent(g, h), h)
    p, g, square = as_real(p, g, s.square_avg)
    addcmul_(square.mul_(h.alpha), g, g, rest(h, "alpha"))
    spread = square
    if h.centered:
        (average,) = as_real(s.grad_avg)
        average.lerp_(g, rest(h, "alpha"))
        spread = square.addcmul(average, average, value=-1.0)
    denominator = spread.sqrt().add(h.eps)
    if h.moves:
        (buffer,) = as_real(s.momentum_buffer)
        addcdiv_(buffer.mul_(h.momentum), g, denominator)
        add_(p, buffer, -h.lr)
    else:
        addcdiv_(p, g, denominator, -h.lr)


def rmsprop(
    params: list[Any],
    grads: list[Any],
    square_avgs: list[Any],
    grad_avgs: list[Any],
    momentum_buffer_list: list[Any],
    state_steps: list[Any],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    centered: bool,
) -> None:
    """One step of `RMSprop` on lists of tensors.

    Args:
        params, grads, square_avgs, state_steps: what is updated, gradients, state.
        grad_avgs, momentum_buffer_list: more state; only read if `centered` or with a momentum.
        foreach, has_complex: accepted; the same kernel serves them.
        maximize, differentiable, capturable, lr, alpha, eps, weight_decay, momentum, centered: as in
            `RMSprop`.
    """
    check_steps(state_steps)
    check_capturable(capturable, "params and state_steps", params, state_steps)
    moves = momentum > 0
    h = hyper(lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum, maximize=maximize)
    h |= {"centered": centered, "moves": moves}
    columns = {"square_avg": square_avgs}
    if centered:
        columns["grad_avg"] = grad_avgs
    if moves:
        columns["momentum_buffer"] = momentum_buffer_list
    advance(state_steps)
    run(_rule, params, grads, columns, h)


__all__ = ["RMSprop", "rmsprop"]
