"""Eager programs of small operators, and a compiled one of large ones. Each is given torch, or what is like torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def functions(t: Any) -> Callable[[], object]:
    """A chain of 20 custom Functions that save their input, forward and backward."""

    class Double(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            ctx.save_for_backward(a)
            return a * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (_,) = ctx.saved_tensors
            return g * 2

    x = t.ones(4, requires_grad=True)

    def step() -> object:
        x.grad = None
        z = x
        for _ in range(20):
            z = Double.apply(z)
        z.sum().backward()
        return x.grad

    return step


def hooks(t: Any) -> Callable[[], object]:
    """A chain of 50 tensors with a hook each, forward and backward."""
    x = t.ones(4, requires_grad=True)

    def step() -> object:
        x.grad = None
        z = x
        for _ in range(50):
            z = z * 1.01
            z.register_hook(lambda g: g)
        z.sum().backward()
        return x.grad

    return step


def views(t: Any) -> Callable[[], object]:
    """A row of a matrix is a view: something is added to each of 32 rows in place, forward and backward."""
    w = t.ones(4, requires_grad=True)
    zeros = t.zeros(32, 4)

    def step() -> object:
        w.grad = None
        rows = zeros * 1
        for i in range(32):
            rows[i].add_(w)
        rows.sum().backward()
        return w.grad

    return step


SIDE = 1000


def large_compiled(t: Any) -> Callable[[], object]:
    """Eight operators on a million elements in one compiled function, which fuses them; eager in torch."""
    x = t.ones(SIDE, SIDE)

    def f(z: Any) -> Any:
        for _ in range(4):
            z = (z * 1.01).tanh()
        return z

    run = t.compile(f) if t.__name__ == "torchgrad_jax" else f
    return lambda: run(x)[0, 0].item()


def large_fused_jax() -> Callable[[], object]:
    """The same operators as one jitted function."""

    @jax.jit
    def f(z: Any) -> Any:
        for _ in range(4):
            z = jnp.tanh(z * 1.01)
        return z

    x = jnp.ones((SIDE, SIDE), jnp.float32)
    return lambda: float(f(x)[0, 0])
