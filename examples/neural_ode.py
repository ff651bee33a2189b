"""Learn the law of motion of a spiral from its path: a neural ODE. An ordinary PyTorch script.

Gradients come by the adjoint method: a custom Function that solves a second equation backwards.
"""

import argparse
import itertools

import torch
from torch import nn


def runge_kutta(f, y, t, h):
    """One step of the classical method, for a tuple of tensors."""

    def moved(k, by):
        return tuple(a + by * b for a, b in zip(y, k))

    k1 = f(t, y)
    k2 = f(t + h / 2, moved(k1, h / 2))
    k3 = f(t + h / 2, moved(k2, h / 2))
    k4 = f(t + h, moved(k3, h))
    return tuple(a + h / 6 * (b + 2 * c + 2 * d + e) for a, b, c, d, e in zip(y, k1, k2, k3, k4))


class Adjoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, law, times, y, *weights):
        path = [y]
        for t0, t1 in itertools.pairwise(times):
            (y,) = runge_kutta(lambda t, s: (law(t, s[0]),), (y,), t0, t1 - t0)
            path.append(y)
        path = torch.stack(path)
        ctx.law, ctx.weights = law, weights
        ctx.save_for_backward(times, path)
        return path

    @staticmethod
    def backward(ctx, g):
        times, path = ctx.saved_tensors
        law, weights = ctx.law, ctx.weights

        def back(t, state):
            y, adjoint = state[0].detach().requires_grad_(), state[1]
            with torch.enable_grad():
                speed = law(t, y)
                found = torch.autograd.grad(speed, (y, *weights), -adjoint, allow_unused=True)
            return speed.detach(), *found

        adjoint = g[-1]
        sums = tuple(torch.zeros_like(w) for w in weights)
        for i in range(len(times) - 1, 0, -1):
            state = (path[i], adjoint, *sums)
            _, adjoint, *sums = runge_kutta(back, state, times[i], times[i - 1] - times[i])
            adjoint = adjoint + g[i - 1]
        return None, None, adjoint, *sums


class Law(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 2))
        for layer in (self.net[0], self.net[2]):
            nn.init.normal_(layer.weight, std=0.3)
            nn.init.constant_(layer.bias, 0)

    def forward(self, t, y):
        return self.net(y**3)


def solve(law, times, y, adjoint):
    if adjoint:
        return Adjoint.apply(law, times, y, *law.parameters())
    path = [y]
    for t0, t1 in itertools.pairwise(times):
        (y,) = runge_kutta(lambda t, s: (law(t, s[0]),), (y,), t0, t1 - t0)
        path.append(y)
    return torch.stack(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--times", type=int, default=40, help="points of the true path")
    parser.add_argument("--length", type=int, default=6, help="points of a piece to learn from")
    parser.add_argument("--batch-size", type=int, default=10)
    parser.add_argument("--width", type=int, default=24)
    parser.add_argument("--no-adjoint", action="store_true", help="keep the graph of the solver")
    parser.add_argument("--print-every", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    matrix = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
    times = torch.linspace(0, 5, args.times)
    with torch.no_grad():
        truth = solve(lambda t, y: y**3 @ matrix, times, torch.tensor([[2.0, 0.0]]), False)
    law = Law(args.width)
    optimizer = torch.optim.RMSprop(law.parameters(), lr=1e-2)
    for step in range(args.steps):
        first = torch.randperm(args.times - args.length)[: args.batch_size]
        target = torch.stack([truth[first + i, 0] for i in range(args.length)])
        optimizer.zero_grad()
        path = solve(law, times[: args.length], truth[first, 0], not args.no_adjoint)
        loss = (path - target).abs().mean()
        loss.backward()
        optimizer.step()
        if step % args.print_every == 0 or step == args.steps - 1:
            print(f"step {step}  loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
