"""``python -m benchmarks.crossing``: what it costs to go from JAX to tensor code and back. CPU seconds of all threads.

Compares `to_jax(net)` and a module as a pytree under `jax.jit` with the same network of flax, and `from_jax` in an
eager loop with an operator of the table. `func.vmap(func.grad)` beside torch is a row of `python -m benchmarks`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import flax.linen as linen
import jax
import jax.numpy as jnp
import numpy as np

import torchgrad_jax as torch
from torchgrad_jax import nn

ROUNDS = 15
X = np.random.RandomState(0).randn(64, 128).astype(np.float32)
SIZES = (128, 256, 256, 10)


def module() -> Any:
    """Three layers."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(*SIZES[:2]), nn.ReLU(), nn.Linear(*SIZES[1:3]), nn.ReLU(), nn.Linear(*SIZES[2:])
    )


class Flax(linen.Module):
    """The same."""

    @linen.compact
    def __call__(self, x: Any) -> Any:
        for n in SIZES[1:3]:
            x = linen.relu(linen.Dense(n)(x))
        return linen.Dense(SIZES[3])(x)


def _called(run: Callable[..., Any], *args: Any) -> Callable[[], object]:
    return lambda: jax.block_until_ready(run(*args))


def contenders(gradient: bool) -> dict[str, Callable[[], object]]:
    """A forward pass under `jax.jit`, or its gradient."""

    def whole(f: Callable[[Any, Any], Any]) -> Any:
        return jax.jit(jax.grad(lambda p, x: (f(p, x) ** 2).sum()) if gradient else f)

    x, net, theirs = jnp.asarray(X), module(), Flax()
    pure = torch.to_jax(net)
    params = theirs.init(jax.random.key(0), x)
    return {
        "flax": _called(whole(theirs.apply), params, x),
        "to_jax": _called(whole(pure), pure.params, x),
        "module as a pytree": _called(whole(lambda net, x: net(x)), net, torch.as_tensor(x)),
    }


def eager_loop() -> dict[str, Callable[[], object]]:
    """A hundred calls on four elements, forward and backward."""

    def loop(f: Callable[[Any], Any], x: Any) -> Callable[[], object]:
        def step() -> object:
            z = x
            x.grad = None
            for _ in range(100):
                z = f(z)
            z.sum().backward()
            return x.grad

        return step

    return {
        "an operator of the table": loop(torch.tanh, torch.ones(4, requires_grad=True)),
        "from_jax": loop(torch.from_jax(jnp.tanh), torch.ones(4, requires_grad=True)),
    }


def compare(title: str, found: dict[str, Callable[[], object]], inner: int) -> None:
    """Print seconds, and the median of the ratios to the first."""
    seconds: dict[str, list[float]] = {name: [] for name in found}
    for call in found.values():
        for _ in range(4):
            call()
    for _ in range(ROUNDS):
        for name, call in found.items():
            start = time.process_time()
            for _ in range(inner):
                call()
            seconds[name].append((time.process_time() - start) / inner)
    first = next(iter(seconds.values()))
    for name, each in seconds.items():
        ratio = statistics.median(a / b for a, b in zip(each, first))
        print(f"{title:<32}{name:<28}{min(each) * 1e6:>10.1f} us{ratio:>8.2f}")


def main() -> None:
    """Measure and print."""
    compare("jax.jit, forward", contenders(False), 50)
    compare("jax.jit of jax.grad", contenders(True), 30)
    compare("eager loop of 100", eager_loop(), 10)


if __name__ == "__main__":
    main()
