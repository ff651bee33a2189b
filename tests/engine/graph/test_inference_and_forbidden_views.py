"""Modes and writes: inference tensors, overlapping memory, forbidden views."""

from __future__ import annotations

import copy
from operator import setitem
from typing import Any

from tests.autograd.functions import function
from tests.engine.helpers import Programs, attempt, dual, inference, seen, six, steps, under


def adds_in_place(m: Any) -> Any:
    """A Function that adds its second input to the first, which it marks."""

    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.mark_dirty(x)
        return x.add_(y)

    return function(m, forward, lambda ctx, g: (g, g), "Write")


def uncounted(m: Any) -> dict[str, Any]:
    """`.data =` leaves an inference tensor without a version counter, and nothing can share one."""
    a = inference(m)
    a.data = m.ones(2, 3)
    return {"a": a}


def conjugated(m: Any) -> dict[str, Any]:
    v = m.tensor([1 + 2j, 3 - 1j, 2j, 4.0])
    return {"v": v, "c": v.conj(), "i": m.tensor([0])}


def empty(m: Any) -> dict[str, Any]:
    return {"x": m.zeros(0, 3, requires_grad=True)}


# Kernels that end with a view show it where autograd does not wrap them.
INFERENCE = {
    "a stack of inference tensors is a view": lambda m, a: (b := m.stack([a, a]), b._base),
    "a stack of inference tensors along an inner dimension is a view": lambda m, a: (b := m.stack([a, a], 1), b._base),
    "a stack of inference tensors along the last dimension": lambda m, a: m.stack([a, a], -1),
    "a stack of an inference tensor and another": lambda m, a: m.stack([a, m.ones(2, 3)]),
    "a stack of inference tensors of two dtypes": lambda m, a: m.stack([a, a.double()]),
    "a stack of inference tensors inside of the mode": lambda m, a: under(m.inference_mode(), lambda: m.stack([a, a])),
    "an inference tensor that is rolled as if it were flat is a view": lambda a: (
        b := a.roll(1), b._base, a.roll(1, 0)),
    "an inference tensor that is repeated": lambda a: (b := a.repeat(2, 1), a.repeat(0, 1), b.mul_(2)),
}  # fmt: skip
test_inference_tensors = steps(INFERENCE, lambda m: {"a": inference(m)}).test()

UNCOUNTED = {
    "what has no version counter has no views": lambda a: (attempt(lambda: a[0]), a * 2),
    "what has no version counter has no views in inference mode":
        lambda m, a: attempt(lambda: under(m.inference_mode(), lambda: a.view(-1))),
    "what has no version counter is not saved": lambda m, a: (x := six(m), attempt(lambda: x * a)),
    "what is detached from what has no version counter refuses writes": lambda a: (
        b := a.detach(), attempt(lambda: b.mul_(2))),
}  # fmt: skip
test_tensors_without_a_version_counter = steps(UNCOUNTED, uncounted).test()

# Kernels get copies of conjugated operands, which overlap nothing.
CONJUGATED = {
    "index_add_ takes a conjugated part of what it writes to": lambda c, i: c[:3].index_add_(0, i, c[:1]),
    "add_ takes a conjugated part that overlaps what it writes to": lambda c: c[:3].add_(c[1:]),
    "index_add_ takes the conjugate of what it writes to": lambda v, c, i: v[:3].index_add_(0, i, c[:1]),
    "copy_ refuses a conjugated part that overlaps what it writes to": lambda c: c[:3].copy_(c[1:]),
}
test_conjugated_operands = steps(CONJUGATED, conjugated, True).test()

WRITES = {
    "expanded memory is copied to itself": lambda m: (a := m.ones(3).expand(2, 3), a.copy_(a), a.copy_(a.view_as(a))),
    "expanded memory refuses a copy of its like": lambda m: (
        a := m.ones(3).expand(2, 3), attempt(lambda: a.copy_(m.ones(2, 3)))),
    "clamps of expanded memory complain of dtypes before they do of memory": lambda m: (
        a := m.tensor([True, False]).expand(2, 2), attempt(lambda: a.clamp_min_(0)),
        attempt(lambda: a.float().expand(2, 2, 2).clamp_(0))),
    "products along booleans are taken in place where nothing is multiplied": lambda m: (
        a := m.zeros(0, 3, dtype=m.bool), a.cumprod_(0), b := m.tensor(True), b.cumsum_(0),
        attempt(lambda: m.ones(2, dtype=m.bool).cumprod_(0))),
    "a view made unrecorded that overlaps itself refuses a write": lambda m, x: (
        v := under(m.no_grad(), lambda: x.as_strided((2, 3), (0, 1))), attempt(lambda: setitem(v, v > 0, 3))),
    "products of batches complain of matrices": lambda m: (
        a := m.ones(2, 3), b := m.ones(3, 4), attempt(lambda: m.baddbmm(a, a, b)), attempt(lambda: m.addbmm(a, a, b)),
        attempt(lambda: m.baddbmm(a, m.ones(()), b))),
    "retain_grad stays after a result is detached": lambda x: (
        y := x.exp(), y.retain_grad(), y.detach_(), y.retains_grad),
    "a dual of expanded memory refuses a tangent that is not expanded": lambda m: (
        b := m.tensor([1.0, 2.0, 3.0]).expand(2, 3),
        attempt(lambda: dual(m, lambda ad: ad.make_dual(b, m.ones(2, 3))))),
    "a gradient edge is refused in inference mode":
        lambda m, x: attempt(lambda: under(m.inference_mode(), lambda: m.autograd.graph.get_gradient_edge(x))),
    "copies that are made in inference mode":
        lambda m, x: under(m.inference_mode(), lambda: (copy.deepcopy(x), copy.copy(x.detach()))),
    "results and views are detached in inference mode": lambda m, x: (
        y := x * 2, v := y[0], under(m.inference_mode(), lambda: (y.detach_(), v.detach_()))),
    "a Function forgets the gradient of what it may not write to": lambda m, x: (
        v := x[0:1], m.autograd.backward(v.sum(), inputs=[v, x]), attempt(lambda: adds_in_place(m).apply(v, v))),
    "a view of a dual of one of several refuses a write and names its node": lambda m, x: (
        parts := x.split(1),
        y := dual(m, lambda ad: ad.unpack_dual(ad.make_dual(parts[0], m.ones(1, 3)).view(-1)[0]).primal),
        attempt(lambda: y.sin_())),
}  # fmt: skip
test_writes_and_refusals = steps(WRITES, lambda m: {"x": six(m)}).test()

