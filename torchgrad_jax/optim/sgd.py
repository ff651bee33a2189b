"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from .._engine.memory.tensor import Tensor
from ._ruled import Ruled, amp, check_fused, check_fused_param, check_lr, hyper, insist
from ._rules import add, add_, descent, narrow, penalized, run
from .optimizer import ParamsT


class SGD(Ruled):
    """Stochastic gradient descent, with momentum if asked for.

    Args:
        params: what to optimize.
        lr: learning rate.
        momentum: how much of the last update goes into the next one.
        dampening: by how much the gradient's share in the momentum is reduced.
        weight_decay: L2 penalty.
        nesterov: look ahead along the momentum.
        maximize: go up instead of down.
        foreach, fused: accepted; one compiled kernel serves both.
        differentiable: record the step.

    Example:
        >>> from torchgrad_jax import tensor
        >>> w = tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = SGD([w], lr=0.1)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w
        tensor([0.8000, 1.6000], requires_grad=True)
    """

    _GROUP_DEFAULTS = {"nesterov": False, "maximize": False, "foreach": None, "differentiable": False, "fused": False}

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        insist(not momentum < 0.0, f"Invalid momentum value: {momentum}")
        insist(not weight_decay < 0.0, f"Invalid weight_decay value: {weight_decay}")
        insist(
            not nesterov or (momentum > 0 and dampening == 0),
            "Nesterov momentum requires a momentum and zero dampening",
        )
        options = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        options |= {"nesterov": nesterov, "maximize": maximize, "foreach": foreach, "differentiable": differentiable}
        options["fused"] = fused
        super().__init__(params, options)
        if fused:
            self._step_supports_amp_scaling = True
            check_fused(fused, foreach, differentiable)

    def _update(self, group: dict[str, Any]) -> None:
        params, grads = self._collect(group)
        moving = group["momentum"] != 0
        if group["fused"]:
            for p in params[:1]:
                check_fused_param(p)
        held = vars(self)["state"]
        old = [held[p].get("momentum_buffer") for p in params] if moving else []
        old = [self._momentum(group, p) if b is None else b for p, b in zip(params, old)]
        buffers = list(old)
        sgd(
            params,
            grads,
            buffers,
            weight_decay=group["weight_decay"],
            momentum=group["momentum"],
            lr=group["lr"],
            dampening=group["dampening"],
            nesterov=group["nesterov"],
            maximize=group["maximize"],
            foreach=group["foreach"],
            fused=group["fused"],
            grad_scale=getattr(self, "grad_scale", None),
            found_inf=getattr(self, "found_inf", None),
        )
        for p, before, buffer in zip(params, old, buffers):
            if before is not buffer:
                held[p]["momentum_buffer"] = buffer

    def _momentum(self, group: dict[str, Any], p: Any) -> Any:
        """The buffer of a parameter's first step: None, for a copy of the gradient.

        Where the step is being compiled it is zeros made before the program, which is the same in each call then.
        """
        run = self.compiling(p)
        if run is None or group["dampening"] != 0 or group["differentiable"]:
            return None
        with run.uses.making_state(self):
            buffer = vars(self)["state"][p]["momentum_buffer"] = self._zeros(p)
        buffer._vc.version -= 2  # of the two writes that a copy of the gradient does without
        return buffer


@narrow
def _rule(p: Any, g: Any, s: Any, h: Any) -> None:
    g = penalized(p, descent(g, h), h)
    if h.moves:
        if s.momentum_buffer is None:
            s.momentum_buffer = (g.detach() if isinstance(g, Tensor) else g).clone()
        else:
            add_(s.momentum_buffer.mul_(h.momentum), g, 1 - h.dampening)
        g = add(g, s.momentum_buffer, h.momentum) if h.nesterov else s.momentum_buffer
    add_(p, g, -h.lr)


def sgd(
    params: list[Any],
    d_p_list: list[Any],
    momentum_buffer_list: list[Any],
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    *,
    weight_decay: float | Tensor,
    momentum: float,
    lr: float | Tensor,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """One step of `SGD` on lists of tensors.

    Args:
        params, d_p_list, momentum_buffer_list: what is updated, gradients, buffers or None.
        has_sparse_grad, foreach: accepted; the same kernel serves them.
        fused: whether `grad_scale` and `found_inf` are heeded.
        grad_scale, found_inf: of a gradient scaler.
        weight_decay, momentum, lr, dampening, nesterov, maximize: as in `SGD`.
    """
    if not amp(d_p_list, grad_scale, found_inf, fused):
        return
    moves = momentum != 0
    h = hyper(lr=lr, weight_decay=weight_decay, momentum=momentum, dampening=dampening, maximize=maximize)
    h |= {"nesterov": nesterov, "moves": moves}
    run(_rule, params, d_p_list, {"momentum_buffer": momentum_buffer_list} if moves else {}, h)


__all__ = ["SGD", "sgd"]
