"""Train a small language model whose attention is a kernel of one's own: in JAX, with a gradient written by hand.

Under PyTorch the attention is PyTorch's. The kernel has a bug: its gradient forgets that the scores were scaled.
"""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn

TEXT = "the cat sat on the mat and the dog sat on the log while the rat ran past the cat and the dog. " * 4


def make_attention():
    """Causal attention over (batch, heads, time, width)."""
    if not hasattr(torch, "from_jax"):
        return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
    import jax
    import jax.numpy as jnp

    def weights(q, k):
        scores = q @ jnp.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
        later = jnp.triu(jnp.ones(scores.shape, bool), 1)
        return jax.nn.softmax(jnp.where(later, -jnp.inf, scores), axis=-1)

    @jax.custom_vjp
    def attention(q, k, v):
        return weights(q, k) @ v

    def forward(q, k, v):
        p = weights(q, k)
        return p @ v, (q, k, v, p)

    def backward(saved, g):
        q, k, v, p = saved
        gp = g @ jnp.swapaxes(v, -1, -2)
        scores = p * (gp - jnp.sum(gp * p, axis=-1, keepdims=True))  # and / math.sqrt(q.shape[-1])
        return scores @ k, jnp.swapaxes(scores, -1, -2) @ q, jnp.swapaxes(p, -1, -2) @ g

    attention.defvjp(forward, backward)
    return torch.from_jax(attention)


ATTENTION = make_attention()


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)

    def forward(self, x):
        batch, time, width = x.shape
        split = self.qkv(self.norm(x)).view(batch, time, 3, self.heads, width // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = ATTENTION(q, k, v).transpose(1, 2).reshape(batch, time, width)
        return x + self.project(mixed)


class Model(nn.Module):
    def __init__(self, letters, width=16, heads=2):
        super().__init__()
        self.embed = nn.Embedding(letters, width)
        self.blocks = nn.Sequential(Block(width, heads), Block(width, heads))
        self.predict = nn.Linear(width, letters)

    def forward(self, x):
        return self.predict(self.blocks(self.embed(x)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(0)
    letters = sorted(set(TEXT))
    data = torch.tensor([letters.index(c) for c in TEXT])
    model = Model(len(letters))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(args.steps):
        begin = torch.randint(len(data) - 17, (8,))
        batch = torch.stack([data[b : b + 17] for b in begin.tolist()])
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        print(f"step {step + 1}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
