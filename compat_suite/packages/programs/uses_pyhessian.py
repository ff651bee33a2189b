"""Trace and top eigenvalues of a Hessian."""

import torch
from pyhessian import hessian

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Softplus(), torch.nn.Linear(6, 2))
x, y = torch.randn(12, 4), torch.randint(0, 2, (12,))
h = hessian(net, torch.nn.CrossEntropyLoss(), data=(x, y), cuda=False)
values, vectors = h.eigenvalues(maxIter=200, tol=1e-7, top_n=1)
print([f"{v:.3f}" for v in values], len(vectors[0]))
print([f"{t:.4f}" for t in h.trace(maxIter=3, tol=0)])
