"""Bayesian optimization: a model fitted, acquisition functions, one suggestion."""

import torch
from botorch.acquisition import LogExpectedImprovement, UpperConfidenceBound
from botorch.models import SingleTaskGP
from botorch.sampling import SobolQMCNormalSampler
from botorch.test_functions import Branin
from gpytorch.mlls import ExactMarginalLogLikelihood

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
branin = Branin(negate=True)
x = torch.rand(6, 2)
y = branin(x * torch.tensor([15.0, 15.0]) + torch.tensor([-5.0, 0.0])).unsqueeze(-1)
gp = SingleTaskGP(x, y)
mll = ExactMarginalLogLikelihood(gp.likelihood, gp)
opt = torch.optim.Adam(gp.parameters(), 0.05)
for _ in range(4):
    opt.zero_grad()
    loss = -mll(gp(*gp.train_inputs), gp.train_targets).sum()
    loss.backward()
    opt.step()
    print(f"{loss.item():.5f}")
gp.eval()
at = torch.tensor([[[0.3, 0.7]]], requires_grad=True)
for acquisition in (LogExpectedImprovement(gp, best_f=y.max()), UpperConfidenceBound(gp, beta=0.2)):
    value = acquisition(at)
    (g,) = torch.autograd.grad(value.sum(), at)
    print(
        type(acquisition).__name__,
        f"{value.item():.4f}",
        [f"{v:.4f}" for v in g.flatten().tolist()],
    )
samples = SobolQMCNormalSampler(torch.Size([4]), seed=3)(gp.posterior(at.detach()))
print([f"{v:.3f}" for v in samples.flatten().tolist()])
