"""Compiled steps hold the collectives, and take the memory, of a step written by hand in JAX with equal shardings."""

import re
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import monitoring
from jax.sharding import NamedSharding, PartitionSpec as P

import torchgrad_jax as torch
from tests.distributed.eight.training import data_parallel, grid, line
from torchgrad_jax import nn
from torchgrad_jax.distributed.device_mesh import init_device_mesh
from torchgrad_jax.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
from torchgrad_jax.distributed.tensor import Replicate, Shard, distribute_tensor
from torchgrad_jax.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

KINDS = "all-reduce|all-gather|reduce-scatter|collective-permute|all-to-all"
WIDTH = 512
RATE = 0.1
FREE = P.UNCONSTRAINED


def network() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 32))


def tensor_parallel(net: Any) -> Any:
    return parallelize_module(net, line(), {"0": ColwiseParallel(), "2": RowwiseParallel()})


def both(net: Any) -> Any:
    mesh = grid()
    parallelize_module(net, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return fully_shard(net, mesh=mesh["dp"])


def hybrid(net: Any) -> Any:
    strategy = ShardingStrategy.HYBRID_SHARD
    return FullyShardedDataParallel(net, sharding_strategy=strategy, device_mesh=grid())


WAYS: dict[str, tuple[Any, int]] = {
    "data-parallel": (data_parallel, 1),
    "fsdp": (fully_shard, 8),
    "FULL_SHARD": (FullyShardedDataParallel, 8),
    "HYBRID_SHARD": (hybrid, 2),
    "tensor-parallel": (tensor_parallel, 8),
    "fsdp-tensor-parallel": (both, 8),
}
"""How a network is spread, and into how many parts its weights are split."""
COLUMNS = {"tensor-parallel": "dim_0", "fsdp-tensor-parallel": "tp"}
"""Over which axis the columns of the hidden layer are split, where the way says so."""


def step_of(net: Any, x: Any, y: Any) -> Any:
    optimizer = torch.optim.SGD(net.parameters(), RATE)

    def step() -> Any:
        optimizer.zero_grad()
        loss = (net(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return torch.compile(step)


def program_of(step: Any) -> Any:
    """The program that a compiled step runs, compiled once more."""
    step()
    (entries,) = step.entries.values()
    (entry,) = entries
    kernel, given = entry.program.kernel, []
    run = kernel.call
    kernel.call = lambda *xs: (given.append(xs), run(*xs))[1]
    entry.run_quickly = None
    step()
    return kernel._compiled.lower(*[shape_and_placement(x) for x in given[0]]).compile()


def shape_and_placement(x: Any) -> Any:
    if isinstance(x, int | float):
        return x
    is_placed = getattr(x, "committed", False)  # others go to the devices of those that are
    return jax.ShapeDtypeStruct(np.shape(x), x.dtype, sharding=x.sharding if is_placed else None)


def by_hand(params: list[Any], x: Any, y: Any, columns: Any) -> Any:
    """The same step in JAX: parameters and batch lie as they do for the network.

    `columns` is the sharding of the hidden layer, where the way to spread it says one.
    """

    def loss(ps: list[Any], x: Any, y: Any) -> Any:
        hidden = jax.nn.relu(x @ ps[0].T + ps[1][None])
        if columns is not None:
            hidden = jax.lax.with_sharding_constraint(hidden, columns)
        out = hidden @ ps[2].T + ps[3][None]
        if columns is not None:
            out = jax.lax.with_sharding_constraint(out, columns.update(spec=P(FREE, None)))
        return jnp.mean((out - y) ** 2)

    def step(ps: list[Any], x: Any, y: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(ps, x, y)
        return [p - RATE * g for p, g in zip(ps, gradients, strict=True)], value

    there = [p.sharding for p in params]
    run = jax.jit(step, donate_argnums=0, out_shardings=(there, None))
    return run.lower([shape_and_placement(p) for p in params], shape_and_placement(x), shape_and_placement(y)).compile()


def collectives(program: Any) -> Counter[str]:
    return Counter(re.findall(rf" ({KINDS})(?:-start)?\(", program.as_text()))


@pytest.mark.parametrize("way", list(WAYS))
def test_collectives_and_memory(way: str):
    spread, parts = WAYS[way]
    net = spread(network())
    params: list[Any] = list(net.parameters())
    mesh = params[0].device_mesh
    x, y = torch.randn(8, 32), torch.randn(8, 32)
    if way != "tensor-parallel":
        across = mesh["dp"] if way == "fsdp-tensor-parallel" else mesh
        x, y = (distribute_tensor(t, across, [Shard(0)] * across.ndim) for t in (x, y))
    else:
        x, y = (distribute_tensor(t, mesh) for t in (x, y))
    ours = program_of(step_of(net, x, y))
    held = [jax.device_put(jnp.asarray(p.detach()), p.sharding) for p in params]
    axis = COLUMNS.get(way)
    columns = None if axis is None else NamedSharding(mesh.jax_mesh, P(FREE, axis))
    theirs = by_hand(held, x._st.array, y._st.array, columns)
    found, wanted = collectives(ours), collectives(theirs)
    assert found.keys() == wanted.keys()
    assert wanted
    assert found <= wanted  # and no more
    memory, own = theirs.memory_analysis(), ours.memory_analysis()
    # They differ by the learning rate at most.
    assert abs(own.argument_size_in_bytes - memory.argument_size_in_bytes) <= 64
    weights = sum(p.nbytes for p in params[::2])
    per_device = sum(p.addressable_shards[0].data.nbytes for p in params[::2])
    assert per_device * parts == weights


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_memory_per_device_shrinks(n: int):
    """Parameters and the state of AdamW take an n-th of the memory on each of n devices."""
    net = fully_shard(network(), mesh=init_device_mesh("cpu", (n,)))
    optimizer = torch.optim.AdamW(net.parameters())
    x = torch.randn(8, 32)

    def step() -> None:
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()

    step()
    used = program_of(torch.compile(step)).memory_analysis().argument_size_in_bytes
    whole = sum(3 * p.nbytes for p in net.parameters())
    assert whole / n <= used <= whole / n + x.nbytes + 256


def test_splitting_the_classes_gathers_no_logits():
    """A cross entropy of split logits adds up over the devices."""
    mesh = line()
    logits = distribute_tensor(torch.randn(16, 64), mesh, [Shard(1)]).requires_grad_()
    labels = torch.randint(64, (16,))

    def loss() -> Any:
        logits.grad = None
        value = nn.functional.cross_entropy(logits, labels)
        value.backward()
        return value

    found = collectives(program_of(torch.compile(loss)))
    assert set(found) == {"all-reduce"}


def test_sharding_is_part_of_what_is_pinned():
    """After compiled steps, parameters and their gradients lie as before."""
    net = fully_shard(network())
    x, y = torch.randn(8, 32), torch.randn(8, 32)
    step = step_of(net, x, y)
    before = [p.sharding for p in net.parameters()]
    step()
    step()
    assert [p.sharding for p in net.parameters()] == before
    assert all(p.grad.sharding.is_equivalent_to(p.sharding, p.ndim) for p in net.parameters())
    assert isinstance(before[0], NamedSharding)


def test_spreading_compiles_no_programs():
    """JAX compiles one for each shape where it splits an array of its own, which takes longer than most operators."""
    net = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
    batches = [(torch.randn(n, 256), torch.randn(n, 256)) for n in (256, 264)]
    compiled: list[str] = []
    taken = "/jax/core/compile/backend_compile_duration"

    def listen(event: str, duration_secs: float, **more: str | int) -> None:
        if event == taken:
            compiled.append(event)

    monitoring.register_event_duration_secs_listener(listen)
    fully_shard(net)
    for x, _ in batches:
        for placement in (Shard(0), Shard(1), Replicate()):
            distribute_tensor(x, line(), [placement]).redistribute(placements=[Shard(1)])
    assert not compiled
    loss = torch.compile(lambda x, y: (net(x) - y).square().mean())
    for x, y in batches:
        loss(x, y)
    assert len(compiled) == len(batches)
