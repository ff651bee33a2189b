"""Weights on manifolds: orthogonal, of low rank, positive, on a sphere."""

import geotorch
import torch

STEPS = 30
torch.manual_seed(0)
x = torch.randn(6000, 6)  # more elements than NumPy computes
for put in (
    geotorch.orthogonal,
    geotorch.skew,
    geotorch.symmetric,
    geotorch.sphere,
    geotorch.grassmannian,
    lambda m, n: geotorch.low_rank(m, n, rank=2),
    lambda m, n: geotorch.invertible(m, n),
):
    torch.manual_seed(1)
    layer = torch.nn.Linear(6, 6)
    put(layer, "weight")
    with torch.no_grad():  # from a start that does not depend on how a matrix is decomposed
        for p in layer.parametrizations["weight"].parameters():
            p.copy_(torch.linspace(-0.3, 0.4, p.numel()).view_as(p))
    opt = torch.optim.SGD(layer.parameters(), lr=0.05)
    losses = []
    for _ in range(STEPS):
        loss = (layer(x) - x.flip(1)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(f"{loss.item():.4f}")
    w = layer.weight
    print(type(layer).__name__, losses[:3], losses[-1])
    print(f"{(w.mT @ w - torch.eye(6)).norm().item():.4f} {(w + w.mT).norm().item():.4f}")
