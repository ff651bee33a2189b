"""Muon: momentum made orthogonal, for matrices."""

from __future__ import annotations

import math
from typing import Any

from .._core.jax.x64 import all_with_x64
from .._engine.memory.tensor import Tensor
from ._ruled import Ruled, check_lr, hyper, insist
from ._rules import add_, norm, run
from ._scalars import as_held
from .optimizer import ParamsT


class Muon(Ruled):
    """Muon, for the matrices of a model; leave the rest to another optimizer.

    Args:
        params: matrices to optimize.
        lr: learning rate.
        weight_decay: how much the parameters shrink, times the learning rate.
        momentum: how slowly the average gradient forgets.
        nesterov: look ahead along the momentum.
        ns_coefficients: of the quintic iteration that makes a matrix orthogonal.
        eps: floor of the matrix's norm.
        ns_steps: how many iterations.
        adjust_lr_fn: ``"original"``, ``"match_rms_adamw"`` or ``"spectral_unclamped"``; how the step depends on the
            matrix's shape. The last one is the first without its lower bound of 1.
    """

    _GROUP_DEFAULTS: dict[str, Any] = {}

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_lr(lr, "Learning rate should be >= 0 but is: {}")
        insist(momentum >= 0.0, f"momentum should be >= 0 but is: {momentum}")
        insist(weight_decay >= 0.0, f"weight decay should be >= 0 but is: {weight_decay}")
        insist(
            adjust_lr_fn in (None, "original", "match_rms_adamw", "spectral_unclamped"),
            f"Adjust learning rate function {adjust_lr_fn} is not supported",
        )
        options = {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov}
        options |= {"ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn}
        super().__init__(params, options)
        for group in self.param_groups:
            for p in group["params"]:
                insist(
                    p.ndim == 2, f"Muon only supports 2D parameters whereas we found a parameter with size: {p.size()}"
                )

    def _start(self, state: dict[str, Any], group: dict[str, Any], p: Any) -> None:
        state["momentum_buffer"] = self._zeros(p.grad)

    def _update(self, group: dict[str, Any]) -> None:
        for p in group["params"]:
            if p.grad is not None and p.is_complex():
                raise RuntimeError("Muon does not support complex parameters")
        columns = self._collect(group, "momentum_buffer")
        names = ("lr", "weight_decay", "momentum", "nesterov", "ns_coefficients", "eps", "ns_steps", "adjust_lr_fn")
        muon(*columns, has_complex=False, **{k: group[k] for k in names})


def _orthogonal(x: Any, h: Any) -> Any:
    """Close to the nearest orthogonal matrix: singular values are driven to about 1."""
    a, b, c = h.coefficients
    tall = x.size(0) > x.size(1)
    x = x.bfloat16()
    x = x.t() if tall else x
    x = x.div(norm(x).clamp(min=h.eps))
    for _ in range(h.rounds[0]):
        gram = x.matmul(x.t())
        x = x.addmm(gram.addmm(gram, gram, beta=b, alpha=c), x, beta=a)
    return x.t() if tall else x


def _ratio(kind: str | None, rows: int, columns: int) -> float:
    if kind == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(rows / columns if kind == "spectral_unclamped" else max(1, rows / columns))


def _rule(p: Any, g: Any, s: Any, h: Any) -> None:
    buffer = s.momentum_buffer
    buffer.lerp_(g, 1 - h.momentum)
    change = _orthogonal(g.lerp(buffer, h.momentum) if h.nesterov else buffer, h)
    p.mul_(h.kept)
    add_(p, change, -h.lr * _ratio(h.adjust, p.size(0), p.size(1)))


def _kept(lr: Any, rate: Any, weight_decay: float) -> Any:
    """The share of a parameter that decay leaves, in the dtype of a learning rate that is a tensor."""
    if not isinstance(lr, Tensor):
        return 1 - rate * weight_decay
    return as_held(1 - as_held(rate * weight_decay, lr), lr)


def muon(
    params: list[Any],
    grads: list[Any],
    muon_momentum_bufs: list[Any],
    *,
    foreach: bool | None = None,
    lr: float,
    weight_decay: float,
    momentum: float,
    nesterov: bool,
    ns_coefficients: tuple[float, float, float],
    ns_steps: int,
    eps: float,
    adjust_lr_fn: str | None,
    has_complex: bool,
) -> None:
    """One step of `Muon` on lists of tensors.

    Args:
        params, grads, muon_momentum_bufs: what is updated, gradients, state.
        foreach: refused.
        has_complex: refused.
        lr, weight_decay, momentum, nesterov, ns_coefficients, ns_steps, eps, adjust_lr_fn: as in `Muon`.
    """
    insist(not foreach, "Foreach is not supported for Muon yet", RuntimeError)
    insist(not has_complex, "Complex parameters are not supported")
    if not params:
        return
    insist(all(g.ndim == 2 for g in grads), "Param gradient must be a 2D matrix")
    insist(ns_steps < 100, "Number of steps must be less than 100 for computational efficiency")
    insist(len(ns_coefficients) == 3, "Coefficients must be a tuple of exactly 3 values")
    h = hyper(lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov, eps=eps, adjust=adjust_lr_fn)
    h["kept"] = _kept(lr, h["lr"], weight_decay)
    h |= {"coefficients": tuple(ns_coefficients), "rounds": (ns_steps,)}
    run(_rule, params, grads, {"momentum_buffer": muon_momentum_bufs}, h)


all_with_x64(globals())  # step counts may be traced numbers, and rules compute with them by operators
