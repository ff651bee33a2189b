"""A force field written in PyTorch runs inside of a JAX program: `jit`, `vmap`, `grad` and `scan` go through it.

    python examples/force_field.py

The energy of seven atoms comes from distances and a small network. A hundred copies of the molecule move for 200 steps
in one compiled program of JAX; their energy stays what it was.
"""

import jax
import jax.numpy as jnp
import numpy as np

import torchgrad_jax as torch
from torchgrad_jax import nn


class ForceField(nn.Module):
    def __init__(self, features=16, cutoff=4.0):
        super().__init__()
        self.register_buffer("centers", torch.linspace(0.5, cutoff, features))
        self.net = nn.Sequential(nn.Linear(features, 32), nn.SiLU(), nn.Linear(32, 1))
        self.cutoff = cutoff

    def forward(self, positions):
        n = positions.shape[0]
        i, j = torch.triu_indices(n, n, offset=1)
        distance = (positions[i] - positions[j]).norm(dim=-1)
        basis = torch.exp(-4 * (distance[:, None] - self.centers) ** 2)
        smooth = torch.where(distance < self.cutoff, 0.5 + 0.5 * torch.cos(torch.pi * distance / self.cutoff), 0.0)
        bonds = 0.5 * (distance - 1.5) ** 2 * smooth  # keeps the molecule together
        return (self.net(basis).squeeze(-1) * smooth + bonds).sum()


torch.manual_seed(0)
model = ForceField()
energy = torch.to_jax(model)  # (parameters, positions) -> energy, a function of JAX
weights = energy.params

rng = np.random.default_rng(0)
ring = np.stack([np.cos(np.arange(7)), np.sin(np.arange(7)), 0.3 * np.arange(7)], 1) * 1.5
start = jnp.asarray(ring + 0.05 * rng.normal(size=(100, 7, 3)), jnp.float32)
forces = jax.jit(jax.vmap(jax.grad(lambda x: -energy(weights, x))))

x = torch.tensor(np.asarray(start[0])).requires_grad_()
(slope,) = torch.autograd.grad(model(x), x)
np.testing.assert_allclose(-slope.numpy(), forces(start)[0], rtol=1e-4, atol=1e-5)
print("the forces of jax.jit(jax.vmap(jax.grad(energy))) are those of backward()")


@jax.jit
def simulate(x, steps=200, dt=0.02):
    def step(state, _):
        x, v, f = state
        v = v + 0.5 * dt * f
        x = x + dt * v
        f = forces(x)
        v = v + 0.5 * dt * f
        return (x, v, f), jax.vmap(lambda x: energy(weights, x))(x) + 0.5 * (v**2).sum((1, 2))

    _, total = jax.lax.scan(step, (x, jnp.zeros_like(x), forces(x)), None, length=steps)
    return total


total = simulate(start)
drift = jnp.abs(total - total[0]).max() / jnp.abs(total[0]).mean()
print(f"100 molecules, 200 steps: energy drifts by {100 * float(drift):.2f} %")
assert drift < 0.02
