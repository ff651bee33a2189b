"""What is measured. Each case builds one closure per contender; all do the same arithmetic."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import compiled, eager, optim, transformer


@dataclass(frozen=True)
class Case:
    """One row of the table: a builder and the ratio to torch it must stay under."""

    name: str
    build: Callable[[Any], Callable[[], object]]
    target: float | None
    jax: Callable[[], Callable[[], object]] | None = None
    rounds: int = 25
    inner: int = 5
    jit_target: float | None = None
    """The ratio to hand-written jax.jit to stay under; `target` is None where only that counts."""
    beside_torch: bool = True
    """Whether torch can do the same."""


def chain(t: Any) -> Callable[[], object]:
    """100 multiplications of 4 elements, forward and backward."""
    x = t.ones(4, requires_grad=True)
    y = t.ones(4)

    def step() -> object:
        z = x
        for _ in range(100):
            z = z * y
        x.grad = None
        z.sum().backward()
        return x.grad

    return step


def chain_jax() -> Callable[[], object]:
    """The same chain as one jitted gradient."""

    def f(x: Any, y: Any) -> Any:
        for _ in range(100):
            x = x * y
        return x.sum()

    g = jax.jit(jax.grad(f))
    a = jnp.ones(4, jnp.float32)
    return lambda: g(a, a).block_until_ready()


def forward_only(t: Any) -> Callable[[], object]:
    """100 multiplications of 4 elements, nothing recorded."""
    x, y = t.ones(4), t.ones(4)

    def step() -> object:
        z = x
        for _ in range(100):
            z = z * y
        return z

    return step


def mixed(t: Any) -> Callable[[], object]:
    """Scalars, views, broadcasting and reductions on small tensors, forward and backward."""
    w = t.ones(3, 4, requires_grad=True)
    b = t.ones(4, requires_grad=True)
    x = t.ones(3, 4)

    def step() -> object:
        h = x
        for _ in range(8):
            h = (h * w + b) * 0.5
            h = h.tanh() - h.mean(1, keepdim=True)
            h = h.t().reshape(4, 3).t() / 2.0
            h = h + h[0] * 0.1
        loss = (h**2).sum() + w.sum()
        w.grad = b.grad = None
        loss.backward()
        return w.grad

    return step


def checkpointed(t: Any) -> Callable[[], object]:
    """Ten checkpointed links of three operations on 4 elements, forward and backward."""
    checkpoint = importlib.import_module(f"{t.__name__}.utils.checkpoint").checkpoint
    x = t.ones(4, requires_grad=True)

    def link(a: Any) -> Any:
        return (a * 2).sin().exp()

    def step() -> object:
        z = x
        for _ in range(10):
            z = checkpoint(link, z, use_reentrant=False)
        x.grad = None
        z.sum().backward()
        return x.grad

    return step


def _mlp_arrays() -> list[np.ndarray]:
    rs = np.random.RandomState(0)
    sizes = [(784, 256), (256,), (256, 256), (256,), (256, 10), (10,)]
    return [(rs.randn(*s) * 0.05).astype(np.float32) for s in sizes]


def _batch() -> tuple[np.ndarray, np.ndarray]:
    rs = np.random.RandomState(1)
    return rs.randn(64, 784).astype(np.float32), rs.randint(0, 10, 64)


def mlp(t: Any) -> Callable[[], object]:
    """A training step of 784-256-256-10 with batch 64, cross entropy and plain SGD."""
    ps = [t.tensor(a, requires_grad=True) for a in _mlp_arrays()]
    x, y = (t.tensor(a) for a in _batch())

    def step() -> object:
        h = (x @ ps[0] + ps[1]).relu()
        h = (h @ ps[2] + ps[3]).relu()
        loss = t.nn.functional.cross_entropy(h @ ps[4] + ps[5], y)
        loss.backward()
        with t.no_grad():
            for p in ps:
                p -= 1e-3 * p.grad
                p.grad = None
        return loss.item()

    return step


def mlp_jax() -> Callable[[], object]:
    """The same step as one jitted function."""
    x, y = (jnp.asarray(a) for a in _batch())

    def loss_of(ps: Any, x: Any, y: Any) -> Any:
        h = jax.nn.relu(x @ ps[0] + ps[1])
        h = jax.nn.relu(h @ ps[2] + ps[3])
        logp = jax.nn.log_softmax(h @ ps[4] + ps[5])
        return -jnp.take_along_axis(logp, y[:, None], 1).mean()

    @jax.jit
    def update(ps: Any, x: Any, y: Any) -> Any:
        loss, gs = jax.value_and_grad(loss_of)(ps, x, y)
        return loss, [p - 1e-3 * g for p, g in zip(ps, gs)]

    state = [[jnp.asarray(a) for a in _mlp_arrays()]]

    def step() -> object:
        loss, state[0] = update(state[0], x, y)
        return float(loss)

    return step


def long_chain(t: Any, n: int = 100_000) -> Callable[[], object]:
    """A chain of 100,000 multiplications: built, walked and freed."""
    x = t.ones(4, requires_grad=True)
    y = t.ones(4)

    def step() -> object:
        z = x
        for _ in range(n):
            z = z * y
        x.grad = None
        z.sum().backward()
        return x.grad

    return step


def _ours() -> Any:
    return importlib.import_module("torchgrad_jax")


CASES = [
    Case("100-op chain, forward + backward", chain, 1.3, chain_jax),
    Case("100-op chain, forward only", forward_only, 2.0),
    Case("mixed small ops, forward + backward", mixed, 1.2),
    Case("20 custom Functions, forward + backward", eager.functions, 2.0),
    Case("50 tensors with a hook, forward + backward", eager.hooks, 2.0),
    Case("32 rows changed in place, forward + backward", eager.views, 2.5),
    Case(
        "eight compiled operators on a million elements",
        eager.large_compiled,
        None,
        eager.large_fused_jax,
        inner=2,
        jit_target=1.2,
    ),
    Case("ten checkpointed links, forward + backward", checkpointed, 3.0),
    Case("MLP training step", mlp, 1.0, mlp_jax, rounds=30, inner=3),
    Case("SGD step, 50 parameters", optim.sgd, 3.0, optim.sgd_jax),
    Case("Adam step, 50 parameters", optim.adam, 1.5, optim.adam_jax),
    Case(
        "compiled MLP training step",
        compiled.mlp(_mlp_arrays, _batch),
        None,
        mlp_jax,
        rounds=30,
        inner=3,
        jit_target=1.1,
    ),
    Case(
        "compiled transformer training step with AdamW",
        transformer.build,
        None,
        transformer.build_jax,
        rounds=30,
        inner=3,
        jit_target=1.1,
    ),
    Case(
        "compiled MLP training step, beside the same without checks",
        compiled.mlp(_mlp_arrays, _batch),
        None,
        lambda: compiled.mlp(_mlp_arrays, _batch, checks=False)(_ours()),
        rounds=600,
        inner=1,
        jit_target=1.03,
        beside_torch=False,
    ),
    Case(
        "compiled transformer training step, beside the same without checks",
        transformer.build,
        None,
        lambda: transformer.build(_ours(), checks=False),
        rounds=600,
        inner=1,
        jit_target=1.03,
        beside_torch=False,
    ),
    Case(
        "trace of the transformer step, without compiling",
        transformer.retrace,
        None,
        transformer.retrace_jax,
        rounds=8,
        inner=1,
        jit_target=2.0,
        beside_torch=False,
    ),
    Case(
        "100 compiled training steps in one call, beside a scan by hand",
        compiled.many_steps(True),
        None,
        compiled.many_steps_jax,
        rounds=30,
        inner=3,
        jit_target=1.2,
        beside_torch=False,
    ),
    Case(
        "100 compiled training steps in one call, beside 100 calls",
        compiled.many_steps(True),
        None,
        lambda: compiled.many_steps(False)(_ours()),
        rounds=20,
        inner=2,
        jit_target=0.5,
        beside_torch=False,
    ),
    Case(
        "compiled Hessian, 64 inputs",
        compiled.hessian(True),
        None,
        compiled.hessian_jax,
        rounds=20,
        inner=50,
        jit_target=2.0,
    ),
    Case(
        "compiled per-sample gradients",
        compiled.per_sample(True),
        None,
        compiled.per_sample_jax,
        rounds=20,
        inner=200,
        jit_target=2.0,
    ),
    Case("func.hessian", compiled.hessian(False), 1.0, rounds=10, inner=2),
    Case("func.vmap(func.grad)", compiled.per_sample(False), 1.0, rounds=10, inner=2),
    Case("functional.hessian", compiled.functional("hessian"), 1.0, rounds=5, inner=1),
    Case("functional.hessian, vectorize", compiled.functional("hessian", vectorize=True), 1.0, rounds=10, inner=2),
    Case("functional.jacobian", compiled.functional("jacobian"), 1.0, rounds=5, inner=1),
    Case("functional.jacobian, vectorize", compiled.functional("jacobian", vectorize=True), 1.0, rounds=10, inner=2),
    Case("100,000-node chain", long_chain, 1.5, rounds=2, inner=1),
]
