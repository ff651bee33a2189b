"""Draws around tensors inside of transforms: from known primals in forward mode, and for a whole batch at once."""

from typing import Any

import pytest

DRAWS = {
    "normal around": lambda m, x: m.normal(x, 1.0),
    "normal as wide": lambda m, x: m.normal(0.0, x),
    "normal of both": lambda m, x: m.normal(x, x),
    "bernoulli": lambda m, x: m.bernoulli(x),
    "bernoulli_": lambda m, x: x.clone().bernoulli_(x),
    "bernoulli_ of another": lambda m, x: m.zeros(3).bernoulli_(x),
    "poisson": lambda m, x: m.poisson(x),
    "multinomial": lambda m, x: m.multinomial(x, 3) * x,
}
BATCHES = DRAWS | {
    "binomial": lambda m, x: m.binomial(x * 0 + 5, x),
    "gamma": lambda m, x: m._standard_gamma(x),
    "dirichlet": lambda m, x: m._sample_dirichlet(x),
    "bernoulli of a number": lambda m, x: m.bernoulli(x, 0.5),
}


def _x(m: Any) -> Any:
    return m.tensor([0.2, 0.5, 0.9])


def _seen(m: Any, run: Any) -> Any:
    m.manual_seed(0)
    try:
        return run()
    except RuntimeError as e:
        return str(e)


@pytest.mark.parametrize("name", DRAWS)
def test_forward_mode(name: str, same: Any) -> None:
    """Derivatives are zeros, and every direction may see other numbers or the same."""

    def forward(m: Any) -> Any:
        def f(x: Any) -> Any:
            return DRAWS[name](m, x)

        vmap, jvp, jacfwd = m.func.vmap, m.func.jvp, m.func.jacfwd

        def drawn(how: str) -> Any:
            return [
                _seen(m, lambda: jacfwd(f, randomness=how)(_x(m))),
                _seen(m, lambda: vmap(lambda t: jvp(f, (_x(m),), (t,)), randomness=how)(m.eye(3))),
            ]

        # torch refuses to fill a primal differently for each direction, which is possible here
        return [drawn(how) for how in ("same", "different", "error") if (name, how) != ("bernoulli_", "different")]

    same(forward, f"forward mode of {name}")


@pytest.mark.parametrize("name", BATCHES)
def test_batches(name: str, same: Any) -> None:
    """The numbers are those of a draw for all examples at once, also in batches of batches."""

    def batches(m: Any) -> Any:
        def f(x: Any) -> Any:
            return BATCHES[name](m, x)

        vmap, x = m.func.vmap, _x(m)
        batch = m.stack([x, x * 0.5])

        def drawn(how: str) -> Any:
            return [
                _seen(m, lambda: vmap(f, randomness=how)(batch)),
                _seen(m, lambda: vmap(lambda x: f(x * 0.5), randomness=how)(batch)),
                _seen(m, lambda: vmap(vmap(f, randomness=how), randomness=how)(m.stack([batch, batch]))),
                _seen(m, lambda: vmap(lambda y: f(x) + y, randomness=how)(batch)),
            ]

        return [drawn(how) for how in ("same", "different", "error")]

    same(batches, f"batches of {name}")
