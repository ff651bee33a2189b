"""A tensor that a compiled function reads gets other memory between calls, by `.data =` or `set_`."""

from __future__ import annotations

import pytest

import torchgrad_jax as torch
from torchgrad_jax import nn


def _replace_data(w):
    w.data = w.data + 1


def _set(w):
    with torch.no_grad():
        w.set_(w.detach() + 1)


WAYS = {
    "itself": lambda w: w,
    "detach": lambda w: w.detach(),
    "data": lambda w: w.data,
    "a view of detach": lambda w: w.detach()[1:],
    "detach of a view": lambda w: w.view(2, 2).detach().reshape(4)[1:],
    "a state_dict": lambda w: w.module().state_dict()["w"],
    "NumPy": lambda w: torch.from_numpy(w.detach().numpy()),
    "DLPack": lambda w: torch.from_dlpack(w.detach()),
    "its storage": lambda w: torch.empty(0).set_(w.detach().untyped_storage(), 0, (4,)),
}


class _Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([1.0, 2.0, 3.0, 4.0]))


@pytest.mark.parametrize("replace", [_replace_data, _set], ids=lambda f: f.__name__)
@pytest.mark.parametrize("way", WAYS)
def test_the_next_call_reads_the_new_memory(way, replace):
    module = _Module()

    def f(x):
        w = module.w
        w.module = lambda: module
        try:
            return (x * WAYS[way](w)).sum()
        finally:
            del w.module

    compiled = torch.compile(f)
    expected, found = [], []
    for _ in range(3):
        found.append(compiled(torch.ones(1)).item())
        expected.append(f(torch.ones(1)).item())
        replace(module.w)
    assert found == expected
    assert len(set(found)) == 3


def test_an_average_of_weights_goes_on_with_new_memory():
    net, average = nn.Linear(2, 1), nn.Linear(2, 1)

    def update():
        for a, p in zip(average.parameters(), net.parameters()):
            a.data.mul_(0.5).add_(p.data, alpha=0.5)

    compiled, expected = torch.compile(update), average.weight.detach().clone()
    for _ in range(3):
        compiled()
        expected = expected * 0.5 + net.weight.detach() * 0.5
        assert torch.equal(average.weight, expected)
        net.weight.data = net.weight.data + 1
        average.weight.data = average.weight.data * 1
