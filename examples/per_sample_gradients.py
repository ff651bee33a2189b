"""Find wrong labels by the gradients of single examples: `vmap` of `grad`. An ordinary PyTorch script.

A tenth of the labels is wrong. An example whose label contradicts the others pulls harder at the weights than they do,
so the examples with the longest gradients are looked at first.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad_and_value, vmap


def draw(count, wrong):
    """Points on two rings, which ring each lies on, and which of these labels are wrong."""
    label = torch.randint(2, (count,))
    angle = torch.rand(count) * 2 * torch.pi
    radius = 1.0 + label + 0.15 * torch.randn(count)
    points = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    flipped = torch.rand(count) < wrong
    return points, torch.where(flipped, 1 - label, label), flipped


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--examples", type=int, default=400)
    parser.add_argument("--wrong", type=float, default=0.1, help="share of wrong labels")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--print-every", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    points, labels, flipped = draw(args.examples, args.wrong)
    model = nn.Sequential(nn.Linear(2, args.width), nn.Tanh(), nn.Linear(args.width, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss_of_one(weights, point, label):
        scores = functional_call(model, weights, (point[None],))
        return F.cross_entropy(scores, label[None])

    gradients_of_each = vmap(grad_and_value(loss_of_one), in_dims=(None, 0, 0))
    for step in range(args.steps):
        weights = {name: p.detach() for name, p in model.named_parameters()}
        gradients, losses = gradients_of_each(weights, points, labels)
        for name, p in model.named_parameters():
            p.grad = gradients[name].mean(0)  # the gradient of the mean loss
        optimizer.step()
        if step % args.print_every == 0 or step == args.steps - 1:
            print(f"step {step}  loss {losses.mean():.5f}")

    norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).norm(dim=0)
    suspects = norms.argsort(descending=True)[: int(flipped.sum())]
    print(f"{int(flipped.sum())} labels are wrong; of as many suspects {int(flipped[suspects].sum())} are")


if __name__ == "__main__":
    main()
