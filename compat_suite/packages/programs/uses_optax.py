"""A network of torch trained by optax: schedules, clipping, groups; beside it the same network in JAX."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

WITH_TENSORS = "torchgrad_jax" in sys.modules
STEPS = 15
rng = np.random.RandomState(0)
x = rng.randn(64, 4).astype(np.float32)
y = np.sin(x[:, :1] * 2).astype(np.float32)
weights = [rng.randn(*shape).astype(np.float32) / 2 for shape in ((16, 4), (16,), (1, 16), (1,))]
RATES = optax.warmup_cosine_decay_schedule(0.0, 0.05, 5, STEPS)
TRANSFORMATIONS = {
    "adamw": lambda: optax.adamw(RATES, weight_decay=0.01),
    "clipped": lambda: optax.chain(optax.clip_by_global_norm(0.5), optax.sgd(0.1, momentum=0.9, nesterov=True)),
    "groups": lambda: optax.multi_transform({"a": optax.adam(0.02), "b": optax.rmsprop(0.01)}, ["a", "b", "a", "b"]),
    "lion": lambda: optax.lion(0.01),
    "every second step": lambda: optax.MultiSteps(optax.lamb(0.05), 2),
}


def alone(transformation):
    def loss(weights):
        a, b, c, d = weights
        return ((jnp.tanh(x @ a.T + b) @ c.T + d - y) ** 2).mean()

    held = list(map(jnp.asarray, weights))
    state = transformation.init(held)

    @jax.jit
    def step(held, state):
        value, g = jax.value_and_grad(loss)(held)
        updates, state = transformation.update(g, state, held)
        return optax.apply_updates(held, updates), state, value

    for _ in range(STEPS):
        held, state, value = step(held, state)
        yield value
    yield from (w.sum() for w in held)


def here(transformation):
    import torch

    from torchgrad_jax import interop

    net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    with torch.no_grad():
        for p, w in zip(net.parameters(), weights):
            p.copy_(torch.as_tensor(w))
    optimizer = interop.Optax(net.parameters(), transformation)

    @torch.compile
    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(net(torch.as_tensor(x)), torch.as_tensor(y))
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(STEPS):
        yield step()
    yield from (p.detach().sum() for p in net.parameters())


for name, make in TRANSFORMATIONS.items():
    for value in (here if WITH_TENSORS else alone)(make()):
        print(f"{name} {float(value):.4f}")
