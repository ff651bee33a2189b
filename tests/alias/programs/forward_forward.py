"""Learning without backpropagation between layers: every layer likes the true and not the false."""

import torch
import torch.nn as nn
from torch.optim import Adam

torch.manual_seed(1234)
CLASSES = 4


def labelled(x, y):
    out = x.clone()
    out[:, :CLASSES] *= 0.0
    out[range(len(x)), y] = x.max()
    return out


class Layer(nn.Linear):
    def __init__(self, inside, outside, bias=True, device=None, dtype=None):
        super().__init__(inside, outside, bias, device, dtype)
        self.relu = nn.ReLU()
        self.opt = Adam(self.parameters(), lr=0.03)
        self.threshold = 1.5

    def forward(self, x):
        direction = x / (x.norm(2, 1, keepdim=True) + 1e-4)
        return self.relu(torch.mm(direction, self.weight.T) + self.bias.unsqueeze(0))

    def learn(self, true, false, epochs):
        for _ in range(epochs):
            good, bad = self.forward(true).pow(2).mean(1), self.forward(false).pow(2).mean(1)
            loss = torch.log(1 + torch.exp(torch.cat([self.threshold - good, bad - self.threshold]))).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        print(f"  {loss.item():.6f}")
        return self.forward(true).detach(), self.forward(false).detach()


class Net:
    def __init__(self, sizes):
        self.layers = [Layer(a, b) for a, b in zip(sizes, sizes[1:])]

    def predict(self, x):
        scores = []
        for label in range(CLASSES):
            h, goodness = labelled(x, label), []
            for layer in self.layers:
                h = layer(h)
                goodness += [h.pow(2).mean(1)]
            scores += [sum(goodness).unsqueeze(1)]
        return torch.cat(scores, 1).argmax(1)


y = torch.arange(60) % CLASSES
x = torch.randn(CLASSES, 20)[y] + 0.3 * torch.randn(60, 20)
false = y[torch.randperm(60)]
net = Net([20, 24, 16])
a, b = labelled(x, y), labelled(x, false)
for i, layer in enumerate(net.layers):
    print("layer", i, layer)
    a, b = layer.learn(a, b, 12)
print(f"error {1.0 - net.predict(x).eq(y).float().mean().item():.4f}")
