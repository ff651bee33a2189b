"""Tensors that are given other memory, and views that outlive theirs."""

from __future__ import annotations

from math import inf
from operator import setitem
from typing import Any

from tests.autograd.functions import function
from tests.engine.helpers import Programs, attempt, seen, steps, under


def plain(m: Any) -> dict[str, Any]:
    a = m.arange(6.0)
    return {"a": a, "v": a.view(2, 3), "b": m.ones(6, requires_grad=True)}


def tracked(m: Any) -> dict[str, Any]:
    a = m.arange(6.0, requires_grad=True)
    b = a * 1
    return {"a": a, "b": b, "v": b.view(2, 3)}


def numbers(m: Any) -> dict[str, Any]:
    return {"a": m.arange(3.0), "b": m.arange(3.0, requires_grad=True)}


OF_PLAIN = {
    "a view of a view that is set keeps the memory of the base": lambda m, a: (
        v := a.view(2, 3)[0], w := v.unsqueeze(-1), v.set_(v.clone()), a + 0, v.mul_(2), a.mul_(3), w),
    "no view follows its base to other memory": lambda m, a, v: (a.set_(m.ones(4)), v.mul_(5), a.mul_(2)),
    "views from before and after their base is set": lambda m, a, v: (
        a.set_(m.ones(4)), w := a.view(2, 2), w.add_(1), u := v[0], u.add_(1)),
    "what is detached and set keeps nothing of its base": lambda m, a: (v := a.detach(), v.set_(m.ones(4)), v.mul_(2)),
    "a view is set to something tracked": lambda m, a, v: (v.set_(m.ones(4, requires_grad=True)), v.mul_(2), a.mul_(3)),
    "a base is set to something tracked": lambda m, a, v: (
        a.set_(m.ones(4, requires_grad=True) * 1), attempt(lambda: v.mul_(2)), a.mul_(3)),
    "a base is written to before its view is set": lambda m, a, b, v: (
        a.mul_(b), attempt(lambda: v.set_(m.zeros(2))), attempt(lambda: v.mul_(2)), a.mul_(3)),
    "a base is written to after its view is set": lambda m, a, b, v: (v.set_(m.zeros(2)), a.mul_(b), v * 2),
    "a view is set and written to with something tracked": lambda m, a, b, v: (
        v.set_(m.zeros(2)), v.mul_(b[:2]), a * 2),
    "a view that was made unrecorded is set unrecorded": lambda m, a: (
        v := under(m.no_grad(), lambda: a.view(2, 3)), under(m.no_grad(), lambda: v.set_(m.zeros(2))), v.mul_(2)),
    "data of the base": lambda m, a, v: (setattr(a, "data", m.ones(2)), v.add_(1), a.mul_(3)),
    "data of a view": lambda m, a, v: (setattr(v, "data", m.ones(2)), v.add_(1), a.mul_(3)),
}  # fmt: skip
test_plain_tensors = steps(OF_PLAIN, plain).test()

OF_TRACKED = {
    "the gradient of a view that was set does not reach its base": lambda v: (
        v.set_(v.clone()), g := v.sum(), attempt(lambda: g.backward())),
    "a view is set, then it and its base are written to": lambda m, b, v: (v.set_(m.ones(4)), v.mul_(2), b.mul_(2)),
    "a base is set, then its view and it are written to": lambda m, b, v: (
        b.set_(m.ones(4)), v * 2, v.mul_(2), b.mul_(2)),
    "a base is set, then a new view is written to": lambda m, b: (
        b.set_(m.ones(4)), c := b.view(2, 2), c.mul_(2), d := b.sum(), attempt(lambda: d.backward())),
    "a view of a leaf refuses to be set": lambda m, a: (
        v := a.view(2, 3), attempt(lambda: v.set_(m.ones(4))), v.sum().backward()),
    "what is detached from a leaf can be set": lambda m, a: (v := a.detach(), v.set_(m.ones(4)), v.mul_(2)),
    "a view of something tracked, made and set unrecorded, refuses a write": lambda m, b: (
        v := under(m.no_grad(), lambda: b.view(2, 3)), under(m.no_grad(), lambda: v.set_(m.zeros(2))),
        attempt(lambda: v.mul_(2))),
    "a view that is set unrecorded keeps its history": lambda m, v: (
        under(m.no_grad(), lambda: v.set_(m.zeros(2))), v.mul_(2), v.sum().backward()),
    "a base that is set unrecorded keeps its history": lambda m, b, v: (
        under(m.no_grad(), lambda: b.set_(m.zeros(2))), b.mul_(2), v.mul_(2)),
    "the gradient of a view that lost its memory is refused": lambda m, b, v: (
        under(m.no_grad(), lambda: b.set_(m.zeros(2))), v.mul_(2), attempt(lambda: v.sum().backward())),
    "data of a tracked view": lambda m, b, v: (setattr(v, "data", m.ones(2)), v.add_(1), b.mul_(3)),
    "data of a tracked base": lambda m, b, v: (setattr(b, "data", m.ones(2)), b.add_(1), v.mul_(3)),
}  # fmt: skip
test_tracked_tensors = steps(OF_TRACKED, tracked).test()

