"""Steps of optimizers over many small parameters: the case where a kernel per parameter would lose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_COUNT, _SHAPE = 50, (16, 16)


def _stepping(t: Any, name: str, **options: Any) -> Callable[[], object]:
    params = [t.ones(*_SHAPE, requires_grad=True) for _ in range(_COUNT)]
    for p in params:
        p.grad = t.ones(*_SHAPE) * 0.01
    if t.__name__ == "torch":
        options["foreach"] = True  # its fastest way of many small steps
    optimizer = getattr(t.optim, name)(params, lr=1e-3, **options)

    def step() -> object:
        optimizer.step()
        return params[-1].detach()

    return step


def sgd(t: Any) -> Callable[[], object]:
    """Momentum over 50 parameters of 16 x 16."""
    return _stepping(t, "SGD", momentum=0.9)


def adam(t: Any) -> Callable[[], object]:
    """Adam over 50 parameters of 16 x 16."""
    return _stepping(t, "Adam")


def _arrays(value: float) -> list[Any]:
    return [jnp.full(_SHAPE, value, np.float32) for _ in range(_COUNT)]


def sgd_jax() -> Callable[[], object]:
    """The same as one jitted function."""
    gradients = _arrays(0.01)

    @jax.jit
    def update(params: Any, buffers: Any, grads: Any, lr: Any) -> Any:
        buffers = [b * 0.9 + g for b, g in zip(buffers, grads)]
        return [p - lr * b for p, b in zip(params, buffers)], buffers

    state = [_arrays(1.0), _arrays(0.0)]

    def step() -> object:
        state[:] = update(*state, gradients, 1e-3)
        return state[0][-1].block_until_ready()

    return step


def adam_jax() -> Callable[[], object]:
    """The same as one jitted function."""
    gradients = _arrays(0.01)

    @jax.jit
    def update(params: Any, means: Any, squares: Any, grads: Any, n: Any, lr: Any) -> Any:
        means = [0.9 * m + 0.1 * g for m, g in zip(means, grads)]
        squares = [0.999 * v + 0.001 * g * g for v, g in zip(squares, grads)]
        a, b = (1 - 0.9**n).astype(np.float32), jnp.sqrt(1 - 0.999**n).astype(np.float32)
        params = [p - (lr / a) * m / (jnp.sqrt(v) / b + 1e-8) for p, m, v in zip(params, means, squares)]
        return params, means, squares

    state, n = [_arrays(1.0), _arrays(0.0), _arrays(0.0)], [0]

    def step() -> object:
        n[0] += 1
        state[:] = update(*state, gradients, np.float64(n[0]), np.float32(1e-3))
        return state[0][-1].block_until_ready()

    return step
