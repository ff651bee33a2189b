"""Two dozen optimizers of one package, 30 steps each."""

import torch
from pytorch_optimizer import load_optimizer

STEPS = 30
x, y = torch.linspace(-1, 1, 12).view(4, 3), torch.linspace(0, 1, 8).view(4, 2)
for name in (
    "adabelief",
    "adabound",
    "adai",
    "adamp",
    "adan",
    "adapnm",
    "adamod",
    "diffgrad",
    "lamb",
    "lars",
    "lion",
    "madgrad",
    "nero",
    "novograd",
    "pid",
    "qhadam",
    "ranger",
    "ranger21",
    "sgdp",
    "shampoo",
    "sm3",
    "sophiah",
    "tiger",
    "yogi",
    "prodigy",
    "dadaptadam",
    "schedulefreeadamw",
    "ademamix",
    "soap",
    "adopt",
    "grams",
    "laprop",
    "mars",
    "apollo",
):
    # In single precision a singular value that Shampoo divides by is rounding, or zero.
    dtype = torch.float64 if name == "shampoo" else torch.float32
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).to(dtype)
    kind = load_optimizer(name)
    opt = kind(net.parameters(), **({"num_iterations": STEPS} if name == "ranger21" else {}))
    if hasattr(opt, "train"):
        opt.train()
    losses = []
    for _ in range(STEPS):
        loss = (net(x.to(dtype)) - y.to(dtype)).square().mean()
        opt.zero_grad()
        loss.backward(create_graph=name == "sophiah")
        opt.step()
        losses.append(f"{loss.item():.5f}")
    print(name, *losses[:5], losses[-1])
