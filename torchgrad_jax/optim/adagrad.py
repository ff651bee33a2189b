"""Adagrad: steps scaled by the sum of squares of all gradients so far."""

from __future__ import annotations

from typing import Any

from .._engine.memory.tensor import Tensor
from ._ruled import Ruled, amp, call, check_fused, check_fused_param, check_lr, check_steps, hyper, insist
from ._rules import addcdiv_, addcmul_, as_real, descent, narrow, penalized, run_by_step
from .optimizer import ParamsT


class Adagrad(Ruled):
    """Adagrad.

    Args:
        params: what to optimize.
        lr: learning rate.
        lr_decay: how fast the learning rate shrinks.
        weight_decay: L2 penalty.
        initial_accumulator_value: what the sum of squares starts from.
        eps: added to the denominator.
        foreach, fused: accepted; one compiled kernel serves both.
        maximize: go up instead of down.
        differentiable: record the step.
    """

    _GROUP_DEFAULTS = {"foreach": None, "maximize": False, "differentiable": False, "fused": None}

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        insist(lr_decay >= 0.0, f"Invalid lr_decay value: {lr_decay}")
        insist(weight_decay >= 0.0, f"Invalid weight_decay value: {weight_decay}")
        start = initial_accumulator_value
        insist(start >= 0.0, f"Invalid initial_accumulator_value value: {start}")
        insist(eps >= 0.0, f"Invalid epsilon value: {eps}")
        options = {"lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay}
        options |= {"initial_accumulator_value": start, "foreach": foreach, "maximize": maximize}
        options |= {"differentiable": differentiable, "fused": fused}
        super().__init__(params, options)
        if fused:
            check_fused(fused, foreach, differentiable)
            self._step_supports_amp_scaling = True
        for group in self.param_groups:
            for p in group["params"]:
                self._start(vars(self)["state"][p], group, p)

    def share_memory(self) -> None:
        """Move the sums to memory that processes share."""
        for group in self.param_groups:
            for p in group["params"]:
                vars(self)["state"][p]["sum"].share_memory_()

    def _start(self, state: dict[str, Any], group: dict[str, Any], p: Any) -> None:
        value = self.defaults["initial_accumulator_value"]
        state["step"] = self._scalar(group, p, 0.0)
        state["sum"] = call("full_like", p, complex(value, value) if p.is_complex() else value)

    def _update(self, group: dict[str, Any]) -> None:
        columns = self._collect(group, "sum", "step")
        if group["fused"]:
            for p in columns[0][:1]:
                check_fused_param(p)
        adagrad(
            *columns,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            lr_decay=group["lr_decay"],
            eps=group["eps"],
            maximize=group["maximize"],
            foreach=group["foreach"],
            differentiable=group["differentiable"],
            fused=group["fused"],
            grad_scale=getattr(self, "grad_scale", None),
            found_inf=getattr(self, "found_inf", None),
        )


@narrow
def _rule(p: Any, g: Any, s: Any, h: Any) -> None:
    g = penalized(p, descent(g, h), h)
    p, g, total = as_real(p, g, s.sum)
    addcmul_(total, g, g)
    addcdiv_(p, g, total.sqrt().add(h.eps), -(h.lr / (1 + (h.step - 1) * h.lr_decay)))


def adagrad(
    params: list[Any],
    grads: list[Any],
    state_sums: list[Any],
    state_steps: list[Any],
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    weight_decay: float,
    lr_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step of `Adagrad` on lists of tensors.

    Args:
        params, grads, state_sums, state_steps: what is updated, gradients, state.
        fused: whether `grad_scale` and `found_inf` are heeded.
        grad_scale, found_inf: of a gradient scaler.
        has_sparse_grad, foreach, has_complex: accepted; the same kernel serves them.
        differentiable, lr, weight_decay, lr_decay, eps, maximize: as in `Adagrad`.
    """
    check_steps(state_steps)
    if not amp(grads, grad_scale, found_inf, fused):
        return
    h = hyper(lr=lr, weight_decay=weight_decay, lr_decay=lr_decay, eps=eps, maximize=maximize)
    run_by_step(_rule, params, grads, {"sum": state_sums}, state_steps, h)


__all__ = ["Adagrad", "adagrad"]
