"""A normalizing flow of affine couplings, fitted to two moons by maximum likelihood."""

import jax.numpy as jnp
import numpy as np
from common import jax_losses, loaded, normal, torch_losses

COUPLINGS = 4
SHAPES = {"0__weight": (16, 1), "0__bias": (16,), "2__weight": (2, 16), "2__bias": (2,)}
PARAMETERS = {f"{i}.{name}": array for i in range(COUPLINGS) for name, array in normal(i, 0.2, **SHAPES).items()}


def batches(steps):
    random = np.random.default_rng(1)
    for _ in range(steps):
        angle, side = random.uniform(0, np.pi, 64), random.integers(0, 2, 64) * 2 - 1
        points = np.stack([np.cos(angle) * side + side / 2, np.sin(angle) * side], 1)
        yield ((points + random.normal(0, 0.1, points.shape)).astype("float32"),)


def in_torch(torch, steps, wrap):
    nn = torch.nn
    couplings = [nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 2)) for _ in range(COUPLINGS)]
    model = loaded(torch, nn.ModuleList(couplings), PARAMETERS)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(points):
        a, b = points.chunk(2, 1)
        volume = 0
        for coupling in model:
            scale, shift = coupling(a).chunk(2, 1)
            a, b, volume = b * scale.tanh().exp() + shift, a, volume + scale.tanh()
        loss = ((a**2 + b**2) / 2 - volume).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return torch_losses(torch, step, batches(steps), wrap)


def in_jax(steps):
    def loss(p, points):
        a, b = jnp.split(points, 2, 1)
        volume = 0
        for i in range(COUPLINGS):
            hidden = jnp.tanh(a @ p[f"{i}.0.weight"].T + p[f"{i}.0.bias"])
            scale, shift = jnp.split(hidden @ p[f"{i}.2.weight"].T + p[f"{i}.2.bias"], 2, 1)
            a, b, volume = b * jnp.exp(jnp.tanh(scale)) + shift, a, volume + jnp.tanh(scale)
        return ((a**2 + b**2) / 2 - volume).mean()

    return jax_losses(loss, PARAMETERS, batches(steps), 0.05)
