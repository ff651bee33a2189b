"""Stochastic differential equations, and gradients through their solution by the adjoint method."""

import torch
import torchsde

torch.manual_seed(0)


class SDE(torch.nn.Module):
    def __init__(self, noise, sde):
        super().__init__()
        self.noise_type, self.sde_type = noise, sde
        self.mu, self.sigma = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    def f(self, t, y):
        return torch.tanh(self.mu(y)) - y

    def g(self, t, y):
        return torch.sigmoid(self.sigma(y)) * 0.3


y0, ts = torch.ones(4, 3), torch.linspace(0, 1, 3)
for kind, method in (
    ("ito", "euler"),
    ("ito", "milstein"),
    ("ito", "srk"),
    ("stratonovich", "midpoint"),
    ("stratonovich", "heun"),
):
    torch.manual_seed(1)
    sde = SDE("diagonal", kind)
    noise = torchsde.BrownianInterval(0.0, 1.0, size=(4, 3), entropy=7, levy_area_approximation="space-time")
    ys = torchsde.sdeint(sde, y0, ts, method=method, dt=0.25, bm=noise)
    ys[-1].sum().backward()
    print(kind, method, f"{ys[-1].sum().item():.5f} {sde.mu.weight.grad.norm().item():.5f}")
sde = SDE("diagonal", "stratonovich")
noise = torchsde.BrownianInterval(0.0, 1.0, size=(4, 3), entropy=7, levy_area_approximation="space-time")
ys = torchsde.sdeint_adjoint(
    sde, y0, ts, method="reversible_heun", adjoint_method="adjoint_reversible_heun", dt=0.25, bm=noise
)
ys[-1].sum().backward()
print(f"{ys[-1].sum().item():.5f} {sde.sigma.weight.grad.norm().item():.5f}")
