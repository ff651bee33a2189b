"""Optimizers without schedules and without step sizes: schedule-free, Prodigy, D-adaptation; Sophia's relatives."""

import dadaptation
import prodigyopt
import schedulefree
import torch

STEPS = 30
ROWS = 5000  # times 8 features: more elements than NumPy computes

for name, make in {
    "SGDScheduleFree": lambda p: schedulefree.SGDScheduleFree(p, lr=0.1),
    "AdamWScheduleFree": lambda p: schedulefree.AdamWScheduleFree(p, lr=0.01, warmup_steps=2),
    "RAdamScheduleFree": lambda p: schedulefree.RAdamScheduleFree(p, lr=0.01),
    "Prodigy": lambda p: prodigyopt.Prodigy(p, lr=1.0, weight_decay=0.01),
    "DAdaptAdam": lambda p: dadaptation.DAdaptAdam(p, lr=1.0),
    "DAdaptSGD": lambda p: dadaptation.DAdaptSGD(p, lr=1.0, momentum=0.9),
    "DAdaptAdaGrad": lambda p: dadaptation.DAdaptAdaGrad(p, lr=1.0),
    "DAdaptLion": lambda p: dadaptation.DAdaptLion(p, lr=1.0),
}.items():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    x = torch.randn(ROWS, 4)
    y = x.sum(1, keepdim=True).sin()
    optimizer = make(net.parameters())
    if hasattr(optimizer, "train"):
        optimizer.train()
    losses = []
    for _ in range(STEPS):
        loss = (net(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.5f}")
    print(name, losses[:6], losses[-1])
    if hasattr(optimizer, "eval"):
        optimizer.eval()
        print("averaged", f"{(net(x) - y).square().mean().item():.5f}")
