"""A deep equilibrium model: its output is a fixed point, its gradient that of the implicit function theorem."""

import jax
import jax.numpy as jnp
import numpy as np
from common import jax_losses, normal, torch_losses

WIDTH, ROUNDS = 12, 60
PARAMETERS = normal(0, 0.15, mix=(WIDTH, WIDTH), read=(2, WIDTH), shift=(WIDTH,), answer=(WIDTH, 1))


def batches(steps):
    random = np.random.default_rng(1)
    x = random.uniform(-2, 2, (64, 2)).astype("float32")
    return [(x, np.sin(x[:, :1]) * x[:, 1:])] * steps


def in_torch(torch, steps, wrap):
    class FixedPoint(torch.autograd.Function):
        """z = tanh(z @ mix / 2 + given), found by iterating."""

        @staticmethod
        def forward(ctx, mix, given):
            z = torch.zeros_like(given)
            for _ in range(ROUNDS):
                z = torch.tanh(z @ mix / 2 + given)
            ctx.save_for_backward(mix, z)
            return z

        @staticmethod
        def backward(ctx, g):
            mix, z = ctx.saved_tensors
            slope, adjoint = 1 - z**2, torch.zeros_like(g)
            for _ in range(ROUNDS):
                adjoint = g + (adjoint * slope) @ mix.t() / 2
            inner = adjoint * slope
            return z.t() @ inner / 2, inner

    p = {k: torch.tensor(v, requires_grad=True) for k, v in PARAMETERS.items()}
    optimizer = torch.optim.SGD(p.values(), lr=0.1, momentum=0.8)

    def step(x, y):
        z = FixedPoint.apply(p["mix"], x @ p["read"] + p["shift"])
        loss = ((z @ p["answer"] - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return torch_losses(torch, step, batches(steps), wrap)


def in_jax(steps):
    @jax.custom_vjp
    def fixed_point(mix, given):
        return jax.lax.fori_loop(0, ROUNDS, lambda _, z: jnp.tanh(z @ mix / 2 + given), jnp.zeros_like(given))

    def forward(mix, given):
        z = fixed_point(mix, given)
        return z, (mix, given, z)

    def backward(saved, g):
        mix, given, z = saved
        _, by_z = jax.vjp(lambda z: jnp.tanh(z @ mix / 2 + given), z)
        adjoint = jax.lax.fori_loop(0, ROUNDS, lambda _, a: g + by_z(a)[0], jnp.zeros_like(g))
        return jax.vjp(lambda mix, given: jnp.tanh(z @ mix / 2 + given), mix, given)[1](adjoint)

    fixed_point.defvjp(forward, backward)

    def loss(p, x, y):
        z = fixed_point(p["mix"], x @ p["read"] + p["shift"])
        return ((z @ p["answer"] - y) ** 2).mean()

    return jax_losses(loss, PARAMETERS, batches(steps), 0.1, 0.8)
