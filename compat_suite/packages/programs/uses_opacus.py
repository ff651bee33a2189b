"""Training with differential privacy: gradients per example, clipped and with noise."""

import warnings

import torch
from opacus import PrivacyEngine
from opacus.grad_sample import GradSampleModule
from opacus.validators import ModuleValidator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
EPOCHS = 10  # of three passes each
torch.manual_seed(0)
x, y = torch.randn(24, 1, 6, 6), torch.randint(0, 3, (24,))
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
print("valid", ModuleValidator.is_valid(net), ModuleValidator.is_valid(nn.BatchNorm2d(3)))
watched = GradSampleModule(net)
nn.functional.cross_entropy(watched(x), y).backward()
for name, p in net.named_parameters():
    print(name, tuple(p.grad_sample.shape), f"{p.grad_sample.flatten(1).norm(dim=1).sum().item():.4f}")
net = nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
engine = PrivacyEngine()
net, optimizer, loader = engine.make_private(
    module=net,
    optimizer=optimizer,
    data_loader=DataLoader(TensorDataset(x, y), batch_size=8),
    noise_multiplier=0.8,
    max_grad_norm=1.0,
    poisson_sampling=False,
)
for epoch in range(EPOCHS):
    for xs, ys in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(xs), ys)
        loss.backward()
        optimizer.step()
    if epoch in (0, 1, EPOCHS - 1):
        print("loss", f"{loss.item():.4f}", f"{engine.get_epsilon(1e-3):.3f}")
lstm = nn.LSTM(4, 5, batch_first=True)
print("fixed", type(ModuleValidator.fix(lstm)).__name__)
