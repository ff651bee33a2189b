"""Linear regression from scratch."""

import torch

torch.manual_seed(0)
X = torch.randn(100, 3)
w_true = torch.tensor([1.5, -2.0, 0.7])
y = X @ w_true + 0.3 + 0.01 * torch.randn(100)
w = torch.zeros(3, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
for i in range(60):
    pred = X @ w + b
    loss = ((pred - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
        b -= 0.1 * b.grad
        w.grad.zero_()
        b.grad = None
    if i % 10 == 0:
        print(i, f"{loss.item():.6f}")
print(w, b)
print(repr(loss), y[:3], X.mean(0), X.std(), X.max(dim=1).values[:2])
