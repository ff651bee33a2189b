"""Normalizing flows: densities, samples, training, of several kinds."""

import torch
import zuko

STEPS = 30
ROWS = 3000  # times 16 features: more elements than NumPy computes
torch.manual_seed(0)
data = torch.randn(ROWS, 3) @ torch.tensor([[1.0, 0.3, 0.0], [0.0, 1.0, -0.4], [0.2, 0.0, 0.7]])
context = torch.randn(ROWS, 2)
for name, flow in (
    ("MAF", zuko.flows.MAF(3, 2, transforms=2, hidden_features=(16, 16))),
    ("NSF", zuko.flows.NSF(3, 2, transforms=2, hidden_features=(16, 16))),
    ("NICE", zuko.flows.NICE(3, 2, transforms=2, hidden_features=(16, 16))),
    ("SOSPF", zuko.flows.SOSPF(3, 2, transforms=2, hidden_features=(16, 16))),
    ("GMM", zuko.mixtures.GMM(3, 2, components=3)),
):
    optimizer = torch.optim.Adam(flow.parameters(), lr=5e-3)
    losses = []
    for _ in range(STEPS):
        loss = -flow(context).log_prob(data).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.4f}")
    print(name, losses[:4], losses[-1])
    torch.manual_seed(1)
    sample = flow(context[0]).sample((4,))
    print(name, "sample", [f"{v:.3f}" for v in sample.mean(0).tolist()])
