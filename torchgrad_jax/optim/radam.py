"""RAdam: Adam that holds back its scaling while the average square is uncertain."""

from __future__ import annotations

from typing import Any

from .._core.jax.x64 import all_with_x64
from .._engine.memory.tensor import Tensor
from ._ruled import CAPTURABLE_DEFAULTS, Ruled, check_adam, check_capturable, check_steps, hyper
from ._rules import add_, as_real, average, decayed, descent, larger, root, run
from ._scalars import advance, alike, take
from .optimizer import ParamsT


class RAdam(Ruled):
    """RAdam.

    Args:
        params: what to optimize.
        lr: learning rate.
        betas: how slowly the averages of the gradient and of its square forget.
        eps: added to the denominator.
        weight_decay: L2 penalty, or shrinking of the parameter itself if decoupled.
        decoupled_weight_decay: shrink the parameters as `AdamW` does.
        maximize: go up instead of down.
        foreach: accepted; the compiled kernel is the same.
        capturable: keep step counts with the parameters; only on accelerators.
        differentiable: record the step.
    """

    _STATE = ("exp_avg", "exp_avg_sq")
    _OPTIONS = ("lr", "beta1", "beta2", "eps", "weight_decay", "decoupled_weight_decay", "capturable")
    _GROUP_DEFAULTS = {**CAPTURABLE_DEFAULTS, "decoupled_weight_decay": False}

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_adam(lr, eps, betas, weight_decay)
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        options |= {"foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay}
        options["differentiable"] = differentiable
        super().__init__(params, options)

    def _update(self, group: dict[str, Any]) -> None:
        columns = self._collect(group, *self._STATE, "step")
        radam(*columns, **self._given(group))


def _certainty(step: Any, beta2: Any) -> tuple[Any, Any]:
    """Length of the average that is in use, and that it will have."""
    final = 2 / (1 - beta2) - 1
    decay = beta2**step
    return final - 2 * step * decay / (1 - decay), final


def _rule(p: Any, g: Any, s: Any, h: Any) -> None:
    g = descent(g, h)
    p, g, mean, square = as_real(p, g, s.exp_avg, s.exp_avg_sq)
    g = decayed(p, g, h)
    average(g, mean, square, h)
    change = plain = mean.div(1 - h.beta1**h.step).mul(h.lr)
    length, final = _certainty(h.step, h.beta2)
    if h.certain is not False:
        scale = square.sqrt().add(h.eps).reciprocal().mul(root(1 - h.beta2**h.step))
        share = (length - 4) * (length - 2) * final / ((final - 4) * (final - 2) * length)
        if h.certain is None:  # the root of a negative share would make the derivative NaN
            share = larger(share, 0.0)
        change = change.mul(scale).mul(root(share))
    if h.certain is None:  # the step count is being traced
        change = change.where(length > 5.0, plain)
    add_(p, change, -1.0)


def radam(
    params: list[Any],
    grads: list[Any],
    exp_avgs: list[Any],
    exp_avg_sqs: list[Any],
    state_steps: list[Any],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
) -> None:
    """One step of `RAdam` on lists of tensors.

    Args:
        params, grads, exp_avgs, exp_avg_sqs, state_steps: what is updated, gradients, state.
        foreach, has_complex: accepted; the same kernel serves them.
        decoupled_weight_decay, differentiable, capturable, maximize, beta1, beta2, lr, weight_decay, eps: as
            in `RAdam`.
    """
    check_steps(state_steps)
    check_capturable(capturable, "params and state_steps", params, state_steps)
    h = hyper(lr=lr, beta1=beta1, beta2=beta2, eps=eps, weight_decay=weight_decay, maximize=maximize)
    h["decoupled"] = decoupled_weight_decay
    now = advance(state_steps)
    for part in alike(now) if now else []:
        step = now[part[0]]
        length, _ = _certainty(step, h["beta2"])
        certain = length > 5.0 if isinstance(length, float | int) else None
        ps, gs, *rest = take(part, params, grads, exp_avgs, exp_avg_sqs)
        columns = dict(zip(("exp_avg", "exp_avg_sq"), rest))
        run(_rule, ps, gs, columns, {**h, "step": step, "certain": certain})


all_with_x64(globals())  # step counts may be traced numbers, and rules compute with them by operators

__all__ = ["RAdam", "radam"]
