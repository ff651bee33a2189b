"""A language model of GPT-2's size on a TPU that one doesn't have: does its training fit, and how long is a step?

    python -m torchgrad_jax plan examples/plan_gpt.py --on v5e:1x1 --on v6e:1x1 --by-layers
    python -m torchgrad_jax examples/plan_gpt.py --layers 2 --width 48 --tokens 100 --length 32 --steps 3

It is an ordinary script, which trains on random tokens, on the accelerator that there is. `plan` runs it until its step
is known, with shapes in the place of values: 124 million parameters, autocast to bfloat16, AdamW. The step ends with
`zero_grad()`, so that no gradients stay, which would take as much memory as the parameters.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.enter, self.leave = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        parts = self.enter(self.norm1(x)).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.leave(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, tokens, length, width, layers, heads):
        super().__init__()
        self.tokens, self.places = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.read = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)
        self.read.weight = self.tokens.weight

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.read(self.norm(x))


def main():
    parser = argparse.ArgumentParser()
    for name, number in {"layers": 12, "width": 768, "heads": 12, "tokens": 50257, "length": 1024}.items():
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=10)
    args = parser.parse_args()

    device = torch.accelerator.current_accelerator() or torch.device("cpu")
    torch.manual_seed(0)
    model = GPT(args.tokens, args.length, args.width, args.layers, args.heads).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters")

    @torch.compile
    def step(tokens):
        with torch.autocast(device.type, torch.bfloat16):
            scores = model(tokens[:, :-1])
        loss = F.cross_entropy(scores.float().flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    for i in range(args.steps):
        tokens = torch.randint(0, args.tokens, (args.batch, args.length + 1), device=device)
        print(f"step {i}  loss {step(tokens).item():.4f}")


if __name__ == "__main__":
    main()
