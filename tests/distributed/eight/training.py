"""A small network, ways to spread it over eight devices, and its training."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import torchgrad_jax as torch
from torchgrad_jax import nn
from torchgrad_jax.distributed.device_mesh import DeviceMesh, init_device_mesh
from torchgrad_jax.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
from torchgrad_jax.distributed.fsdp.wrap import ModuleWrapPolicy
from torchgrad_jax.distributed.tensor import Replicate, Shard, distribute_module, distribute_tensor
from torchgrad_jax.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

STEPS = 20


class Net(nn.Module):
    """Tokens to scores of tokens, with dropout between."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, 8)
        self.norm = nn.LayerNorm(8)
        self.up = nn.Linear(8, 16)
        self.dropout = nn.Dropout(0.2)
        self.down = nn.Linear(16, 8)
        self.head = nn.Linear(8, 16)

    def forward(self, tokens: Any) -> Any:
        x = self.embedding(tokens)
        h = nn.functional.gelu(self.up(self.norm(x)))
        return self.head(x + self.down(self.dropout(h)))


def network() -> Any:
    torch.manual_seed(0)
    return Net().double()


def batch() -> tuple[Any, Any]:
    draws = torch.Generator().manual_seed(1)
    x, y = (torch.randint(16, (8, 4), generator=draws) for _ in range(2))
    return x, y


def line() -> DeviceMesh:
    return init_device_mesh("cpu", (8,))


def grid() -> DeviceMesh:
    return init_device_mesh("cpu", (4, 2), mesh_dim_names=("dp", "tp"))


def plain(net: Any) -> Any:
    return net


def data_parallel(net: Any) -> Any:
    def split(module: Any, inputs: Any, mesh: Any) -> Any:
        return distribute_tensor(inputs[0], mesh, [Shard(0)])

    return distribute_module(net, line(), None, split)


def sharded(net: Any, mesh: Any = None, **options: Any) -> Any:
    for part in (net.up, net.down):
        fully_shard(part, mesh=mesh, **options)
    return fully_shard(net, mesh=mesh, **options)


def wrapped(strategy: ShardingStrategy) -> Callable[[Any], Any]:
    mesh = grid() if "HYBRID" in strategy.name else None
    return lambda net: FullyShardedDataParallel(
        net, sharding_strategy=strategy, auto_wrap_policy=ModuleWrapPolicy({nn.Linear}), device_mesh=mesh
    )


PLAN: dict[str, Any] = {
    "embedding": ColwiseParallel(output_layouts=Replicate()),
    "up": ColwiseParallel(),
    "down": RowwiseParallel(),
    "head": ColwiseParallel(),
}
ALONG_THE_SEQUENCE: dict[str, Any] = {
    "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    "norm": SequenceParallel(),
    "up": ColwiseParallel(input_layouts=Shard(1)),
    "down": RowwiseParallel(output_layouts=Shard(1)),
    "head": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
}
PREPARED: dict[str, Any] = {
    "up": ColwiseParallel(output_layouts=Shard(-1)),
    "down": RowwiseParallel(),
    "head": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
}


def tensor_parallel(plan: dict[str, Any], n: int = 8) -> Callable[[Any], Any]:
    return lambda net: parallelize_module(net, init_device_mesh("cpu", (n,)), plan)


def both(plan: dict[str, Any]) -> Callable[[Any], Any]:
    def spread(net: Any) -> Any:
        mesh = grid()
        parallelize_module(net, mesh["tp"], plan)
        return sharded(net, mesh["dp"])

    return spread


WAYS: dict[str, Callable[[Any], Any]] = {
    "data-parallel": data_parallel,
    "fsdp": sharded,
    "fsdp-gathered-once": lambda net: sharded(net, reshard_after_forward=False),
    "fsdp-replicated": lambda net: sharded(net, grid()),
    **{strategy.name: wrapped(strategy) for strategy in ShardingStrategy},
    "tensor-parallel": tensor_parallel(PLAN),
    "sequence-parallel": tensor_parallel(ALONG_THE_SEQUENCE, 4),
    "prepared": tensor_parallel(PREPARED, 4),
    "fsdp-tensor-parallel": both(PLAN),
    "fsdp-sequence-parallel": both(ALONG_THE_SEQUENCE),
}


FEW = {("data-parallel", False), ("fsdp", True), ("tensor-parallel", False), ("fsdp-tensor-parallel", True)}
"""Ways, and whether the step is compiled, of a first process; the others take two minutes in another one."""


@functools.cache
def one_device() -> dict[str, Any]:
    """The training that all ways must repeat."""
    return trained(plain, compiled=False)


def check(way: str, compiled: bool) -> None:
    """Complain unless the training over eight devices is that of one."""
    want, got = one_device(), trained(WAYS[way], compiled)
    assert want.keys() == got.keys()
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-8, atol=1e-12, err_msg=name)


def trained(spread: Callable[[Any], Any], compiled: bool) -> dict[str, Any]:
    """What can be seen of a training: losses, norms, gradients, parameters, optimizer, and the next random number."""
    net = spread(network())
    x, y = batch()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)

    def step() -> Any:
        optimizer.zero_grad()
        with loss_parallel():
            loss = nn.functional.cross_entropy(net(x).flatten(0, 1), y.flatten())
            loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
        return loss, norm

    run = torch.compile(step) if compiled else step
    seen: dict[str, Any] = {"steps": [[t.item() for t in run()] for _ in range(STEPS)]}
    for name, p in net.named_parameters():
        state = optimizer.state[p]
        seen[name] = [t.tolist() for t in (p, p.grad, state["exp_avg"], state["exp_avg_sq"])]
    seen["next"] = torch.rand(2).tolist()
    return seen
