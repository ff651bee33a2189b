"""Short programs, each for a rule of torch's that no other file asks for."""

from __future__ import annotations

import copy
from operator import itruediv, setitem
from typing import Any

from tests.autograd.functions import function
from tests.engine.helpers import Programs, attempt, dual, inference, seen, six, steps, under


def the_same(m: Any) -> Any:
    """A Function that gives its input back, with a gradient of its own."""
    return function(m, lambda ctx, x: x, lambda ctx, g: -g, "Same")


def complex_leaf(m: Any) -> dict[str, Any]:
    x = m.tensor([[1 + 2j, 3j], [1.0, 2 - 1j]], requires_grad=True)
    return {"x": x, "y": x * 1}


def leaf_and_copy(m: Any) -> dict[str, Any]:
    x = six(m)
    return {"x": x, "y": x * 1}


def leaf_and_view(m: Any) -> dict[str, Any]:
    b = m.ones(2, 3)
    return {"x": six(m), "b": b, "v": b[::2]}


def expanded(m: Any) -> dict[str, Any]:
    b = m.tensor([1.0, 2.0, 3.0])
    return {"b": b, "a": b.expand(2, 3), "i": m.tensor([0])}


# Inference tensors refuse a write when it is done, since that is when it is counted.
WRITES_TO_INFERENCE_TENSORS = {
    "a product written to an inference tensor is refused after it is done": lambda a: a.mul_(2),
    "an assignment to an inference tensor is refused after it is done": lambda a: setitem(a, 0, 3),
    "a write to a view of an inference tensor is refused after it is done": lambda a: a[:, 1:].zero_(),
    "an inference tensor is resized before it refuses": lambda a: a.resize_(2),
    "an inference tensor that is transposed in place": lambda a: a.t_(),
    "an inference tensor that gets a dimension in place": lambda a: a.unsqueeze_(0),
    "shapes that do not fit are complained of before inference tensors": lambda m, a: a.add_(m.ones(2)),
}
test_writes_to_inference_tensors = steps(WRITES_TO_INFERENCE_TENSORS, lambda m: {"a": inference(m)}, True).test()

INFERENCE = {
    "dtypes that do not fit are complained of before inference tensors": lambda m: (
        a := under(m.inference_mode(), lambda: m.ones(3, dtype=m.bool)), attempt(lambda: itruediv(a, 2.0))),
    "a detached inference tensor counts writes once, and its views refuse them": lambda a: (
        b := a.detach(), b.detach(), b.mul_(2), d := b[0:1], attempt(lambda: d.mul_(2))),
    "the data of an inference tensor can be written to and tracks nothing": lambda a: (
        b := a.data, b.mul_(2), attempt(lambda: b.requires_grad_())),
    "what is detached inside of the mode refuses writes outside": lambda m, a: (
        b := under(m.inference_mode(), lambda: a.detach()), under(m.inference_mode(), lambda: a.data),
        attempt(lambda: b.mul_(2))),
    "a plain tensor with the data of an inference tensor is not saved": lambda m, a: (
        b := m.ones(2, 3), setattr(b, "data", a), b.mul_(2), x := six(m), attempt(lambda: x * b)),
    "an inference tensor with the data of a plain one refuses writes": lambda m, a: (
        b := m.ones(2, 3), setattr(a, "data", b), attempt(lambda: a.mul_(2))),
    "a Function that gives back an inference tensor": lambda m, a: the_same(m).apply(a),
}  # fmt: skip
test_inference_tensors = steps(INFERENCE, lambda m: {"a": inference(m)}).test()

