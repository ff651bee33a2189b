"""torch.erf stays between -1 and 1, so that probabilities made of it stay probabilities."""

import math

import numpy as np
import pytest

import torchgrad_jax as torch

POINTS = np.linspace(3.6, 4.2, 200_001).astype(np.float32)


@pytest.mark.long
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_does_not_exceed_one(dtype):
    x = torch.from_numpy(POINTS).to(dtype)
    assert torch.erf(x).max() <= 1
    assert torch.erf(-x).min() >= -1
    wide = x * math.sqrt(2)
    assert torch.special.ndtr(wide).max() <= 1
    assert torch.nn.functional.gelu(-wide).max() <= 0


@pytest.mark.long
def test_a_logarithm_of_what_is_left_is_a_number():
    normal = torch.distributions.Normal(0.0, 1.0)
    x = torch.from_numpy(POINTS) * math.sqrt(2)
    assert not (1 - normal.cdf(x)).log().isnan().any()


def test_slopes_beyond_that_point_are_those_of_the_function():
    x = torch.tensor([3.8, 4.0, -3.9, 0.0], dtype=torch.float32, requires_grad=True)
    y = torch.erf(x)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    at = x.detach().numpy().astype(float)
    slope = 2 / math.sqrt(math.pi) * np.exp(-at * at)
    np.testing.assert_allclose(g.detach().numpy(), slope, rtol=1e-5)
    np.testing.assert_allclose(h.numpy(), -2 * at * slope, rtol=1e-5)
    assert y.grad_fn._saved_self is x


def test_what_is_no_number_stays_none():
    x = torch.tensor([math.nan, math.inf, -math.inf])
    assert torch.erf(x).tolist()[1:] == [1.0, -1.0]
    assert torch.erf(x)[0].isnan()
