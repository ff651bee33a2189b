"""What the way between tensors and JAX costs: `python -m benchmarks.crossing`.

Prints three ratios of CPU seconds, medians of interleaved rounds: a module through `to_jax` under `jax.jit` beside the
same network of flax, an operator of `from_jax` in an eager loop beside one operator, and `func.vmap(func.grad)` that is
not compiled beside PyTorch's.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import flax.linen
import jax
import jax.numpy as jnp
import torch as original

import torchgrad_jax as torch

ROUNDS = 15


def seconds(run: Callable[[], Any], times: int) -> float:
    """CPU seconds of so many calls."""
    start = time.process_time()
    for _ in range(times):
        run()
    return time.process_time() - start


def ratio(ours: Callable[[], Any], theirs: Callable[[], Any], times: int) -> str:
    """The median of interleaved rounds, with the least and the largest ratio of a round."""
    for run in (ours, theirs):
        seconds(run, 30)
    rounds = [seconds(ours, times) / seconds(theirs, times) for _ in range(ROUNDS)]
    return f"{statistics.median(rounds):.2f} ({min(rounds):.2f} to {max(rounds):.2f})"


def network(width: int) -> tuple[Any, Any]:
    """The gradients of one network: through `to_jax`, and of flax."""

    class Flax(flax.linen.Module):
        @flax.linen.compact
        def __call__(self, x: Any) -> Any:
            for _ in range(2):
                x = flax.linen.relu(flax.linen.Dense(width)(x))
            return flax.linen.Dense(1)(x)

    layers = [
        torch.nn.Linear(width, width),
        torch.nn.ReLU(),
        torch.nn.Linear(width, width),
        torch.nn.ReLU(),
        torch.nn.Linear(width, 1),
    ]
    mine, x = torch.to_jax(torch.nn.Sequential(*layers)), jnp.ones((64, width), jnp.float32)
    other: Any = Flax()
    step = jax.jit(jax.grad(lambda p: (mine(p, x) ** 2).mean()))
    beside = jax.jit(jax.grad(lambda p: (other.apply(p, x) ** 2).mean()))
    params, theirs = mine.params, other.init(jax.random.key(0), x)
    return lambda: jax.block_until_ready(step(params)), lambda: jax.block_until_ready(beside(theirs))


def in_a_loop(recorded: bool) -> tuple[Any, Any]:
    """A function of JAX's as an operator, and an operator of the table."""
    x = torch.ones(16, requires_grad=recorded)
    f = torch.from_jax(jnp.sin)
    return lambda: f(x), lambda: torch.sin(x)


def per_sample(torch: Any) -> Any:
    """Gradients for each row of a batch, again by `vmap` of `grad` in each call."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    params = {k: p.detach() for k, p in net.named_parameters()}
    x = torch.ones(32, 8)

    def loss(params: Any, row: Any) -> Any:
        return torch.func.functional_call(net, params, (row,)).sum()

    return lambda: torch.func.vmap(torch.func.grad(loss), (None, 0))(params, x)


def main() -> None:
    """Print one row for each ratio."""
    original.set_num_threads(1)
    for width, times in ((32, 200), (512, 20)):
        print(f"to_jax beside flax, width {width}:", ratio(*network(width), times))
    for recorded in (False, True):
        print(f"from_jax beside an operator, recorded {recorded}:", ratio(*in_a_loop(recorded), 2000))
    print("func.vmap(func.grad) beside torch:", ratio(per_sample(torch), per_sample(original), 50))


if __name__ == "__main__":
    main()
