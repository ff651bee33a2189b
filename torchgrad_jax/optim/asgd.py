"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from .._core.jax.x64 import all_with_x64
from .._engine.memory.tensor import Tensor
from ._ruled import CAPTURABLE_DEFAULTS, Ruled, check_capturable, check_lr, hyper, insist
from ._rules import add_, as_real, descent, larger, penalized, run
from ._scalars import advance, alike, in_default_dtype, number, scalar_tensor, take, update
from .optimizer import ParamsT


class ASGD(Ruled):
    """Stochastic gradient descent that also keeps an average of the parameters.

    Args:
        params: what to optimize.
        lr: learning rate.
        lambd: how fast the learning rate and the parameters shrink.
        alpha: power of the shrinking of the learning rate.
        t0: the step at which averaging begins.
        weight_decay: L2 penalty.
        maximize: go up instead of down.
        foreach: accepted; the compiled kernel is the same.
        capturable: keep step counts with the parameters; only on accelerators.
        differentiable: record the step.
    """

    _OPTIONS = ("lambd", "lr", "t0", "alpha", "weight_decay", "capturable")
    _GROUP_DEFAULTS = CAPTURABLE_DEFAULTS

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        insist(weight_decay >= 0.0, f"Invalid weight_decay value: {weight_decay}")
        options = {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach}
        options |= {"maximize": maximize, "differentiable": differentiable, "capturable": capturable}
        super().__init__(params, options)

    def _scalar(self, group: dict[str, Any], p: Any, value: float) -> Tensor:
        return scalar_tensor(value, p)

    def _start(self, state: dict[str, Any], group: dict[str, Any], p: Any) -> None:
        state["step"] = self._scalar(group, p, 0.0)
        state["eta"] = self._scalar(group, p, float(self._rate(group)))
        state["mu"] = self._scalar(group, p, 1.0)
        state["ax"] = self._zeros(p)

    def _update(self, group: dict[str, Any]) -> None:
        columns = self._collect(group, "ax", "mu", "eta", "step")
        asgd(*columns, **self._given(group))


def _rule(p: Any, g: Any, s: Any, h: Any) -> None:
    g = descent(g, h)
    p, g, average = as_real(p, g, s.ax)
    g = penalized(p, g, h)
    p.mul_(1 - h.lambd * h.eta)
    add_(p, g, -h.eta)
    if h.averages:
        average.add_(p.sub(average).mul(h.mu))
    else:
        average.copy_(p)


def asgd(
    params: list[Any],
    grads: list[Any],
    axs: list[Any],
    mus: list[Any],
    etas: list[Any],
    state_steps: list[Any],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lambd: float,
    lr: float | Tensor,
    t0: float,
    alpha: float,
    weight_decay: float,
) -> None:
    """One step of `ASGD` on lists of tensors.

    Args:
        params, grads, axs, mus, etas, state_steps: what is updated, gradients, state.
        foreach, has_complex: accepted; the same kernel serves them.
        maximize, differentiable, capturable, lambd, lr, t0, alpha, weight_decay: as in `ASGD`.
    """
    check_capturable(capturable, "params, mus, etas, and state_steps", params, mus, etas, state_steps)
    h = hyper(lambd=lambd, weight_decay=weight_decay, maximize=maximize)
    rate = number(lr)
    now = advance(state_steps)
    eta, mu = [number(t) for t in etas], [number(t) for t in mus]
    for part in alike(eta, mu) if now else []:
        i = part[0]
        averages = not isinstance(mu[i], float) or mu[i] != 1
        ps, gs, ax = take(part, params, grads, axs)
        run(_rule, ps, gs, {"ax": ax}, {**h, "eta": eta[i], "mu": mu[i], "averages": averages})
    update(etas, lambda _, i: in_default_dtype(rate / (1 + lambd * rate * now[i]) ** alpha))
    update(mus, lambda _, i: in_default_dtype(1 / larger(1, now[i] - t0)))


all_with_x64(globals())  # step counts may be traced numbers, and rules compute with them by operators

__all__ = ["ASGD", "asgd"]