SAVED = {
    "a result that was saved and is set is complained of": lambda m, b: (
        y := b.exp(), z := y * 1, y.set_(m.ones(3)), attempt(lambda: z.sum().backward())),
    "a constant that was saved and is set is complained of": lambda m, a, b: (
        y := b * a, a.set_(m.ones(3)), attempt(lambda: y.sum().backward())),
    "a view that was saved before its base is set": lambda m, a, b: (
        v := a[:2], y := b[:2] * v, a.set_(m.ones(3)), attempt(lambda: y.sum().backward())),
    "a base that was saved before its view is set": lambda m, a, b: (
        v := a[:2], y := b * a, v.set_(m.ones(3)), attempt(lambda: y.sum().backward())),
    "data that are set for a result that its own node saved are complained of": lambda m: (
        x := m.ones(3, 2, requires_grad=True), y := x * 2, y.div_(y), s := y.sum(0), y.view(6),
        setattr(y, "data", y.detach().clone()), attempt(lambda: s.sigmoid().mean().backward())),
    "a square of what was set unrecorded is complained of": lambda m: (
        x := m.ones(3, 2, requires_grad=True), y := x * 2, z := y * y,
        under(m.no_grad(), lambda: y.set_(m.ones(3, 2))), attempt(lambda: z.sum().backward())),
    "a square of what was written to in part and set unrecorded is complained of": lambda m: (
        x := m.ones(3, 2, requires_grad=True), y := x * 2, y[0].sigmoid_(), z := y * y,
        under(m.no_grad(), lambda: y.set_(m.ones(3, 2))), attempt(lambda: z.sum().backward())),
}  # fmt: skip
test_what_was_saved = steps(SAVED, numbers).test()

TRIANGLES = {
    "triu_ of expanded batches": lambda x: x.expand(2, 2, 3, 2).triu_(),
    "triu_ of matrices that are turned and expanded": lambda x: x.transpose(0, 2).expand(2, 2, 3, 2).triu_(),
    "tril_ of matrices that are turned and expanded": lambda x: x.transpose(0, 2).expand(2, 2, 3, 2).tril_(1),
    "tril_ of a matrix that is expanded and turned": lambda x: x[0].expand(2, 3, 2).transpose(0, 2).tril_(),
    "triu_ of one batch that is expanded": lambda x: x[:1].expand(2, 2, 3, 2).triu_(),
    "triu_ of a part of a matrix that is expanded": lambda x: x[0].expand(1, 1, 2, 3, 2)[0].triu_(),
}
test_triangles_of_what_overlaps_itself = steps(
    TRIANGLES, lambda m: {"x": m.arange(12.0).reshape(2, 3, 2)}, attempted=True
).test()

