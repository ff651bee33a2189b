"""Averages of a model that learns, with a warm-up of the decay, saved and loaded."""

import torch
from ema_pytorch import EMA, PostHocEMA

STEPS = 30
BATCH = 12_000  # times four features: more elements than NumPy computes
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4, bias=False), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
ema = EMA(net, beta=0.9, update_after_step=2, update_every=1)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for step in range(STEPS):
    x = torch.randn(BATCH if step % 2 else 6, 3)
    loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    ema.update()
    if step < 8 or step == STEPS - 1:
        print(f"{loss.item():.5f} {ema.get_current_decay():.5f}")
ema.eval()
print(f"{ema(torch.ones(2, 3)).sum().item():.5f}", sorted(ema.state_dict())[:3], len(ema.state_dict()))
ema.copy_params_from_ema_to_model()
print(f"{net[0].weight.sum().item():.5f}", PostHocEMA.__name__)
