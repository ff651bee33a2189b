"""A small DCGAN."""

import torch, torch.nn as nn

torch.manual_seed(2)


def weights_init(m):
    n = m.__class__.__name__
    if n.find("Conv") != -1:
        m.weight.data.normal_(0.0, 0.02)
    elif n.find("BatchNorm") != -1:
        m.weight.data.normal_(1.0, 0.02)
        m.bias.data.fill_(0)


G = nn.Sequential(
    nn.ConvTranspose2d(8, 16, 4, 1, 0, bias=False),
    nn.BatchNorm2d(16),
    nn.ReLU(True),
    nn.ConvTranspose2d(16, 1, 4, 2, 1, bias=False),
    nn.Tanh(),
)
D = nn.Sequential(
    nn.Conv2d(1, 8, 4, 2, 1, bias=False),
    nn.LeakyReLU(0.2, inplace=True),
    nn.Conv2d(8, 1, 4, 1, 0, bias=False),
    nn.Sigmoid(),
)
G.apply(weights_init)
D.apply(weights_init)
crit = nn.BCELoss()
oD = torch.optim.Adam(D.parameters(), lr=0.002, betas=(0.5, 0.999))
oG = torch.optim.Adam(G.parameters(), lr=0.002, betas=(0.5, 0.999))
real_data = torch.rand(64, 1, 8, 8).round() * 2 - 1
for it in range(8):
    real = real_data[(it * 8) % 64 : (it * 8) % 64 + 8]
    D.zero_grad()
    label = torch.full((8,), 1.0, dtype=torch.float)
    out = D(real).view(-1)
    eD = crit(out, label)
    eD.backward()
    Dx = out.mean().item()
    noise = torch.randn(8, 8, 1, 1)
    fake = G(noise)
    label.fill_(0.0)
    out = D(fake.detach()).view(-1)
    eF = crit(out, label)
    eF.backward()
    oD.step()
    G.zero_grad()
    label.fill_(1.0)
    out = D(fake).view(-1)
    eG = crit(out, label)
    eG.backward()
    oG.step()
    print(
        "[%d] Loss_D: %.5f Loss_G: %.5f D(x): %.5f D(G(z)): %.5f"
        % (it, (eD + eF).item(), eG.item(), Dx, out.mean().item())
    )
