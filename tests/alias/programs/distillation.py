"""A small network learns from a large one, in mixed precision with scaled losses."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.amp import GradScaler, autocast
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(21)
x = torch.randn(96, 10)
y = (x[:, :3].sum(1) > 0).long() + (x[:, 3] > 0.5).long()
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True, drop_last=True)


def net(width):
    return nn.Sequential(nn.Linear(10, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, 3))


teacher, student = net(64), net(6)
opt = torch.optim.RAdam(teacher.parameters(), lr=1e-2)
for epoch in range(3):
    for xb, yb in loader:
        opt.zero_grad()
        loss = F.cross_entropy(teacher(xb), yb, label_smoothing=0.1)
        loss.backward()
        opt.step()
    print(f"teacher {epoch} {loss.item():.5f}")
teacher.eval().requires_grad_(False)
opt = torch.optim.NAdam(student.parameters(), lr=1e-2)
scaler = GradScaler("cpu", init_scale=2.0**10, growth_interval=4)
T = 3.0
for epoch in range(3):
    for xb, yb in loader:
        opt.zero_grad()
        with autocast(device_type="cpu", dtype=torch.bfloat16):
            with torch.no_grad():
                wanted = teacher(xb)
            got = student(xb)
            kind = got.dtype
            soft = F.kl_div(F.log_softmax(got / T, 1), F.softmax(wanted / T, 1), reduction="batchmean")
            loss = T * T * soft + 0.5 * F.cross_entropy(got, yb)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        norm = nn.utils.clip_grad_norm_(student.parameters(), 5.0)
        scaler.step(opt)
        scaler.update()
    # Half precision rounds a little differently everywhere: one digit is what can be compared.
    print(f"student {epoch} {loss.item():.1f} {norm.item():.1f} {scaler.get_scale():.1f} {kind}")
print(loss.dtype, student[0].weight.dtype, student[0].weight.grad.dtype)
