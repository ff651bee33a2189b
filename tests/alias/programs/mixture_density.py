"""A mixture density network: several answers to one question, each with its chance."""

import torch
from torch import nn
from torch.distributions import Categorical, Independent, MixtureSameFamily, MultivariateNormal, Normal, kl_divergence

torch.manual_seed(7)


class MDN(nn.Module):
    def __init__(self, parts):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh())
        self.pi, self.mu, self.sigma = (nn.Linear(16, parts) for _ in range(3))

    def forward(self, x):
        h = self.body(x)
        return MixtureSameFamily(
            Categorical(logits=self.pi(h)), Normal(self.mu(h), nn.functional.softplus(self.sigma(h)) + 1e-3)
        )


y = torch.rand(80, 1) * 2 - 1
x = y + 0.3 * torch.sin(6.28 * y) + 0.05 * torch.randn(80, 1)
model = MDN(4)
opt = torch.optim.Adam(model.parameters(), 2e-2)
for step in range(17):
    loss = -model(x).log_prob(y.squeeze(1)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 8 == 0:
        print(f"{step} {loss.item():.5f}")
out = model(torch.linspace(-1, 1, 5).unsqueeze(1))
print([f"{v:.4f}" for v in out.mean.tolist()], [f"{v:.4f}" for v in out.variance.tolist()])
print([f"{v:.4f}" for v in out.sample((2,)).flatten().tolist()], out.batch_shape)

# A multivariate normal fitted by its likelihood, its covariance by a triangle.
true = MultivariateNormal(torch.tensor([1.0, -1.0]), torch.tensor([[1.0, 0.6], [0.6, 0.8]]))
points = true.sample((200,))
mean, raw = torch.zeros(2, requires_grad=True), torch.eye(2).requires_grad_()
opt = torch.optim.SGD([mean, raw], lr=0.2, momentum=0.5)
for step in range(20):
    fitted = MultivariateNormal(mean, scale_tril=raw.tril(-1) + raw.diagonal().exp().diag())
    loss = -fitted.log_prob(points).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(f"{loss.item():.5f} {kl_divergence(true, fitted).item():.5f} {fitted.entropy().item():.5f}")
print(Independent(Normal(torch.zeros(2), 1.0), 1), fitted.covariance_matrix.detach().numpy().round(3).tolist())
