"""Tensors from outside that are written to while a `vmap` runs: each step reads what they held then."""

from __future__ import annotations

import pytest

import torchgrad_jax
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


def _x(m):
    return m.arange(6.0).view(2, 3)


@program
def between_two_reads(m):
    c = m.zeros(3)

    def f(x):
        first = x + c
        c.add_(1)
        second = x + c
        c[0].mul_(5)
        return first, second, x + c, c * 2

    return m.func.vmap(f)(_x(m)), c


@program
def in_a_loop(m):
    c = m.zeros(3)

    def f(x):
        return m.stack([x + c.fill_(i) for i in range(3)])

    return m.func.vmap(f)(_x(m))


@program
def leaf_under_no_grad(m):
    w = m.ones(3, requires_grad=True)

    def f(x):
        first = x * w
        with m.no_grad():
            w.mul_(2)
        return first, x * w

    a, b = m.func.vmap(f)(_x(m))
    (a.sum() + b.sum() * 10).backward()
    return a, b, w


@program
def with_a_graph(m):
    w = m.ones(3, requires_grad=True)
    c = w * 1

    def f(x):
        part = c[:2]
        first = x + c, x[:2] * part.detach()
        c.mul_(w * 3)
        return *first, x + c, x[:2] + part

    outs = m.func.vmap(f)(_x(m))
    sum(t.sum() * 10**i for i, t in enumerate(outs)).backward()
    return outs, c, w


@program
def nested(m):
    c = m.zeros(3)

    def inner(x):
        first = x + c
        c.add_(1)
        return first * c

    def outer(x):
        first = x + c
        return m.func.vmap(inner)(x) + first + c

    return m.func.vmap(outer)(m.arange(12.0).view(2, 2, 3)), c


@program
def made_by_the_function_around(m):
    def outer(x):
        c = x * 2

        def inner(y):
            first = y + c
            c.add_(1)
            return first * c

        return m.func.vmap(inner)(x.view(3, 1) * 1) + c

    return m.func.vmap(outer)(_x(m))


@program
def inside_of_gradients(m):
    c = m.ones(3)

    def f(x):
        first = m.func.grad(lambda y: (y * y * c).sum())(x)
        c.add_(2)
        return first, m.func.grad(lambda y: (y * y * c).sum())(x)

    return m.func.vmap(f)(_x(m)), c


@program
def indices(m):
    c = m.arange(3)

    def f(x):
        first = x[c]
        c.copy_(m.tensor([2, 1, 0]))
        return first, x[c]

    return m.func.vmap(f)(_x(m))


def test_what_is_mapped_over_cannot_be_written_to_from_around():
    """torch lets examples see such a write; here an example is a value, and silence would be a wrong number."""
    m = torchgrad_jax
    x = _x(m)
    for whole in (x, x[0], x.view(-1)):
        with pytest.raises(RuntimeError, match="Write to the example"):
            m.func.vmap(lambda e, whole=whole: (e * 2, whole.add_(1).sum()))(x)
    assert x.tolist() == _x(m).tolist()
