"""Modules of equinox, trained by a torch loop; beside them the same in equinox and optax alone."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

WITH_TENSORS = "torchgrad_jax" in sys.modules
STEPS = 20


class Recurrent(eqx.Module):
    cell: eqx.nn.GRUCell
    head: eqx.nn.Linear

    def __init__(self, key):
        self.cell = eqx.nn.GRUCell(3, 8, dtype=jnp.float32, key=key)
        self.head = eqx.nn.Linear(8, 1, dtype=jnp.float32, key=key)

    def __call__(self, sequence):
        def read(state, x):
            return self.cell(x, state), None

        state, _ = jax.lax.scan(read, jnp.zeros(8, jnp.float32), sequence)
        return self.head(state)[0]


class Images(eqx.Module):
    layers: list

    def __init__(self, key):
        one, two = jax.random.split(key)
        self.layers = [
            eqx.nn.Conv2d(2, 4, 3, dtype=jnp.float32, key=one),
            eqx.nn.GroupNorm(2, 4, dtype=jnp.float32),
            jax.nn.silu,
            lambda x: x.mean((1, 2)),
            eqx.nn.Linear(4, 1, dtype=jnp.float32, key=two),
        ]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x[0]


rng = np.random.RandomState(0)
sequences, images = rng.randn(32, 5, 3).astype(np.float32), rng.randn(16, 2, 8, 8).astype(np.float32)
MODELS = {
    "recurrent": (Recurrent(jax.random.key(0)), sequences, sequences[:, 0].sum(1)),
    "images": (Images(jax.random.key(1)), images, images.mean((1, 2, 3)) * 10),
}


def alone(model, x, y):
    optimizer = optax.adamw(0.02, weight_decay=0.01)
    state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))

    @eqx.filter_jit
    def step(model, state):
        value, g = eqx.filter_value_and_grad(lambda m: ((jax.vmap(m)(x) - y) ** 2).mean())(model)
        updates, state = optimizer.update(g, state, eqx.filter(model, eqx.is_inexact_array))
        return eqx.apply_updates(model, updates), state, value

    for _ in range(STEPS):
        model, state, value = step(model, state)
        yield value
    yield from (leaf.sum() for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array)))


def here(model, x, y):
    import torch

    from torchgrad_jax import interop

    net = interop.module(model, call=lambda m, x: jax.vmap(m)(x))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.02, weight_decay=0.01)
    x, y = torch.as_tensor(x), torch.as_tensor(y)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        yield loss
    yield from (leaf.sum() for leaf in jax.tree.leaves(eqx.filter(net.original(), eqx.is_inexact_array)))


for name, (model, x, y) in MODELS.items():
    for value in (here if WITH_TENSORS else alone)(model, x, y):
        print(f"{name} {float(value):.4f}")
