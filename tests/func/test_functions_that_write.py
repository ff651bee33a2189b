"""Functions that write in place, under transforms that differentiate: forward, backward, and one over the other."""

from collections.abc import Callable
from typing import Any

import pytest


def _fresh(m: Any, x: Any) -> Any:
    z = m.zeros(2)
    z[0] = x[0].sin()
    z[1] = x[1].exp() * x[0]
    return z


def _fresh_whole(m: Any, x: Any) -> Any:
    z = m.ones(2)
    z *= x
    z *= x
    return z


def _overwritten(m: Any, x: Any) -> Any:
    y = x.clone()
    y.mul_(x[1])
    return y


def _part(m: Any, x: Any) -> Any:
    y = x.clone()
    y[0].mul_(x[1])
    return y


def _part_with_saved_result(m: Any, x: Any) -> Any:
    y = x * 1
    y[:1].exp_()
    return y


def _column(m: Any, x: Any) -> Any:
    z = m.ones(2, 2)
    z[:, 1].add_(x)
    return (z**2).sum(1)


FUNCTIONS = (_fresh, _fresh_whole, _overwritten, _part, _part_with_saved_result, _column)
TRANSFORMS: dict[str, Callable[[Any, Any], Any]] = {
    "jvp": lambda f, fn: lambda x: f.jvp(fn, (x,), (x + 1,))[1],
    "jacrev": lambda f, fn: f.jacrev(fn),
    "jacfwd": lambda f, fn: f.jacfwd(fn),
    "forward over reverse": lambda f, fn: f.jacfwd(f.grad(lambda x: fn(x).sum())),
    "reverse over reverse": lambda f, fn: f.jacrev(f.grad(lambda x: fn(x).sum())),
    "hessian": lambda f, fn: f.hessian(fn),
    "reverse over forward": lambda f, fn: f.grad(lambda x: (f.jacfwd(fn)(x) ** 2).sum()),
    "of each example": lambda f, fn: lambda x: f.vmap(f.grad(lambda x: fn(x).sum()))(x.expand(2, 2) * 1),
}


@pytest.mark.parametrize("how", TRANSFORMS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_writes_under_transforms(function: Any, how: str, same: Any) -> None:
    def run(m: Any) -> Any:
        out = TRANSFORMS[how](m.func, lambda x: function(m, x))(m.tensor([2.0, 3.0]))
        return [list(out.shape), out.reshape(-1)]

    same(run, f"{function.__name__} {how}")


def test_tangents_of_a_captured_tensor_stay_apart(same: Any) -> None:
    def run(m: Any) -> Any:
        y = m.zeros(2)
        try:
            m.func.jacfwd(lambda x: y.copy_(x))(m.ones(2))
        except RuntimeError:
            return ["raised", y]
        return y

    same(run)
