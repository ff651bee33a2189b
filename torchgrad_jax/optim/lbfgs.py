"""L-BFGS: steps along an estimate of the inverse Hessian made from the last gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .._core.errors.messages import Unsupported
from .._core.state import MODES
from .._engine.memory.tensor import Tensor
from ..autograd.grad_mode import enable_grad, no_grad
from ._ruled import call, check_lr
from ._rules import add_
from .optimizer import Optimizer, ParamsT


@dataclass(frozen=True)
class _Point:
    """A place on the search line: how far along, the loss, the gradient, its slope along the line."""

    t: Any
    loss: float
    gradient: Any
    slope: Any


_LAST = ("d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss")
"""The state after the counts, in torch's order."""
_DECREASE, _CURVATURE = 1e-4, 0.9
"""Constants of the strong Wolfe conditions."""


def _minimum(a: _Point, b: _Point, bounds: tuple[Any, Any] | None = None) -> Any:
    """Where the cubic through two points with their slopes is smallest, within the bounds."""
    left, right = (a, b) if a.t <= b.t else (b, a)
    low, high = bounds or (left.t, right.t)
    bend = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = bend**2 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2.0
    spread = square.sqrt()
    share = (right.slope + spread - bend) / (right.slope - left.slope + 2 * spread)
    return min(max(right.t - (right.t - left.t) * share, low), high)


def _search(
    evaluate: Callable[[Any], _Point],
    t: Any,
    start: _Point,
    d: Any,
    change: float,
    limit: int,
    decrease: float = _DECREASE,
    curvature: float = _CURVATURE,
) -> tuple[_Point, int]:
    """A step that fulfils the strong Wolfe conditions, and how often the loss was evaluated."""

    def too_high(p: _Point) -> Any:
        return p.loss > start.loss + decrease * p.t * start.slope

    def flat(p: _Point) -> Any:
        return abs(p.slope) <= -curvature * start.slope

    reach = d.abs().max()
    before, now, tried, found = start, evaluate(t), 0, False
    while tried < limit:
        if too_high(now) or (tried > 1 and now.loss >= before.loss):
            bracket = [before, now]
            break
        if flat(now):
            bracket, found = [now], True
            break
        if now.slope >= 0:
            bracket = [before, now]
            break
        bounds = (now.t + 0.01 * (now.t - before.t), now.t * 10)
        before, now = now, evaluate(_minimum(before, now, bounds))
        tried += 1
    else:
        bracket = [start, now]

    def by_loss() -> tuple[int, int]:
        return (0, 1) if bracket[0].loss <= bracket[-1].loss else (1, 0)

    low, high = by_loss()
    stuck = False
    while not found and tried < limit:
        if abs(bracket[1].t - bracket[0].t) * reach < change:
            break
        t = _minimum(bracket[0], bracket[1])
        near, far = min(p.t for p in bracket), max(p.t for p in bracket)
        margin = 0.1 * (far - near)
        # Hardly inside: move away from the end, the second time.
        if min(far - t, t - near) < margin:
            if stuck or t >= far or t <= near:
                t = far - margin if abs(t - far) < abs(t - near) else near + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        now = evaluate(t)
        tried += 1
        if too_high(now) or now.loss >= bracket[low].loss:
            bracket[high] = now
            low, high = by_loss()
            continue
        if flat(now):
            found = True
        elif now.slope * (bracket[high].t - bracket[low].t) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = now
    return bracket[low], tried + 1


def _cubic_interpolate(
    x1: Any, f1: Any, g1: Any, x2: Any, f2: Any, g2: Any, bounds: tuple[Any, Any] | None = None
) -> Any:
    """`_minimum` as packages with line searches of their own take it from here: places, losses and slopes."""
    return _minimum(_Point(x1, f1, None, g1), _Point(x2, f2, None, g2), bounds)


def _strong_wolfe(
    obj_func: Callable[[Any, Any, Any], tuple[Any, Any]],
    x: Any,
    t: Any,
    d: Any,
    f: Any,
    g: Any,
    gtd: Any,
    c1: float = _DECREASE,
    c2: float = _CURVATURE,
    tolerance_change: float = 1e-9,
    max_ls: int = 25,
) -> tuple[Any, Any, Any, int]:
    """The line search for such packages.

    Args:
        obj_func: takes `x`, a step and `d`, and returns the loss and its gradient there.
        x: where the line starts.
        t: the step to try first.
        d: the direction.
        f: the loss at `x`.
        g: its gradient there.
        gtd: the slope there along `d`.
        c1: how much of the slope the loss has to follow.
        c2: how much of the slope may be left.
        tolerance_change: stop at changes smaller than this.
        max_ls: so many steps are tried at most.

    Returns:
        The loss, the gradient, the step, and how often `obj_func` was called.
    """

    def evaluate(t: Any) -> _Point:
        loss, gradient = obj_func(x, t, d)
        return _Point(t, loss, gradient.clone(), gradient.dot(d))

    start = _Point(0, f, g.clone(), gtd)
    found, calls = _search(evaluate, t, start, d, tolerance_change, max_ls, c1, c2)
    return found.loss, found.gradient, found.t, calls


