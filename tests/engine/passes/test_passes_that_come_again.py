"""Passes that run compiled once they have come a few times do what the first ones did."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()

TIMES = 5
"""A small pass is compiled when it comes for the third time."""


def _leaf(m: Any, *values: float) -> Any:
    return m.tensor(values, dtype=m.float64, requires_grad=True)


def _names(order: list[Any]) -> Any:
    """Hooks of saved tensors that note in which order values are unpacked; 0 stands for no failure."""
    fails = [0]

    def pack(x):
        order.append(None)
        return len(order), x

    def unpack(packed):
        order.append(packed[0])
        if packed[0] == fails[0]:
            raise KeyError("unpacking failed")
        return packed[1]

    return pack, unpack, fails


@program
def unpack_hooks_are_called_once_and_in_order(m):
    out = []
    x, w = _leaf(m, 1.0, 2.0), _leaf(m, 3.0, 4.0)
    for fails in (*[0] * TIMES, 1, 3, 5, 7, 0):
        for keep in (False, True):
            order: list[Any] = []
            pack, unpack, failing = _names(order)
            with m.autograd.graph.saved_tensors_hooks(pack, unpack):
                y = (((x * 2).exp() * w).sin() * w).tanh().sum()
            failing[0] = fails
            x.grad = w.grad = None
            said = [complaint(partial(y.backward, retain_graph=keep)) for _ in range(1 + keep)]
            out.append((fails, keep, said, list(order), x.grad, w.grad))
    return out


@program
def a_write_by_an_unpack_hook_is_noticed(m):
    out = []
    x, w = _leaf(m, 1.0, 2.0), _leaf(m, 3.0, 4.0)
    for _ in range(TIMES):
        plain = w * 1
        inner = x * plain

        def unpack(value, plain=plain):
            with m.no_grad():
                plain.mul_(2)
            return value

        with m.autograd.graph.saved_tensors_hooks(lambda value: value, unpack):
            y = inner.exp()
        x.grad = w.grad = None
        out.append((complaint((y.sin().cos() * 2).sum().backward), x.grad, w.grad))
    return out


@program
def large_packed_values_are_unpacked_one_by_one(m):
    out = []
    x = m.full((70_000,), 0.5, dtype=m.float64, requires_grad=True)
    for _ in range(TIMES):
        alive = []
        pack, unpack, _ = _names(alive)
        with m.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = x.exp().sin().cos().tanh().sum()
        x.grad = None
        y.backward()
        out.append((alive, x.grad.sum()))
    return out


@program
def gradients_of_all_leaves_and_of_some(m):
    out = []
    x, w, b = _leaf(m, 1.0, 2.0), _leaf(m, 3.0, 4.0), _leaf(m, 5.0)
    for _ in range(TIMES):
        h = x * w + b
        y = (h.sin() * w).sum()
        several = ((x, w, b), (b, x), (w, w, x, b), (h, x), (y,))
        out += [m.autograd.grad(y, wanted, retain_graph=True) for wanted in several]
        out.append(complaint(partial(m.autograd.grad, y, (x, w, b, _leaf(m, 1.0)))))
        out.append(complaint(y.backward))
        out.append((x.grad, w.grad, b.grad))
    return out


@program
def a_hook_on_a_tensor_changes_its_gradient(m):
    out = []
    x, w = _leaf(m, 1.0, 2.0), _leaf(m, 3.0, 4.0)
    for at in range(TIMES):
        log = []
        a = x * w
        b = a.sin() * w
        c = b.exp() + a
        b.register_hook(lambda g, log=log, at=at: (log.append(("b", g.clone())), g * at)[1])
        c.register_hook(lambda g, log=log: (log.append(("c", g.clone())), None)[1])
        a.retain_grad()
        b.retain_grad()
        x.grad = None
        (got,) = m.autograd.grad(c.tanh().sum(), b, retain_graph=True)
        c.tanh().sum().backward()
        out.append((log, got, a.grad, b.grad, x.grad))
    return out


@program
def a_hook_that_raises_leaves_what_came_before(m):
    out = []
    x, w = _leaf(m, 1.0, 2.0), _leaf(m, 3.0, 4.0)

    def hook(g):
        raise KeyError("in hook")

    for _ in range(TIMES):
        a = (x * 2).exp()
        a.register_hook(hook)
        x.grad = w.grad = None
        out.append((complaint((a.sin().cos().tanh() * w).sum().backward), x.grad, w.grad))
    return out


@program
def a_leaf_turns_into_something_else_between_passes(m):
    out = []
    x, w = _leaf(m, 1.0, 2.0), _leaf(m, 3.0, 4.0)
    for k in range(2 * TIMES):
        y = ((x * w).sin() * w).exp().sum()
        if k % 3 == 1:
            w.requires_grad_(False)
        x.grad = w.grad = None
        out.append((complaint(y.backward), x.grad, w.grad))
        w.requires_grad_(True)
    return out
