"""Plans of models with many equal layers, of which a few are compiled."""

import dataclasses
import re

import pytest

import torchgrad_jax as torch
from tests.targets.test_plans import SMALL
from torchgrad_jax import nn
from torchgrad_jax._bridge.compile.inspection import compile_together
from torchgrad_jax._bridge.compile.plans.chips import CHIPS
from torchgrad_jax._bridge.compile.plans.layers import Layers, equal_layers, extended, only_first
from torchgrad_jax._bridge.compile.plans.plan import Exchange, Held, report
from torchgrad_jax._core.jax.private import COMPILATION_CACHE


class Net(nn.Module):
    def __init__(self, count=8, width=16):
        super().__init__()
        self.first = nn.ModuleList([nn.Linear(4, width)] * 1)
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(count)])
        self.heads = nn.ModuleList([nn.Linear(width, 1) for _ in range(20)])
        self.different = nn.Sequential(*[nn.Linear(width, width + i) for i in range(9)])

    def forward(self, x):
        h = self.first[0](x)
        for layer in self.layers:
            h = layer(h).tanh()
        return self.heads[0](h)


def step_of(net):
    def step(x):
        return net(x)

    return step


def test_the_equal_layers_are_the_ones_with_most_parameters():
    net = Net()
    name, owner, count = equal_layers(step_of(net))
    assert (name, count) == ("net.layers", 8)
    assert owner is net.layers


def test_a_step_without_equal_layers():
    with pytest.raises(RuntimeError, match="reaches no list of more than 4 equal layers"):
        equal_layers(step_of(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2), nn.Linear(2, 2), nn.Tanh())))


def test_all_layers_are_back_also_after_an_error():
    net = Net()
    layers, before = equal_layers(step_of(net)), [*net.layers]

    def cut():
        with only_first(layers, 2):
            assert len(net.layers) == 2
            assert net(torch.ones(1, 4)).shape == (1, 1)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        cut()
    assert [*net.layers] == before
    assert [*dict(net.layers.named_children())] == [str(i) for i in range(8)]


def with_layers(n):
    return dataclasses.replace(
        SMALL,
        memory={"parameters": 100 + 10 * n, "temporary": 7},
        flops=1e12 * n,
        bytes=1e9,
        held=[Held("loss", 1, 64), Held("layer", n, 30 * n)],
        exchanges=[Exchange("all-gather", "f32[2]", n - 2, 8 * (n - 2))],
        emulated=[],
        kernels=3 + 5 * n,
    )


def test_a_line_goes_through_two_plans():
    found = extended(Layers("net.layers", None, 8), CHIPS["v5e"], with_layers(2), with_layers(4))
    assert found.memory == {"parameters": 180, "temporary": 7}
    assert (found.flops, found.bytes, found.kernels) == (8e12, 1e9, 43)
    assert found.seconds == 8e12 / CHIPS["v5e"].flops
    assert found.held == [Held("layer", 8, 240), Held("loss", 1, 64)]
    assert found.exchanges == [Exchange("all-gather", "f32[2]", 6, 48)]
    assert found.layers == "2 and 4 of 8 in net.layers, extended"
    assert re.search(
        r"^equal layers +2 and 4 of 8 in net.layers, extended +all compiled$",
        "\n".join(report([found, SMALL])),
        re.MULTILINE,
    )


def test_programs_are_compiled_at_once_and_files_stay_as_they_were():
    """Each part of a plan, and its backward pass, has the program that is made of it."""
    x = torch.ones(3, requires_grad=True)
    lows = [torch.compile(lambda x, n=n: x * n).lower(x) for n in (2.0, 3.0)]
    before = COMPILATION_CACHE._cache
    compile_together(lows)
    assert COMPILATION_CACHE._cache is before
    for low, n in zip(lows, ("2", "3")):
        assert f"constant({n})" in low.optimized_text()
        assert low.backward._compiled is not None


def test_the_plan_by_layers_is_that_of_the_whole_model(tpu):
    def planned(how):
        net = Net(12, 256).to("tpu")
        opt = torch.optim.AdamW(net.parameters())

        @torch.compile
        def step(x):
            opt.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            opt.step()
            return loss.detach()

        return getattr(step, how)(torch.randn(512, 4, device="tpu"))

    with tpu:
        few, whole = planned("plan_by_layers"), planned("plan")
    assert few.layers
    assert whole.layers is None
    assert few.memory["parameters"] == whole.memory["parameters"]
    assert few.memory["optimizer"] == whole.memory["optimizer"]
    assert few.total - few.memory["code"] == pytest.approx(whole.total - whole.memory["code"], rel=0.03)
    assert few.flops == pytest.approx(whole.flops, rel=0.01)
    assert few.bytes == pytest.approx(whole.bytes, rel=0.1)
    assert sum(h.bytes for h in few.held) == pytest.approx(
        sum(h.bytes for h in whole.held), rel=0.2
    )  # the fullest place moves
