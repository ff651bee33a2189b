"""What random training steps use: a network with most kinds of parts, an optimizer, and settings in a dictionary."""

import copy

import torchgrad_jax as torch
from torchgrad_jax import nn

F = nn.functional
LIBRARIES = (copy, F)  # which steps name
cfg = {
    "clip": 1.0, "every": 2, "scale": 1.0, "decay": 0.9, "smooth": 0.1, "aux": False, "names": ["a", "b"],
}  # fmt: skip
count = 0
history = []


class Block(nn.Module):
    gain = 1.0

    def __init__(self, n):
        super().__init__()
        self.lin, self.norm, self.scale = nn.Linear(n, n), nn.LayerNorm(n), 0.5
        self.register_buffer("seen", torch.zeros(()))
        self.calls = 0
        self.opts = {"skip": True}

    def forward(self, x):
        self.calls += 1
        if self.training:
            self.seen += 1
        y = self.norm(torch.tanh(self.lin(x))) * self.scale * self.gain
        return x + y if self.opts["skip"] else y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.blocks = nn.ModuleList([Block(4), Block(4)])
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 2)})
        self.bn = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.0)
        self.temp = nn.Parameter(torch.ones(()))
        self.head, self.depth, self.act = "a", 2, torch.relu

    def forward(self, x):
        h = self.act(self.first(x))
        for b in self.blocks[: self.depth]:
            h = b(h)
        return self.heads[self.head](self.drop(self.bn(h))) * self.temp


net = Net()
ema = copy.deepcopy(net)
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
sched = torch.optim.lr_scheduler.StepLR(opt, 2, 0.5)
extra = nn.Parameter(torch.tensor([0.1, 0.2]))
stats = torch.zeros(2)


def follow():
    for mean, p in zip(ema.parameters(), net.parameters()):
        mean.data.lerp_(p.detach(), 1 - cfg["decay"])


def two_groups():
    return [{"params": net.first.parameters()}, {"params": net.heads.parameters(), "lr": 0.01}]
