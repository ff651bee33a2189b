"""A density learned by bending a simple one: a normalizing flow. An ordinary PyTorch script."""

import argparse

import torch
from torch import nn
from torch.distributions import (
    AffineTransform,
    Independent,
    Normal,
    TanhTransform,
    Transform,
    TransformedDistribution,
    constraints,
)


def moons(n):
    """Two half circles, one in the arms of the other."""
    side = torch.randint(2, (n,)).float()
    turn = torch.rand(n) * torch.pi
    x = torch.where(side == 0, turn.cos(), 1 - turn.cos())
    y = torch.where(side == 0, turn.sin(), 0.5 - turn.sin())
    return torch.stack([x - 0.5, y - 0.25], 1) + 0.05 * torch.randn(n, 2)


class Coupling(Transform, nn.Module):
    """Shifts and scales one coordinate by functions of the other."""

    domain = constraints.real_vector
    codomain = constraints.real_vector
    bijective = True

    def __init__(self, width, swap):
        nn.Module.__init__(self)
        Transform.__init__(self)
        self.swap = swap
        self.net = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, 2))

    __hash__ = nn.Module.__hash__
    __eq__ = nn.Module.__eq__

    def parts(self, x):
        kept, moved = x.flip(-1).chunk(2, -1) if self.swap else x.chunk(2, -1)
        shift, scale = self.net(kept).chunk(2, -1)
        return kept, moved, shift, scale.tanh()

    def joined(self, kept, moved):
        out = torch.cat([kept, moved], -1)
        return out.flip(-1) if self.swap else out

    def _call(self, x):
        kept, moved, shift, scale = self.parts(x)
        return self.joined(kept, moved * scale.exp() + shift)

    def _inverse(self, y):
        kept, moved, shift, scale = self.parts(y)
        return self.joined(kept, (moved - shift) * (-scale).exp())

    def log_abs_det_jacobian(self, x, y):
        return self.parts(x)[3].squeeze(-1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=24)
    parser.add_argument("--print-every", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    layers = nn.ModuleList(Coupling(args.width, bool(i % 2)) for i in range(args.layers))
    scale = nn.Parameter(torch.ones(2))
    base = Independent(Normal(torch.zeros(2), torch.ones(2)), 1)
    optimizer = torch.optim.Adam([*layers.parameters(), scale], lr=5e-3)
    for step in range(args.steps):
        density = TransformedDistribution(base, [*layers, AffineTransform(0.0, scale, event_dim=1)])
        loss = -density.log_prob(moons(args.batch_size)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % args.print_every == 0 or step == args.steps - 1:
            print(f"step {step}  nats {loss.item():.5f}")

    with torch.no_grad():
        points = density.sample((300,))
        back = density.transforms[0].inv(density.transforms[0](points))
        print(f"there and back: {torch.allclose(back, points, atol=1e-5)}")
        print(f"nats of what it draws {-density.log_prob(points).mean().item():.4f}")
        # The same density seen through tanh, inside of a square.
        squeezed = TransformedDistribution(density, [TanhTransform(cache_size=1)])
        inside = squeezed.sample((5,))
        print("inside:", bool((inside.abs() < 1).all()), f"{squeezed.log_prob(inside).mean().item():.4f}")


if __name__ == "__main__":
    main()
