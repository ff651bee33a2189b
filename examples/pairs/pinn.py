"""A physics-informed network: u with u''' = -cos(x) between 0 and 3, u(0) = u''(0) = 0 and u'(0) = 1, which is sin."""

import jax
import jax.numpy as jnp
import numpy as np
from common import jax_losses, loaded, normal, torch_losses

SHAPES = {"0__weight": (16, 1), "0__bias": (16,), "2__weight": (16, 16), "2__bias": (16,), "4__weight": (1, 16)}
PARAMETERS = normal(0, 0.5, **SHAPES, **{"4__bias": (1,)})
POINTS = np.linspace(0, 3, 32, dtype="float32")[:, None]


def in_torch(torch, steps, wrap):
    nn = torch.nn
    layers = nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1)
    model = loaded(torch, nn.Sequential(*layers), PARAMETERS)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.005)

    def slope(u, x):
        return torch.autograd.grad(u.sum(), x, create_graph=True)[0]

    def step(points):
        x = points.requires_grad_()
        u = model(x)
        first = slope(u, x)
        second = slope(first, x)
        third = slope(second, x)
        begin = u[0] ** 2 + (first[0] - 1) ** 2 + second[0] ** 2
        loss = ((third + x.cos()) ** 2).mean() + begin.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return torch_losses(torch, step, [(POINTS,)] * steps, wrap)


def in_jax(steps):
    def loss(p, points):
        def u(x):
            hidden = jnp.tanh(x * p["0.weight"][:, 0] + p["0.bias"])
            hidden = jnp.tanh(p["2.weight"] @ hidden + p["2.bias"])
            return p["4.weight"][0] @ hidden + p["4.bias"][0]

        first = jax.grad(u)
        second = jax.grad(first)
        third = jax.grad(second)
        x = points[:, 0]
        begin = u(x[0]) ** 2 + (first(x[0]) - 1) ** 2 + second(x[0]) ** 2
        return ((jax.vmap(third)(x) + jnp.cos(x)) ** 2).mean() + begin

    return jax_losses(loss, PARAMETERS, [(POINTS,)] * steps, 0.005)
