"""digits.py, rewritten for another code base, with a bug: the momentum of a BatchNorm means the opposite there."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

FONT = ["757", "262", "717", "717", "557", "747", "747", "711", "757", "757"]


def draw(count):
    """Noisy pictures of ten patterns, and which pattern each shows."""
    patterns = torch.tensor([[int(c) for c in rows] for rows in FONT])
    bits = torch.stack([patterns >> shift & 1 for shift in (2, 1, 0)], 2).float()
    labels = torch.randint(10, (count,))
    pictures = F.interpolate(bits[labels][:, None], scale_factor=4.0)
    return pictures + 0.4 * torch.randn_like(pictures), labels


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8, momentum=0.9)
        self.classify = nn.Linear(8 * 36, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return self.classify(x.flatten(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(args.steps):
        pictures, labels = draw(32)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(pictures), labels)
        loss.backward()
        optimizer.step()
        print(f"step {step + 1}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
