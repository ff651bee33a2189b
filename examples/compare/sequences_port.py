"""sequences.py with its loop rewritten, and a bug: it clips gradients after the step, which does nothing."""

import argparse

import torch
from torch import nn


class Adder(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.read = nn.GRU(2, width, batch_first=True)
        self.answer = nn.Linear(width, 1)

    def forward(self, x):
        states, _ = self.read(x)
        return self.answer(states[:, -1]).squeeze(1)


def batches(count, size=16, length=10):
    """Sequences of numbers, two of them marked, and the sum of these two."""
    for _ in range(count):
        numbers = torch.rand(size, length)
        marks = torch.zeros(size, length)
        marks.scatter_(1, torch.rand(size, length).topk(2, 1).indices, 1.0)
        yield torch.stack([numbers, marks], 2), 5 * (numbers * marks).sum(1)


def train(model, optimizer, steps):
    for step, (x, y) in enumerate(batches(steps)):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        nn.utils.clip_grad_norm_(model.parameters(), 15.0)
        print(f"step {step + 1}: loss {loss.item():.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = Adder()
    train(model, torch.optim.Adam(model.parameters(), lr=0.05), args.steps)


if __name__ == "__main__":
    main()
