"""Incomplete gamma functions of large arguments, for which XLA's have wrong digits, or do not end."""

from __future__ import annotations

import pytest

import torchgrad_jax as torch
from tests.programs import Programs

program = Programs()
test_same_as_torch = pytest.mark.long(program.test())

INF = float("inf")
LARGE = [
    (a, a * ratio) for a in (9.9, 10.0, 150.0, 1e3, 3e4) for ratio in (0.59, 0.61, 0.9, 1.0, 1.001, 1.1, 1.39, 1.41)
]
HUGE = [(1e9, 1e9), (1e17, 1e17), (1e30, 1e30), (1e30, 2e30), (1e30, 3e29)]


def columns(m, pairs, dtype):
    return [m.tensor(column, dtype=dtype) for column in zip(*pairs)]


@program
def large(m):
    a, x = columns(m, LARGE, m.float64)
    return [m.round(f(a, x), decimals=8) for f in (m.igamma, m.igammac)]  # torch's have nine digits


@program
def large_in_single_precision(m):
    a, x = columns(m, LARGE, m.float32)
    return [m.round(f(a, x), decimals=4) for f in (m.igamma, m.igammac)]


@program
def huge(m):
    kinds = ((m.igamma, m.float64), (m.igammac, m.float32))
    return [m.round(f(*columns(m, HUGE, dtype)), decimals=3) for f, dtype in kinds]


@program
def at_the_edges(m):
    a, x = columns(m, [(p, q) for p in (0.0, 1.0, 50.0, INF) for q in (0.0, 0.5, 50.0, INF)], m.float32)
    return m.igamma(a, x), m.igammac(a.half(), x.half())


@program
def gradients(m):
    a, x = columns(m, LARGE, m.float64)
    x.requires_grad_()
    slopes = [m.autograd.grad(f(a, x).sum(), x, create_graph=True)[0] for f in (m.igamma, m.igammac)]
    return [*[s.detach() for s in slopes], m.autograd.grad((slopes[0] * a).sum(), x)[0]]


@pytest.mark.long
def test_the_two_add_up_to_one():
    """Also where one of both is nearly 1, in a tensor that is XLA's."""
    a, x = columns(torch, LARGE + HUGE, torch.float32)
    a, x = a.repeat(300), x.repeat(300)
    out = torch.compile(lambda a, x: torch.igamma(a, x) + torch.igammac(a, x))(a, x)
    torch.testing.assert_close(out, torch.ones_like(out), rtol=0, atol=3e-6)


@pytest.mark.long
def test_slope_in_the_first_argument():
    """Which torch does not have."""
    a, x = columns(torch, [(48.0, 50.0), (25.0, 30.0), (3e4, 2.99e4), (5.0, 3.0)], torch.float64)
    assert torch.autograd.gradcheck(lambda a: torch.igamma(a, x), (a.requires_grad_(),), eps=1e-4)
