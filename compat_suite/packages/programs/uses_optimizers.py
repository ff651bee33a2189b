"""MADGRAD and AdaBelief as their authors publish them; sparsemax; summaries of networks."""

import torch
from adabelief_pytorch import AdaBelief
from madgrad import MADGRAD, MirrorMADGRAD
from sparsemax import Sparsemax
from torchinfo import summary
from torchsummary import summary as old_summary

STEPS = 30
x, y = torch.linspace(-1, 1, 12).view(4, 3), torch.linspace(0, 1, 8).view(4, 2)
for kind, options in (
    (MADGRAD, {"lr": 1e-2}),
    (MirrorMADGRAD, {"lr": 1e-2}),
    (AdaBelief, {"lr": 1e-2, "print_change_log": False}),
):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    opt = kind(net.parameters(), **options)
    for step in range(STEPS):
        loss = (net(x) - y).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step < 5 or step == STEPS - 1:
            print(kind.__name__, f"{loss.item():.6f}")
x = torch.randn(3, 5, requires_grad=True)
p = Sparsemax(dim=-1)(x)
(p * torch.arange(5)).sum().backward()
print(p.tolist(), f"{x.grad.norm().item():.5f}")
net = torch.nn.Sequential(
    torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 5)
)
print(
    summary(
        net, (2, 1, 8, 8), verbose=0, col_names=("input_size", "output_size", "num_params", "kernel_size", "mult_adds")
    )
)
old_summary(net, (1, 8, 8), device="cpu")
