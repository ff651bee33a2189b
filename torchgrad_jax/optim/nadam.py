"""NAdam: Adam that looks ahead along its momentum."""

from __future__ import annotations

from typing import Any

from .._core.jax.x64 import all_with_x64
from .._engine.memory.tensor import Tensor
from ._ruled import CAPTURABLE_DEFAULTS, Ruled, check_adam, check_capturable, check_steps, hyper, insist
from ._rules import addcdiv_, as_real, average, decayed, descent, run
from ._scalars import advance, alike, as_held, take, update
from .optimizer import ParamsT


class NAdam(Ruled):
    """NAdam.

    Args:
        params: what to optimize.
        lr: learning rate.
        betas: how slowly the averages of the gradient and of its square forget.
        eps: added to the denominator.
        weight_decay: L2 penalty, or shrinking of the parameter itself if decoupled.
        momentum_decay: how fast the momentum approaches its final value.
        decoupled_weight_decay: shrink the parameters as `AdamW` does.
        maximize: go up instead of down.
        foreach: accepted; the compiled kernel is the same.
        capturable: keep step counts with the parameters; only on accelerators.
        differentiable: record the step.
    """

    _SCALARS = (("step", 0.0), ("mu_product", 1.0))
    _STATE = ("exp_avg", "exp_avg_sq")
    _OPTIONS = ("lr", "beta1", "beta2", "eps", "weight_decay", "momentum_decay", "decoupled_weight_decay", "capturable")
    _GROUP_DEFAULTS = {**CAPTURABLE_DEFAULTS, "decoupled_weight_decay": False}

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_adam(lr, eps, betas, weight_decay)
        insist(momentum_decay >= 0.0, f"Invalid momentum_decay value: {momentum_decay}")
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay}
        options |= {"decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach}
        options |= {"capturable": capturable, "differentiable": differentiable}
        super().__init__(params, options)

    def _update(self, group: dict[str, Any]) -> None:
        columns = self._collect(group, *self._STATE, "mu_product", "step")
        nadam(*columns, **self._given(group))


def _rule(p: Any, g: Any, s: Any, h: Any) -> None:
    g = descent(g, h)
    p, g, mean, square = as_real(p, g, s.exp_avg, s.exp_avg_sq)
    g = decayed(p, g, h)
    average(g, mean, square, h)
    denominator = square.div(1 - h.beta2**h.step).sqrt().add(h.eps)
    addcdiv_(p, g, denominator, -(h.lr * (1 - h.mu) / (1 - h.mu_product)))
    addcdiv_(p, mean, denominator, -(h.lr * h.mu_next / (1 - h.mu_product * h.mu_next)))


def nadam(
    params: list[Any], grads: list[Any], exp_avgs: list[Any], exp_avg_sqs: list[Any],
    mu_products: list[Any], state_steps: list[Any], decoupled_weight_decay: bool = False,
    foreach: bool | None = None, capturable: bool = False, differentiable: bool = False,
    has_complex: bool = False, maximize: bool = False, *, beta1: float, beta2: float,
    lr: float | Tensor, weight_decay: float, momentum_decay: float, eps: float,
) -> None:  # fmt: skip
    """One step of `NAdam` on lists of tensors.

    Args:
        params, grads, exp_avgs, exp_avg_sqs, mu_products, state_steps: what is updated, gradients, state.
        foreach, has_complex: accepted; the same kernel serves them.
        decoupled_weight_decay, capturable, differentiable, maximize, beta1, beta2, lr, weight_decay,
            momentum_decay, eps: as in `NAdam`.
    """
    check_steps(state_steps)
    check_steps(mu_products, "mu_products")
    check_capturable(capturable, "params, mu_products and state_steps", params, mu_products, state_steps)
    h = hyper(lr=lr, beta1=beta1, beta2=beta2, eps=eps, weight_decay=weight_decay, maximize=maximize)
    h["decoupled"] = decoupled_weight_decay

    def mu(step: Any) -> Any:
        return beta1 * (1.0 - 0.5 * 0.96 ** (step * momentum_decay))

    now = advance(state_steps)
    products = update(mu_products, lambda old, i: old * as_held(mu(now[i]), mu_products[i]))
    for part in alike(now, products) if now else []:
        i = part[0]
        extra = {"step": now[i], "mu": mu(now[i]), "mu_next": mu(now[i] + 1), "mu_product": products[i]}
        ps, gs, *rest = take(part, params, grads, exp_avgs, exp_avg_sqs)
        run(_rule, ps, gs, dict(zip(("exp_avg", "exp_avg_sq"), rest)), {**h, **extra})


all_with_x64(globals())  # step counts may be traced numbers, and rules compute with them by operators

__all__ = ["NAdam", "nadam"]
