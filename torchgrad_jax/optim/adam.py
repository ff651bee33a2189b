"""Adam: steps scaled by running averages of the gradient and of its square."""

from __future__ import annotations

from typing import Any

from .._engine.memory.tensor import Tensor
from ._ruled import Ruled, amp, check_adam, check_capturable, check_fused, check_steps, hyper, insist
from ._rules import addcdiv_, as_real, average, decayed, descent, forgotten, kept, narrow, root, run_by_step
from .optimizer import ParamsT

_UNCAPTURABLE = "{} as a Tensor is not supported for capturable=False and foreach=True"


class Adam(Ruled):
    """Adam.

    Args:
        params: what to optimize.
        lr: learning rate.
        betas: how slowly the averages of the gradient and of its square forget.
        eps: added to the denominator.
        weight_decay: L2 penalty, or shrinking of the parameter itself if decoupled.
        amsgrad: divide by the largest average so far.
        foreach, fused: accepted; one compiled kernel serves both.
        maximize: go up instead of down.
        capturable: keep step counts with the parameters; only on accelerators.
        differentiable: record the step.
        decoupled_weight_decay: make it `AdamW`.

    Example:
        >>> from torchgrad_jax import tensor
        >>> w = tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = Adam([w], lr=0.1)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w
        tensor([0.9000, 1.9000], requires_grad=True)
    """

    _STATE = ("exp_avg", "exp_avg_sq")
    _GROUP_DEFAULTS = {"amsgrad": False, "maximize": False, "foreach": None, "capturable": False}
    _GROUP_DEFAULTS |= {"differentiable": False, "decoupled_weight_decay": False, "fused": None}

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        if isinstance(lr, Tensor):
            insist(capturable or not foreach, _UNCAPTURABLE.format("lr"))
        check_adam(lr, eps, betas, weight_decay)
        kinds = [float if isinstance(b, float) else Tensor for b in betas]
        insist(
            kinds[0] is kinds[1] and all(isinstance(b, float | Tensor) for b in betas),
            "betas must be either both floats or both Tensors",
        )
        for i, b in enumerate(betas):
            if isinstance(b, Tensor):
                insist(capturable or not foreach, _UNCAPTURABLE.format(f"betas[{i}]"))
                insist(b._m.numel == 1, f"Tensor betas[{i}] must be 1-element")
        scalars: Any = tuple(b.squeeze() if isinstance(b, Tensor) and b._m.ndim else b for b in betas)
        options = {"lr": lr, "betas": scalars, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad}
        options |= {"maximize": maximize, "foreach": foreach, "capturable": capturable}
        options |= {"differentiable": differentiable, "fused": fused, "decoupled_weight_decay": decoupled_weight_decay}
        super().__init__(params, options)
        if fused:
            check_fused(fused, foreach, differentiable)
            self._step_supports_amp_scaling = True

    def _start(self, state: dict[str, Any], group: dict[str, Any], p: Any) -> None:
        super()._start(state, group, p)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = self._zeros(p)

    def _update(self, group: dict[str, Any]) -> None:
        names = ["exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step"]
        params, grads, averages, squares, largest, steps = self._collect(group, *names)
        if group["differentiable"] and any(t.requires_grad for t in steps):
            raise RuntimeError("`requires_grad` is not supported for `step` in differentiable mode")
        if group["foreach"] and isinstance(self._group_of(group)["lr"], Tensor) and not group["capturable"]:
            raise RuntimeError(_UNCAPTURABLE.format("lr"))
        beta1, beta2 = group["betas"]
        adam(
            params,
            grads,
            averages,
            squares,
            largest if group["amsgrad"] else [],
            steps,
            amsgrad=group["amsgrad"],
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=group["maximize"],
            foreach=group["foreach"],
            capturable=group["capturable"],
            differentiable=group["differentiable"],
            fused=group["fused"],
            grad_scale=getattr(self, "grad_scale", None),
            found_inf=getattr(self, "found_inf", None),
            decoupled_weight_decay=group["decoupled_weight_decay"],
        )


@narrow
def _rule(p: Any, g: Any, s: Any, h: Any) -> None:
    g = decayed(p, descent(g, h), h)
    p, g, mean, square = as_real(p, g, s.exp_avg, s.exp_avg_sq)
    average(g, mean, square, h)
    if h.amsgrad:
        (largest,) = as_real(s.max_exp_avg_sq)
        square = largest.copy_(kept(largest).maximum(kept(square)))
    denominator = square.sqrt().div(root(forgotten(h, "beta2"))).add(h.eps)
    addcdiv_(p, mean, denominator, -(h.lr / forgotten(h, "beta1")))


def adam(
    params: list[Any], grads: list[Any], exp_avgs: list[Any], exp_avg_sqs: list[Any],
    max_exp_avg_sqs: list[Any], state_steps: list[Any], foreach: bool | None = None,
    capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
    grad_scale: Tensor | None = None, found_inf: Tensor | None = None, has_complex: bool = False,
    decoupled_weight_decay: bool = False, *, amsgrad: bool, beta1: float | Tensor,
    beta2: float | Tensor, lr: float | Tensor, weight_decay: float, eps: float, maximize: bool,
) -> None:  # fmt: skip
    """One step of `Adam` on lists of tensors.

    Args:
        params, grads: what is updated, gradients.
        exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps: state; the third may be empty without `amsgrad`.
        foreach, has_complex: accepted; the same kernel serves them.
        fused: whether `grad_scale` and `found_inf` are heeded.
        grad_scale, found_inf: of a gradient scaler.
        capturable, differentiable, decoupled_weight_decay, amsgrad, beta1, beta2, lr, weight_decay, eps,
            maximize: as in `Adam`.
    """
    check_steps(state_steps)
    check_capturable(capturable, "params and state_steps", params, state_steps)
    if not amp(grads, grad_scale, found_inf, fused):
        return
    h = hyper(lr=lr, beta1=beta1, beta2=beta2, eps=eps, weight_decay=weight_decay, maximize=maximize)
    h |= {"amsgrad": amsgrad, "decoupled": decoupled_weight_decay}
    columns = {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs}
    if amsgrad:
        columns["max_exp_avg_sq"] = max_exp_avg_sqs
    run_by_step(_rule, params, grads, columns, state_steps, h, exact=True)


__all__ = ["Adam", "adam"]
