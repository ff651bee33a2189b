"""Gradients per sample with torch.func."""

import torch, torch.nn as nn, torch.nn.functional as F
from torch.func import functional_call, vmap, grad, jacrev, hessian

torch.manual_seed(7)
m = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
x = torch.randn(6, 4)
y = torch.randint(0, 3, (6,))
params = {k: v.detach() for k, v in m.named_parameters()}
buffers = {k: v.detach() for k, v in m.named_buffers()}


def loss(p, b, s, t):
    return F.cross_entropy(functional_call(m, (p, b), (s.unsqueeze(0),)), t.unsqueeze(0))


ps = vmap(grad(loss), in_dims=(None, None, 0, 0))(params, buffers, x, y)
for k, v in ps.items():
    print(k, tuple(v.shape), f"{v.norm().item():.5f}")
for i in range(2):
    gs = torch.autograd.grad(
        loss(dict(m.named_parameters()), buffers, x[i], y[i]), list(m.parameters())
    )
    print([torch.allclose(a, ps[k][i], atol=1e-6) for (k, _), a in zip(m.named_parameters(), gs)])
print(
    vmap(jacrev(lambda s: functional_call(m, params, (s,))))(x).shape,
    f"{hessian(lambda s: functional_call(m, params, (s,)).pow(2).sum())(x[0]).sum().item():.5f}",
)
