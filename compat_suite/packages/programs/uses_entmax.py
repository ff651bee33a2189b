"""Sparse relatives of softmax with gradients of their own, and their losses."""

import torch
from entmax import budget_bisect, entmax15, entmax_bisect, normmax_bisect, sparsemax
from entmax.losses import Entmax15Loss, SparsemaxLoss

torch.manual_seed(0)
x = torch.randn(4, 7, dtype=torch.float64, requires_grad=True)
alpha = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
weights = torch.randn(4, 7, dtype=torch.float64)
for f in (
    sparsemax,
    entmax15,
    lambda x, dim: entmax_bisect(x, alpha, dim),
    lambda x, dim: normmax_bisect(x, 2, dim),
    lambda x, dim: budget_bisect(x, 2, dim),
):
    x.grad = alpha.grad = None
    p = f(x, dim=-1)
    (p * weights).sum().backward()
    print([f"{v:.5f}" for v in p[0].tolist()], f"{x.grad.norm().item():.6f}", alpha.grad and f"{alpha.grad.item():.6f}")
for loss in (SparsemaxLoss(), Entmax15Loss()):
    print(f"{loss(x, torch.tensor([1, 2, 3, 0])).item():.6f}")
print(
    torch.autograd.gradcheck(lambda x: sparsemax(x, -1), (x,)),
    torch.autograd.gradcheck(lambda x: entmax15(x, -1), (x,)),
)
