"""Extreme eigenvalues of a Hessian, by products with vectors."""

import torch
from hessian_eigenthings.algorithms import lanczos
from hessian_eigenthings.operators import HessianOperator

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2)).double()
data = [(torch.randn(6, 4).double(), torch.tensor([0, 1, 1, 0, 1, 0])) for _ in range(2)]


def loss_fn(model, batch):
    x, y = batch
    return torch.nn.functional.cross_entropy(model(x), y)


operator = HessianOperator(net, data, loss_fn)
v = torch.linspace(-1, 1, operator.size, dtype=torch.float64)
print(operator.size, f"{operator.matvec(v).norm().item():.6f}")
print([f"{abs(v):.4f}" for v in lanczos(operator, k=3, seed=0).eigenvalues.tolist()])
