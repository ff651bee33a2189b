"""Train a small convolutional network to tell drawn shapes apart. An ordinary PyTorch script.

Nothing in it knows of torchgrad_jax. Run it with either:

    python -m torchgrad_jax examples/train_cnn.py [--compile]
    python examples/train_cnn.py [--compile]
"""

import argparse
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

SHAPES = ("square", "disc", "cross", "stripes")
SIZE = 16


def draw(n):
    """Images of shapes of random size and place under noise, and which shape each shows."""
    labels = torch.randint(len(SHAPES), (n,))
    radius = torch.rand(n, 1, 1) * 2 + 4
    center = torch.rand(n, 2, 1, 1) * 4 + 6
    grid = torch.arange(float(SIZE))
    dy, dx = grid[:, None] - center[:, 0], grid[None, :] - center[:, 1]
    inside = (dx.abs() < radius) & (dy.abs() < radius)
    kinds = torch.stack(
        [inside, dx**2 + dy**2 < radius**2, inside & ((dx.abs() < 1.5) | (dy.abs() < 1.5)), inside & (grid % 4 < 2)]
    )
    images = kinds[labels, torch.arange(n)].float()
    return images[:, None] + 0.3 * torch.randn(n, 1, SIZE, SIZE), labels


class Net(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
        )
        self.classify = nn.Linear(2 * width * 16, len(SHAPES))

    def forward(self, x):
        return self.classify(self.features(x).flatten(1))


def progress(done, total, loss, rate):
    bar = "#" * (30 * done // total)
    sys.stdout.write(f"\r[{bar:<30}] {done}/{total}  loss {loss:.3f}  {rate:5.0f} steps/s ")
    sys.stdout.flush()


def train(model, loader, epochs, compiled, device):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    if compiled:
        step = torch.compile(step)
    model.train()
    losses, total = [], epochs * len(loader)
    start = 0.0
    for _ in range(epochs):
        for x, y in loader:
            losses.append(step(x.to(device), y.to(device)).item())
            if len(losses) == 3:  # the first steps compile
                start = time.perf_counter()
            rate = (len(losses) - 3) / (time.perf_counter() - start) if len(losses) > 3 else 0.0
            if sys.stdout.isatty() or len(losses) in (1, total):
                progress(len(losses), total, losses[-1], rate)
    print()
    return losses


@torch.no_grad()
def accuracy(model, loader, device):
    model.eval()
    right = 0
    for x, y in loader:
        right += (model(x.to(device)).argmax(1) == y.to(device)).sum().item()
    return right / len(loader.dataset)


def plot(losses, path, title):
    """The loss over the steps, and its running mean, as an SVG picture."""
    width, height, left, bottom = 640, 320, 56, 40
    top_loss = max(losses) * 1.05
    x = [left + (width - left - 16) * i / max(len(losses) - 1, 1) for i in range(len(losses))]
    # A weighted mean of the steps so far: the weights are divided by their sum, so that the first loss, which is high,
    # counts no more than its share.
    total, weights, smooth = 0.0, 0.0, []
    for value in losses:
        total, weights = 0.9 * total + value, 0.9 * weights + 1
        smooth.append(total / weights)

    def y(value):
        return 36 + (height - bottom - 36) * (1 - value / top_loss)

    def line(values, style):
        points = " ".join(f"{a:.1f},{y(v):.1f}" for a, v in zip(x, values))
        return f'<polyline points="{points}" fill="none" {style}/>'

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="12"><rect width="100%" height="100%" fill="white"/>',
        f'<text x="{width / 2}" y="20" text-anchor="middle" font-size="14">{title}</text>',
    ]
    for i in range(5):
        value = top_loss * i / 4
        parts.append(
            f'<line x1="{left}" x2="{width - 16}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>'
            f'<text x="{left - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.2f}</text>'
        )
    parts += [
        line(losses, 'stroke="#9bc" stroke-width="1"'),
        line(smooth, 'stroke="#036" stroke-width="2"'),
        f'<text x="{width / 2}" y="{height - 10}" text-anchor="middle">step (of {len(losses)})</text>',
        "</svg>",
    ]
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("\n".join(parts) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description="Tell drawn shapes apart.")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--examples", type=int, default=2400)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true", help="compile the training step")
    parser.add_argument("--plot", help="where to write the loss curve, as SVG")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    data = TensorDataset(*draw(args.examples))
    held_out = args.examples // 6
    training, testing = random_split(data, [args.examples - held_out, held_out])
    loader = DataLoader(training, args.batch_size, shuffle=True, drop_last=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Net().to(device)
    how = f"compiled on {device}" if args.compile else f"eager on {device}"
    count = sum(p.numel() for p in model.parameters())
    print(f"torch {torch.__version__}, {how}: {count} parameters, {len(training)} images")
    losses = train(model, loader, args.epochs, args.compile, device)
    score = accuracy(model, DataLoader(testing, 200), device)
    print(f"first loss {losses[0]:.4f}, last loss {losses[-1]:.4f}, accuracy {score:.3f}")
    if args.plot:
        plot(losses, args.plot, f"Training loss, {how}")
        print(f"loss curve in {args.plot}")
    return 0 if score > 0.8 else 1


if __name__ == "__main__":
    sys.exit(main())
