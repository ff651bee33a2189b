"""Second-order information beside gradients: per example, variances, Gauss-Newton, KFAC."""

import torch
from backpack import backpack, extend, extensions as ext

torch.manual_seed(0)
net = extend(
    torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(18, 4),
        torch.nn.Sigmoid(),
        torch.nn.Linear(4, 3),
    )
)
loss_of = extend(torch.nn.CrossEntropyLoss())
x, y = torch.randn(5, 1, 5, 5), torch.tensor([0, 1, 2, 0, 1])
used = {
    "grad_batch": ext.BatchGrad(),
    "batch_l2": ext.BatchL2Grad(),
    "sum_grad_squared": ext.SumGradSquared(),
    "variance": ext.Variance(),
    "diag_ggn_exact": ext.DiagGGNExact(),
    "diag_ggn_mc": ext.DiagGGNMC(),
    "kflr": ext.KFLR(),
    "kfac": ext.KFAC(),
    "diag_h": ext.DiagHessian(),
}
for name, extension in used.items():
    torch.manual_seed(1)
    loss = loss_of(net(x), y)
    with backpack(extension):
        loss.backward()
    for p in net.parameters():
        found = getattr(p, name)
        parts = found if isinstance(found, list) else [found]
        print(name, [f"{t.norm().item():.5f}" for t in parts], [tuple(t.shape) for t in parts])
    net.zero_grad()
