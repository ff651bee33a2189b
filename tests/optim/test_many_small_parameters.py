"""Many small parameters are updated in one row by NumPy: with the numbers of a step for each by itself."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch
from torchgrad_jax.optim import _rules

SHAPES = [(2, 3), (4,), (), (0,), (3, 1, 2), (5,), (1,), (2, 2), (6,)]
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {"momentum": 0.9, "nesterov": True},
    "Adam": {"amsgrad": True, "weight_decay": 0.1},
    "AdamW": {"maximize": True},
    "RMSprop": {"centered": True, "momentum": 0.9},
    "Rprop": {},
    "Adagrad": {},
    "ASGD": {},
    "Adafactor": {},
}


def parameters(dtype: Any) -> list[Any]:
    draw = np.random.RandomState(0)
    return [torch.tensor(draw.randn(*shape), dtype=dtype, requires_grad=True) for shape in SHAPES]


def steps(groups: list[list[Any]], name: str, left_out: int | None = None) -> list[Any]:
    """The parameters, their versions and their states after a few steps of an optimizer for each group."""
    draw = np.random.RandomState(1)
    optimizers = [getattr(torch.optim, name)(g, lr=0.05, **OPTIMIZERS[name]) for g in groups]
    ps = [p for group in groups for p in group]
    for k in range(4):
        for i, p in enumerate(ps):
            g = torch.tensor(draw.randn(*p.shape), dtype=p.dtype)
            p.grad = None if i == left_out and k == 1 else g
        for optimizer in optimizers:
            optimizer.step()
    states = [o.state[p] for o, group in zip(optimizers, groups) for p in group]
    return [*[p.detach() for p in ps], [p._version for p in ps], *states]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_as_each_by_itself(name, monkeypatch):
    rows = []
    joined = _rules._joined
    monkeypatch.setattr(_rules, "_joined", lambda column: rows.append(1) or joined(column))
    together = steps([parameters(torch.float64)], name, left_out=2)
    assert bool(rows) == (name != "Adafactor")  # some of its states are there for matrices only
    alone = steps([[p] for p in parameters(torch.float64)], name, left_out=2)
    for got, want in zip(together, alone, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


def test_a_rule_that_needs_more_than_the_elements():
    def vectors() -> list[Any]:
        return [p.detach().reshape(-1).requires_grad_() for p in parameters(torch.float64)]

    together = steps([vectors()], "Adafactor")
    alone = steps([[p] for p in vectors()], "Adafactor")
    for got, want in zip(together, alone, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


def test_results_have_memory_of_their_own():
    ps = parameters(torch.float32)
    optimizer = torch.optim.SGD(ps, lr=0.1)
    for p in ps:
        p.grad = torch.ones_like(p)
    optimizer.step()
    before = [p.tolist() for p in ps]
    ps[1].detach().numpy()[:] = 7
    assert ps[1].tolist() == [7] * 4
    assert [p.tolist() for p in ps[2:]] == before[2:]


def test_compiled_and_with_gradients_of_jax():
    def run(step: Any) -> list[Any]:
        ps = parameters(torch.float32)
        optimizer = torch.optim.Adam(ps, lr=0.1)
        for _ in range(3):
            step(ps, optimizer)
        return [p.detach() for p in ps]

    def step(ps: Any, optimizer: Any) -> None:
        optimizer.zero_grad()
        sum((p * p).sum() for p in ps).backward()
        optimizer.step()

    def step_of_arrays(ps: Any, optimizer: Any) -> None:
        for p in ps:
            p.grad = torch.utils.dlpack.from_dlpack(jnp.asarray(2 * p.detach().numpy()))
        optimizer.step()

    want = run(step)
    compiled = run(lambda ps, optimizer: torch.compile(lambda: step(ps, optimizer))())
    for got in (compiled, run(step_of_arrays)):
        torch.testing.assert_close(got, want)
