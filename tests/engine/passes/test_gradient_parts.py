"""Gradients of what was joined, writes to them, and gradients of gradients of what was broadcast."""

from __future__ import annotations

import pytest

import torchgrad_jax as tg
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


def _leaf(m, *shape, by=0.0):
    n = 1
    for s in shape:
        n *= s
    return ((m.arange(1.0, 1.0 + n, dtype=m.float64) + by) / 8).view(shape).clone().requires_grad_()


_JOINED = (
    lambda m, a, b: m.stack([a, b]),
    lambda m, a, b: m.stack([a, b], 1),
    lambda m, a, b: m.stack([a, b], -1),
    lambda m, a, b: m.cat([a, b]),
    lambda m, a, b: m.cat([a, b], 1),
    lambda m, a, b: m.hstack([a, b]),
    lambda m, a, b: m.dstack([a, b]),
    lambda m, a, b: m.cat([a.view(-1), b.view(-1)]),
    lambda m, a, b: m.block_diag(a, b),
    lambda m, a, b: m.stack([a.t(), b.t()]),
    lambda m, a, b: m.stack([a.sum(), b.sum()]),
    lambda m, a, b: m.stack([a.sum(0), b.sum(0)]),
    lambda m, a, b: m.cat([a, a, b]),
    lambda m, a, b: m.stack([a, a, b]),
    lambda m, a, b: m.view_as_real(m.complex(a, b)),
    lambda m, a, b: m.view_as_complex(m.stack([a, b], -1)).abs(),
    lambda m, a, b: m.stack([a, b])[0] + a + b,
    lambda m, a, b: m.stack([m.cat([a, b]), m.cat([b, a])]),
    lambda m, a, b: m.stack([a, b]).select_scatter(b, 0, 1) + a,
    lambda m, a, b: m.diag_embed(b, 1).sum(-1)[:, :3] + a,
    lambda m, a, b: m.cat([a, m.zeros(2, 0, dtype=a.dtype), b], 1),
    lambda m, a, b: m.cat([a, m.zeros(0), b]),
    lambda m, a, b: m.stack([m.complex(a, b), m.complex(b, a)]).abs(),
    lambda m, a, b: a + b,
)


@program
def parts_of_a_gradient(m):
    """What was joined gets its part of the gradient of the whole, run by run, fused or not."""
    found = []
    for join in _JOINED:
        for _ in range(4):
            for way in ("grad", "backward", "hooks"):
                a, b = _leaf(m, 2, 3), _leaf(m, 2, 3, by=1)
                if way == "hooks":
                    seen = []
                    c, d = a * 1, b * 1
                    for t in (c, d):
                        t.retain_grad()
                        t.register_hook(lambda g, seen=seen: seen.append(g.clone()))
                    join(m, c, d).pow(2).sum().backward()
                    found.append([seen, c.grad, d.grad])
                    continue
                loss = join(m, a, b).pow(2).sum()
                if way == "grad":
                    g, h = m.autograd.grad(loss, (a, b))
                else:
                    loss.backward()
                    g, h = a.grad, b.grad
                found.append([g.clone(), h.clone()])
    return found


@program
def writes_to_parts_of_a_gradient(m):
    """A write to one gradient leaves the others as they are."""
    found = []
    for _ in range(4):
        a, b = _leaf(m, 2, 3), _leaf(m, 2, 3, by=1)

        def look(a=a, b=b):
            found.append([t.detach().clone() for t in (a, b, a.grad, b.grad)])

        def loss(a=a, b=b):
            return m.cat([a, b]).pow(2).sum()

        loss().backward()
        a.grad.add_(1)
        look()
        loss().backward()
        look()
        b.grad.view(-1)[2] = 7
        look()
        a.grad.zero_()
        b.grad = None
        loss().backward()
        look()
        optimizer = m.optim.SGD([a, b], lr=0.125, momentum=0.5)
        for to_none in (False, True, False):
            optimizer.step()
            optimizer.zero_grad(set_to_none=to_none)
            loss().backward()
            look()
        a.grad = b.grad = None
        c = a * 1
        c.register_hook(lambda g: g.mul_(2))
        m.cat([b, c]).pow(2).sum().backward()
        look()
    return found


@program
def gradients_of_what_came_in(m):
    functional = m.nn.functional
    table, row, column, number = (2, 3), (3,), (2, 1), ()
    cases = [
        (m.add, [table, row]),
        (m.add, [table, number]),
        (m.add, [table, column]),
        (lambda a, b: a - b, [table, row]),
        (lambda a, b: a - b, [row, table]),
        (lambda a, b: a + b, [column, (1, 3)]),
        (lambda a, b: a + b, [(1, 3), row]),
        (lambda a, b: a + b, [(1, 1), number]),
        (lambda a, b: a * b, [table, row]),
        (lambda a, b: m.add(a, b, alpha=2), [table, row]),
        (lambda a, b: m.rsub(a, b), [table, row]),
        (lambda a, b: a.clone().add_(b), [table, row]),
        (lambda a, b, c: a + b + c, [table, row, number]),
        (functional.linear, [table, (4, 3), (4,)]),
        (m.addmm, [(4,), table, (3, 4)]),
        (m.addcmul, [row, table, column]),
        (m.maximum, [table, row]),
        (m.maximum, [table, table]),
        (m.minimum, [row, table]),
        (m.div, [table, table]),
        (m.lerp, [table, row, column]),
    ]
    found = []
    for fn, sizes in cases:
        for picked in ([0], [1], range(len(sizes))):
            leaves = [_leaf(m, *s, by=k) for k, s in enumerate(sizes)]
            y = fn(*leaves)
            given = m.full_like(y.detach(), 0.5).requires_grad_()
            grads = m.autograd.grad(y, leaves, given, create_graph=True)
            outs = [grads[i] for i in picked]
            into = [m.full_like(g.detach(), 2.0) for g in outs]
            again = m.autograd.grad(outs, [given, *leaves], into, allow_unused=True)
            found.append([None if g is None else g.clone() for g in again])
    return found


_CALLS = {
    "a sum": tg.Tensor.add,
    "a difference": tg.Tensor.sub,
    "a stack": lambda a, b: tg.stack([a, b]),
    "a broadcast sum": lambda a, b: a.expand(2, 2, 3) + b,
}


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("call", _CALLS)
def test_a_hook_that_writes_to_its_gradient_changes_no_other(call, recorded):
    def gradients(hook):
        a, b = _leaf(tg, 2, 3), _leaf(tg, 2, 3, by=1)
        c, d = a * 1, b * 1
        if hook is not None:
            d.register_hook(hook)
        out = _CALLS[call](c, d).exp()
        return tg.autograd.grad(out, (a, b), tg.full_like(out, 2.0), create_graph=recorded)

    plain, written = gradients(None), gradients(lambda g: g.mul_(3))
    assert written[0].tolist() == plain[0].tolist()
    assert written[1].tolist() == (plain[1] * 3).tolist()
