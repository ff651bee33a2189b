"""Functions whose results are as exact as their dtype, where XLA's own are not."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

import torchgrad_jax as tg


def test_erfinv_is_as_exact_as_its_dtype():
    """Initial weights that are cut off, as `trunc_normal_` makes them, are those of PyTorch but for the last digit."""
    x = tg.cat([tg.linspace(0.02, 0.98, 500), 1 - tg.logspace(-2, -6, 200)])
    exact = [NormalDist().inv_cdf((1 + v) / 2) / math.sqrt(2) for v in x.double().tolist()]
    off = (tg.erfinv(x).double() / tg.tensor(exact, dtype=tg.float64) - 1).abs()
    assert off.max() < 5e-7
    assert tg.erfinv(-x).equal(-tg.erfinv(x))
    assert tg.erfinv(tg.tensor([1.0, -1.0, 0.0, 1.5])).tolist()[:3] == [math.inf, -math.inf, 0.0]


@pytest.mark.parametrize(("dtype", "closest", "off"), [(tg.float32, -7, 5e-6), (tg.float64, -12, 1e-13)])
def test_erfinv_and_its_slope_near_one(dtype, closest, off):
    x = (1 - tg.logspace(-1, closest, 200, dtype=dtype)).requires_grad_()
    y = tg.erfinv(x)
    y.sum().backward()
    for at, value, slope in zip(x.tolist(), y.tolist(), x.grad.tolist()):
        assert math.isclose(math.erfc(value), 1 - at, rel_tol=off)
        assert math.isclose(slope, math.sqrt(math.pi) / 2 * math.exp(value * value), rel_tol=off)


# --- erf stays between -1 and 1, so that probabilities made of it stay probabilities ---

POINTS = np.linspace(3.6, 4.2, 200_001).astype(np.float32)


@pytest.mark.parametrize("dtype", [tg.float32, tg.float64])
def test_it_does_not_exceed_one(dtype):
    x = tg.from_numpy(POINTS).to(dtype)
    assert tg.erf(x).max() <= 1
    assert tg.erf(-x).min() >= -1
    wide = x * math.sqrt(2)
    assert tg.special.ndtr(wide).max() <= 1
    assert tg.nn.functional.gelu(-wide).max() <= 0


def test_a_logarithm_of_what_is_left_is_a_number():
    normal = tg.distributions.Normal(0.0, 1.0)
    x = tg.from_numpy(POINTS) * math.sqrt(2)
    assert not (1 - normal.cdf(x)).log().isnan().any()


def test_slopes_beyond_that_point_are_those_of_the_function():
    x = tg.tensor([3.8, 4.0, -3.9, 0.0], dtype=tg.float32, requires_grad=True)
    y = tg.erf(x)
    (g,) = tg.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = tg.autograd.grad(g.sum(), x)
    at = x.detach().numpy().astype(float)
    slope = 2 / math.sqrt(math.pi) * np.exp(-at * at)
    np.testing.assert_allclose(g.detach().numpy(), slope, rtol=1e-5)
    np.testing.assert_allclose(h.numpy(), -2 * at * slope, rtol=1e-5)
    assert y.grad_fn._saved_self is x


def test_what_is_no_number_stays_none():
    x = tg.tensor([math.nan, math.inf, -math.inf])
    assert tg.erf(x).tolist()[1:] == [1.0, -1.0]
    assert tg.erf(x)[0].isnan()


def test_both_incomplete_gamma_functions_add_up_to_one():
    """Also where one of both is nearly 1, in a tensor that is XLA's."""
    ratios = (0.59, 0.61, 0.9, 1.0, 1.001, 1.1, 1.39, 1.41)
    pairs = [(a, a * r) for a in (9.9, 10.0, 150.0, 1e3, 3e4) for r in ratios]
    pairs += [(1e9, 1e9), (1e17, 1e17), (1e30, 1e30), (1e30, 2e30), (1e30, 3e29)]
    a, x = (tg.tensor(column).repeat(300) for column in zip(*pairs))
    out = tg.compile(lambda a, x: tg.igamma(a, x) + tg.igammac(a, x))(a, x)
    tg.testing.assert_close(out, tg.ones_like(out), rtol=0, atol=3e-6)


def test_the_slope_of_igamma_in_its_first_argument():
    """Which torch does not have."""
    a, x = (tg.tensor(c, dtype=tg.float64) for c in ([48.0, 25.0, 3e4, 5.0], [50.0, 30.0, 2.99e4, 3.0]))
    assert tg.autograd.gradcheck(lambda a: tg.igamma(a, x), (a.requires_grad_(),), eps=1e-4)
