"""Rprop: steps that grow while the gradient keeps its sign and shrink when it turns."""

from __future__ import annotations

from typing import Any

from .._engine.memory.tensor import Tensor
from ._ruled import CAPTURABLE_DEFAULTS, Ruled, call, check_capturable, check_lr, check_steps, hyper, insist
from ._rules import addcmul_, as_real, descent, run
from ._scalars import advance
from .optimizer import ParamsT


class Rprop(Ruled):
    """Rprop.

    Args:
        params: what to optimize.
        lr: the first step.
        etas: factors by which a step shrinks and grows.
        step_sizes: the smallest and the largest step.
        maximize: go up instead of down.
        foreach: accepted; the compiled kernel is the same.
        capturable: keep step counts with the parameters; only on accelerators.
        differentiable: record the step.
    """

    _GROUP_DEFAULTS = CAPTURABLE_DEFAULTS

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        insist(0.0 < etas[0] < 1.0 < etas[1], f"Invalid eta values: {etas[0]}, {etas[1]}")
        flags = {"foreach": foreach, "maximize": maximize, "differentiable": differentiable, "capturable": capturable}
        super().__init__(params, {"lr": lr, "etas": etas, "step_sizes": step_sizes, **flags})

    def _start(self, state: dict[str, Any], group: dict[str, Any], p: Any) -> None:
        lr = self._rate(group)
        state["step"] = self._scalar(group, p, 0.0)
        state["prev"] = self._zeros(p)
        state["step_size"] = call("full_like", p.grad, complex(lr, lr) if p.is_complex() else lr)

    def _update(self, group: dict[str, Any]) -> None:
        columns = self._collect(group, "prev", "step_size", "step")
        shrink, grow = group["etas"]
        low, high = group["step_sizes"]
        self._run(rprop, group, columns, step_size_min=low, step_size_max=high, etaminus=shrink, etaplus=grow)


def _rule(p: Any, g: Any, s: Any, h: Any) -> None:
    g = descent(g, h)
    p, g, before, size = as_real(p, g, s.prev, s.step_size)
    agree = g.mul(before.clone()).sign()
    turned = agree.lt(0)
    factor = agree.where(~agree.eq(0), 1.0).where(~agree.gt(0), h.etaplus).where(~turned, h.etaminus)
    size.mul_(factor).clamp_(h.low, h.high)
    g = g.where(~turned, 0.0)
    addcmul_(p, g.sign(), size, -1.0)
    before.copy_(g)


def rprop(
    params: list[Any],
    grads: list[Any],
    prevs: list[Any],
    step_sizes: list[Any],
    state_steps: list[Any],
    foreach: bool | None = None,
    capturable: bool = False,
    maximize: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    step_size_min: float,
    step_size_max: float,
    etaminus: float,
    etaplus: float,
) -> None:
    """One step of `Rprop` on lists of tensors.

    Args:
        params, grads, prevs, step_sizes, state_steps: what is updated, gradients, state.
        foreach, has_complex: accepted; the same kernel serves them.
        capturable, maximize, differentiable: as in `Rprop`.
        step_size_min, step_size_max, etaminus, etaplus: its `step_sizes` and `etas`.
    """
    check_steps(state_steps)
    check_capturable(capturable, "params and state_steps", params, state_steps)
    h = hyper(low=step_size_min, high=step_size_max, etaminus=etaminus, etaplus=etaplus, maximize=maximize)
    advance(state_steps)
    run(_rule, params, grads, {"prev": prevs, "step_size": step_sizes}, h)


__all__ = ["Rprop", "rprop"]
