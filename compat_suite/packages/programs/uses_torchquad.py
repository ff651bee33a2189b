"""Integrals of torchquad over grids and by chance, differentiated by parameters and by bounds."""

import torch
import torchquad

torchquad.set_log_level("ERROR")
torchquad.set_up_backend("torch", data_type="float64")
torchquad.set_log_level("ERROR")
sharpness = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)


def f(x):
    return torch.exp(-sharpness * x[:, 0] ** 2) * torch.cos(x[:, 1])


for method in (torchquad.Trapezoid, torchquad.Simpson, torchquad.Boole, torchquad.GaussLegendre):
    bounds = torch.tensor([[0.0, 1.0], [-0.5, 0.5]], dtype=torch.float64, requires_grad=True)
    sharpness.grad = None
    found = method().integrate(f, 2, 400, bounds, backend="torch")
    found.backward()
    slopes = [f"{v:.5f}" for v in (sharpness.grad, *bounds.grad.flatten())]
    print(method.__name__, f"{found.item():.6f}", slopes)
area = [[0, 1], [-0.5, 0.5]]
print("by chance", f"{torchquad.MonteCarlo().integrate(f, 2, 500, area, seed=3, backend='torch').item():.6f}")
with torch.no_grad():
    print("VEGAS", f"{torchquad.VEGAS().integrate(f, 2, 3000, area, seed=3, backend='torch').item():.6f}")
