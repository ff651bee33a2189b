"""A module of flax is trained by a loop written for PyTorch, by an optimizer of optax or one of `optim`.

    python examples/flax_in_a_torch_loop.py

Its parameters, running statistics and dropout are those of a module of `nn`.
"""

import flax.linen as linen
import optax

import torchgrad_jax as torch
from torchgrad_jax import interop
from torchgrad_jax.nn import functional as F


class Classifier(linen.Module):
    @linen.compact
    def __call__(self, x, train: bool):
        x = linen.Dense(32)(x)
        x = linen.BatchNorm(use_running_average=not train)(x)
        x = linen.Dropout(0.1, deterministic=not train)(linen.relu(x))
        return linen.Dense(2)(x)


torch.manual_seed(0)
x = torch.randn(256, 2)
labels = (x[:, 0] * x[:, 1] > 0).long()

for name in ("optim", "optax"):
    net = interop.module(Classifier(), x)
    if name == "optim":
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.02)
    else:
        optimizer = interop.Optax(net.parameters(), optax.adamw(0.02))

    @torch.compile
    def step(x, labels, net=net, optimizer=optimizer):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), labels)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(60):
        loss = step(x, labels)
    right = (net.eval()(x).argmax(1) == labels).float().mean().item()
    print(f"{name}: {', '.join(k for k, _ in net.named_parameters())}")
    print(f"{name}: more than 9 of 10 are right: {right > 0.9}")
