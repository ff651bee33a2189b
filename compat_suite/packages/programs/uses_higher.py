"""Steps of an inner optimizer, differentiated through."""

import higher
import torch

STEPS = 30
torch.set_default_dtype(torch.float64)  # in single precision RMSprop's first gradients, of 200, make rounding large
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))
rate = torch.tensor(0.1, requires_grad=True)
x, y = torch.randn(8, 3), torch.randn(8, 1)
for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop, torch.optim.Adagrad):
    opt = kind(net.parameters(), lr=0.1)
    outer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(STEPS):
        net.zero_grad()
        rate.grad = None
        with higher.innerloop_ctx(net, opt, copy_initial_weights=False, override={"lr": [rate]}) as (fnet, diffopt):
            for _ in range(3):
                diffopt.step((fnet(x) - y).square().mean())
            loss = (fnet(x) - y).square().mean()
            loss.backward()
        if step in (0, STEPS - 1):
            print(
                kind.__name__,
                f"{loss.item():.5f} {rate.grad.item():.5f}",
                [f"{p.grad.norm().item():.5f}" for p in net.parameters()],
            )
        outer.step()
