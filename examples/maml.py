"""Learn a start from which a few steps fit any sine: second-order meta-learning. An ordinary PyTorch script."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call


def draw_tasks(n):
    """Waves of random height and phase: functions from x to y."""
    height, phase = torch.rand(n) * 4.9 + 0.1, torch.rand(n) * torch.pi
    return [lambda x, a=a, p=p: a * torch.sin(x + p) for a, p in zip(height, phase)]


def points(wave, shots):
    x = torch.rand(shots, 1) * 10 - 5
    return x, wave(x)


def adapted(model, weights, x, y, rate, steps, second_order):
    """The weights after some steps on one task, as functions of the weights before."""
    for _ in range(steps):
        loss = F.mse_loss(functional_call(model, weights, (x,)), y)
        gradients = torch.autograd.grad(loss, tuple(weights.values()), create_graph=second_order)
        weights = {name: weight - rate * g for (name, weight), g in zip(weights.items(), gradients)}
    return weights


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first-order", action="store_true", help="leave second derivatives out")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--tasks", type=int, default=4, help="tasks of a round")
    parser.add_argument("--shots", type=int, default=10, help="points of a task")
    parser.add_argument("--inner-steps", type=int, default=2)
    parser.add_argument("--inner-rate", type=float, default=0.02)
    parser.add_argument("--width", type=int, default=24)
    parser.add_argument("--print-every", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    model = nn.Sequential(
        nn.Linear(1, args.width), nn.Tanh(), nn.Linear(args.width, args.width), nn.Tanh(), nn.Linear(args.width, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    inner = (args.inner_rate, args.inner_steps)
    for turn in range(args.rounds):
        loss = 0.0
        for wave in draw_tasks(args.tasks):
            weights = dict(model.named_parameters())
            weights = adapted(model, weights, *points(wave, args.shots), *inner, not args.first_order)
            x, y = points(wave, args.shots)
            loss = loss + F.mse_loss(functional_call(model, weights, (x,)), y) / args.tasks
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if turn % args.print_every == 0 or turn == args.rounds - 1:
            print(f"round {turn}  loss after adapting {loss.item():.5f}")


if __name__ == "__main__":
    main()
