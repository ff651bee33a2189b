"""Flows of normflows, from couplings to residual ones, and flow matching of torchcfm."""

import normflows as nf
import numpy as np
import torch
from torchcfm.conditional_flow_matching import ConditionalFlowMatcher, ExactOptimalTransportConditionalFlowMatcher

STEPS = 30
ROWS = 3000  # times 16 features: more elements than NumPy computes
torch.manual_seed(0)
x = torch.randn(ROWS, 2) * torch.tensor([1.0, 0.3]) + 0.5
FLOWS = {
    "couplings": lambda: [nf.flows.AffineCouplingBlock(nf.nets.MLP([1, 16, 2], init_zeros=True))] * 2,
    "splines": lambda: [nf.flows.AutoregressiveRationalQuadraticSpline(2, 1, 8), nf.flows.LULinearPermute(2)],
    "autoregressive": lambda: [nf.flows.MaskedAffineAutoregressive(2, 8), nf.flows.ActNorm(2)],
    "residual": lambda: [nf.flows.Residual(nf.nets.LipschitzMLP([2, 16, 2], lipschitz_const=0.9))],
}
for name, flows in FLOWS.items():
    torch.manual_seed(1)
    np.random.seed(0)  # noqa: NPY002 - where normflows draws permutations
    model = nf.NormalizingFlow(nf.distributions.DiagGaussian(2), flows())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model.forward_kld(x)
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.4f}")
    drawn, density = model.sample(5)
    print(name, *losses[:3], losses[-1], f"{drawn.sum().item():.4f} {density.sum().item():.4f}")
torch.manual_seed(2)
planar = [nf.flows.Planar((2,)) for _ in range(3)]
model = nf.NormalizingFlow(nf.distributions.DiagGaussian(2), planar, nf.distributions.TwoMoons())
print("planar", f"{model.reverse_kld(32).item():.4f}")
for matcher in (ConditionalFlowMatcher(0.1), ExactOptimalTransportConditionalFlowMatcher(0.0)):
    found = matcher.sample_location_and_conditional_flow(torch.randn(16, 2), torch.randn(16, 2) + 3)
    print("matched", *(f"{t.sum().item():.4f}" for t in found))
