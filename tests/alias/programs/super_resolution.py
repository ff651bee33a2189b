"""Super resolution: channels rearranged into finer pixels."""

import math

import torch
import torch.nn as nn
import torch.nn.init as init
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(3)


class Ripples(Dataset):
    def __init__(self, n):
        self.rate = torch.rand(n, 2) * 4 + 1

    def __len__(self):
        return len(self.rate)

    def __getitem__(self, i):
        grid = torch.linspace(0, 1, 12)
        a, b = self.rate[i]
        fine = (torch.sin(a * grid)[:, None] + torch.cos(b * grid)).unsqueeze(0) / 2
        return nn.functional.avg_pool2d(fine, 3), fine


class Upscale(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.act = nn.ReLU()
        self.conv1 = nn.Conv2d(1, 8, (5, 5), (1, 1), (2, 2))
        self.conv2 = nn.Conv2d(8, 6, (3, 3), padding="same", padding_mode="reflect")
        self.conv3 = nn.Conv2d(6, factor**2, 3, 1, 1)
        self.shuffle = nn.PixelShuffle(factor)
        for layer in (self.conv1, self.conv2):
            init.orthogonal_(layer.weight, init.calculate_gain("relu"))
        init.orthogonal_(self.conv3.weight)

    def forward(self, x):
        return self.shuffle(self.conv3(self.act(self.conv2(self.act(self.conv1(x))))))


model = Upscale(3)
loader = DataLoader(Ripples(24), batch_size=8, shuffle=True)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
sched = torch.optim.lr_scheduler.StepLR(opt, 2, gamma=0.5)
criterion = nn.MSELoss()
for epoch in range(4):
    for coarse, fine in loader:
        opt.zero_grad()
        loss = criterion(model(coarse), fine)
        loss.backward()
        opt.step()
    sched.step()
    print(f"{epoch} {loss.item():.6f} psnr {10 * math.log10(1 / loss.item()):.4f}")
coarse, fine = next(iter(DataLoader(Ripples(4), 4)))
plain = nn.functional.interpolate(coarse, scale_factor=3, mode="bicubic", align_corners=False)
print(f"{criterion(plain, fine).item():.6f}", model.shuffle, nn.PixelUnshuffle(3)(fine).shape)
