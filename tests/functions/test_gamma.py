"""Draws from the gamma and Dirichlet distributions, and how they move with their parameters."""

import pytest

from tests.programs import Programs, attempt

program = Programs()
test_same_as_torch = pytest.mark.long(program.test())


def grid(m, dtype):
    """Concentrations in every region of the approximations, and draws around each."""
    a = m.tensor([0.01, 0.5, 1.0, 2.0, 3.5, 7.9, 9.0, 20.0, 1000.0], dtype=m.float64)
    factors = m.tensor([0.001, 0.3, 0.95, 1.0, 1.05, 1.3, 5.0], dtype=m.float64)
    return a.to(dtype).expand(7, 9), (a * factors[:, None]).to(dtype)


@program
def gamma_slopes(m):
    return [m._standard_gamma_grad(*grid(m, dtype)) for dtype in (m.float64, m.float32)]


@program
def dirichlet_slopes(m):
    x = m.linspace(0.01, 0.99, 9, dtype=m.float64)[:, None, None].expand(9, 6, 6)
    sizes = m.tensor([0.1, 0.5, 1.0, 5.0, 20.0, 100.0], dtype=m.float64)
    alpha = sizes[:, None].expand(9, 6, 6)
    means = (alpha / (alpha + sizes))[0]
    return [
        m._dirichlet_grad(x, alpha, alpha + sizes),
        m._dirichlet_grad(means, alpha[0], alpha[0] + sizes),
        m._dirichlet_grad(means * 0.97, alpha[0], alpha[0] + sizes),
    ]


@program
def draws(m):
    m.manual_seed(3)
    a = m.tensor([[0.5, 2.0, 9.0], [0.01, 1.0, 100.0]], requires_grad=True)
    drawn = m._standard_gamma(a)
    (slope,) = m.autograd.grad(drawn.sum(), a, create_graph=True)
    shares = m._sample_dirichlet(a)
    return [
        drawn,
        slope,
        shares,
        m.rand(2),
        m._standard_gamma(m.ones(3), m.Generator().manual_seed(2)),
        drawn.grad_fn._saved_result,
        drawn.grad_fn._saved_self,
        attempt(lambda: slope.sum().backward()),
        attempt(lambda: shares.sum().backward()),
        attempt(lambda: m._standard_gamma_grad(a, drawn).sum().backward()),
    ]


@program
def refusals(m):
    return [
        attempt(f)
        for f in (
            lambda: m._standard_gamma(m.tensor([1, 2])),
            lambda: m._sample_dirichlet(m.tensor([1, 2])),
            lambda: m._standard_gamma(1.0),
            lambda: m._standard_gamma(m.ones(2).half()),
            lambda: m._standard_gamma(m.ones(2), generator=1),
            lambda: m._standard_gamma_grad(m.ones(3), m.ones(3).double()),
            lambda: m._standard_gamma_grad(m.ones(3).half(), m.ones(3).half()),
            lambda: m._standard_gamma(m.tensor([-1.0, 0.0])),
            lambda: m._sample_dirichlet(m.tensor(1.0)),
        )
    ]


@program
def batched_draws(m):
    """Inside of vmap the distribution is the same, and examples differ."""
    a = m.full((4, 500), 3.0)
    m.manual_seed(0)
    drawn = m.func.vmap(m._standard_gamma, randomness="different")(a)
    return (list(drawn.shape), bool((drawn.mean() - 3.0).abs() < 0.3), bool((drawn[0] != drawn[1]).any()))
