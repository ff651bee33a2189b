"""L-BFGS with a line search."""

import torch


def valley(p):
    return (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2


p = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.LBFGS([p], lr=1, max_iter=8, line_search_fn="strong_wolfe")


def closure():
    optimizer.zero_grad()
    loss = valley(p)
    loss.backward()
    return loss


for i in range(4):
    loss = optimizer.step(closure)
    print(i, f"{loss.item():.6f}", [round(v, 6) for v in p.tolist()])
