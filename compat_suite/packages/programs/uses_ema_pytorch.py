"""Averages of a model that learns, with a warm-up of the decay, saved and loaded."""

import torch
from ema_pytorch import EMA, PostHocEMA

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4, bias=False), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
ema = EMA(net, beta=0.9, update_after_step=2, update_every=1)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(8):
    x = torch.randn(6, 3)
    loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    ema.update()
    print(f"{loss.item():.5f} {ema.get_current_decay():.5f}")
ema.eval()
print(f"{ema(torch.ones(2, 3)).sum().item():.5f}", sorted(ema.state_dict())[:3], len(ema.state_dict()))
ema.copy_params_from_ema_to_model()
print(f"{net[0].weight.sum().item():.5f}", PostHocEMA.__name__)
