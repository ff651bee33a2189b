"""A module is ported to flax: the weights move over, layer by layer, and both give the same, gradients too.

    python examples/port_to_flax.py

A port with another epsilon is compared layer by layer: the table names the norm, after which everything is different.
Afterwards the port is trained by optax, and its weights come back.
"""

import flax.linen as linen
import jax
import jax.numpy as jnp
import numpy as np
import optax

import torchgrad_jax as torch
from torchgrad_jax import nn
from torchgrad_jax.interop import compare, weights
from torchgrad_jax.testing import assert_matches_jax


class Here(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU())
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


class There(linen.Module):
    epsilon: float = 1e-5

    @linen.compact
    def __call__(self, x):
        x = linen.Conv(4, (3, 3), padding="VALID")(jnp.moveaxis(x, 1, -1))
        x = linen.relu(linen.GroupNorm(2, epsilon=self.epsilon)(x))
        return linen.Dense(2)(x.mean((1, 2)))


NAMES = {"features.0": "Conv_0", "features.1": "GroupNorm_0", "head": "Dense_0"}

torch.manual_seed(0)
here, there = Here(), There()
x = np.random.default_rng(0).normal(size=(16, 1, 8, 8)).astype(np.float32)
labels = (x.mean((1, 2, 3)) > 0).astype(np.int32)
variables = weights.to_flax(here, names=NAMES)
weights.assert_outputs_agree(here, lambda x: there.apply(variables, x), x)
report = assert_matches_jax(
    here, there.apply, [x], order=1, dtypes=["float32"], params=lambda state: weights.to_flax(here, state, names=NAMES)
)
print("the same in flax:", ", ".join(report.compared))
print(compare(here, There(epsilon=0.1).bind(variables), x, names=NAMES))

optimizer = optax.adam(0.05)
state = optimizer.init(variables)


@jax.jit
def step(variables, state):
    def loss(variables):
        return optax.softmax_cross_entropy_with_integer_labels(there.apply(variables, x), labels).mean()

    value, g = jax.value_and_grad(loss)(variables)
    updates, state = optimizer.update(g, state)
    return optax.apply_updates(variables, updates), state, value


losses = []
for _ in range(30):
    variables, state, value = step(variables, state)
    losses.append(float(value))
weights.from_flax(here, variables, names=NAMES)
weights.assert_outputs_agree(here, lambda x: there.apply(variables, x), x)
print(f"trained in flax from {losses[0]:.2f}, and back: {losses[-1] < losses[0]}")
