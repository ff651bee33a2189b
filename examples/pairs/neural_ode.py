"""A neural differential equation whose gradient solves the adjoint equation backwards in time."""

import jax
import jax.numpy as jnp
import numpy as np
from common import jax_losses, normal, torch_losses

ROUNDS = 10
STEP = 1 / ROUNDS
PARAMETERS = normal(0, 0.5, inner=(2, 16), shift=(16,), outer=(16, 2))
NAMES = list(PARAMETERS)


def batches(steps):
    random = np.random.default_rng(1)
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    for _ in range(steps):
        x = random.standard_normal((32, 2))
        yield x.astype("float32"), (x @ turn).astype("float32")


def runge_kutta(slope, y):
    """One step of the classical method, for a tuple of things that can be added."""

    def moved(k, by):
        return [a + by * b for a, b in zip(y, k)]

    k1 = slope(*y)
    k2 = slope(*moved(k1, STEP / 2))
    k3 = slope(*moved(k2, STEP / 2))
    k4 = slope(*moved(k3, STEP))
    return [a + STEP / 6 * (b + 2 * c + 2 * d + e) for a, b, c, d, e in zip(y, k1, k2, k3, k4)]


def in_torch(torch, steps, wrap):
    def field(y, inner, shift, outer):
        return torch.tanh(y @ inner + shift) @ outer

    class Solve(torch.autograd.Function):
        @staticmethod
        def forward(ctx, y, *p):
            for _ in range(ROUNDS):
                (y,) = runge_kutta(lambda y: [field(y, *p)], [y])
            ctx.save_for_backward(y, *p)
            return y

        @staticmethod
        def backward(ctx, g):
            y, *p = ctx.saved_tensors

            def slope(y, adjoint, *_):
                with torch.enable_grad():
                    leaves = [t.detach().requires_grad_() for t in (y, *p)]
                    value = field(*leaves)
                    slopes = torch.autograd.grad(value, leaves, adjoint)
                return [-value.detach(), slopes[0], *slopes[1:]]

            state = [y, g, *map(torch.zeros_like, p)]
            for _ in range(ROUNDS):
                state = runge_kutta(slope, state)
            return tuple(state[1:])

    p = [torch.tensor(PARAMETERS[k], requires_grad=True) for k in NAMES]
    optimizer = torch.optim.SGD(p, lr=0.2)

    def step(x, y):
        loss = ((Solve.apply(x, *p) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return torch_losses(torch, step, batches(steps), wrap)


def in_jax(steps):
    def field(y, inner, shift, outer):
        return jnp.tanh(y @ inner + shift) @ outer

    @jax.custom_vjp
    def solve(y, *p):
        for _ in range(ROUNDS):
            (y,) = runge_kutta(lambda y: [field(y, *p)], [y])
        return y

    def forward(y, *p):
        y = solve(y, *p)
        return y, (y, p)

    def backward(saved, g):
        y, p = saved

        def slope(y, adjoint, *_):
            value, pull = jax.vjp(field, y, *p)
            return [-value, *pull(adjoint)]

        state = [y, g, *map(jnp.zeros_like, p)]
        for _ in range(ROUNDS):
            state = runge_kutta(slope, state)
        return tuple(state[1:])

    solve.defvjp(forward, backward)

    def loss(p, x, y):
        return ((solve(x, *(p[k] for k in NAMES)) - y) ** 2).mean()

    return jax_losses(loss, PARAMETERS, batches(steps), 0.2)
