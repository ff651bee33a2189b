"""Two dozen optimizers that are not torch's own, for some steps on one problem."""

import warnings

import torch
import torch_optimizer as optimizers

STEPS = 30
warnings.simplefilter("ignore")


def train(name):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    x = torch.randn(16, 4)
    y = x.sum(1, keepdim=True).sin()
    optimizer = optimizers.get(name)(net.parameters(), lr=1e-2)

    def closure():
        optimizer.zero_grad()
        loss = (net(x) - y).square().mean()
        loss.backward(create_graph=name == "adahessian")
        return loss

    for _ in range(STEPS):
        if name == "shampoo":
            closure()
        loss = optimizer.step(closure)
    return loss.item()


for name in sorted(getattr(optimizers, "_NAME_OPTIM_MAP", ())):
    try:
        print(name, f"{train(name):.5f}")
    except Exception as e:  # one line per optimizer, whatever happens to it
        print(name, type(e).__name__, str(e)[:200])
