"""Every attribute that a step was seen to read is compared before its program runs again."""

import dataclasses

import pytest

import torchgrad_jax as torch
from torchgrad_jax import nn
from torchgrad_jax.nn import functional as F

from .reads_oracle import Spy


@dataclasses.dataclass
class Config:
    width: int = 4
    heads: int = 2
    dropout: float = 0.0
    activation: str = "gelu"
    pre_norm: bool = True


class Rope:
    """An object that is no module, with a cache and a property."""

    def __init__(self, width):
        self.width, self.base, self._table = width, 100.0, None
        self.table = torch.ones(width)

    @property
    def frequencies(self):
        return self.table * self.base


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, self.scale, self.rope = config, 0.5, Rope(config.width)
        self.qkv, self.out = nn.Linear(config.width, 3 * config.width), nn.Linear(config.width, config.width)
        self.register_buffer("bias", torch.zeros(config.width))

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        weights = (q @ k.transpose(-1, -2) * self.scale).softmax(-1)
        return self.out(F.dropout(weights @ v, self.config.dropout, self.training)) + self.bias * self.rope.frequencies


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, self.attention, self.norm = config, Attention(config), nn.LayerNorm(config.width)
        self.activation = getattr(F, config.activation)
        self.gain = nn.Parameter(torch.ones(config.width))

    def forward(self, x):
        inner = self.norm(x) if self.config.pre_norm else x
        return x + self.activation(self.attention(inner)) * self.gain


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, self.blocks = config, nn.ModuleList([Block(config) for _ in range(2)])
        self.options = {"residual": True, "factors": [1.0, 2.0]}
        self.names = ("blocks", "head")
        self.head = nn.Linear(config.width, 2)

    def forward(self, x):
        for block, factor in zip(self.blocks, self.options["factors"], strict=True):
            x = block(x) * factor
        return getattr(self, self.names[1])(x)


class Trainer:
    """A step that is a method, with a helper, a schedule of its own and an option that is asked for by name."""

    def __init__(self):
        torch.manual_seed(0)
        self.model, self.weight, self.clip, self.metric = Model(Config()), 2.0, 1.0, "mean"
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)
        self.history = []

    def loss(self, x):
        return getattr(self.model(x).pow(2) * self.weight, self.metric)()

    def step(self, x):
        loss = self.loss(x)
        self.optimizer.zero_grad()
        loss.backward()
        if self.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        return loss


def _objects(trainer):
    found = [trainer, trainer.model.config, *trainer.model.modules()]
    return found + [module.rope for module in trainer.model.modules() if isinstance(module, Attention)]


STEPS = {
    "forward": lambda trainer: trainer.model.forward,
    "loss": lambda trainer: trainer.loss,
    "step": lambda trainer: trainer.step,
    "helper": lambda trainer: lambda x: trainer.loss(x) * trainer.weight,
    "evaluation": lambda trainer: trainer.model.eval().forward,
}


@pytest.mark.parametrize("name", STEPS)
def test_each_attribute_that_is_read_is_guarded(name):
    trainer, x = Trainer(), torch.ones(3, 4)
    step = STEPS[name](trainer)
    compiled = torch.compile(step)
    compiled(x)
    (entry,) = (entry for entries in compiled.entries.values() for entry in entries)
    with Spy(_objects(trainer)) as spy:
        step(x)
    assert len(spy.read) > 15
    assert spy.unguarded(entry) == []


def test_what_is_not_guarded_is_told():
    trainer, x = Trainer(), torch.ones(3, 4)
    compiled = torch.compile(trainer.model.forward)
    compiled(x)
    (entry,) = (entry for entries in compiled.entries.values() for entry in entries)
    with Spy(_objects(trainer)) as spy:
        trainer.loss(x)
    assert spy.unguarded(entry) == ["Trainer.metric", "Trainer.model", "Trainer.weight"]
