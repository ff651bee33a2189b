"""Differentially private gradient descent: gradients of each example are clipped, summed and hidden in noise."""

import jax
import jax.numpy as jnp
import numpy as np
from common import loaded, normal, torch_losses

SHAPES = {"0__weight": (16, 4), "0__bias": (16,), "2__weight": (1, 16), "2__bias": (1,)}
PARAMETERS = normal(0, 0.5, **SHAPES)
RATE, CLIP, SIGMA, SIZE = 0.2, 1.0, 0.1, 32


def batches(steps):
    random = np.random.default_rng(1)
    for i in range(steps):
        x = random.standard_normal((SIZE, 4)).astype("float32")
        noise = normal(i, SIGMA * CLIP, **SHAPES)
        yield x, np.tanh(x[:, :1] - x[:, 1:2]), *noise.values()


def in_torch(torch, steps, wrap):
    nn = torch.nn
    model = loaded(torch, nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)), PARAMETERS)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)

    def apart(parameters, x, y):
        return ((torch.func.functional_call(model, parameters, (x,)) - y) ** 2).mean()

    def step(x, y, *noise):
        parameters = {k: p.detach() for k, p in model.named_parameters()}
        each = torch.func.vmap(torch.func.grad_and_value(apart), (None, 0, 0))
        gradients, losses = each(parameters, x, y)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).norm(dim=0)
        factors = (CLIP / norms).clamp(max=1)
        for (name, p), hidden in zip(model.named_parameters(), noise):
            p.grad = (torch.einsum("i,i...->...", factors, gradients[name]) + hidden) / SIZE
        optimizer.step()
        return losses.mean()

    return torch_losses(torch, step, batches(steps), wrap)


def in_jax(steps):
    def apart(p, x, y):
        return ((jnp.tanh(p["0.weight"] @ x + p["0.bias"]) @ p["2.weight"].T + p["2.bias"] - y) ** 2).mean()

    @jax.jit
    def step(p, x, y, *noise):
        losses, gradients = jax.vmap(jax.value_and_grad(apart), (None, 0, 0))(p, x, y)
        norms = jnp.sqrt(sum((g**2).reshape(SIZE, -1).sum(1) for g in gradients.values()))
        factors = jnp.minimum(CLIP / norms, 1)
        hidden = dict(zip(PARAMETERS, noise))  # JAX sorts the keys of `p`
        new = {k: p[k] - RATE * (jnp.tensordot(factors, g, 1) + hidden[k]) / SIZE for k, g in gradients.items()}
        return new, losses.mean()

    p, losses = PARAMETERS, []
    for batch in batches(steps):
        p, loss = step(p, *batch)
        losses.append(float(loss))
    return losses
