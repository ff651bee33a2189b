"""How sure is a network? A Laplace approximation: the curvature of the loss says it. An ordinary PyTorch script.

A small network learns a curve from points in two stretches. Around the weights that it ends with, the loss is nearly a
parabola, whose Hessian is the inverse covariance of the weights. So the answers get error bars: narrow where there were
points, wide in the gap and outside.
"""

import argparse

import torch
from torch import nn
from torch.func import functional_call, hessian, jacrev, vmap


def draw(count, noise):
    """Noisy points of a curve, none of them between -1 and 1."""
    x = torch.rand(count, 1) * 2 + 1
    x = torch.where(torch.rand(count, 1) < 0.5, x, -x)
    return x, torch.sin(2 * x) + noise * torch.randn(count, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--points", type=int, default=60)
    parser.add_argument("--width", type=int, default=12)
    parser.add_argument("--noise", type=float, default=0.1)
    parser.add_argument("--prior", type=float, default=1.0, help="inverse variance of weights before any point is seen")
    parser.add_argument("--print-every", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_default_dtype(torch.float64)  # a Hessian is inverted

    x, y = draw(args.points, args.noise)
    model = nn.Sequential(nn.Linear(1, args.width), nn.Tanh(), nn.Linear(args.width, 1))
    names, shapes = zip(*[(name, p.shape) for name, p in model.named_parameters()])
    sizes = [shape.numel() for shape in shapes]
    flat = nn.utils.parameters_to_vector(model.parameters()).detach().requires_grad_()

    def answer(flat, x):
        parts = [part.view(shape) for part, shape in zip(flat.split(sizes), shapes)]
        return functional_call(model, dict(zip(names, parts)), (x,))

    def minus_log_posterior(flat):
        return ((answer(flat, x) - y) ** 2).sum() / (2 * args.noise**2) + args.prior * (flat**2).sum() / 2

    optimizer = torch.optim.LBFGS([flat], lr=0.5, max_iter=1)

    def closure():
        optimizer.zero_grad()
        loss = minus_log_posterior(flat)
        loss.backward()
        return loss

    for step in range(args.steps):
        loss = optimizer.step(closure)
        if step % args.print_every == 0 or step == args.steps - 1:
            print(f"step {step}  loss {loss.item():.3f}")

    best = flat.detach()
    precision = hessian(minus_log_posterior)(best)
    values, vectors = torch.linalg.eigh(precision)
    values = values.clamp(min=args.prior)  # directions that no point bends keep what was known before
    grid = torch.linspace(-4, 4, 9)[:, None]
    slopes = vmap(jacrev(lambda flat, x: answer(flat, x[None])[0, 0]), in_dims=(None, 0))(best, grid)
    spread = ((slopes @ vectors) ** 2 / values).sum(1).sqrt()
    for place, mean, deviation in zip(grid[:, 0], answer(best, grid)[:, 0], spread):
        print(f"at {place.item():4.1f}  answer {mean.item():6.2f}  give or take {deviation.item():.2f}")
    seen = (grid[:, 0].abs() > 0.9) & (grid[:, 0].abs() < 3.1)
    print("surer where there were points:", bool(spread[seen].max() < spread[~seen].min()))


if __name__ == "__main__":
    main()
