"""A variational autoencoder."""

import torch, torch.utils.data
from torch import nn, optim
from torch.nn import functional as F

torch.manual_seed(1)


class VAE(nn.Module):
    def __init__(self):
        super(VAE, self).__init__()
        self.fc1 = nn.Linear(64, 32)
        self.fc21 = nn.Linear(32, 4)
        self.fc22 = nn.Linear(32, 4)
        self.fc3 = nn.Linear(4, 32)
        self.fc4 = nn.Linear(32, 64)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, lv = self.encode(x.view(-1, 64))
        z = self.reparameterize(mu, lv)
        return self.decode(z), mu, lv


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 64), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


data = torch.rand(80, 1, 8, 8)
loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)
model = VAE()
optimizer = optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(3):
    model.train()
    tl = 0
    for i, x in enumerate(loader):
        optimizer.zero_grad()
        r, mu, lv = model(x)
        loss = loss_function(r, x, mu, lv)
        loss.backward()
        tl += loss.item()
        optimizer.step()
        print(f"{epoch} {i} {loss.item() / len(x):.5f}")
    print("====> Epoch: {} Average loss: {:.4f}".format(epoch, tl / len(loader.dataset)))
