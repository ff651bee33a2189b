"""Forward mode around `vmap`, differentiated again: what is outside sees the tangents that went through."""

from __future__ import annotations

from typing import Any

import pytest

FUNCTIONS = {
    "sine": lambda m, x: x.sin(),
    "square": lambda m, x: x * x,
    "written": lambda m, x: (x * 1).mul_(x),
    "view": lambda m, x: x.view(-1)[:2] * x.sum(),
    "product": lambda m, x: m.outer(x, x).sum(0),
}
MAPS = {"along 0": lambda u, f: u.vmap(f), "along 1": lambda u, f: u.vmap(f, 1, 1)}


def _along(u: Any, g: Any) -> Any:
    return lambda x: u.jvp(g, (x * x,), (x,))[1]


AROUND = {
    "grad": lambda u, g, x: u.grad(lambda x: _along(u, g)(x).sum())(x),
    "of the tangent": lambda u, g, x: u.grad(lambda t: u.jvp(g, (x,), (t,))[1].sum())(x),
    "vjp": lambda u, g, x: u.vjp(_along(u, g), x)[1](g(x)),
    "jacrev": lambda u, g, x: u.jacrev(_along(u, g))(x),
    "jvp": lambda u, g, x: u.jvp(_along(u, g), (x,), (x * 3,)),
    "vmap of grad": lambda u, g, x: u.vmap(lambda s: u.grad(lambda x: _along(u, g)(x).sum())(x * s))(x[:, 0]),
    "grad of vmap": lambda u, g, x: u.grad(lambda x: u.vmap(lambda s: _along(u, g)(x * s))(x[:, 0]).sum())(x),
    "grad of grad": lambda u, g, x: u.grad(lambda x: u.grad(lambda x: _along(u, g)(x).sum())(x * x).sum())(x),
    "jvp of grad": lambda u, g, x: u.jvp(u.grad(lambda x: _along(u, g)(x).sum()), (x,), (x,)),
}


@pytest.mark.parametrize("place", MAPS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_differentiated_again(name: str, place: str, same: Any) -> None:
    def run(m: Any) -> Any:
        x = m.tensor([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0], [2.0, 1.5, 0.1]], dtype=m.float64)
        g = MAPS[place](m.func, lambda x: FUNCTIONS[name](m, x))
        return {around: AROUND[around](m.func, g, x) for around in AROUND}

    same(run, f"{name} {place}")


CAPTURED = {
    "product": lambda m, x, w: x.sin() * w,
    "matmul": lambda m, x, w: x.sin() @ m.outer(w, w),
    "detached": lambda m, x, w: x.sin() * w * (x * w).detach(),
    "unrecorded": lambda m, x, w: x.sin() * _unrecorded(m, x * w) * w,
}
"""Functions of what is differentiated, and of a tensor that has a tangent and needs no gradient."""
MAPPED = {
    "jacrev": lambda u, f, rows: u.jacrev(f),
    "vmap of a pullback": lambda u, f, rows: lambda x, w: u.vmap(u.vjp(lambda x: f(x, w), x)[1])(rows)[0],
    "pullback in vmap": lambda u, f, rows: lambda x, w: u.vmap(lambda e: u.vjp(lambda x: f(x, w), x)[1](e)[0])(rows),
    "grad in vmap": lambda u, f, rows: lambda x, w: u.vmap(lambda e: u.grad(lambda x: (f(x, w) * e).sum())(x))(rows),
}
OUTSIDE = {
    "grad": lambda u, g: u.grad(lambda x, w: g(x, w).sum()),
    "jacrev": lambda u, g: u.jacrev(g),
    "grad of grad": lambda u, g: u.grad(lambda x, w: u.grad(lambda x: g(x, w).sum())(x).sum()),
    "vmap": lambda u, g: u.vmap(g, (None, 0)),
}


def _unrecorded(m: Any, x: Any) -> Any:
    with m.no_grad():
        return x * x


@pytest.mark.parametrize("mapped", MAPPED)
@pytest.mark.parametrize("name", CAPTURED)
def test_tangents_of_what_needs_no_gradient(name: str, mapped: str, same: Any) -> None:
    """They go through the backward pass of a `vmap`, although no gradient goes to what they belong to."""

    def run(m: Any) -> Any:
        x, w = (m.tensor(v, dtype=m.float64) for v in ([0.5, -1.0, 2.0], [1.5, 0.2, -0.7]))
        g = MAPPED[mapped](m.func, lambda x, w: CAPTURED[name](m, x, w), m.eye(3, dtype=m.float64))

        def along(around: str) -> Any:
            f = OUTSIDE[around](m.func, g)
            v = m.stack([w, x]) if around == "vmap" else w
            return m.func.jvp(lambda w: f(x, w), (v,), (v * v,))

        return {around: along(around) for around in OUTSIDE}

    same(run, f"{name} {mapped} captured")
