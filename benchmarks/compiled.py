"""Compiled steps and function transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import torchgrad_jax as tg

Step = Callable[[], object]


def _compile(t: Any, f: Any, **settings: Any) -> Any:
    """Ours is compiled; torch, which would need a C++ compiler, stays eager."""
    return t.compile(f, **settings) if t.__name__ == "torchgrad_jax" else f


def mlp(arrays: Any, batch: Any, **settings: Any) -> Callable[[Any], Step]:
    """A whole training step, `backward()` and update included, as one program."""

    def build(t: Any) -> Step:
        ps = [t.tensor(a, requires_grad=True) for a in arrays()]
        x, y = (t.tensor(a) for a in batch())

        def step(x: Any, y: Any) -> Any:
            for p in ps:
                p.grad = None
            h = (x @ ps[0] + ps[1]).relu()
            h = (h @ ps[2] + ps[3]).relu()
            loss = t.nn.functional.cross_entropy(h @ ps[4] + ps[5], y)
            loss.backward()
            with t.no_grad():
                for p in ps:
                    p -= 1e-3 * p.grad
            return loss

        run = _compile(t, step, **settings)
        return lambda: run(x, y).item()

    return build


_ROWS, _WIDTH, _STEPS = 32, 64, 100


def _small() -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """A small network, and 100 batches for it: what a call costs counts here."""
    rs = np.random.RandomState(0)
    shapes = [(_WIDTH, _WIDTH), (_WIDTH,), (_WIDTH, 10), (10,)]
    arrays = [(rs.randn(*shape) * 0.1).astype(np.float32) for shape in shapes]
    xs = rs.randn(_STEPS, _ROWS, _WIDTH).astype(np.float32)
    return arrays, xs, rs.randn(_STEPS, _ROWS, 10).astype(np.float32)


def many_steps(in_one_call: bool) -> Callable[[Any], Step]:
    """100 training steps, in one call or in as many."""

    def build(t: Any) -> Step:
        arrays, *batches = _small()
        ps = [t.tensor(a, requires_grad=True) for a in arrays]
        xs, ys = map(t.tensor, batches)
        opt = t.optim.SGD(ps, lr=0.01, momentum=0.9)

        def step(x: Any, y: Any) -> Any:
            opt.zero_grad()
            loss = (((x @ ps[0] + ps[1]).relu() @ ps[2] + ps[3] - y) ** 2).mean()
            loss.backward()
            opt.step()
            return loss

        run = _compile(t, step)
        rows = list(zip(xs, ys))
        if in_one_call:
            return lambda: run.many(xs, ys)[-1].item()
        return lambda: [run(x, y) for x, y in rows][-1].item()

    return build


def many_steps_jax() -> Step:
    """The same in a loop by hand."""
    arrays, *batches = _small()
    ps = [jnp.asarray(a) for a in arrays]
    xs, ys = map(jnp.asarray, batches)

    def loss_of(ps: Any, x: Any, y: Any) -> Any:
        return ((jax.nn.relu(x @ ps[0] + ps[1]) @ ps[2] + ps[3] - y) ** 2).mean()

    def step(state: Any, batch: Any) -> Any:
        ps, vs = state
        loss, gs = jax.value_and_grad(loss_of)(ps, *batch)
        vs = [0.9 * v + g for v, g in zip(vs, gs)]
        return ([p - 0.01 * v for p, v in zip(ps, vs)], vs), loss

    run = jax.jit(lambda state, xs, ys: jax.lax.scan(step, state, (xs, ys)))
    held = [(ps, [jnp.zeros_like(p) for p in ps])]

    def call() -> object:
        held[0], losses = run(held[0], xs, ys)
        return float(losses[-1])

    return call


def _energy(m: Any) -> Callable[[Any], Any]:
    return lambda x: (m.sin(x) * x**2).sum() + (x[1:] * x[:-1]).sum() ** 2


_POINT = np.linspace(-1.0, 1.0, 64).astype(np.float32)


def hessian(compiled: bool) -> Callable[[Any], Step]:
    """The Hessian of a function of 64 inputs."""

    def build(t: Any) -> Step:
        f = t.func.hessian(_energy(t))
        run = _compile(t, f) if compiled else f
        x = t.tensor(_POINT)
        return lambda: _wait(run(x))

    return build


def hessian_jax() -> Step:
    """The same by hand."""
    run = jax.jit(jax.hessian(_energy(jnp)))
    x = jnp.asarray(_POINT)
    return lambda: run(x).block_until_ready()


def functional(name: str, **kwargs: Any) -> Callable[[Any], Step]:
    """`autograd.functional.hessian` or `jacobian`, not compiled."""

    def build(t: Any) -> Step:
        x = t.tensor(_POINT)
        f = _energy(t) if name == "hessian" else lambda x: t.sin(x) * x.sum()
        return lambda: _wait(getattr(t.autograd.functional, name)(f, x, **kwargs))

    return build


_WEIGHTS = np.random.RandomState(0).randn(32, 16).astype(np.float32) * 0.3
_EXAMPLES = np.random.RandomState(1).randn(64, 32).astype(np.float32)


def per_sample(compiled: bool) -> Callable[[Any], Step]:
    """Gradients of 64 examples, each for itself."""

    def build(t: Any) -> Step:
        w, xs = t.tensor(_WEIGHTS), t.tensor(_EXAMPLES)
        f = t.func.vmap(t.func.grad(lambda w, x: (x @ w).tanh().pow(2).sum()), in_dims=(None, 0))
        run = _compile(t, f) if compiled else f
        return lambda: _wait(run(w, xs))

    return build


def per_sample_jax() -> Step:
    """The same by hand."""
    g = jax.grad(lambda w, x: (jnp.tanh(x @ w) ** 2).sum())
    run = jax.jit(jax.vmap(g, (None, 0)))
    w, xs = jnp.asarray(_WEIGHTS), jnp.asarray(_EXAMPLES)
    return lambda: run(w, xs).block_until_ready()


def _wait(x: Any) -> Any:
    """Wait for what XLA still computes. A result of NumPy's is there: an array of JAX would be made of it first."""
    if not isinstance(x, tg.Tensor):
        return x
    array = x._st.array
    return array.block_until_ready() if isinstance(array, jax.Array) else array
