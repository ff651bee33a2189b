"""A multilayer perceptron that tells the arms of a spiral apart."""

import jax
import jax.numpy as jnp
import numpy as np
from common import jax_losses, loaded, normal, torch_losses

PARAMETERS = normal(0, 0.5, **{"0__weight": (32, 2), "0__bias": (32,), "2__weight": (3, 32), "2__bias": (3,)})


def batches(steps):
    labels = np.arange(90) % 3
    radius = np.linspace(0.1, 1, 90)
    angle = 4 * radius + labels * 2 * np.pi / 3
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).astype("float32")
    return [(points, labels)] * steps


def in_torch(torch, steps, wrap):
    nn = torch.nn
    model = loaded(torch, nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 3)), PARAMETERS)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return torch_losses(torch, step, batches(steps), wrap)


def in_jax(steps):
    def loss(p, x, y):
        hidden = jnp.tanh(x @ p["0.weight"].T + p["0.bias"])
        scores = jax.nn.log_softmax(hidden @ p["2.weight"].T + p["2.bias"])
        return -jnp.take_along_axis(scores, y[:, None], 1).mean()

    return jax_losses(loss, PARAMETERS, batches(steps), 0.3, 0.9)
