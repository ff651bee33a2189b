"""Neural operators: Fourier layers, whole and with factorized weights, with losses of functions."""

import torch
from neuralop import H1Loss, LpLoss
from neuralop.models import FNO, TFNO

torch.manual_seed(0)
x, y = torch.randn(2, 3, 16, 16), torch.randn(2, 1, 16, 16)
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
    for criterion in (LpLoss(2, 2), H1Loss(2), LpLoss(2, 2)):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.4f}")
    print(name, *losses, f"{sum(p.grad.abs().sum().item() for p in model.parameters()):.2f}")
