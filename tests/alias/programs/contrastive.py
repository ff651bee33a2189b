"""SimCLR: two views of an image are to look alike, and unlike all others."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(5)


class Augment(nn.Module):
    def forward(self, x):
        flip = torch.rand(x.size(0)) < 0.5
        x = torch.where(flip.view(-1, 1, 1, 1), x.flip(-1), x)
        dy, dx = torch.randint(-1, 2, (2,)).tolist()
        x = torch.roll(x, (dy, dx), dims=(2, 3))
        return x * (1 + 0.2 * torch.randn(x.size(0), 1, 1, 1)) + 0.1 * torch.randn_like(x)


class Residual(nn.Module):
    expansion = 1

    def __init__(self, a, b, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(a, b, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(b)
        self.conv2 = nn.Conv2d(b, b, 3, 1, 1, bias=False)
        self.norm2 = nn.GroupNorm(2, b)
        self.short = nn.Sequential(nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b))

    def forward(self, x):
        out = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(out)) + self.short(x))


def nt_xent(a, b, temperature):
    z = F.normalize(torch.cat([a, b]), dim=1)
    alike = z @ z.T / temperature
    alike.fill_diagonal_(float("-inf"))
    n = len(a)
    return F.cross_entropy(alike, torch.arange(2 * n).roll(n))


encoder = nn.Sequential(Residual(1, 4, 2), Residual(4, 8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten())
head = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Linear(8, 4))
for m in encoder.modules():
    if isinstance(m, nn.Conv2d):
        nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
images = torch.randn(4, 1, 8, 8).repeat_interleave(4, 0) + 0.1 * torch.randn(16, 1, 8, 8)
labels = torch.arange(4).repeat_interleave(4)
augment = Augment()
params = [*encoder.parameters(), *head.parameters()]
opt = torch.optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True)
warm = torch.optim.lr_scheduler.LinearLR(opt, 0.1, total_iters=3)
cosine = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 5)
sched = torch.optim.lr_scheduler.SequentialLR(opt, [warm, cosine], [3])
for step in range(8):
    loss = nt_xent(head(encoder(augment(images))), head(encoder(augment(images))), 0.5)
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    print(f"{step} {loss.item():.5f} {sched.get_last_lr()[0]:.6f}")
encoder.eval()
with torch.no_grad():
    features = F.normalize(encoder(images), dim=1)
    nearest = (features @ features.T).fill_diagonal_(-1).topk(3).indices
print(f"neighbours of a kind {(labels[nearest] == labels[:, None]).float().mean().item():.4f}")
