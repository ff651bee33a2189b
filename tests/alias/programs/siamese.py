"""A siamese network: are these two of a kind? By contrast, by cosines, by triplets."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler

torch.manual_seed(12)
CENTERS = torch.randn(3, 1, 8, 8)


class Pairs(Dataset):
    def __init__(self, n):
        self.kinds = torch.randint(0, 3, (n, 2))
        self.noise = torch.randn(n, 2, 1, 8, 8) * 0.5

    def __len__(self):
        return len(self.kinds)

    def __getitem__(self, i):
        a, b = CENTERS[self.kinds[i]] + self.noise[i]
        return {"a": a, "b": b, "same": (self.kinds[i, 0] == self.kinds[i, 1]).float()}


class Twin(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.PReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 6)
        )
        self.head = nn.Bilinear(6, 6, 1)
        self.body.apply(self.start)

    @staticmethod
    def start(m):
        if isinstance(m, nn.Linear):
            nn.init.xavier_uniform_(m.weight)
            m.bias.data.fill_(0.01)

    def forward(self, a, b):
        a, b = self.body(a), self.body(b)
        return a, b, self.head(a, b).squeeze(1)


pairs = Pairs(32)
weights = torch.where(pairs.kinds[:, 0] == pairs.kinds[:, 1], 2.0, 1.0)
loader = DataLoader(pairs, 8, sampler=WeightedRandomSampler(weights, 32))
net = Twin()
opt = torch.optim.Adadelta(net.parameters(), lr=1.0)
bce, triplet = nn.BCEWithLogitsLoss(), nn.TripletMarginLoss(margin=0.5)
for epoch in range(3):
    total = torch.zeros(3)
    for batch in loader:
        a, b, same = net(batch["a"], batch["b"])
        losses = [
            bce(same, batch["same"]),
            F.cosine_embedding_loss(a, b, batch["same"] * 2 - 1, margin=0.2),
            triplet(a, a.detach().roll(1, 0), b),
        ]
        opt.zero_grad()
        sum(losses).backward()
        opt.step()
        total += torch.stack(losses).detach()
    print(epoch, [f"{x:.5f}" for x in (total / len(loader)).tolist()])
net.eval()
with torch.no_grad():
    batch = next(iter(loader))
    a, b, same = net(batch["a"], batch["b"])
    right = (same > 0) == (batch["same"] > 0)
print(f"{F.pairwise_distance(a, b).mean().item():.5f} {right.float().mean().item():.4f}")