COMPOSED = {
    "the graph of take_along_dim": lambda m, x: (
        y := m.take_along_dim(x, m.tensor([[0, -1, 1]]), 0), y.sum().backward()),
    "take_along_dim takes no negative index of what is flat":
        lambda m, x: attempt(lambda: m.take_along_dim(x, m.tensor([0, -1]))),
    "the graph of an inner product along one element": lambda m, x: (
        y := m.inner(x[:, :1], x[:, :1].detach()), y.sum().backward()),
    "the graph of an inner product of single rows": lambda m, x: m.inner(x[:1], x[:1]),
    "the graph of a tensordot along turned dimensions": lambda m, x: m.tensordot(x, x.detach(), ([1, 0], [1, 0])),
    "the graph of a tensordot along one element": lambda m, x: m.tensordot(x[:1], m.ones(1, 3), ([0], [0])),
    "the graph of trapezoids": lambda m, x: (m.trapezoid(x), m.trapezoid(x, m.tensor([0.0, 1.0, 3.0]))),
    "max_pool1d without a gradient is another node": lambda m, x: (
        m.nn.functional.max_pool1d(x.detach(), 3), m.nn.functional.max_pool1d(x, 3),
        under(m.no_grad(), lambda: m.nn.functional.max_pool1d(x[None], 2))),
    "the gradient of hardsigmoid ends where it is flat": lambda m: (
        x := m.tensor([0.5, 4.0], dtype=m.float64, requires_grad=True),
        m.nn.functional.hardsigmoid(x).sum().backward()),
}  # fmt: skip
test_composed_functions = steps(COMPOSED, lambda m: {"x": six(m)}).test()

EMPTY = {
    "the graph of sin of nothing is freed": lambda x: (
        y := x.sin(), y.sum().backward(), attempt(lambda: y.sum().backward())),
    "a recorded gradient of nothing asks for gradients": lambda x: x[:, [0]].prod().backward(create_graph=True),
    "indices of minima of nothing are saved": lambda x: (
        found := x.min(-1), found[1].mul_(found[1]), attempt(lambda: found[0].sum().backward())),
    "the graph of nothing joined to nothing": lambda m: (
        x := m.zeros(0, requires_grad=True), y := m.cat([x, x]).tanh(),
        m.autograd.grad(y.sum(), x, create_graph=True)[0]),
}  # fmt: skip
test_empty_tensors = steps(EMPTY, empty).test()

program = Programs()
test_same_as_torch = program.test()


@program
def hooks_of_several_tensors_in_inference_mode(m):
    x = six(m)
    y = x * 2
    with m.inference_mode():
        refused = attempt(lambda: m.autograd.graph.register_multi_grad_hook([x], print))
        m.autograd.graph.register_multi_grad_hook([y], print)
    return refused, seen([x, y])


@program
def a_context_says_nothing_of_materialized_gradients(m):
    def forward(ctx, x):
        ctx.seen = hasattr(ctx, "materialize_grads")
        return x * 2

    x = six(m)
    y = function(m, forward, lambda ctx, g: g, "Reads").apply(x)
    return y.grad_fn.seen, seen(locals())


@program
def transforms_of_what_nobody_counts(m):
    with m.inference_mode():
        i, a = m.ones(2, 2), m.ones(2, 2)
    a.data = m.full((2, 2), 3.0)
    b = m.vmap(lambda t: t * 2)(a)
    c = m.func.grad(lambda t: (t * t).sum())(a)
    d = m.autograd.functional.jacobian(lambda t: t * 2, a)
    e = m.func.grad(lambda t: t[0].sum())(i)
    refused = [
        attempt(lambda: m.vmap(lambda t: t.view(-1))(a)),
        attempt(lambda: m.func.vjp(lambda t: t.t() * 1, a)),
        attempt(lambda: m.func.grad(lambda t: t[0].sum())(a)),
        attempt(lambda: m.autograd.functional.jacobian(lambda t: t.view(-1), a)),
        attempt(lambda: m.autograd.functional.jacobian(lambda t: t * 2, i)),
    ]
    return seen(locals())