# Which writes may overlap themselves, and which must keep away from what they read.
WRITES_TO_EXPANDED_MEMORY = {
    "expanded memory is filled with a number": lambda a: a.fill_(4.0),
    "expanded memory is filled with zeros": lambda a: a.zero_(),
    "expanded memory refuses to be filled with a tensor": lambda m, a: a.fill_(m.tensor(2.0)),
    "expanded memory refuses a product": lambda a: a.mul_(2),
    "expanded memory is filled where a mask says so":
        lambda m, a: a.masked_fill_(m.tensor([[True, False, False], [False, False, True]]), 5.0),
    "expanded memory is filled by index": lambda a, i: a.index_fill_(0, i, 4.0),
    "expanded memory is written to by index": lambda m, a, i: a.index_put_((i,), m.tensor([7.0, 8.0, 9.0])),
    "expanded memory adds up what is put into one place":
        lambda m, a: a.index_put_((m.tensor([0, 1, 1]),), m.tensor(1.0), accumulate=True),
    "expanded memory is assigned to where a mask says so": lambda a: setitem(a, a > 1, 0.0),
    "expanded memory keeps its lower triangle": lambda a: a.tril_(),
    "expanded memory refuses that a number is assigned to all of it": lambda a: setitem(a, ..., 0.5),
    "expanded memory refuses that a number is assigned to a column": lambda a: setitem(a, (slice(None), 1), 1.5),
}  # fmt: skip
test_writes_to_expanded_memory = steps(WRITES_TO_EXPANDED_MEMORY, expanded, True).test()

OVERLAPS = {
    "index_add_ refuses a part of what it writes to": lambda a, i: a.index_add_(0, i, a[:1]),
    "index_copy_ refuses the only element that it writes to": lambda one, i: one.index_copy_(0, i, one[-1:]),
    "scatter_ refuses what it writes to": lambda m, square: square.scatter_(0, m.tensor([[0, 1]]), square),
    "index_put_ refuses a row of what it writes to": lambda square, i: square.index_put_((i,), square[1]),
    "a diagonal cannot be assigned to itself by index":
        lambda m, square: setitem(d := square.diagonal(1), m.tensor([0]), d),
    "a part is assigned to the whole where a mask says so": lambda a: setitem(a, a > 0, a[1:2]),
    "a fill by index reads its value first": lambda a, i: a.index_fill_(0, i + 1, a[0]),
    "a fill by a mask reads its value first": lambda a: a.masked_fill_(a > 0, a[2]),
}  # fmt: skip
test_overlaps = steps(
    OVERLAPS,
    lambda m: {"a": m.arange(3.0), "one": m.ones(1, 1), "square": m.ones(2, 2), "i": m.tensor([0])},
    attempted=True,
).test()

DTYPES = {
    "cumsum_ of booleans is refused": lambda b: b.cumsum_(0),
    "cumprod_ of booleans is refused": lambda b: b.cumprod_(0),
    "cumsum_ of integers keeps their dtype": lambda i: i.cumsum_(0),
    "a dtype that cannot be cast back is complained of": lambda b, z: b.hypot_(z),
    "a missing kernel is complained of after a dtype that cannot be cast back": lambda m, b: b.gcd_(m.ones(2)),
    "abs_ of complex numbers is refused": lambda z: z.abs_(),
    "clamp_ of integers to a fraction is refused": lambda i: i.clamp_(max=2.0),
    "clip_ of booleans to integers is refused": lambda b: b.clip_(0, 1),
    "addcdiv divides no integer by an integer": lambda m, i: m.addcdiv(m.ones(2), i, i),
    "addcdiv divides a number by an integer": lambda m, i: m.addcdiv(m.ones(2), m.ones(2), i),
    "what is not a number stays so times False": lambda m, b: m.tensor([1.0, float("nan")]) * b,
    "a tensor of integers refuses to be assigned to floats by index":
        lambda m, f: setitem(f, m.tensor([0, 1]), m.tensor(2)),
    "a tensor of floats refuses to be assigned to booleans by list": lambda m, b: setitem(b, [0, 1], m.tensor(2.0)),
    "an integer is assigned to floats where a mask says so": lambda m, f: setitem(f, f == 0, m.tensor(3)),
    "one integer is assigned to floats where a mask says so":
        lambda m, f: setitem(f, m.tensor([True, False, False]), m.tensor([4])),
    "an integer is assigned to one float": lambda m, f: setitem(f, 1, m.tensor(5)),
    "a plain number is assigned to floats by index": lambda m, f: setitem(f, m.tensor([2]), 6),
    "index_put_ takes integers for floats where a mask says so": lambda m, f: f.index_put_((f == 0,), m.tensor([7])),
}  # fmt: skip
test_dtypes = steps(
    DTYPES,
    lambda m: {
        "b": m.tensor([True, False]),
        "i": m.tensor([1, 2], dtype=m.int32),
        "z": m.tensor([1j, 2.0]),
        "f": m.zeros(3),
    },
    attempted=True,
).test()

