"""Laplace approximations: a posterior around trained weights."""

import torch
from laplace import Laplace

STEPS = 30
torch.manual_seed(0)
x = torch.linspace(-2, 2, 24).view(-1, 1)
y = torch.sin(x)
net = torch.nn.Sequential(torch.nn.Linear(1, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1))
opt = torch.optim.Adam(net.parameters(), 5e-2)
for _ in range(STEPS):
    loss = (net(x) - y).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=8)
for structure, subset in (("diag", "all"), ("kron", "last_layer"), ("full", "last_layer")):
    la = Laplace(net, "regression", subset_of_weights=subset, hessian_structure=structure)
    la.fit(loader)
    mean, var = la(torch.tensor([[0.3], [3.0]]))
    print(
        structure,
        subset,
        [f"{v:.3f}" for v in (*mean.flatten().tolist(), *var.flatten().tolist())],
        f"{la.log_marginal_likelihood().item():.2f}",
    )
