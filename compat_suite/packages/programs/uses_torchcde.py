"""Controlled differential equations: splines through data, signatures, a solution with gradients."""

import torch
import torchcde

torch.manual_seed(0)
t = torch.linspace(0, 1, 6)
x = torch.stack([t.expand(2, 6), torch.randn(2, 6)], -1)
x[0, 2, 1] = float("nan")
for make, path in (
    (torchcde.natural_cubic_coeffs, torchcde.CubicSpline),
    (torchcde.hermite_cubic_coefficients_with_backward_differences, torchcde.CubicSpline),
    (torchcde.linear_interpolation_coeffs, torchcde.LinearInterpolation),
):
    curve = path(make(x))
    print(curve.evaluate(0.3).flatten().tolist()[1:2], f"{curve.derivative(0.55).sum().item():.4f}")


class Law(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 6)

    def forward(self, t, z):
        return self.linear(z).tanh().view(2, 3, 2)


law = Law()
z = torchcde.cdeint(
    X=curve, func=law, z0=torch.zeros(2, 3), t=curve.interval, method="rk4", options={"step_size": 0.2}, adjoint=False
)
z[:, -1].sum().backward()
print(f"{z.sum().item():.5f} {law.linear.weight.grad.norm().item():.5f}")
print(
    torchcde.lead_lag_interpolation_coeffs if hasattr(torchcde, "lead_lag_interpolation_coeffs") else "",
    torchcde.logsig_windows.__name__,
)
