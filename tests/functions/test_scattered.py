"""First and second gradients of scatter reductions: ties, zeros, NaN and infinities, with and without old values."""

from __future__ import annotations

import numpy as np
import pytest

import torchgrad_jax as tg
from tests.programs import Programs

program = Programs()
test_same_as_torch = pytest.mark.long(program.test())

NAN, INF = float("nan"), float("inf")
SOURCES = [[1.0, 2, 3, 0, 5, 5], [1.0] * 6, [-1, NAN, 2, INF, 0, 3], [0, 2, INF, 4, 2, -INF]]
BASES = [[1.0, 5, 3], [0.0, 0, 1], [2, 2, INF], [NAN, 1, NAN]]
CASES = [(s, b, kept) for s in SOURCES for b in BASES for kept in (True, False)]


def gradients(m, reduce, source, base, kept, wrap=lambda f: f):
    """A result, its gradients and, where there are, theirs."""
    x = m.tensor(base, dtype=m.float64, requires_grad=True)
    s = m.tensor(source, dtype=m.float64, requires_grad=True)
    i = m.tensor([0, 0, 1, 1, 1, 0])
    out = wrap(lambda x, s: x.scatter_reduce(0, i, s, reduce, include_self=kept))(x, s)
    weights = m.tensor([1.0, 2, 3], dtype=m.float64)
    first = m.autograd.grad(out, [x, s], weights, create_graph=True)
    if not first[0].requires_grad:
        return [out.detach(), *first]
    total = first[0].sum() * 2 + (first[1] * m.arange(6.0)).sum()
    second = m.autograd.grad(total, [x, s], allow_unused=True)
    return [t if t is None else t.detach() for t in (out, *first, *second)]


@program
def scattered_sums_and_means(m):
    return [gradients(m, r, *case) for r in ("sum", "mean") for case in CASES]


@program
def scattered_products(m):
    return [gradients(m, "prod", *case) for case in CASES]


@program
def scattered_extremes(m):
    return [gradients(m, r, *case) for r in ("amax", "amin") for case in CASES]


@pytest.mark.long
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "amax", "amin"])
def test_compiled_alike(reduce, kept):
    for source in SOURCES:
        eager = gradients(tg, reduce, source, BASES[0], kept)
        compiled = gradients(tg, reduce, source, BASES[0], kept, tg.compile)
        for a, b in zip(eager[:3], compiled[:3]):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6)
