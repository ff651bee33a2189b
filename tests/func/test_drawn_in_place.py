"""Draws in place inside of `vmap` fill the memory of the whole batch in torch's order, wherever its dimension is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.programs import digest

DRAWS = {
    "normal": lambda m, x: x.normal_(1.0, 3.0),
    "uniform": lambda m, x: x.uniform_(-1, 2),
    "bernoulli": lambda m, x: x.bernoulli_(0.4),
    "exponential": lambda m, x: x.exponential_(2.0),
    "random": lambda m, x: x.random_(3, 90),
    "geometric": lambda m, x: x.geometric_(0.3),
    "cauchy": lambda m, x: x.cauchy_(),
    "log normal": lambda m, x: x.log_normal_(),
}
VIEWS = {
    "itself": lambda m, x: x,
    "part": lambda m, x: x[1:],
    "transposed": lambda m, x: x.transpose(0, -1),
    "copy": lambda m, x: x.clone(),
    "like it": lambda m, x: m.zeros_like(x),
}
BATCHES = [((17, 2), 1), ((17, 2), 0), ((3, 2, 4), -1)]


@pytest.mark.parametrize("randomness", ["different", "same"])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", DRAWS)
def test_in_place(name: str, view: str, randomness: str, same: Any) -> None:
    def run(m: Any) -> Any:
        def drawn(shape: Any, dim: int) -> Any:
            def f(x: Any) -> Any:
                return DRAWS[name](m, VIEWS[view](m, x)) * 1.0

            x = m.zeros(shape)
            m.manual_seed(0)
            return digest(m, m.func.vmap(f, dim, randomness=randomness)(x)), m.rand(1)

        return [drawn(*batch) for batch in BATCHES]

    same(run, f"{name} {view} {randomness}")


LIKE: dict[str, Any] = {
    "rand": lambda m, x: m.rand_like(x),
    "randn": lambda m, x: m.randn_like(x),
    "randint": lambda m, x: m.randint_like(x, -5, 90),
    "double": lambda m, x: m.randn_like(x, dtype=m.float64),
    "row-major": lambda m, x: m.randn_like(x, memory_format=m.contiguous_format),
    "multinomial": lambda m, x: m.multinomial(x.reshape(x.shape[0], -1).abs() + 1, 2),
}


@pytest.mark.parametrize("randomness", ["different", "same"])
@pytest.mark.parametrize("name", LIKE)
def test_like(name: str, randomness: str, same: Any) -> None:
    """So do tensors that are made like an example."""

    def run(m: Any) -> Any:
        def drawn(shape: Any, dim: int, view: str) -> Any:
            x = m.zeros(shape)
            m.manual_seed(0)
            f = m.func.vmap(lambda x: LIKE[name](m, VIEWS[view](m, x)) * 1.0, dim, randomness=randomness)
            return digest(m, f(x)), m.rand(1)

        return [drawn(shape, dim, view) for shape, dim in BATCHES for view in VIEWS]

    same(run, f"{name} like {randomness}")
