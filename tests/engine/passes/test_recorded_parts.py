"""Gradients of recorded gradients: of writes to parts, of products with zeros, of numbers that decide."""

from __future__ import annotations

from typing import Any

import pytest

import torchgrad_jax as tg
from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


def _told(g):
    return None if g is None else [g.detach().clone(), g.requires_grad]


@program
def writes_to_parts(m):
    found = []
    for write in (
        lambda v, b: v.div_(b),
        lambda v, b: v.mul_(b),
        lambda v, b: v.pow_(b),
        lambda v, b: v.sub_(b),
        lambda v, b: v.copy_(b),
        lambda v, b: v.lerp_(b, 0.25),
        lambda v, b: v.addcmul_(b, b),
        lambda v, b: v.sin_(),
        lambda v, b: v.masked_fill_(v > 0.3, b.sum()),
        lambda v, b: v.fill_(2.0),
        lambda v, b: v.sqrt_(),
        lambda v, b: v.cumsum_(0),
        lambda v, b: v.__setitem__(0, b.expand(2)),
    ):
        for part in (lambda x: x[:2, :2], lambda x: x[1:, 1:].t()):
            for size in ((), (2,)):
                for recorded in (False, True):
                    a = (m.arange(1.0, 10, dtype=m.float64).view(3, 3) / 8).requires_grad_()
                    b = m.full(size, 0.5, dtype=m.float64, requires_grad=True)
                    x = a * 1
                    write(part(x), b)
                    given = m.arange(1.0, 10, dtype=m.float64).view(3, 3).requires_grad_(recorded)
                    grads = m.autograd.grad(x * 1, [a, b], given, create_graph=True, allow_unused=True)
                    found.append([_told(g) for g in grads])
                    total = sum(g.sum() * g.sum() for g in grads if g is not None and g.requires_grad)
                    if isinstance(total, m.Tensor):
                        again = m.autograd.grad(total, [a, b], allow_unused=True)
                        found.append([None if g is None else g.detach().clone() for g in again])
    return found


@program
def parts_outside_of_memory_and_overlapping_ones(m):
    """What cannot be cut out of the gradient, or put back, says so in a recorded pass too."""

    def passed(x, of, recorded):
        return m.autograd.grad((x * 2).sum(), of, create_graph=recorded, retain_graph=True)

    found = []
    for other in (False, True):
        for recorded in (False, True):
            a, b = m.ones(4, requires_grad=True), m.ones(2, requires_grad=other)
            x = a * 1
            v = x[2:]
            x.data = m.ones(3)
            v.mul_(b)
            a2 = m.ones(1, requires_grad=True)
            y = a2 * 1
            y.expand(2).masked_fill_(m.tensor([True, True]), b.sum())
            cases = [(x, [a]), (x, [a, b]), (y, [a2]), (y, [a2, b]), (y, [b])]
            found += [
                complaint(lambda t=t, of=of, r=recorded: passed(t, of, r))
                for t, of in cases
                if other or all(s is not b for s in of)
            ]
    return found


@program
def products_with_zeros(m):
    """The recorded gradient of a product with a zero is computed from the factors alone."""
    found = []
    for values in ([[1.0, 2, 3], [0.5, 0.25, 3]], [[1.0, 0, 3], [0.5, 0.25, 3]], [[0.0, 0, 3], [2, 0, 3]]):
        for fn in (
            lambda x: x.prod(),
            lambda x: x.prod(0),
            lambda x: x.prod(1, keepdim=True),
            lambda x: x.cumprod(0),
            lambda x: x.cumprod(1),
            lambda x: m.cat([x, x]).prod(0, keepdim=True),
        ):
            a = m.tensor(values, dtype=m.float64, requires_grad=True)
            x = a * 1
            y = fn(x)
            given = m.ones_like(y).requires_grad_()
            (g,) = m.autograd.grad(y, x, given, create_graph=True)
            found.append([g.detach().clone(), *m.autograd.grad((g * g).sum(), [a, given])])
    return found


