"""Bayesian optimization: a Gaussian process fitted, acquisition functions and their optimum."""

import warnings

import torch
from botorch.acquisition import LogExpectedImprovement, UpperConfidenceBound, qExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.mlls import ExactMarginalLogLikelihood

warnings.simplefilter("ignore")
torch.manual_seed(0)
x = torch.rand(12, 2, dtype=torch.float64)
y = (x * 3).sin().sum(-1, keepdim=True) - x.square().sum(-1, keepdim=True)
model = SingleTaskGP(x, y)
mll = ExactMarginalLogLikelihood(model.likelihood, model)
model.train()
print(f"before {mll(model(*model.train_inputs), model.train_targets).item():.5f}")
fit_gpytorch_mll(mll)
model.train()
print(f"after {mll(model(*model.train_inputs), model.train_targets).item():.3f}")
model.eval()
points = torch.linspace(0, 1, 6, dtype=torch.float64).view(-1, 1, 1).expand(6, 1, 2)
posterior = model.posterior(points)
print("mean", [f"{v:.3f}" for v in posterior.mean.flatten().tolist()])
for name, acquisition in (
    ("log EI", LogExpectedImprovement(model, best_f=y.max())),
    ("UCB", UpperConfidenceBound(model, beta=0.2)),
    ("qEI", qExpectedImprovement(model, y.max(), SobolQMCNormalSampler(torch.Size([32]), seed=1))),
):
    print(name, [f"{v:.2f}" for v in acquisition(points).tolist()])
best, value = optimize_acqf(
    UpperConfidenceBound(model, beta=0.2),
    torch.stack([torch.zeros(2), torch.ones(2)]).double(),
    q=1,
    num_restarts=3,
    raw_samples=16,
    options={"seed": 3},
)
print("optimum", [f"{v:.2f}" for v in best.flatten().tolist()], f"{value.item():.2f}")