HISTORY = {
    "a graph outlives the flag of its leaf": lambda x: (
        y := x.expand(2, 2, 3), x.requires_grad_(False), y.sum().backward()),
    "the flag of a view that was written to unrecorded": lambda m, x: (
        views := x.unbind(), under(m.no_grad(), lambda: x.mul_(2)), views[0].requires_grad_(),
        attempt(lambda: setattr(views[1], "requires_grad", False))),
    "views from before and after a leaf is detached": lambda x: (
        x.view(3, 2), x.detach_(), w := x.view(-1), w.squeeze_()),
    "a view of several is unsqueezed in place unrecorded": lambda m, x: (
        views := x.unbind(), under(m.no_grad(), lambda: views[0].unsqueeze_(0))),
    "a gradient goes back through a dimension that was added unrecorded": lambda m, x: (
        y := x * 2, under(m.no_grad(), lambda: y.unsqueeze_(0)), y.sum().backward()),
    "a gradient does not fit a dimension that was taken away unrecorded": lambda m: (
        x := m.ones(1, 3, requires_grad=True), y := x * 2, under(m.no_grad(), lambda: y.squeeze_()),
        attempt(lambda: (y * y).sum().backward())),
    "a leaf refuses to be transposed before its dimensions are looked at": lambda m: (
        x := m.ones(2, 1, 3, requires_grad=True), attempt(lambda: x.t_())),
    "data set for a view cut it off from its base": lambda m: (
        x := m.ones(2), v := x[0:1], setattr(v, "data", m.zeros(1)), v.mul_(2), x.mul_(2)),
    "what was detached keeps counting after data were set": lambda m: (
        x := m.ones(2), x.detach(), setattr(x, "data", m.zeros(2)), x.mul_(2)),
    "data set for a view that was made in inference mode": lambda m, x: (
        y := x * 1, v := under(m.inference_mode(), lambda: y[0]), setattr(v, "data", m.zeros(3)), y.neg_()),
    "a copy of a view that was made in inference mode": lambda m, x: (
        v := under(m.inference_mode(), lambda: x.t()), copy.deepcopy(v)),
    "what has no derivative raises as the first operand": lambda m, x: (
        z := m.ones(2, 3, requires_grad=True), attempt(lambda: (x // 2 - z).sum().backward())),
    "what has no derivative raises as the last operand": lambda m, x: (
        z := m.ones(2, 3, requires_grad=True), attempt(lambda: (z - x // 2).sum().backward())),
    "the complaint about a write names the node of the overload": lambda m, x: (
        y := x.prod(0), under(m.no_grad(), lambda: y.mul_(2)), attempt(lambda: y.sum().backward())),
    "a gradient that is zeros asks for gradients as others do":
        lambda m, x: m.autograd.grad((x * x).sum(), [six(m), x], create_graph=True, materialize_grads=True),
    "passes from nothing are refused each time":
        lambda m, x: tuple(attempt(lambda: m.autograd.grad([], [x])) for _ in range(4)),
    "a mask that was written to since a node saved it": lambda m, x: (
        mask := x > 3, y := m.where(mask, x, x * 2), mask.logical_not_(), attempt(lambda: y.sum().backward()),
        attempt(lambda: mask.expand(3)), attempt(lambda: mask.bfloat16().expand(3))),
}  # fmt: skip
test_history = steps(HISTORY, lambda m: {"x": six(m)}).test()

VIEWS = {
    "a view whose base became tracked refuses a write": lambda x, b, v: (b[0:1].mul_(x[0]), attempt(lambda: v.mul_(2))),
    "a view whose base became tracked takes a write after its node was looked at": lambda x, b, v: (
        b[0:1].mul_(x[0]), v.grad_fn, v.mul_(2)),
}  # fmt: skip
test_views_of_what_became_tracked = steps(VIEWS, leaf_and_view).test()

NODES_OF_VIEWS = {
    "reshape gives a view or a copy": lambda x: (x[:, 0].reshape(-1), x.t().reshape(3, 1, 2), x.reshape(-1)),
    "a view of the dtype that it has": lambda m, x: x.view(m.float32),
    "strides of dimensions of size one": lambda m: (
        m.ones(2, 3).t().t()[:1], b := m.ones(3, 2).t()[:1], c := b * b, c + 1, c.exp()),
    "a complex view follows its plain base": lambda m: (
        y := m.ones(2, dtype=m.complex64), v := m.view_as_real(y), v[0],
        y.mul_(m.ones(2, dtype=m.complex64, requires_grad=True))),
    "masked_fill keeps the layout": lambda m: (a := m.ones(2, 3).t(), m.masked_fill(a, a > 0, 0.5)),
    "repeat_interleave flattens its input in the graph": lambda m, x: (
        m.repeat_interleave(x, 2), m.repeat_interleave(x.t(), 2)),
    "logical operators in place cut off the history": lambda m, x, y: (
        v := x[0], v.logical_not_(), x.logical_and_(m.ones(2, 3)), attempt(lambda: x.eq_(1))),
    "as_strided_ of a result, and of a leaf, which refuses it": lambda x, y: (
        y.as_strided_((2, 2), (1, 1)), (y * y).sum().backward(), attempt(lambda: x.as_strided_((2,), (1,)))),
    "the gradient of a fill of expanded memory is refused": lambda y: (
        z := y[0].expand(2, 3), z.fill_(4.0), attempt(lambda: y.sum().backward())),
    "as_strided_ of a view reaches all of its base": lambda y: (
        v := y[0], v.as_strided_((3, 2), (1, 3)), (v * v).sum().backward()),
    "a gradient does not fit what as_strided_ made of a result unrecorded": lambda m, y: (
        under(m.no_grad(), lambda: y.as_strided_((2,), (1,))), attempt(lambda: y.sum().backward())),
}  # fmt: skip
test_nodes_of_views = steps(NODES_OF_VIEWS, leaf_and_copy).test()

PARTS_OF_COMPLEX_NUMBERS = {
    "real and imaginary parts follow a write to the whole": lambda y: (y.real, y.imag[0], y.mul_(2)),
    "conjugates follow a write to the whole": lambda y: (y.conj(), y.H, y.t().conj()[0], y.mul_(2)),
    "parts that are assigned to": lambda m, x, y: (
        setattr(y, "real", 1.0), setattr(y, "imag", m.tensor([3.0, 4.0])), attempt(lambda: setattr(y, "imag", 1j)),
        attempt(lambda: setattr(y, "real", "a")), attempt(lambda: setattr(x, "real", 1.0))),
    "what torch has no gradient of for complex numbers is refused": lambda m, x: (
        attempt(lambda: m.slice_scatter(x, x[:1] * 2, 0, 0, 1)),
        attempt(lambda: m.select_scatter(x.detach(), x[0], 0, 0)), attempt(lambda: m.nn.functional.silu(x)),
        attempt(lambda: m.nn.functional.embedding(m.tensor([0]), x)),
        m.slice_scatter(x.detach(), x.detach()[:1] * 2, 0, 0, 1)),
}  # fmt: skip
test_parts_of_complex_numbers = steps(PARTS_OF_COMPLEX_NUMBERS, complex_leaf).test()

INDICES = {
    "an index that is out of range is named with its dimension": lambda m: (
        a := m.ones(3, 0), attempt(lambda: a[0, 0]), b := m.ones(2, 3), attempt(lambda: b[..., 0, 5]),
        attempt(lambda: b[0, -4]), attempt(lambda: b[None, 5])),
    "of two tensors of indices the entry that comes first is named":
        lambda m: attempt(lambda: m.ones(1, 1)[m.tensor([0, 1]), m.tensor([1, 0])]),
    "index_select from nothing": lambda m: (
        a := m.ones(0, 3), attempt(lambda: a.index_select(0, m.tensor([1]))), a.index_select(1, m.tensor([1]))),
}  # fmt: skip
test_indices = steps(INDICES).test()

NODES = {
    "the edge of a bound is left out": lambda x: (
        x.clamp(max=x.sum()), x.clamp(min=x.sum()), x.clone().clamp_(max=x.sum()), x.clamp(max=2.0)),
    "the edge of a weight is left out": lambda m, x: (
        (F := m.nn.functional).layer_norm(x, (3,), None, x[0]), F.conv1d(x, m.ones(1, 2, 1)),
        F.batch_norm(x, m.zeros(3), m.ones(3)), F.binary_cross_entropy_with_logits(x, m.ones(2, 3), m.ones(2, 3)),
        F.nll_loss(x, m.tensor([0, 1]), m.ones(3))),
    "the edge of a value that fills": lambda m, x: (
        x.clone().masked_fill_(x > 3, m.tensor(True)), x.clone().index_fill_(0, m.tensor([0]), m.tensor(1))),
    "the edges of what has no gradient": lambda m, x: (
        m.heaviside(x, m.ones(2, 3)), m.floor_divide(x, m.tensor(2)), m.heaviside(x, x)),
    "a result that a write to a part saved is written to": lambda x: (
        y := x.sum(0), y[::2].exp_(), y.clamp_min_(0), attempt(lambda: y.sum().backward())),
    "what has no formula for an argument refuses its gradient": lambda m, x: (
        attempt(lambda: m.nn.functional.binary_cross_entropy(x.sigmoid(), m.ones(2, 3), x)),
        attempt(lambda: m.nn.functional.cross_entropy(m.ones(2, 3), m.tensor([0, 1]), x[0])),
        attempt(lambda: m.nn.functional.batch_norm(x, x[0], x[0])),
        attempt(lambda: m.nn.functional.soft_margin_loss(x, x)),
        under(m.no_grad(), lambda: m.nn.functional.soft_margin_loss(x, x))),
    "weights of counts get no gradient": lambda m, x: m.bincount(m.tensor([0, 1, 1]), x[0]),
    "comparisons into an out that asks for gradients": lambda m, x: (
        m.lt(x, 3, out=m.zeros(2, 3, dtype=m.bool)), m.argmax(x, out=m.tensor(0)), m.lt(x, 3, out=x),
        attempt(lambda: m.add(x, 3, out=x))),
    "draws into an out refuse inputs that ask for gradients": lambda m, x: (
        a := m.zeros(2, 3), attempt(lambda: m.bernoulli(x.sigmoid(), out=a)),
        attempt(lambda: m.normal(x, 1.0, out=a))),
    "an out that is an input": lambda m: (
        a := m.zeros(3, 0), m.stack([a], out=a), b := m.ones(2, 3),
        attempt(lambda: m.index_add(b, 0, m.tensor([0]), b[:1], out=b))),
    "a Function keeps the strides of what it gives back": lambda m: (a := m.zeros(3, 3)[None, 0], the_same(m).apply(a)),
    "results of one element that were saved and written to": lambda m: (
        a := m.tensor(2.0, requires_grad=True), attempt(a.cumprod(0).fill_(2.0).backward),
        attempt(a.prod().fill_(2.0).backward), attempt(a.logcumsumexp(0).fill_(2.0).backward),
        y := a.cumprod(0) * a.prod() * a.logcumsumexp(0), y.backward()),
    "a forbidden view is complained of before shapes": lambda m, x: (
        w := x * 1, parts := w.unbind(), w.mul_(2), attempt(lambda: parts[0] / m.ones(5)),
        attempt(lambda: m.cat([parts[0], m.ones(2, 2)]))),
}  # fmt: skip
test_nodes = steps(NODES, lambda m: {"x": six(m)}).test()

DUALS = {
    "a dual of inference tensors has one as its tangent": lambda m: (
        a := inference(m), dual(m, lambda ad: (d := ad.make_dual(a, a), ad.unpack_dual(d)[1]))),
    "a tangent that is made in inference mode":
        lambda m, x: under(m.inference_mode(), lambda: dual(m, lambda ad: ad.unpack_dual(ad.make_dual(x, x) * 2)[1])),
    "a dual keeps the strides of its primal": lambda m: (
        a := m.ones(3, 3)[None, 0], dual(m, lambda ad: ad.make_dual(a, a * 2))),
    "the tangent of a window that reaches outside": lambda m: (
        a := m.arange(6.0)[2:4],
        dual(m, lambda ad: ad.unpack_dual(ad.make_dual(a, m.ones(2)).as_strided((3,), (1,), 1))[1].clone())),
    "a tangent depends on what the derivative depends on": lambda m, x: dual(m, lambda ad: (
        d := ad.make_dual(x, m.ones(2, 3)), ad.unpack_dual(d.neg())[1], ad.unpack_dual(d * 2)[1].requires_grad,
        ad.unpack_dual(d.clone())[0])),
}  # fmt: skip
test_duals = steps(DUALS, lambda m: {"x": six(m)}).test()

program = Programs()
test_same_as_torch = program.test()


@program
def a_function_that_writes_to_a_leaf_that_is_a_view_is_refused(m):
    def doubled(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2.0)

    v = m.zeros(3).view(-1).requires_grad_()
    return attempt(lambda: function(m, doubled, lambda ctx, g: g * 2.0, "Twice").apply(v)), seen(v)


@program
def a_second_result_without_gradient_is_written_to(m):
    def with_sign(ctx, x):
        s = x.sign()
        ctx.mark_non_differentiable(s)
        return x * 1.5, s

    x = m.tensor([[1.0, 2.0]], requires_grad=True)
    y, s = function(m, with_sign, lambda ctx, g, h: g * 1.5, "Sign").apply(x)
    v = s[::2]
    w = v[0:1]
    w *= x.sum()
    return attempt(lambda: setitem(v, slice(0, 1), w)), seen(locals())


@program
def a_function_saves_a_view_that_it_may_not_write_to(m):
    def saves(ctx, x, y):
        x.mul_(2.0)
        ctx.save_for_backward(y)
        return y * 2

    x = six(m)
    v, w = x.split([1, 1])
    d = w.detach()
    y = function(m, saves, lambda ctx, g: (None, g * 2), "Saves").apply(d, v)
    return seen(locals())


@program
def a_retained_gradient_keeps_the_layout_in_which_it_came(m):
    x = six(m)
    y, z, w = x * 1, x * 2, x * 3
    y.exp().backward(m.ones(3, 2).t(), inputs=[y])
    z.retain_grad()
    z.view_as(z).backward(m.ones(()).expand(2, 3), create_graph=True)
    w.retain_grad()
    w.exp().backward(m.ones(3, 2, requires_grad=True).t(), create_graph=True)
    return [t.grad.stride() for t in (y, z, w)], seen(w.grad), seen(locals())


@program
def hooks_of_several_tensors_run_where_one_of_them_is_the_root(m):
    x, log = six(m), []
    y = x.exp()
    m.autograd.graph.register_multi_grad_hook([x, y], log.append)
    y.backward(m.ones(2, 3))
    return len(log), seen([x, y])


@program
def hooks_of_several_tensors_beside_grad(m):
    x, log = six(m), []
    y = x.exp()
    m.autograd.graph.register_multi_grad_hook([x, y], log.append)
    g = m.autograd.grad(y.sum(), [y])
    return len(log), g, seen([x, y])
