"""Learn to undo noise, then draw a shape out of pure noise: a diffusion model. An ordinary PyTorch script."""

import argparse
import copy
import math

import torch
import torch.nn.functional as F
from torch import nn


def spiral(n):
    turn = torch.rand(n).sqrt() * 3 * math.pi
    points = torch.stack([turn.cos(), turn.sin()], 1) * turn[:, None] / 8
    return points + 0.02 * torch.randn(n, 2)


class Schedule:
    """How much of the signal is left after each step of noise: a cosine."""

    def __init__(self, steps):
        t = torch.linspace(0, 1, steps + 1, dtype=torch.float64)
        left = torch.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2
        beta = (1 - left[1:] / left[:-1]).clamp(max=0.999)
        self.beta = beta.float()
        self.left = torch.cumprod(1 - beta, 0).float()

    def spoil(self, x, t, noise):
        left = self.left[t][:, None]
        return left.sqrt() * x + (1 - left).sqrt() * noise


class Denoiser(nn.Module):
    """Sees a point and the time, and says which noise was added."""

    def __init__(self, width, layers):
        super().__init__()
        self.register_buffer("rates", torch.exp(torch.linspace(0, 4, width // 2)))
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.enter = nn.Linear(2, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU()) for _ in range(layers)
        )
        self.leave = nn.Linear(width, 2)
        nn.init.zeros_(self.leave.weight)

    def forward(self, x, t):
        angle = t[:, None] * self.rates
        when = self.time(torch.cat([angle.sin(), angle.cos()], -1))
        h = self.enter(x)
        for block in self.blocks:
            h = h + block(h + when)
        return self.leave(h)


@torch.no_grad()
def draw(model, schedule, n):
    x = torch.randn(n, 2)
    steps = len(schedule.beta)
    for t in reversed(range(steps)):
        beta, left = schedule.beta[t], schedule.left[t]
        noise = model(x, torch.full((n,), t / steps))
        x = (x - beta / (1 - left).sqrt() * noise) / (1 - beta).sqrt()
        if t > 0:
            x = x + beta.sqrt() * torch.randn_like(x)
    return x


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200, help="steps of training")
    parser.add_argument("--noise-steps", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--width", type=int, default=48)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--print-every", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    schedule = Schedule(args.noise_steps)
    model = Denoiser(args.width, args.layers)
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-4)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=args.steps)
    for step in range(args.steps):
        x = spiral(args.batch_size)
        noise = torch.randn_like(x)
        t = torch.randint(args.noise_steps, (args.batch_size,))
        found = model(schedule.spoil(x, t, noise), t / args.noise_steps)
        loss = F.mse_loss(found, noise)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        rate.step()
        with torch.no_grad():
            for kept, new in zip(average.parameters(), model.parameters()):
                kept.lerp_(new, 0.05)
        if step % args.print_every == 0 or step == args.steps - 1:
            print(f"step {step}  loss {loss.item():.5f}  lr {rate.get_last_lr()[0]:.6f}")
    points = draw(average, schedule, 200)
    nearest = torch.cdist(points, spiral(500)).amin(1)
    print(f"mean distance of what it draws {nearest.mean().item():.4f}")


if __name__ == "__main__":
    main()