SHARED = {
    "the gradient of an assignment by index to what overlaps itself is refused": lambda m, x: (
        v := (x * 1).as_strided((2, 3), (0, 1)), setitem(v, m.tensor([0]), 0.5), attempt(lambda: v.sum().backward())),
    "the gradient of a product where a mask says so of what overlaps itself is refused": lambda m, x: (
        b := x * 1, w := b.as_strided((2, 3), (0, 1)), setitem(w, w > 0, w[w > 0].mul_(0.5)),
        attempt(lambda: w.sum().backward()), attempt(lambda: (b * 2).sum().backward())),
    "a node without a derivative raises although the gradient is None": lambda m: (
        x := m.tensor([0.0, -1.9], requires_grad=True),
        z := function(m, lambda ctx, x: x * 1, lambda ctx, g: None).apply(x // 2),
        attempt(lambda: z.sum().backward(retain_graph=True)), attempt(lambda: z.sum().backward(create_graph=True))),
    "logcumsumexp of a number": lambda m: (
        x := m.tensor(2.0, requires_grad=True), y := x.logcumsumexp(0),
        m.autograd.grad(y, x, m.tensor(3.0), create_graph=True)[0], d := m.tensor(inf, requires_grad=True),
        d.logcumsumexp(0).backward(), e := x.logcumsumexp(0), e.mul_(2), attempt(lambda: e.backward()),
        attempt(lambda: x.logcumsumexp(1))),
    "a mask of what shares elements and wants nothing is filled with a leaf": lambda m, w: (
        a := m.tensor([[-1.0, -1.0, 2.0], [1.0, 1.0, -1.0]]).as_strided((2, 3), (0, 1)), a.masked_fill_(a > 0, w),
        a.backward(m.tensor([[1.0, -0.9, 1.0], [2.0, 1.0, -1.0]]))),
    "expanded memory that wants nothing is filled by a mask with a leaf": lambda m, w: (
        b := m.zeros(3).expand(2, 3), b.masked_fill_(m.tensor([True, False, True]), w), b.sum().backward()),
    "expanded memory that wants nothing is filled by index with a leaf": lambda m, w: (
        c := m.zeros(3).expand(2, 3), c.index_fill_(0, m.tensor([0]), w), c.sum().backward()),
    "the gradient of expanded memory that is tracked and filled by a mask is refused": lambda m, w: (
        d := (w * m.ones(3)).expand(2, 3), d.masked_fill_(m.arange(3) > 0, 2.0), attempt(lambda: d.sum().backward())),
    "second gradients of a number that is filled by index": lambda m, w: (
        y := w * w, y.index_fill_(0, m.tensor([0]), 1.5), a := m.autograd.grad((y * y).sum(), w, create_graph=True)[0],
        m.autograd.grad(a, w, create_graph=True)[0]),
    "second gradients of a number that is copied to by index": lambda m, w: (
        z := w * w, z.index_copy_(0, m.tensor([0]), m.ones(1)),
        c := m.autograd.grad((z * z).sum(), w, create_graph=True)[0], m.autograd.grad(c, w, create_graph=True)[0]),
    "numbers that are filled and copied to at no index": lambda m, w: (
        i := m.tensor([0])[:0], (w * 2).index_fill(0, i, 3.0), (w * 2).index_copy(0, i, m.ones(0))),
    "a number is filled with a leaf by index": lambda m, w: m.tensor(2.0).index_fill(0, m.tensor([0]), w).backward(),
    "sgn_ of a whole view is recorded": lambda x: (y := x.clone(), y[:].sgn_(), y.sum().backward(create_graph=True)),
    "sign_ of a part is recorded": lambda x: (z := x.clone(), z[:1].sign_(), z.sum().backward(create_graph=True)),
    "mul_ of a part is recorded": lambda x: (v := x.clone(), v[1:].mul_(2), v.sum().backward(create_graph=True)),
    "exp_ of a part is recorded": lambda m, x: (
        r := x * 1, r[1:].exp_(), r.sum().backward(create_graph=True),
        m.autograd.grad(x.grad.sum(), x, allow_unused=True)),
}  # fmt: skip


def leaves(m: Any) -> dict[str, Any]:
    return {"x": m.tensor([1.0, 2.0, -3.0], requires_grad=True), "w": m.tensor(1.0, requires_grad=True)}


test_shared_elements_and_parts = steps(SHARED, leaves).test()

program = Programs()
test_same_as_torch = program.test()


@program
def saved_views_whose_base_was_written_to(m):
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    def backward(ctx, g):
        _, b = ctx.saved_tensors
        return g * b, None

    w, found = m.ones(3, requires_grad=True), {}
    cases = {
        "a column": (m.ones(3, 3), lambda a: a[..., 1], w),
        "the base itself": (m.ones(3), lambda a: a, w),
        "all of a base that is written to with a number": (m.ones(3), lambda a: a[:], 2),
    }
    for name, (base, view, factor) in cases.items():
        v = view(base)
        y = function(m, forward, backward).apply(w, v)
        base.mul_(factor)
        found[name] = attempt(lambda y=y: y.sum().backward()), seen([base, v, y])
    return found, seen(w)


@program
def parts_of_complex_numbers_resized(m):
    z = m.arange(6.0).view(2, 3).to(m.complex128) * (1 + 2j)
    v, a, b, w = z.imag, z.real, z.imag, z[1].real
    m.cumsum(m.arange(6.0, dtype=m.float64), 0, out=v)
    a.resize_(3, 3)
    a.fill_(2)
    b.resize_(12)
    b.copy_(m.arange(12.0))
    held = b.untyped_storage().nbytes()
    w.resize_(2, 1)
    w.add_(1)
    u = m.ones(2, 4).view(m.complex64)
    u.resize_(1)
    r = m.view_as_real(z)
    r.resize_(5, 4, 2)
    r.fill_(3)
    return seen(locals())
