"""Training steps written with JAX alone, as measure for compiled steps of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

RATE, DECAY, BETAS, EPS = 1e-3, 0.01, (0.9, 0.999), 1e-8


def adamw_step(loss_of: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """A step of AdamW on ``loss_of(p, x, y)``: parameters, both averages and the count, before and after."""

    def step(p: Any, m: Any, v: Any, n: Any, x: Any, y: Any) -> Any:
        loss, g = jax.value_and_grad(loss_of)(p, x, y)
        n = n + 1
        m = jax.tree.map(lambda m, g: BETAS[0] * m + (1 - BETAS[0]) * g, m, g)
        v = jax.tree.map(lambda v, g: BETAS[1] * v + (1 - BETAS[1]) * g * g, v, g)
        c1, c2 = 1 - BETAS[0] ** n, jnp.sqrt(1 - BETAS[1] ** n)

        def update(p: Any, m: Any, v: Any) -> Any:
            return p * (1 - RATE * DECAY) - RATE / c1 * m / (jnp.sqrt(v) / c2 + EPS)

        return jax.tree.map(update, p, m, v), m, v, n, loss

    return step


def first_state(p: Any) -> tuple[Any, ...]:
    """What such a step takes first, given the parameters."""
    m, v = (jax.tree.map(jnp.zeros_like, p) for _ in range(2))
    return p, m, v, jnp.float32(0)


def repeated(step: Callable[..., Any], first: Any, batch: Sequence[Any]) -> Callable[[], float]:
    """The compiled step on one batch, which overwrites its state; each call gives the loss."""
    run = jax.jit(step, donate_argnums=(0, 1, 2, 3))
    state = [first]

    def call() -> float:
        *new, loss = run(*state[0], *batch)
        state[0] = tuple(new)
        return float(loss)

    return call
