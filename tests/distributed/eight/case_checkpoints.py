"""Layers that run again in backward, over eight devices."""

import importlib
from typing import Any

import pytest

import torchgrad_jax as torch
from torchgrad_jax import nn
from torchgrad_jax.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, MixedPrecisionPolicy, fully_shard
from torchgrad_jax.distributed.tensor import Shard


def shard_each(net: Any, dtype: Any) -> Any:
    """`fully_shard` for each layer and for the whole."""
    policy = MixedPrecisionPolicy(param_dtype=dtype)
    for layer in net:
        fully_shard(layer, mp_policy=policy)
    return fully_shard(net, mp_policy=policy)


def wrap_each(net: Any, dtype: Any) -> Any:
    """The same with wrappers."""
    precision = MixedPrecision(param_dtype=dtype)
    for i in range(len(net)):
        net[i] = FullyShardedDataParallel(net[i], mixed_precision=precision)
    return FullyShardedDataParallel(net, mixed_precision=precision)


def test_activation_checkpoints_of_sharded_layers():
    w = importlib.import_module("torchgrad_jax.distributed.algorithms._checkpoint.checkpoint_wrapper")

    def losses(ways: str) -> list[float]:
        torch.manual_seed(0)
        net = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.3)) for _ in range(2)])
        if "s" in ways:
            for layer in net:
                fully_shard(layer)
            fully_shard(net)
        if "c" in ways:
            w.apply_activation_checkpointing(net, check_fn=lambda layer: isinstance(layer, nn.Sequential))
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        x = torch.arange(64.0).view(8, 8) / 64

        @torch.compile
        def step() -> Any:
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        found = [step().item() for _ in range(3)]
        assert "s" not in ways or all(p.placements == (Shard(0),) for p in net.parameters())
        return found

    want = losses("")
    for ways in ("c", "sc"):
        assert losses(ways) == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("by", [shard_each, wrap_each])
def test_a_recomputation_finds_the_parameters_in_the_dtype_of_the_forward(by, compiled):
    w = importlib.import_module("torchgrad_jax.distributed.algorithms._checkpoint.checkpoint_wrapper")

    def losses(order: str, reentrant: bool) -> list[float]:
        torch.manual_seed(0)
        net = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(2)])
        kind = w.CheckpointImpl.REENTRANT if reentrant else w.CheckpointImpl.NO_REENTRANT
        for what in order:
            if what == "s":
                net = by(net, torch.bfloat16)
            else:
                layers = getattr(net, "module", net)
                for i in range(2):
                    layers[i] = w.checkpoint_wrapper(layers[i], kind)
        optimizer = torch.optim.SGD(net.parameters(), 0.5)
        x = (torch.arange(64.0).view(8, 8) / 64).requires_grad_(reentrant)

        def step() -> Any:
            optimizer.zero_grad()
            loss = net(x).float().square().mean()
            loss.backward()
            optimizer.step()
            return loss

        run = torch.compile(step) if compiled else step
        return [run().item() for _ in range(2)]

    want = losses("s", False)
    assert want[1] < want[0]
    for order, reentrant in [("cs", False), ("cs", True), ("sc", False)][: 1 if compiled else 3]:
        assert losses(order, reentrant) == pytest.approx(want, rel=1e-5)
