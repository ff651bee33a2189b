"""Forward mode around `vmap`, differentiated again: what is outside sees the tangents that went through."""

from __future__ import annotations

from typing import Any

import pytest

FUNCTIONS = {
    "sine": lambda m, x: x.sin(), "square": lambda m, x: x * x, "written": lambda m, x: (x * 1).mul_(x),
    "view": lambda m, x: x.view(-1)[:2] * x.sum(), "product": lambda m, x: m.outer(x, x).sum(0),
}  # fmt: skip
MAPS = {"along 0": lambda u, f: u.vmap(f), "along 1": lambda u, f: u.vmap(f, 1, 1)}


def _along(u: Any, g: Any) -> Any:
    return lambda x: u.jvp(g, (x * x,), (x,))[1]


AROUND = {
    "grad": lambda u, g, x: u.grad(lambda x: _along(u, g)(x).sum())(x),
    "of the tangent": lambda u, g, x: u.grad(lambda t: u.jvp(g, (x,), (t,))[1].sum())(x),
    "vjp": lambda u, g, x: u.vjp(_along(u, g), x)[1](g(x)), "jacrev": lambda u, g, x: u.jacrev(_along(u, g))(x),
    "jvp": lambda u, g, x: u.jvp(_along(u, g), (x,), (x * 3,)),
    "vmap of grad": lambda u, g, x: u.vmap(lambda s: u.grad(lambda x: _along(u, g)(x).sum())(x * s))(x[:, 0]),
    "grad of vmap": lambda u, g, x: u.grad(lambda x: u.vmap(lambda s: _along(u, g)(x * s))(x[:, 0]).sum())(x),
    "grad of grad": lambda u, g, x: u.grad(lambda x: u.grad(lambda x: _along(u, g)(x).sum())(x * x).sum())(x),
    "jvp of grad": lambda u, g, x: u.jvp(u.grad(lambda x: _along(u, g)(x).sum()), (x,), (x,)),
}  # fmt: skip


@pytest.mark.parametrize("place", MAPS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_differentiated_again(name: str, place: str, same: Any) -> None:
    def run(m: Any) -> Any:
        x = m.tensor([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0], [2.0, 1.5, 0.1]], dtype=m.float64)
        g = MAPS[place](m.func, lambda x: FUNCTIONS[name](m, x))
        return {around: AROUND[around](m.func, g, x) for around in AROUND}

    same(run, f"{name} {place}")
