"""Second and third gradients of scattered products, with no, one and several zeros among the factors."""

from __future__ import annotations

import numpy as np
import pytest

import torchgrad_jax as torch
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()

AT = [0, 0, 0, 1, 1]
OWN = {"numbers": [1.5, 2.0, 3.0], "zeros": [0.0, 0.0, 3.0]}
GIVEN = {
    "no zero": [2.0, 3.0, 1.5, -1.0, 0.5],
    "one zero": [0.0, 3.0, 1.5, -1.0, 0.0],
    "two zeros": [0.0, 3.0, 0.0, -1.0, 0.5],
    "three zeros": [0.0, 0.0, 0.0, 0.0, 0.5],
}


def scattered(m, x, y, include_self):
    return m.scatter_reduce(x, 0, m.tensor(AT), y, "prod", include_self=include_self)


def indexed(m, x, y, include_self):
    return m.index_reduce(x, 0, m.tensor(AT), y, "prod", include_self=include_self)


def segmented(m, x, y, include_self):
    return m.segment_reduce(y, "prod", lengths=m.tensor([3, 2]))


REDUCTIONS = {"scatter_reduce": scattered, "index_reduce": indexed, "segment_reduce": segmented}
CASES = [
    pytest.param(reduce, OWN[own], y, include_self, id=f"{name}-{own}-{given}-{include_self}")
    for name, reduce in REDUCTIONS.items()
    for own in OWN
    for given, y in GIVEN.items()
    for include_self in (True, False)
    if reduce is scattered or (own, include_self) == ("numbers", True)
]


def numbers(m, values):
    return m.tensor(values, dtype=m.float64, requires_grad=True)


def second_derivative(factors: list[float], i: int, j: int) -> float:
    return float(np.prod([f for k, f in enumerate(factors) if k not in (i, j)])) if i != j else 0.0


def expected(own: list[float], given: list[float], include_self: bool) -> np.ndarray:
    """Second derivatives of the sum of all products by all numbers, the old ones first, by leaving out two factors."""
    n, values = len(own), own + given
    h = np.zeros((len(values), len(values)))
    for place in range(n):
        members = [n + k for k, at in enumerate(AT) if at == place]
        members = [place, *members] if include_self else members
        factors = [values[k] for k in members]
        for i, a in enumerate(members):
            for j, b in enumerate(members):
                h[a, b] = second_derivative(factors, i, j)
    return h


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize(("reduce", "own", "given", "include_self"), CASES)
def test_second_gradients_are_products_of_the_others(reduce, own, given, include_self) -> None:
    x, y = numbers(torch, own), numbers(torch, given)
    if reduce is segmented:
        own, include_self = [1.0] * len(own), False
    first = torch.autograd.grad(
        reduce(torch, x, y, include_self).sum(), (x, y), create_graph=True, materialize_grads=True
    )
    rows = []
    for g in torch.cat(first):
        row = torch.autograd.grad(g, (x, y), retain_graph=True, materialize_grads=True)
        rows.append(torch.cat(row).numpy())
    np.testing.assert_allclose(np.stack(rows), expected(own, given, include_self), atol=1e-12)


@program
def second_gradients_with_at_most_one_zero(m):
    out = {}
    for given in ("no zero", "one zero"):
        for own, include_self in (("numbers", True), ("zeros", True), ("zeros", False)):
            x, y = numbers(m, OWN[own]), numbers(m, GIVEN[given])
            z = scattered(m, x, y, include_self)
            first = m.autograd.grad((z * z).sum(), (x, y), create_graph=True)
            second = m.autograd.grad((m.cat(first) ** 2).sum(), (x, y))
            out[f"{given} {own} {include_self}"] = first, second
    return out


def test_third_gradients_of_three_zeros() -> None:
    y = numbers(torch, [0.0, 0.0, 0.0, 3.0])
    z = torch.tensor([2.0], dtype=torch.float64)
    z = z.scatter_reduce(0, torch.zeros(4, dtype=torch.int64), y, "prod")
    (first,) = torch.autograd.grad(z.sum(), y, create_graph=True)
    (second,) = torch.autograd.grad(first[0], y, create_graph=True)
    assert torch.autograd.grad(second[1], y)[0].tolist() == [0.0, 0.0, 6.0, 0.0]


def test_first_gradients_beside_zeros_of_numbers_too_large_to_multiply() -> None:
    y = numbers(torch, [0.0, 0.0, 1e200, 1e200])
    torch.ones(1, dtype=torch.float64).scatter_reduce(0, torch.zeros(4, dtype=torch.int64), y, "prod").backward(
        torch.ones(1, dtype=torch.float64)
    )
    assert y.grad.tolist() == [0.0, 0.0, 0.0, 0.0]
