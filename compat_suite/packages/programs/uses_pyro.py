"""Probabilistic programs: variational inference, importance, Hamiltonian Monte Carlo, flows."""

import pyro
import pyro.distributions as dist
import torch
from pyro.distributions import transforms as T
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO, TraceEnum_ELBO, config_enumerate
from pyro.infer.autoguide import AutoDiagonalNormal, AutoMultivariateNormal
from pyro.optim import Adam

STEPS = 30
x = torch.linspace(-1, 1, 12)
y = 0.5 * x + 0.2


def model(x, y=None):
    a, b = pyro.sample("a", dist.Normal(0.0, 1.0)), pyro.sample("b", dist.Normal(0.0, 1.0))
    sigma = pyro.sample("sigma", dist.HalfNormal(1.0))
    with pyro.plate("data", len(x)):
        return pyro.sample("y", dist.Normal(a * x + b, sigma), obs=y)


for guide_of in (AutoDiagonalNormal, AutoMultivariateNormal):
    pyro.clear_param_store()
    pyro.set_rng_seed(0)
    guide = guide_of(model)
    svi = SVI(model, guide, Adam({"lr": 0.05}), Trace_ELBO())
    losses = [f"{svi.step(x, y):.3f}" for _ in range(STEPS)]
    print(guide_of.__name__, losses[:6], losses[-1])
    print({k: [f"{v:.3f}" for v in q.flatten().tolist()] for k, q in sorted(guide.median().items())})


@config_enumerate
def mixture(data):
    weights = pyro.param("weights", torch.tensor([0.4, 0.6]), constraint=dist.constraints.simplex)
    centers = pyro.param("centers", torch.tensor([-1.0, 1.0]))
    with pyro.plate("rows", len(data)):
        kind = pyro.sample("kind", dist.Categorical(weights))
        pyro.sample("x", dist.Normal(centers[kind], 0.5), obs=data)


pyro.clear_param_store()
svi = SVI(mixture, lambda data: None, Adam({"lr": 0.05}), TraceEnum_ELBO(max_plate_nesting=1))
losses = [f"{svi.step(torch.tensor([-1.2, -0.8, 0.9, 1.3, 1.1])):.4f}" for _ in range(STEPS)]
print(losses[:4], losses[-1])
pyro.set_rng_seed(1)
mcmc = MCMC(
    NUTS(model, step_size=0.1, adapt_step_size=False, max_tree_depth=2),
    num_samples=3,
    warmup_steps=0,
    disable_progbar=True,
)
mcmc.run(x, y)
print({k: [f"{v:.2f}" for v in s.tolist()] for k, s in sorted(mcmc.get_samples().items())})
pyro.set_rng_seed(2)
flow = dist.TransformedDistribution(
    dist.Normal(torch.zeros(2), 1.0).to_event(1), [T.affine_coupling(2, hidden_dims=[4]), T.Planar(2)]
)
print(f"{flow.log_prob(flow.sample((3,))).sum().item():.4f}")
