"""``python -m benchmarks.devices``: steps over eight virtual devices beside `jax.jit` with the same shardings.

Prints the ratio of the time of a step, of the first step (tracing and compiling), and of first steps on eight devices
to first steps on one, ours and by hand. CPU seconds of all threads.
Runs in a process of its own, since the number of devices is fixed when JAX begins.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

import torchgrad_jax as torch
from torchgrad_jax import nn
from torchgrad_jax.distributed.device_mesh import init_device_mesh
from torchgrad_jax.distributed.fsdp import fully_shard
from torchgrad_jax.distributed.tensor import Shard, distribute_module, distribute_tensor
from torchgrad_jax.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

BATCH, WIDTH, HIDDEN, RATE = 256, 256, 1024, 1e-3
ROUNDS, INNER = 15, 10
FREE = P.UNCONSTRAINED


def network() -> Any:
    """Two layers; the same numbers each time."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, WIDTH))


def columns_and_rows(net: Any, mesh: Any) -> Any:
    """The first layer split by columns, the second by rows."""
    return parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})


WAYS: dict[str, tuple[Callable[[Any, Any], Any], bool]] = {
    "data parallelism": (distribute_module, True),
    "FSDP": (lambda net, mesh: fully_shard(net, mesh=mesh), True),
    "tensor parallelism": (columns_and_rows, False),
}
"""How a network is spread, and whether the batch is split."""


def build(way: str, n: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A training step over `n` devices, and the same written by hand."""
    spread, splits = WAYS[way]
    mesh = init_device_mesh("cpu", (n,))
    net = spread(network(), mesh)
    x, y = (distribute_tensor(torch.randn(BATCH, WIDTH), mesh, [Shard(0)] if splits else None) for _ in range(2))
    columns = None if splits else NamedSharding(mesh.jax_mesh, P(FREE, "dim_0"))
    return ours(net, x, y), by_hand(net, x, y, columns)


def ours(net: Any, x: Any, y: Any) -> Callable[[], Any]:
    """A step in PyTorch's words, compiled."""
    optimizer = torch.optim.SGD(net.parameters(), RATE)

    @torch.compile
    def step() -> Any:
        optimizer.zero_grad()
        loss = (net(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return lambda: step().item()


def by_hand(net: Any, x: Any, y: Any, columns: Any) -> Callable[[], Any]:
    """The same step in JAX, with the same shardings; like a compiled step, it gives the gradients, too."""

    def loss(ps: list[Any], x: Any, y: Any) -> Any:
        hidden = jax.nn.relu(x @ ps[0].T + ps[1])
        if columns is not None:
            hidden = jax.lax.with_sharding_constraint(hidden, columns)
        return jnp.mean((hidden @ ps[2].T + ps[3] - y) ** 2)

    def step(ps: list[Any], x: Any, y: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(ps, x, y)
        return [p - RATE * g for p, g in zip(ps, gradients, strict=True)], gradients, value

    there = [p.sharding for p in net.parameters()]
    held = [jax.device_put(jnp.array(p.detach()), p.sharding) for p in net.parameters()]
    run = jax.jit(step, donate_argnums=0, out_shardings=(there, there, None))
    xs = x._st.array, y._st.array

    def call() -> float:
        held[:], _, value = run(held, *xs)
        return value.item()

    return call


def seconds(call: Callable[[], Any]) -> float:
    """CPU seconds of one call, of all threads."""
    start = time.process_time()
    for _ in range(INNER):
        call()
    return (time.process_time() - start) / INNER


def first(way: str, n: int) -> tuple[float, float]:
    """CPU seconds of the first step over `n` devices, tracing and compiling: ours, and by hand."""
    jax.clear_caches()
    found = []
    for call in build(way, n):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return found[0], found[1]


def main() -> None:
    """Measure and print."""
    jax.config.update("jax_enable_compilation_cache", False)
    titles = ("step / jax.jit", "first step / jax.jit", "first, 8 to 1", "jax.jit, 8 to 1")
    print(f"{'way':<20}" + "".join(f"{t:>22}" for t in titles))
    for way in WAYS:
        step, hand = build(way, 8)
        for _ in range(3):
            step(), hand()
        pairs = [seconds(step) / seconds(hand) for _ in range(ROUNDS)]
        many, one = ([first(way, n) for _ in range(3)] for n in (8, 1))
        (a, b), (c, d) = ([statistics.median(column) for column in zip(*runs)] for runs in (many, one))
        figures = (statistics.median(pairs), a / b, a / c, b / d)
        print(f"{way:<20}" + "".join(f"{x:>22.2f}" for x in figures))


if __name__ == "__main__":
    main()
