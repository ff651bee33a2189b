"""Gradients of each example, taken inside of `vmap`, that are differentiated again outside of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()

LOSSES = {
    "layer_norm": ((4,), lambda m, h: m.nn.functional.layer_norm(h, (4,))),
    "batch_norm": ((4, 3), lambda m, h: m.nn.functional.batch_norm(h, None, None, training=True)),
    "max_pool": ((2, 6), lambda m, h: m.nn.functional.max_pool1d(h, 2)),
    "avg_pool": ((2, 4, 4), lambda m, h: m.nn.functional.avg_pool2d(h, 2)),
    "reflection": ((2, 6), lambda m, h: m.nn.functional.pad(h, (1, 1), "reflect")),
    "prelu": ((6,), lambda m, h: m.nn.functional.prelu(h, h[:1])),
    "cross_entropy": ((3, 4), lambda m, h: m.nn.functional.cross_entropy(h, m.arange(3))),
    "conv": ((1, 2, 6), lambda m, h: m.nn.functional.conv1d(h, h[..., :3])),
}
"""Ops whose recorded gradients know inputs that they do not read."""


def _loss(m: Any, op: Any) -> Any:
    def loss(x):
        out = op(m, (x * 1.5).sin())
        return (out**3).sum() + (out * m.arange(float(out.numel())).reshape(out.shape)).sum()

    return loss


HOW = {
    "": lambda f, loss: f.vmap(f.grad(loss)),
    "of batches": lambda f, loss: lambda x: f.vmap(f.vmap(f.grad(loss)))(x.expand(3, *x.shape)),
    "last": lambda f, loss: f.vmap(f.grad(loss), -1, -1),
}


@pytest.mark.parametrize(
    ("name", "how"), [*[(n, "") for n in LOSSES], ("max_pool", "of batches"), ("layer_norm", "last")]
)
def test_op(name: str, how: str, same: Any) -> None:
    shape, op = LOSSES[name]

    def run(m: Any) -> Any:
        n = 1
        for s in shape:
            n *= s
        x = m.linspace(-1, 1, 2 * n, dtype=m.float64).reshape(2, *shape)
        x = (x if how != "last" else x.movedim(0, -1)).requires_grad_()
        g = HOW[how](m.func, _loss(m, op))(x)
        (g**2).sum().backward()
        return [g.detach(), x.grad]

    same(run, f"{name} {how}".strip())


def _memory(m, chunks=2, steps=2, depth=2, width=4, batch=2, backward=True, around=lambda f: f):
    """A network per sequence that learns to recall what it reads; losses and gradients of what it begins with."""
    f, nn = m.func, m.nn.functional
    kind = {"dtype": m.float64}
    start = [
        (m.linspace(-1, 1, width * width, **kind) + i).sin().reshape(width, width).requires_grad_()
        for i in range(depth)
    ]
    scale = m.ones(width, **kind).requires_grad_()
    read = m.linspace(-1, 2, width * width, **kind).cos().reshape(width, width).requires_grad_()
    rate = m.tensor(0.1, **kind).requires_grad_()
    x = m.linspace(-3, 3, batch * chunks * 3 * width, **kind).sin().reshape(batch, -1, width)

    def recall(weights, scale, k):
        h = k
        for i, w in enumerate(weights):
            h = (nn.gelu(h) if i else h) @ w
        return nn.layer_norm(h, (width,)) * scale + k

    def loss(weights, scale, k, v):
        return ((recall(weights, scale, k) - v) ** 2).mean(-1).sum()

    weights = tuple(w.expand(batch, width, width) for w in start)
    scales, momentum = scale.expand(batch, width), [0.0] * depth
    recalled = []
    for c in range(chunks):
        part = x[:, 3 * c : 3 * c + 3]
        k, v = part @ read, part.roll(1, -1)
        for _ in range(steps):
            grads = around(f.vmap(f.grad(loss)))(weights, scales, k, v)
            momentum = [0.9 * before + g for before, g in zip(momentum, grads)]
            weights = tuple(w - rate * p for w, p in zip(weights, momentum))
        recalled.append(f.vmap(recall)(weights, scales, k))
    total = (m.cat(recalled, 1) ** 3).mean()
    inputs = [*start, scale, read, rate]
    if not backward:
        return [total.detach(), *m.autograd.grad(total, inputs)]
    total.backward()
    return [total.detach(), *[t.grad for t in inputs]]


@program
def memory_of_one_step(m):
    return _memory(m, chunks=1, steps=1, depth=1)


@program
def memory_of_four_steps(m):
    return _memory(m)


@program
def memory_met_again(m):
    """Passes that come again are compiled."""
    return [_memory(m, depth=1, backward=n % 2 == 0) for n in range(6)]


@program
def checkpointed_memory(m):
    def around(fn):
        return lambda *args: m.utils.checkpoint.checkpoint(fn, *args, use_reentrant=True)

    return _memory(m, chunks=1, steps=1, depth=1, around=around)


@program
def gradients_of_gradients_of_gradients(m):
    f = m.func
    x = m.linspace(-1, 1, 8, dtype=m.float64).reshape(2, 4).requires_grad_()

    def loss(x):
        return m.nn.functional.cross_entropy((x * 2).sin()[None], m.tensor([1]))

    inner = f.grad(lambda x: (f.grad(loss)(x) ** 2).sum())
    g = f.vmap(inner)(x)
    (h,) = m.autograd.grad((g**2).sum(), x, create_graph=True)
    (h**2).sum().backward()
    return g.detach(), h.detach(), x.grad


@program
def jacobians_of_each(m):
    f = m.func
    x = m.linspace(-1, 1, 16, dtype=m.float64).reshape(2, 2, 4).requires_grad_()

    def pooled(x):
        return m.nn.functional.max_pool1d((x * 2).sin() * x, 2)

    outs = [f.vmap(f.jacrev(pooled))(x), f.vmap(f.hessian(lambda x: pooled(x).sum()))(x)]
    for out in outs:
        (out**2).sum().backward()
    return [o.detach() for o in outs], x.grad
