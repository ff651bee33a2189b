"""Stochastic weight averaging, and exponential averages, beside the weights that learn."""

import copy

import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(8)
x = torch.randn(64, 5)
y = torch.sin(x.sum(1, keepdim=True)) + 0.1 * torch.randn(64, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(5, 12), nn.BatchNorm1d(12), nn.Tanh(), nn.Linear(12, 1))
swa, ema = (AveragedModel(model), AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.8), use_buffers=True))
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
sched = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, T_0=2)
swa_sched = SWALR(opt, swa_lr=0.05, anneal_epochs=2)
best, kept = float("inf"), None
for epoch in range(6):
    for xb, yb in loader:
        loss = nn.functional.huber_loss(model(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema.update_parameters(model)
    if epoch >= 3:
        swa.update_parameters(model)
        swa_sched.step()
    else:
        sched.step()
    if loss.item() < best:
        best, kept = loss.item(), copy.deepcopy(model.state_dict())
    print(f"{epoch} {loss.item():.5f} {opt.param_groups[0]['lr']:.6f} {int(swa.n_averaged)} {int(ema.n_averaged)}")
update_bn(loader, swa)
model.load_state_dict(kept)
for name, m in (("model", model), ("swa", swa), ("ema", ema)):
    m.eval()
    with torch.no_grad():
        print(name, f"{nn.functional.mse_loss(m(x), y).item():.5f}", len(m.state_dict()))
