"""Neural operators: Fourier layers, whole and with factorized weights, with losses of functions."""

import torch
from neuralop import H1Loss, LpLoss
from neuralop.models import FNO, TFNO

STEPS = 30
SIZE = 56  # so that 2 x 8 x 56 x 56 elements are more than NumPy computes
torch.manual_seed(0)
x, y = torch.randn(2, 3, SIZE, SIZE), torch.randn(2, 1, SIZE, SIZE)
sizes = {"n_modes": (8, 8), "hidden_channels": 8, "in_channels": 3, "out_channels": 1, "n_layers": 2}
for name, make in {
    "whole": lambda: FNO(**sizes),
    "Tucker": lambda: TFNO(**sizes, rank=0.3, factorization="tucker", implementation="factorized"),
    "CP": lambda: TFNO(**sizes, rank=0.3, factorization="cp"),
}.items():
    torch.manual_seed(1)
    model = make()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for step in range(STEPS):
        criterion = H1Loss(2) if step % 3 == 1 else LpLoss(2, 2)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.4f}")
    print(name, *losses[:3], losses[-1], f"{sum(p.grad.abs().sum().item() for p in model.parameters()):.2f}")
