"""Solve Burgers' equation by a network whose derivatives obey it. An ordinary PyTorch script."""

import argparse
import itertools

import torch
from torch import nn
from torch.func import jacfwd, vmap


class Net(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        sizes = [2] + [width] * layers + [1]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        for layer in self.layers:
            nn.init.xavier_normal_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x, t):
        h = torch.stack([x, t], -1)
        for layer in self.layers[:-1]:
            h = torch.tanh(layer(h))
        # Zero at both ends and a sine at the start, whatever the network says.
        return (1 - x**2) * t * self.layers[-1](h).squeeze(-1) - torch.sin(torch.pi * x)


def derivative(u, x):
    (du,) = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)
    return du


def residual(net, x, t, viscosity):
    """What is left over of  u_t + u u_x = viscosity u_xx."""
    u = net(x, t)
    u_x, u_t = derivative(u, x), derivative(u, t)
    return u_t + u * u_x - viscosity * derivative(u_x, x)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60, help="steps of Adam")
    parser.add_argument("--polish", type=int, default=2, help="steps of L-BFGS after them")
    parser.add_argument("--points", type=int, default=128)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--viscosity", type=float, default=0.1)
    parser.add_argument("--print-every", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    net = Net(args.width, args.layers)
    draw = torch.quasirandom.SobolEngine(2, scramble=False).draw(args.points + 1)[1:]
    x = (2 * draw[:, 0] - 1).requires_grad_()
    t = draw[:, 1].clone().requires_grad_()

    def closure():
        optimizer.zero_grad()
        loss = residual(net, x, t, args.viscosity).square().mean()
        loss.backward()
        return loss

    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    for step in range(args.steps):
        loss = optimizer.step(closure)
        if step % args.print_every == 0 or step == args.steps - 1:
            print(f"step {step}  residual {loss.item():.5f}")
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=8, line_search_fn="strong_wolfe")
    for step in range(args.polish):
        print(f"polish {step}  residual {optimizer.step(closure).item():.5f}")

    # How steep the front is half-way, by forward mode this time.
    where, when = torch.linspace(-1, 1, 9), torch.full((9,), 0.5)
    slope = vmap(jacfwd(lambda x, t: net(x, t)))(where, when)
    print("slopes", " ".join(f"{s:.3f}" for s in slope.tolist()))


if __name__ == "__main__":
    main()
