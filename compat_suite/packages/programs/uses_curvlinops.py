"""Curvature matrices as linear operators: Hessian, Gauss-Newton, Fisher, KFAC; traces and spectra of them."""

import torch
from curvlinops import EFLinearOperator, GGNLinearOperator, HessianLinearOperator, KFACLinearOperator, hutchinson_trace

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
data = [(torch.randn(5, 4), torch.tensor([0, 1, 1, 0, 1])), (torch.randn(3, 4), torch.tensor([1, 0, 1]))]
loss = torch.nn.CrossEntropyLoss()
params = dict(net.named_parameters())
for kind in (HessianLinearOperator, GGNLinearOperator, EFLinearOperator, KFACLinearOperator):
    try:
        operator = kind(net, loss, params, data)
    except (TypeError, ValueError, AttributeError):
        operator = kind(net, loss, list(params.values()), data)
    n = operator.shape[0]
    v = torch.linspace(-1, 1, n)
    print(
        kind.__name__,
        tuple(operator.shape),
        f"{(operator @ v).norm().item():.5f}" if kind is not KFACLinearOperator else "",
    )
torch.manual_seed(1)
print(f"{float(hutchinson_trace(GGNLinearOperator(net, loss, list(params.values()), data), num_matvecs=4)):.4f}")
