"""MAML: the gradient of the loss after a step of gradient descent, over waves of random phase."""

import jax
import jax.numpy as jnp
import numpy as np
from common import jax_losses, loaded, normal, torch_losses

SHAPES = {"0__weight": (24, 1), "0__bias": (24,), "2__weight": (1, 24), "2__bias": (1,)}
PARAMETERS = normal(0, 0.5, **SHAPES)
INNER, OUTER = 0.05, 0.02


def batches(steps):
    random = np.random.default_rng(1)
    for _ in range(steps):
        phase, x = random.uniform(0, np.pi, (4, 1, 1)), random.uniform(-4, 4, (4, 20, 1))
        yield x.astype("float32"), np.sin(x + phase).astype("float32")


def in_torch(torch, steps, wrap):
    nn = torch.nn
    model = loaded(torch, nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 1)), PARAMETERS)
    optimizer = torch.optim.SGD(model.parameters(), lr=OUTER)
    names = [name for name, _ in model.named_parameters()]

    def apart(parameters, x, y):
        out = torch.func.functional_call(model, dict(zip(names, parameters)), (x,))
        return ((out - y) ** 2).mean()

    def step(x, y):
        loss = 0
        for task in range(4):
            parameters = list(model.parameters())
            slopes = torch.autograd.grad(apart(parameters, x[task, :10], y[task, :10]), parameters, create_graph=True)
            adapted = [p - INNER * g for p, g in zip(parameters, slopes)]
            loss = loss + apart(adapted, x[task, 10:], y[task, 10:]) / 4
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return torch_losses(torch, step, batches(steps), wrap)


def in_jax(steps):
    def apart(p, x, y):
        out = jnp.tanh(x @ p["0.weight"].T + p["0.bias"]) @ p["2.weight"].T + p["2.bias"]
        return ((out - y) ** 2).mean()

    def of_task(p, x, y):
        slopes = jax.grad(apart)(p, x[:10], y[:10])
        return apart(jax.tree.map(lambda p, g: p - INNER * g, p, slopes), x[10:], y[10:])

    def loss(p, x, y):
        return jax.vmap(of_task, (None, 0, 0))(p, x, y).mean()

    return jax_losses(loss, PARAMETERS, batches(steps), OUTER)
