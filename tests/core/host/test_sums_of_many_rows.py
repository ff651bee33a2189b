"""Sums, running sums and copies of many rows in NumPy: as exact as PyTorch's, and NumPy's at sizes that are new."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as tg
from torchgrad_jax._core.host import code as host


@pytest.mark.parametrize("shape, dim", [((120_000, 2), 0), ((30_000, 3), 0), ((4, 9_000, 5), 1), ((1_025, 7), 0)])
def test_sums_of_many_rows_round_seldom(shape, dim):
    x = np.random.default_rng(0).random(shape).astype("float32")
    exact = x.astype("float64").sum(dim)
    assert np.abs(tg.tensor(x).sum(dim).numpy() / exact - 1).max() < 1e-6


RUNNING = [((3_000,), 0), ((40, 600), 0), ((40, 600), 1), ((500, 3), 0), ((3, 70, 20), 1), ((200, 1_000), 0)]


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("shape, dim", RUNNING)
def test_running_sums_and_products_have_the_bits_of_pytorch(oracle, name, shape, dim):
    x = np.random.default_rng(1).random(shape).astype("float32") * 1.9 + 0.05

    def run(t):
        return getattr(t.tensor(x), name)(dim).numpy()

    np.testing.assert_array_equal(run(tg), run(oracle))


def test_a_running_sum_goes_on_past_the_largest_float32(oracle):
    def run(t):
        return t.tensor([3e38, 3e38, -3e38, -1e38]).cumsum(0).tolist()

    assert run(tg) == run(oracle)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: jnp.concatenate((x, x[:3])),
        lambda x: jnp.stack((x, x), 1),
        lambda x: jnp.pad(x, ((2, 1), (0, 3))),
        lambda x: jnp.cumsum(x, 1),
        lambda x: jnp.cumprod(x + 0.6, 0),
    ],
    ids=["cat", "stack", "pad", "cumsum", "cumprod"],
)
def test_many_rows_are_copied_and_added_up_without_xla(fn):
    x = np.random.default_rng(2).random((1_003, 1_009)).astype("float32")
    run = host.program(jax.make_jaxpr(fn)(x), lambda *given: pytest.fail("XLA is asked"), False)
    assert run is not None
    (found,) = run(x)
    np.testing.assert_allclose(found, fn(jnp.asarray(x)), rtol=1e-3)