@program
def forbidden_views_before_complex_results(m):
    """A view that must not be used any more says so before an operator without gradients of complex results does."""
    x = m.tensor(1.0 - 1j, requires_grad=True)
    with m.no_grad():
        v = x.unsqueeze(0)
        v.neg_()
    return [
        complaint(lambda: m.select_scatter(v, x * 2, 0, 0)),
        complaint(lambda: v.slice_scatter(m.ones(1, dtype=m.complex64), 0, 0, 1)),
        complaint(lambda: m.select_scatter(x.unsqueeze(0), x * 2, 0, 0)),
    ]


@program
def factors_that_are_finer_numbers(m):
    """torch's gradients of `addcdiv` and `addcmul` compute with two numbers alone before these meet coarser tensors."""
    found = []
    for fine, coarse in ((m.float64, m.float32), (m.complex128, m.complex64)):
        a = m.tensor(0.37, dtype=fine, requires_grad=True)
        b = m.tensor(0.41, dtype=fine, requires_grad=True)
        for fn in (m.addcdiv, m.addcmul, m.Tensor.addcdiv_, m.Tensor.addcmul_):
            for value in (1, 1.7):
                for t1, t2 in ((a, b), (a, a), (b, m.full((2, 3), 0.3)), (m.full((), 2), a)):
                    y = fn(m.full((2, 3), 1.5, dtype=coarse), t1, t2, value=value)
                    grads = m.autograd.grad(y.sum().abs(), [a, b], allow_unused=True)
                    found += [y.detach(), *[g if g is None else g.to(coarse) for g in grads]]
    y = m.addcdiv(m.full((2, 3), 1.5), m.tensor(0.37, dtype=m.float64), m.tensor(0.41, dtype=m.float64))
    x = m.tensor(0.37, dtype=m.float64, requires_grad=True)
    (g,) = m.autograd.grad(m.addcdiv(m.full((2, 3), 1.5), x, x).sum(), x)
    return [*found, y, g.item() == 0]


@program
def second_derivatives_of_products_of_several_zeros(m):
    """The first are 0, the second are not: those of the two zeros are the product of the others."""
    found = []
    rows = ([0.0, 0, 6, 1], [0.0, 2, 0, 5], [0.0, 0, 0, 2], [0.0, 3, 4, 1])
    for values in (*rows, [[0.0, 0], [3, 4]]):  # each shape is compiled again
        x = m.tensor(values, dtype=m.float64, requires_grad=True)
        for fn in (
            lambda x: x.prod(),
            lambda x: x.prod(0).sum(),
            lambda x: x.prod(-1, keepdim=True).sum(),
            lambda x: x.cumprod(0).sum(),
            lambda x: m.linalg.vecdot(x, x.cumprod(-1)).sum(),
        ):
            found += [m.autograd.grad(fn(x), x)[0], m.autograd.functional.hessian(fn, x)]
            found.append(m.func.hessian(fn)(x).detach())
    return found


_READING = {
    "product": lambda a, b: a * b,
    "quotient": lambda a, b: a / b,
    "sine": lambda a, b: a.sin() + b,
    "matrices": lambda a, b: a @ b,
    "part": lambda a, b: a[0] * b[:, 1],
    "average": lambda a, b: tg.lerp(a, b, a),
}


@pytest.mark.parametrize("written", ["nothing", "the inputs", "the result", "the gradient given"])
@pytest.mark.parametrize("name", _READING)
def test_second_gradients_read_what_was_there_when_the_first_were_recorded(name, written):
    """Whatever is written to after that: a recorded pass keeps the arrays that it reads."""

    def second(write):
        leaves = [
            tg.tensor(v, dtype=tg.float64, requires_grad=True)
            for v in ([[0.9, 0.6], [0.3, 1.4]], [[0.8, 0.35], [0.15, 0.7]])
        ]
        a, b = (t * 1 for t in leaves)
        y = _READING[name](a, b)
        given = tg.ones_like(y) * 2
        grads = tg.autograd.grad(y, (a, b), given, create_graph=True, allow_unused=True)
        with tg.no_grad():
            for t in {"the inputs": (a, b), "the result": (y,), "the gradient given": (given,)}.get(write, ()):
                t.mul_(3)
        total: Any = sum((g * g).sum() for g in grads if g is not None)
        found = tg.autograd.grad(total, (a, b), allow_unused=True)
        return [g if g is None else g.tolist() for g in found]

    assert second(written) == second("nothing")
