"""Functions that write to their inputs, compared with torch."""

from typing import Any

import pytest

from tests.autograd.functions import doubles_in_place, with_backward
from tests.autograd.programs import leaf
from tests.engine.helpers import given
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


@program
def dirty(m):
    x = leaf(m, 1.0, 2.0)
    z = x * 1
    before = z.grad_fn
    y = with_backward(m, lambda ctx, g: g * 2, doubles_in_place).apply(z)
    y.sum().backward()
    return y, x, y is z, y.grad_fn.next_functions[0][0] is before


@program
def dirty_leaf_without_grad(m):
    x = m.tensor([1.0])
    y = with_backward(m, lambda ctx, g: g * 2, doubles_in_place).apply(x)
    return y, y is x, y._version


@program
def dirty_leaf_other_needs_grad(m):
    x, w = m.tensor([1.0]), leaf(m, 3.0)

    def forward(ctx, x, w):
        x.mul_(w)
        ctx.mark_dirty(x)
        return x

    y = with_backward(m, lambda ctx, g: (None, g * 7), forward).apply(x, w)
    y.backward()
    return y, y is x, w


@program
def dirty_view(m):
    x = leaf(m, 1.0, 2.0, 3.0)
    z = x * 1
    v = z[1:]
    y = with_backward(m, lambda ctx, g: g * 2, doubles_in_place).apply(v)
    (z * m.tensor([1.0, 10.0, 100.0])).sum().backward()
    return y, y is v, z, x, z.grad_fn.next_functions


@program
def dirty_view_double_backward(m):
    x = leaf(m, 1.0, 2.0, 3.0)
    z = x * x
    v = z[1:]
    with_backward(m, lambda ctx, g: g * 2, doubles_in_place).apply(v)
    (g,) = m.autograd.grad((z * z).sum(), x, create_graph=True)
    (h,) = m.autograd.grad(g.sum(), x)
    return g, h


@program.raises
def dirty_view_of_leaf(m):
    x = leaf(m, 1.0, 2.0, 3.0)
    return with_backward(m, lambda ctx, g: g * 2, doubles_in_place).apply(x[1:])


@program
def dirty_view_two_inputs(m):
    def forward(ctx, x, w):
        x.mul_(w)
        ctx.mark_dirty(x)
        return x

    z, w = leaf(m, 1.0, 2.0, 3.0), leaf(m, 3.0)
    base = z * 1
    v = base[1:]
    with_backward(m, lambda ctx, g: (g * 2, g.sum().reshape(1)), forward).apply(v, w)
    base.sum().backward()
    return z, w, base


@program
def dirty_two(m):
    def forward(ctx, a, b):
        a.mul_(2)
        b.mul_(3)
        ctx.mark_dirty(a, b)
        return a, b

    x = leaf(m, 1.0)
    a, b = x * 1, x * 2
    ra, rb = with_backward(m, lambda ctx, g, h: (g * 2, h * 3), forward).apply(a, b)
    (ra + rb).backward()
    return ra, rb, x, ra is a, rb is b


@program
def dirty_same_input_twice(m):
    z = leaf(m, 1.0) * 1
    y = with_backward(m, lambda ctx, g: (g, g), lambda ctx, a, b: doubles_in_place(ctx, a)).apply(z, z)
    y.backward()
    return y


SEEN_THROUGH = {
    "conjugate": lambda b: b.conj(),
    "imaginary part": lambda b: b.imag,
    "real part": lambda b: b.real,
    "imaginary part of the conjugate": lambda b: b.conj().imag,
    "part of the real part of the conjugate": lambda b: b.conj().real[1:],
    "pair of numbers": lambda m, b: m.view_as_real(b)[1],
    "part of the conjugate": lambda b: b.conj()[1:],
    "adjoint": lambda b: b.view(3, 1).mH,
    "imaginary part of a part": lambda b: b[1:].imag,
}


@pytest.mark.parametrize("name", SEEN_THROUGH)
def test_views_of_another_kind_are_written_to(name: str, same: Any) -> None:
    def run(m: Any) -> Any:
        class Scaled(m.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any, y: Any) -> Any:
                ctx.mark_dirty(x)
                ctx.save_for_backward(y)
                return x.mul_(y)

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                (y,) = ctx.saved_tensors
                return g * y.conj(), None

        a = m.tensor([1 + 2j, 3 - 1j, -1 + 0.5j], dtype=m.complex128, requires_grad=True)
        b = a * (1 + 1j)
        t = given(SEEN_THROUGH[name], m=m, b=b)()
        Scaled.apply(t, m.full(t.shape, 2 - 1j if t.is_complex() else 2.0, dtype=t.dtype))
        y = (b * b).real.sum() + b.imag.sum()
        (g,) = m.autograd.grad(y, a, create_graph=True)
        (gg,) = m.autograd.grad(g.abs().sum(), a)
        return [b._version, b.grad_fn.name(), *(m.view_as_real(v.detach()).tolist() for v in (b, g, gg))]

    same(run, f"written through {name}", raises=False)
