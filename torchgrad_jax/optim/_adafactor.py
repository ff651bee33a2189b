"""Adafactor: the average square of a matrix kept as the product of a column and a row."""

from __future__ import annotations

from typing import Any

from .._core.arrays.dtypes import finfo
from .._engine.memory.tensor import Tensor
from ._ruled import Ruled, check_lr, hyper, insist
from ._rules import add_, descent, larger, mean, norm, run_by_step, smaller
from .optimizer import ParamsT


class Adafactor(Ruled):
    """Adafactor.

    Args:
        params: what to optimize.
        lr: bound on the relative step.
        beta2_decay: power by which the averages forget ever more slowly.
        eps: floor of the average square (None: the dtype's resolution) and of the parameters' size.
        d: steps whose root mean square is larger are scaled down to it.
        weight_decay: how much the parameters shrink, times the learning rate.
        foreach: accepted; the compiled kernel is the same.
        maximize: go up instead of down.
    """

    _GROUP_DEFAULTS: dict[str, Any] = {"foreach": None}

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_lr(lr, "Learning rate should be >= 0 but is: {}")
        insist(beta2_decay <= 0.0, f"beta2_decay should be <= 0 but is: {beta2_decay}")
        insist(eps[0] is None or eps[0] >= 0.0, f"epsilon1 should be >= 0 but is: {eps[0]}")
        insist(eps[1] >= 0.0, f"epsilon2 should be >= 0 but is: {eps[1]}")
        insist(d >= 1.0, f"Clipping threshold d should be >= 1 but is: {d}")
        insist(weight_decay >= 0.0, f"weight_decay should be >= 0 but is: {weight_decay}")
        options = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, options)

    def _start(self, state: dict[str, Any], group: dict[str, Any], p: Any) -> None:
        g = p.grad
        state["step"] = self._scalar(group, p, 0.0)
        if g.dim() > 1:
            state["row_var"] = g.new_zeros([*g.shape[:-1], 1])
            state["col_var"] = g.new_zeros([*g.shape[:-2], 1, g.shape[-1]])
        else:
            state["variance"] = self._zeros(g)

    def _update(self, group: dict[str, Any]) -> None:
        for p in group["params"]:
            if p.grad is not None and p.is_complex():
                raise RuntimeError("Adafactor does not support complex parameters")
        columns = self._collect(group, "row_var", "col_var", "variance", "step")
        self._run(adafactor, group, columns, eps1=group["eps"][0], eps2=group["eps"][1])


def _rule(p: Any, g: Any, s: Any, h: Any) -> None:
    g = descent(g, h)
    scale = p.numel() ** 0.5
    rate = larger(h.eps2, norm(p).item() / scale) * smaller(h.lr, 1 / h.step**0.5)
    if h.decays:
        p.mul_(1 - h.lr * h.weight_decay)
    weight = h.step**h.beta2_decay
    if g.dim() > 1:
        s.row_var.lerp_(norm(g, -1).square().div(g.size(-1)), weight)
        s.col_var.lerp_(norm(g, -2).square().div(g.size(-2)), weight)
        square = s.row_var.matmul(s.col_var).div(mean(s.row_var, -2).clamp(min=h.eps1))
    else:
        square = s.variance.lerp_(g.mul(g), weight)
    change = square.clamp(min=h.eps1 * h.eps1).rsqrt().mul(g)
    add_(p, change, -rate / larger(1.0, norm(change).item() / (scale * h.d)))


def adafactor(
    params: list[Any],
    grads: list[Any],
    row_vars: list[Any],
    col_vars: list[Any],
    variances: list[Any],
    state_steps: list[Any],
    foreach: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    *,
    d: float,
    lr: float | Tensor,
    beta2_decay: float,
    weight_decay: float,
    eps1: float | None,
    eps2: float,
    maximize: bool,
) -> None:
    """One step of `Adafactor` on lists of tensors.

    Args:
        params, grads, row_vars, col_vars, variances, state_steps: what is updated, gradients, state.
        foreach: accepted; the same kernel serves it.
        grad_scale, found_inf: refused; unscale gradients before.
        has_complex: refused.
        d, lr, beta2_decay, weight_decay, maximize: as in `Adafactor`.
        eps1, eps2: its `eps`.
    """
    insist(
        all(isinstance(t, Tensor) for t in state_steps),
        "`state_steps` argument must contain a list of singleton tensors",
        RuntimeError,
    )
    if grad_scale is not None or found_inf is not None:
        raise AssertionError("Grad scaling should occur outside of optimizer.step()")
    if not params:
        return
    eps1 = finfo(params[0].dtype).eps if eps1 is None else eps1
    h = hyper(d=d, lr=lr, beta2_decay=beta2_decay, weight_decay=weight_decay, eps1=eps1, eps2=eps2, maximize=maximize)
    columns = {"row_var": row_vars, "col_var": col_vars, "variance": variances}
    run_by_step(_rule, params, grads, columns, state_steps, h)


__all__ = ["Adafactor"]
