"""The Lion optimizer, for 30 steps, from and to a checkpoint."""

import torch
from lion_pytorch import Lion

STEPS = 30
BATCH = 12_000  # times four features: more elements than NumPy computes
torch.manual_seed(0)
w = torch.nn.Linear(4, 3)
opt = Lion(w.parameters(), lr=1e-2, weight_decay=1e-2)
x, y = torch.randn(BATCH, 4), torch.randn(BATCH, 3)
for i in range(STEPS):
    loss = (w(x) - y).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if i == 9:
        other = Lion(w.parameters(), lr=1)
        other.load_state_dict(opt.state_dict())
        opt = other
    print(f"{loss.item():.6f}")
