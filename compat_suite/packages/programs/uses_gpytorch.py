"""Gaussian processes: exact ones, kernels, a variational one."""

import gpytorch
import torch

STEPS = 30
torch.manual_seed(0)
x = torch.linspace(0, 1, 12)
y = torch.sin(6 * x) + 0.1 * torch.randn(12)


class Exact(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood, kernel):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


for kernel in (gpytorch.kernels.RBFKernel(), gpytorch.kernels.MaternKernel(1.5), gpytorch.kernels.PeriodicKernel()):
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Exact(x, y, likelihood, kernel)
    model.train(), likelihood.train()
    opt = torch.optim.Adam(model.parameters(), lr=0.1)
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    losses = []
    for _ in range(STEPS):
        opt.zero_grad()
        loss = -mll(model(x), y)
        loss.backward()
        opt.step()
        losses.append(f"{loss.item():.4f}")
    model.eval(), likelihood.eval()
    with torch.no_grad():
        at = likelihood(model(torch.tensor([0.25, 0.6])))
        low, high = at.confidence_region()
    print(
        type(kernel).__name__,
        losses[:4],
        losses[-1],
        [f"{v:.3f}" for v in (*at.mean.tolist(), *low.tolist(), *high.tolist())],
    )


class Variational(gpytorch.models.ApproximateGP):
    def __init__(self, points):
        q = gpytorch.variational.CholeskyVariationalDistribution(len(points))
        super().__init__(gpytorch.variational.VariationalStrategy(self, points, q))
        self.mean_module, self.covar_module = (gpytorch.means.ZeroMean(), gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


model, likelihood = Variational(x[::3, None].clone()), gpytorch.likelihoods.BernoulliLikelihood()
elbo = gpytorch.mlls.VariationalELBO(likelihood, model, 12)
opt = torch.optim.Adam(model.parameters(), lr=0.1)
for step in range(STEPS):
    opt.zero_grad()
    loss = -elbo(model(x[:, None]), (y > 0).float())
    loss.backward()
    opt.step()
    if step < 3 or step == STEPS - 1:
        print(f"{loss.item():.4f}")
