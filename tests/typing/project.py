"""A training script as somebody types it who checks it with pyright or mypy, from an installed wheel."""

from collections.abc import Iterator
from typing import assert_type

import torchgrad_jax as torch
import torchgrad_jax.nn.functional as F
from torchgrad_jax import Tensor, nn, optim
from torchgrad_jax.utils.data import DataLoader, TensorDataset


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(4, width)
        self.norm = nn.LayerNorm(width)
        self.last = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.norm(F.gelu(self.first(x))))


def batches(n: int) -> Iterator[tuple[Tensor, Tensor]]:
    data = TensorDataset(torch.randn(n, 4), torch.randint(0, 2, (n,)))
    yield from DataLoader(data, batch_size=8, shuffle=True)


def train(steps: int) -> list[float]:
    torch.manual_seed(0)
    model = Model(8)
    assert_type(model.first.weight, Tensor)
    assert_type(model.norm, nn.LayerNorm)
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    schedule = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.9)
    losses: list[float] = []
    for _ in range(steps):
        for x, y in batches(32):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        schedule.step()
    with torch.no_grad():
        assert all(p.grad is None or p.grad.shape == p.shape for p in model.parameters())
    (slope,) = torch.autograd.grad(model(torch.ones(1, 4)).sum(), [model.first.weight])
    assert slope.shape == (8, 4)
    return losses


if __name__ == "__main__":
    history = train(4)
    assert history[-1] < history[0], history
