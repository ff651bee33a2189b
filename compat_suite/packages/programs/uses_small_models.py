"""A random field of tags, structural similarity, cosine transforms, an equivariant network, EMA, warm-up."""

import pytorch_warmup
import torch
import torch_dct
from egnn_pytorch import EGNN
from pytorch_msssim import SSIM, ms_ssim, ssim
from torch_ema import ExponentialMovingAverage
from torchcrf import CRF

STEPS = 30
torch.manual_seed(0)
crf = CRF(4, batch_first=True)
emissions = torch.randn(2, 6, 4, requires_grad=True)
tags = torch.randint(0, 4, (2, 6))
mask = torch.tensor([[1] * 6, [1] * 4 + [0] * 2], dtype=torch.bool)
likelihood = crf(emissions, tags, mask=mask)
likelihood.backward()
print("CRF", f"{likelihood.item():.4f} {emissions.grad.norm().item():.4f}", crf.decode(emissions, mask=mask))
a, b = torch.rand(2, 3, 32, 32, requires_grad=True), torch.rand(2, 3, 32, 32)
value = ssim(a, b, data_range=1.0, win_size=7)
value.backward()
print("SSIM", f"{value.item():.5f} {a.grad.norm().item():.5f}")
big = torch.rand(1, 1, 180, 180)
print(
    "MS-SSIM",
    f"{ms_ssim(big, big * 0.9, data_range=1.0).item():.5f}",
    f"{SSIM(data_range=1.0, channel=3)(b, b * 0.8).item():.5f}",
)
x = torch.randn(3, 8)
print(
    "DCT", f"{torch_dct.dct(x).sum().item():.4f}", bool(torch.allclose(torch_dct.idct(torch_dct.dct(x)), x, atol=1e-5))
)
layer = EGNN(dim=8)
out, moved = layer(torch.randn(1, 5, 8), torch.randn(1, 5, 3))
(out.sum() + moved.sum()).backward()
print(
    "EGNN",
    f"{out.sum().item():.4f} {moved.sum().item():.4f}",
    f"{sum(p.grad.norm() for p in layer.parameters() if p.grad is not None).item():.4f}",
)
net = torch.nn.Linear(3, 1)
optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
ema = ExponentialMovingAverage(net.parameters(), decay=0.9)
warmup = pytorch_warmup.UntunedLinearWarmup(optimizer)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS)
data = torch.randn(12, 3)
for _ in range(STEPS):
    loss = (net(data) - data.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ema.update()
    with warmup.dampening():
        schedule.step()
print("rate", f"{optimizer.param_groups[0]['lr']:.6f}", f"{loss.item():.5f}")
with ema.average_parameters():
    print("averaged", f"{net(data).sum().item():.5f}")
