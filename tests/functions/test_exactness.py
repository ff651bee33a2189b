"""Functions whose results are as exact as their dtype, where XLA's own are not."""

from __future__ import annotations

import math
from statistics import NormalDist

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
