"""A variational autoencoder of points near a circle; the noise comes from outside."""

import jax.numpy as jnp
import numpy as np
from common import jax_losses, loaded, normal, torch_losses

SHAPES = {
    "encode__0__weight": (32, 2),
    "encode__0__bias": (32,),
    "encode__2__weight": (4, 32),
    "encode__2__bias": (4,),
    "decode__0__weight": (32, 2),
    "decode__0__bias": (32,),
    "decode__2__weight": (2, 32),
    "decode__2__bias": (2,),
}
PARAMETERS = normal(0, 0.4, **SHAPES)


def batches(steps):
    random = np.random.default_rng(1)
    for _ in range(steps):
        angle = random.uniform(0, 2 * np.pi, 64)
        points = 2 * np.stack([np.cos(angle), np.sin(angle)], 1) + random.normal(0, 0.1, (64, 2))
        yield points.astype("float32"), random.standard_normal((64, 2)).astype("float32")


def in_torch(torch, steps, wrap):
    nn = torch.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 4))
            self.decode = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))

    model = loaded(torch, Model(), PARAMETERS)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)

    def step(x, noise):
        mean, log_variance = model.encode(x).chunk(2, 1)
        code = mean + (log_variance / 2).exp() * noise
        apart = (model.decode(code) - x).pow(2).sum(1)
        divergence = (mean**2 + log_variance.exp() - 1 - log_variance).sum(1) / 2
        loss = (apart + 0.1 * divergence).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return torch_losses(torch, step, batches(steps), wrap)


def in_jax(steps):
    def layers(p, name, x):
        hidden = jnp.tanh(x @ p[f"{name}.0.weight"].T + p[f"{name}.0.bias"])
        return hidden @ p[f"{name}.2.weight"].T + p[f"{name}.2.bias"]

    def loss(p, x, noise):
        mean, log_variance = jnp.split(layers(p, "encode", x), 2, 1)
        code = mean + jnp.exp(log_variance / 2) * noise
        apart = ((layers(p, "decode", code) - x) ** 2).sum(1)
        divergence = (mean**2 + jnp.exp(log_variance) - 1 - log_variance).sum(1) / 2
        return (apart + 0.1 * divergence).mean()

    return jax_losses(loss, PARAMETERS, batches(steps), 0.02)
