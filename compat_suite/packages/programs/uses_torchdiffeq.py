"""ODEs by fixed and adaptive steps, implicit methods, adjoint gradients, events."""

import torch
from torchdiffeq import odeint, odeint_adjoint, odeint_event

torch.manual_seed(0)


class Law(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).double()

    def forward(self, t, y):
        return self.net(y) - 0.5 * y


law = Law()
y0, t = (torch.tensor([[1.0, 0.0]], dtype=torch.float64), torch.linspace(0, 1, 4, dtype=torch.float64))
for method in ("euler", "midpoint", "rk4", "dopri5", "bosh3", "adaptive_heun", "explicit_adams", "implicit_adams"):
    y = odeint(law, y0, t, method=method)
    print(method, [f"{v:.6f}" for v in y[-1].flatten().tolist()])
for solve in (odeint, odeint_adjoint):
    law.zero_grad()
    start = y0.clone().requires_grad_()
    solve(law, start, t, rtol=1e-8, atol=1e-8).square().sum().backward()
    print([f"{p.grad.norm().item():.6f}" for p in law.parameters()], f"{start.grad.sum().item():.6f}")
when, state = odeint_event(
    lambda t, y: (y[1], torch.full_like(y[1], -9.8)),
    (torch.tensor(1.0), torch.tensor(2.0)),
    torch.tensor(0.0),
    event_fn=lambda t, y: y[0],
    atol=1e-8,
    rtol=1e-8,
)
print(f"{when.item():.5f}", f"{state[1][-1].item():.4f}")
