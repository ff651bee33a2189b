"""Paint one image in the style of another: optimize pixels, by L-BFGS. An ordinary PyTorch script.

Images are drawn by formulas and the network has random weights, whose features do for textures.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


def picture(kind, size):
    grid = torch.linspace(0, 6.28, size)
    y, x = grid[:, None], grid[None, :]
    if kind == "content":
        layers = (torch.sin(x) * torch.cos(y), ((x - 3) ** 2 + (y - 3) ** 2 < 3).float(), x * y / 40)
    else:
        layers = (torch.sin(4 * x + y), torch.sin(5 * y), torch.cos(3 * (x + y)))
    return torch.stack([layer.expand(size, size) for layer in layers]).mul(0.4).add(0.5)[None]


def gram(features):
    """How the channels of a layer go together, wherever in the image."""
    n, channels, height, width = features.shape
    flat = features.reshape(n * channels, height * width)
    return flat @ flat.t() / features.numel()


class Eye(nn.Module):
    """A network that is looked into: hooks keep what its layers see."""

    def __init__(self, width):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.5, 0.5, 0.5]).view(-1, 1, 1))
        self.layers = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            nn.AvgPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
        )
        self.seen = {}
        for name in ("0", "2", "5"):
            self.layers.get_submodule(name).register_forward_hook(self.keeper(name))
        self.requires_grad_(False)

    def keeper(self, name):
        def keep(module, args, output):
            self.seen[name] = output

        return keep

    def forward(self, image):
        self.seen.clear()
        self.layers((image - self.mean) / 0.25)
        return dict(self.seen)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=4, help="steps of L-BFGS")
    parser.add_argument("--size", type=int, default=24)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--style", type=float, default=1e3, help="weight of the style")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    eye = Eye(args.width).eval()
    content, style = picture("content", args.size), picture("style", args.size)
    wanted_content = eye(content)["2"].detach()
    wanted_style = {name: gram(seen).detach() for name, seen in eye(style).items()}
    image = content.clone().requires_grad_(True)
    optimizer = torch.optim.LBFGS([image], max_iter=4, line_search_fn="strong_wolfe")
    losses = {}

    def closure():
        with torch.no_grad():
            image.clamp_(0, 1)
        optimizer.zero_grad()
        seen = eye(image)
        losses["content"] = F.mse_loss(seen["2"], wanted_content)
        losses["style"] = sum(F.mse_loss(gram(seen[k]), v) for k, v in wanted_style.items())
        total = losses["content"] + args.style * losses["style"]
        total.backward()
        return total

    for step in range(args.steps):
        total = optimizer.step(closure)
        parts = "  ".join(f"{name} {loss.item():.5f}" for name, loss in losses.items())
        print(f"step {step}  total {total.item():.4f}  {parts}")
    with torch.no_grad():
        image.clamp_(0, 1)
    print(f"moved by {(image - content).abs().mean().item():.5f}")


if __name__ == "__main__":
    main()