class LBFGS(Optimizer):
    """L-BFGS. Its `step` needs a closure, and all parameters are in one group.

    Args:
        params: what to optimize.
        lr: length of each step.
        max_iter: iterations per step.
        max_eval: evaluations of the loss per step; 5/4 of `max_iter` if None.
        tolerance_grad: stop at gradients smaller than this.
        tolerance_change: stop at changes smaller than this.
        history_size: how many past steps are remembered.
        line_search_fn: None or ``"strong_wolfe"``.
        maximize: whether the loss is to become large.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
        *,
        maximize: bool = False,
    ) -> None:
        check_lr(lr)
        options = {"lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval}
        options |= {"tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change}
        options |= {"history_size": history_size, "line_search_fn": line_search_fn}
        if maximize:  # torch 2.13 has no such key in its states
            options["maximize"] = True
        super().__init__(params, options)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    # --- all parameters as one vector

    @property
    def _sign(self) -> int:
        """-1 where the loss is to become large: then its negative is minimized."""
        return -1 if self.param_groups[0].get("maximize", False) else 1

    def _gradient(self) -> Any:
        parts = []
        for p in self._params:
            g = p.new_zeros(p.numel()) if p.grad is None else p.grad.view(-1)
            parts.append(call("view_as_real", g).view(-1) if g.is_complex() else g)
        return call("cat", parts, 0) if self._sign == 1 else call("cat", parts, 0).neg()

    def _move(self, t: Any, d: Any) -> None:
        offset = 0
        for p in self._params:
            real = call("view_as_real", p) if p.is_complex() else p
            n = real.numel()
            add_(real, d[offset : offset + n].view_as(real), t)
            offset += n

    def _on_line(self, closure: Callable[[], Any], d: Any) -> Callable[[Any], _Point]:
        """The loss and its gradient at a distance along `d` from where the parameters are now."""
        origin = [p.clone() for p in self._params]

        def evaluate(t: Any) -> _Point:
            self._move(t, d)
            loss = self._sign * float(closure())
            gradient = self._gradient()
            for p, old in zip(self._params, origin):
                p.copy_(old)
            return _Point(t, loss, gradient, gradient.dot(d))

        return evaluate

    # --- one step

    def _direction(self, state: dict[str, Any], gradient: Any, size: int) -> Any:
        """Downhill by the estimated inverse Hessian, which first learns from the last step."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return gradient.neg()
        turned = gradient.sub(state["prev_flat_grad"])
        moved = state["d"].mul(state["t"])
        curvature = turned.dot(moved)
        turns, moves, weights = state["old_dirs"], state["old_stps"], state["ro"]
        if curvature > 1e-10:
            if len(turns) == size:
                for column in (turns, moves, weights):
                    column.pop(0)
            turns.append(turned)
            moves.append(moved)
            weights.append(1.0 / curvature)
            state["H_diag"] = curvature / turned.dot(turned)
        shares = state.setdefault("al", [None] * size)
        d = gradient.neg()
        for i in reversed(range(len(turns))):
            shares[i] = moves[i].dot(d) * weights[i]
            add_(d, turns[i], -shares[i])
        d = d.mul(state["H_diag"])
        for i in range(len(turns)):
            add_(d, moves[i], shares[i] - turns[i].dot(d) * weights[i])
        return d

    @no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:
        """Iterate until something converges or a limit is reached.

        Args:
            closure: computes the loss again, gradients included, and returns it.

        Returns:
            The loss at the start.
        """
        if len(self.param_groups) != 1:
            raise AssertionError(f"Expected exactly one param_group, but got {len(self.param_groups)}")
        if MODES.run.may_write_outside:
            raise Unsupported(
                "torch.compile: LBFGS.step decides by the values of losses and gradients how it goes on; compile its "
                "closure, and leave optimizer.step(closure) outside of the function"
            )
        closure = enable_grad()(closure)
        group = self.param_groups[0]
        lr = group["lr"]
        if isinstance(lr, Tensor) and lr._m.ndim:
            lr = lr.squeeze()
        change = group["tolerance_change"]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = closure()
        loss, evaluated = self._sign * float(first), 1
        state["func_evals"] += 1
        gradient = self._gradient()
        if gradient.abs().max() <= group["tolerance_grad"]:
            return first
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            d = state["d"] = self._direction(state, gradient, group["history_size"])
            if state.get("prev_flat_grad") is None:
                state["prev_flat_grad"] = gradient.clone()
            else:
                state["prev_flat_grad"].copy_(gradient)
            before = state["prev_loss"] = loss
            t = lr
            if state["n_iter"] == 1:
                t = min(1.0, 1.0 / gradient.abs().sum()) * lr
            state["t"] = t
            slope = gradient.dot(d)
            if slope > -change:
                break
            evaluations = 0
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                start = _Point(0, loss, gradient, slope)
                allowed = group["max_eval"] - evaluated
                best, evaluations = _search(self._on_line(closure, d), t, start, d, change, allowed)
                loss, gradient, t = best.loss, best.gradient, best.t
                state["t"] = t
                self._move(t, d)
            else:
                self._move(t, d)
                if iteration != group["max_iter"]:  # the next step evaluates there
                    loss, evaluations = self._sign * float(closure()), 1
                    gradient = self._gradient()
            evaluated += evaluations
            state["func_evals"] += evaluations
            if (
                evaluated >= group["max_eval"]
                or gradient.abs().max() <= group["tolerance_grad"]
                or d.mul(t).abs().max() <= change
                or abs(loss - before) < change
            ):
                break
        for name in _LAST:  # torch keeps them in locals until here
            if name in state:
                state[name] = state.pop(name)
        return first


__all__ = ["LBFGS"]
