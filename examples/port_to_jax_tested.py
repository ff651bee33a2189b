"""A block is ported to JAX by hand, and tested beside the original until nothing differs: from difference to fix.

    python examples/port_to_jax_tested.py

The port has three mistakes. Each failure names one value that differs; that one is mended, and the test runs again. The
last mistake changes no result at all, only a gradient.
"""

from functools import partial

import jax
import jax.numpy as jnp

import torchgrad_jax as torch
from torchgrad_jax import nn
from torchgrad_jax.testing import assert_matches_jax


class Block(nn.Module):
    """The original: attention of one head, then a small network, both with what came before added."""

    def __init__(self, width=8):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.up, self.down = nn.Linear(width, 16), nn.Linear(16, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        x = x + nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        gate = x.detach().mean(-1, keepdim=True)  # no gradient through the gate
        return x + gate * self.down(nn.functional.gelu(self.up(x)))


def port(p, x, eps=1e-6, approximate=True, stop=False):
    """The port, as it might be typed; the defaults are its mistakes."""
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    h = (x - mean) / jnp.sqrt(variance + eps) * p["norm.weight"] + p["norm.bias"]
    q, k, v = jnp.split(h @ p["qkv.weight"].T + p["qkv.bias"], 3, -1)
    scores = q @ k.T / jnp.sqrt(q.shape[-1])
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape, bool)), scores, -jnp.inf)
    x = x + jax.nn.softmax(scores) @ v
    gate = x.mean(-1, keepdims=True)
    gate = jax.lax.stop_gradient(gate) if stop else gate
    up = jax.nn.gelu(x @ p["up.weight"].T + p["up.bias"], approximate=approximate)
    return x + gate * (up @ p["down.weight"].T + p["down.bias"])


torch.manual_seed(0)
block, x = Block(), 0.05 * torch.randn(5, 8)
# What is looked up after each failure, and what it turns out to be.
FIXES = [
    ("flax's LayerNorm adds 1e-6 to the variance, PyTorch's adds 1e-5", {"eps": 1e-5}),
    ("jax.nn.gelu is the approximation with tanh, unless it is told otherwise", {"approximate": False}),
    ("the results agree, so a gradient goes where it should not: through the gate", {"stop": True}),
]

options = {}
for reason, fix in [*FIXES, ("", {})]:
    try:
        assert_matches_jax(block, partial(port, **options), [x], params=dict, dtypes=["float32"], order=1)
    except AssertionError as error:
        found = error.difference
        print(f"differs: the {found.kind} of {found.name}\n  {reason}")
        options |= fix
    else:
        print("values and gradients agree, with", options)
