"""Schedulers, checkpoints, autocast and the gradient scaler."""

import os, tempfile, copy, torch, torch.nn as nn
from torch.optim.lr_scheduler import (
    OneCycleLR,
    CosineAnnealingWarmRestarts,
    ReduceLROnPlateau,
    LambdaLR,
    SequentialLR,
    LinearLR,
    ExponentialLR,
    MultiStepLR,
)
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler

torch.manual_seed(8)


class Sq(Dataset):
    def __init__(s, n):
        s.x = torch.linspace(-1, 1, n)[:, None]

    def __len__(s):
        return len(s.x)

    def __getitem__(s, i):
        return {"x": s.x[i], "y": s.x[i] ** 2, "name": f"n{i}"}


loader = DataLoader(
    Sq(32), batch_size=8, sampler=WeightedRandomSampler(torch.arange(1, 33).float(), 32), collate_fn=None
)


def make():
    torch.manual_seed(1)
    m = nn.Sequential(nn.Linear(1, 16), nn.SiLU(), nn.BatchNorm1d(16), nn.Linear(16, 1))
    return m, torch.optim.Adam(m.parameters(), lr=0.01)


def run(m, o, s, n):
    for e in range(n):
        for b in loader:
            o.zero_grad()
            l = nn.functional.smooth_l1_loss(m(b["x"]), b["y"])
            l.backward()
            o.step()
        s.step() if not isinstance(s, ReduceLROnPlateau) else s.step(l)
        print(e, b["name"][:2], f"{l.item():.6f} {o.param_groups[0]['lr']:.6f}")


m, o = make()
s = LinearLR(o, total_iters=3)
run(m, o, s, 2)
path = os.path.join(tempfile.mkdtemp(), "ck.pt")
torch.save(
    {"m": m.state_dict(), "o": o.state_dict(), "s": s.state_dict(), "rng": torch.get_rng_state(), "epoch": 2}, path
)
run(m, o, s, 2)
a = copy.deepcopy(m.state_dict())
ck = torch.load(path, map_location="cpu", weights_only=True)
m2, o2 = make()
s2 = LinearLR(o2, total_iters=3)
print(m2.load_state_dict(ck["m"]))
o2.load_state_dict(ck["o"])
s2.load_state_dict(ck["s"])
torch.set_rng_state(ck["rng"])
run(m2, o2, s2, ck["epoch"])
print(all(torch.equal(a[k], v) for k, v in m2.state_dict().items()))
torch.save(m2, path)
m3 = torch.load(path, weights_only=False)
print(m3, f"{m3(torch.ones(2, 1)).sum().item():.5f}")
try:
    m.load_state_dict({"0.weight": torch.ones(3)}, strict=True)
except RuntimeError as e:
    print(str(e))
for mk in (
    lambda o: OneCycleLR(o, 0.1, total_steps=10),
    lambda o: CosineAnnealingWarmRestarts(o, 3),
    lambda o: ReduceLROnPlateau(o, patience=0),
    lambda o: LambdaLR(o, lambda e: 0.9**e),
    lambda o: SequentialLR(o, [LinearLR(o, 0.1, total_iters=2), ExponentialLR(o, 0.9)], [2]),
    lambda o: MultiStepLR(o, [1, 2]),
):
    m, o = make()
    s = mk(o)
    lrs = []
    for i in range(6):
        o.step()
        (s.step(1.0) if isinstance(s, ReduceLROnPlateau) else s.step())
        lrs.append(round(o.param_groups[0]["lr"], 6))
    print(type(s).__name__, lrs)
scaler = torch.amp.GradScaler("cpu")
m, o = make()
with torch.autocast("cpu", dtype=torch.bfloat16):
    out = m(torch.ones(4, 1))
    l = nn.functional.mse_loss(out, torch.zeros(4, 1))
print(out.dtype, l.dtype)
scaler.scale(l).backward()
scaler.step(o)
scaler.update()
print(scaler.get_scale(), f"{l.item():.4f}")
print(
    [type(e).__name__ for e in (torch.float32, torch.device("cpu"))],
    torch.is_tensor(l),
    torch.typename(l),
    torch.get_default_dtype(),
    torch.is_floating_point(l),
)
