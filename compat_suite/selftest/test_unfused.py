"""Kernels taken step by step give what compiled ones give."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from compat_suite.fuzz.unfused import Unfused

X = np.array([[1.5, -2.0, 0.0], [np.nan, np.inf, -0.5]])
KERNELS: dict[str, Callable[..., Any]] = {
    "arithmetic": lambda x, y: (x * 2 + y - x / y, -x, abs(x), x**3),
    "comparisons": lambda x, y: (jnp.maximum(x, y), jnp.where(x < y, x, y), (x == y) & (y > 0)),
    "layout": lambda x, y: (x.T[::-1], jnp.pad(x, ((1, 0), (0, 2))), jnp.concatenate([x, y], 1), x.reshape(-1)[1:5:2]),
    "reductions": lambda x, y: (x.sum(0), x.max(), y.min(1), jnp.any(x > 0), jnp.cumsum(y, 0)),
    "indices": lambda x, y: (x[jnp.array([1, 0])], x.at[0].set(y[1]), jax.lax.dynamic_slice(x, (1, 9), (1, 2))),
    "conversions": lambda x, y: (
        x.astype(jnp.int32),
        y.astype(jnp.complex64),
        (x > 0).astype(float),
        jnp.real(jax.lax.complex(x, y)),
    ),
    "functions": lambda x, y: (jnp.sin(x), jax.nn.softmax(y), x @ y.T, jax.jit(jnp.tanh)(y)),
    "loops": lambda x, y: jax.lax.scan(lambda c, r: (c + r, c * r), y[0], x),
    "gradients": lambda x, y: jax.vjp(lambda t: jnp.prod(t * y), x)[1](1.0),
}


@pytest.mark.parametrize("name", KERNELS)
def test_same_as_compiled(name: str) -> None:
    kernel, y = Unfused(KERNELS[name]), np.arange(6.0).reshape(2, 3) - 2
    for _ in range(2):  # the second time from what is known
        got, want = kernel(X, y), jax.jit(KERNELS[name])(X, y)
        for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
            assert (g.dtype, g.shape) == (w.dtype, w.shape)
            np.testing.assert_allclose(g, w, rtol=1e-12)


def test_inside_of_a_trace() -> None:
    kernel = Unfused(lambda x: x * 2)
    assert jax.grad(lambda x: kernel(x).sum())(X).tolist() == np.full((2, 3), 2.0).tolist()
    assert kernel(3).dtype == jnp.asarray(3).dtype
