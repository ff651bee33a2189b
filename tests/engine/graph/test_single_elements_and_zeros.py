"""Single elements, empty slices, infinities, zeros."""

from __future__ import annotations

import copy
from functools import partial
from math import inf, nan
from operator import setitem
from typing import Any

import pytest

from tests.differential import everything
from tests.engine.graph.test_inference_and_forbidden_views import adds_in_place
from tests.engine.helpers import Programs, attempt, given, seen, steps, under

program = Programs()
test_same_as_torch = program.test()

INTO_EMPTY_SLICES = {
    "indices into empty slices of a dimension of one": lambda m, at: m.zeros(0, 1)[:, at],
    "indices out of range of empty rows": lambda m, at: m.zeros(3, 0)[at + 7],
    "indices out of range of empty columns": lambda m, at: m.zeros(2, 0, 4)[:, :, at + 7],
    "the second of two indices out of range is refused": lambda m, at: m.zeros(2, 0, 4)[at + 7, at],
    "indices into no rows are refused": lambda m, at: m.zeros(0, 2)[at],
    "index_put out of range of empty rows": lambda m, at: m.zeros(2, 0, 4).index_put((at + 7,), m.zeros(3, 0, 4)),
    "index_add out of range of empty rows": lambda m, at: m.zeros(2, 0).index_add(0, at + 7, m.zeros(3, 0)),
    "index_copy out of range of empty rows": lambda m, at: m.zeros(2, 0).index_copy(0, at + 7, m.zeros(3, 0)),
    "index_fill out of range of empty rows": lambda m, at: m.zeros(2, 0).index_fill(0, at + 7, 1.0),
    "a number assigned to empty columns": lambda m, at: (a := m.zeros(0, 1), setitem(a, (slice(None), at), 1.0)),
    "take from nothing is refused": lambda m, at: m.zeros(0).take(at),
    "put into nothing is refused": lambda m, at: m.zeros(0).put(at, m.ones(3)),
    "index_copy out of range is refused": lambda m, at: m.zeros(2, 3).index_copy(0, at + 7, m.zeros(3, 3)),
}
test_indices_into_empty_slices = steps(INTO_EMPTY_SLICES, lambda m: {"at": m.tensor([1, 0, 0])}, attempted=True).test()

NUMBERS = {
    "a complex number with an imaginary part is refused where a mask says so":
        lambda m, a, at: setitem(a, at, m.tensor(1 + 2j)),
    "a complex number without an imaginary part is assigned where a mask says so":
        lambda m, a, at: setitem(a, at, m.tensor(2 + 0j)),
    "masked_fill_ takes a complex number without an imaginary part":
        lambda m, a, at: a.masked_fill_(at, m.tensor(3 + 0j)),
    "masked_fill_ refuses a complex number with an imaginary part":
        lambda m, a, at: a.masked_fill_(at, m.tensor(3 + 1j)),
    "masked_fill_ refuses a number that is too great":
        lambda m, a, at: a.masked_fill_(at, m.tensor(1e300, dtype=m.float64)),
    "masked_fill_ takes infinity": lambda m, a, at: a.masked_fill_(at, m.tensor(inf, dtype=m.float64)),
    "a byte refuses a number that is too great": lambda m, i, at: setitem(i, at, m.tensor(300)),
    "a byte refuses what is not a number": lambda m, i, at: setitem(i, at, m.tensor(nan)),
    "a fraction that fills bytes is cut off": lambda m, i, at: i.masked_fill_(at, m.tensor(3.7)),
    "masked_fill of bytes refuses a number that is too small": lambda m, i, at: i.masked_fill(at, m.tensor(-1e9)),
    "index_fill_ of bytes refuses a number that is too great":
        lambda m, i: i.index_fill_(0, m.tensor([0]), m.tensor(256)),
    "a fraction that fills bytes by index is cut off": lambda m, i: i.index_fill_(0, m.tensor([0]), m.tensor(25.5)),
    "clamp_ of integers names the type of a number": lambda n: n.clamp_(1.5),
    "clamp_ of integers names the type of a tensor": lambda n, f: n.clamp_(f),
    "clip_ of integers names the type of its upper bound": lambda n, f: n.clip_(max=f),
    "clamp_min_ of integers names the type of a tensor": lambda n, f: n.clamp_min_(f),
    "clamp_max_ of integers names the type of a number": lambda n: n.clamp_max_(1.5),
    "add_ of integers names the type of a tensor": lambda n, f: n.add_(f),
    "booleans are filled with a complex tensor": lambda m, at: at.masked_fill(at, m.tensor(1j)),
    "booleans are filled with a complex number": lambda at: at.masked_fill(~at, 1j),
}  # fmt: skip
test_values_that_are_read_as_numbers = steps(
    NUMBERS,
    lambda m: {
        "a": m.ones(3),
        "i": m.ones(3).byte(),
        "n": m.arange(3),
        "f": m.tensor(1.5),
        "at": m.tensor([True, False, True]),
    },
    attempted=True,
).test()

FORBIDDEN = {
    "a forbidden view complains before as_strided does": lambda c: c.as_strided((2, 2), (2, 1), 100),
    "a forbidden view complains before an index does": lambda m, c: c[m.tensor([9])],
    "a forbidden view complains before gather does": lambda m, c: c.gather(0, m.tensor([9])),
    "a forbidden view complains before expand does": lambda c: c.expand(9),
    "a forbidden view complains before transpose does": lambda c: c.transpose(0, 9),
    "a forbidden view complains before unbind does": lambda c: c.unbind(9),
    "a forbidden view complains before an unrecorded transpose does":
        lambda m, c: under(m.no_grad(), lambda: c.transpose(0, 9)),
}  # fmt: skip


def forbidden(m: Any) -> dict[str, Any]:
    y = m.ones(3, 3, requires_grad=True).neg()
    c = y.unbind()[2]
    y.add_(1)
    return {"y": y, "c": c}


test_forbidden_views_complain_before_wrong_arguments = steps(FORBIDDEN, forbidden, attempted=True).test()

WRITES = {
    "fill_": lambda t: t.fill_(2.0),
    "zero_": lambda t: t.zero_(),
    "index_fill_": lambda m, t: t.index_fill_(0, m.tensor([0]), 1.0),
    "a row assigned to": lambda t: setitem(t, 0, 4.0),
    "a row assigned to where a mask says so": lambda m, t: setitem(t, m.tensor([True, False]), 1.0),
    "a row assigned to by index": lambda m, t: setitem(t, m.tensor([1]), 1.0),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_to_conjugated_views_that_overlap_themselves(name: str, same: Any) -> None:
    def run(m: Any) -> Any:
        views = {"conjugate": lambda z: z.conj(), "imaginary part": lambda z: z.conj().imag, "plain": lambda z: z}
        found = {}
        for of, view in views.items():
            z = m.tensor([1 + 2j, 3 - 1j])
            t = view(z).expand(2, 2)
            found[of] = attempt(given(WRITES[name], m=m, t=t)), seen([z, t])
        return found

    same(run, f"overlapping {name}", raises=False)


GRADIENTS = {
    "a mean has a gradient where its variance has none": lambda m: (
        x := m.tensor([2.0], requires_grad=True), m.var_mean(x)[1].backward(), y := m.ones(2, 2, requires_grad=True),
        m.std_mean(y, 1)[1].sum().backward(), m.std_mean(y, 1)[0].sum().backward()),
    "first and second gradients of products with zeros": lambda m: (
        x := m.tensor([[1.0, -1.7, -1.0], [-0.9, 1.0, 0.0], [1.0, 0.0, 2.0]], requires_grad=True), y := x.prod(0),
        g := m.autograd.grad((y * y).sum(), x)[0] * 1, g.reciprocal(), m.autograd.grad(x.prod(), x)[0] * 1,
        m.autograd.grad(x[:, :2].prod(1).sum(), x)[0] * 1,
        m.autograd.grad(m.autograd.grad(x.prod(1).sum(), x, create_graph=True)[0].sum(), x)[0] * 1),
    "trigamma beside and at its poles": lambda m: (
        x := m.tensor([-3.3, -0.2, 0.0, 0.4, 1.1358, 30.0, -2.0, inf], dtype=m.float64), m.polygamma(1, x),
        m.polygamma(1, x.float()), w := x.clone().requires_grad_(), w.digamma().sum().backward()),
    "the sum of one negative zero": lambda m: (
        x := -m.zeros(1, 3, requires_grad=True), [1 / x.sum(0), 1 / x.mean(0), 1 / x[0, 0].sum(), 1 / x.nansum(0)],
        x.sum(0).sum().backward()),
    "diagonals read nothing again": lambda m: (
        x := m.ones(2, 2, requires_grad=True), n := m.arange(6.0).view(2, 3).requires_grad_(),
        m.autograd.grad(x.diagonal().sum(), x, create_graph=True)[0],
        m.autograd.grad(m.diag(x).sum(), x, create_graph=True)[0],
        m.autograd.grad((n.diagonal(1) * n.diagonal(-1)[0]).sum(), n)[0] * 1, n.diagonal(5), n.diagonal(-1)),
    "forbidden views complain before versions do": lambda m: (
        y := 2.0 - m.ones(2, 3, requires_grad=True), parts := under(m.no_grad(), lambda: y.tensor_split(2)),
        c := parts[0].std(), d := parts[1].exp(), y.mul_(c), attempt(lambda: c.backward(retain_graph=True)),
        d.sum().backward()),
    "a view is marked as written to after data was set for its base": lambda m: (
        x := m.ones(3, requires_grad=True), y := m.softmax(x, 0), setattr(y, "data", m.ones(3)), v := y[:-1],
        adds_in_place(m).apply(v, m.ones(2))),
    "gradients are retained by views of what was tracked later": lambda m: (
        t := m.tensor(1.0, requires_grad=True), x := m.ones(3), v := x.expand(2, 3), w := v.view(2, 3), x.add_(t),
        w.retain_grad(), w.retains_grad, v.is_leaf, v.retain_grad(), (v.sum() + w.sum()).backward()),
    "copies of inference tensors that ask for gradients": lambda m: (
        x := m.ones(3, requires_grad=True), y := under(m.inference_mode(), lambda: copy.deepcopy(x)),
        z := under(m.inference_mode(), lambda: m.ones(2, 3)), a := y.clone(), b := y.double(), c := a * 2,
        (c.sum() + b.sum()).backward(), m.select_scatter(z, z[0], 0, 0), m.slice_scatter(z, z[:1], 0, 0, 1)),
}  # fmt: skip
test_gradients = steps(GRADIENTS).test()


@program
def reductions_of_nothing_complex(m):
    x = m.zeros(0, 3, dtype=m.complex64)
    tensors = {"plain": x, "tracked": x.clone().requires_grad_(), "without columns": m.zeros(3, 0)}
    along = ("amin", "max", "cummax", "cummin", "mode", "median", "nanmedian", "softmax", "log_softmax")
    calls = [(name, -1) for name in along] + [("amin", 0), ("log_softmax", 0), ("amax",), ("aminmax",), ("median",)]
    found = {
        f"{name}{at} {of}": attempt(partial(getattr(t, name), *at)) for name, *at in calls for of, t in tensors.items()
    }
    return seen(found), attempt(lambda: x.aminmax(dim=-1)), attempt(lambda: m.zeros(3, 0, dtype=m.bool).topk(1))


@program
def maxima_with_infinite_gradients(m):
    x = m.tensor([1.0, nan, -inf], requires_grad=True)
    y = m.tensor([inf, -1.0, 2.0], requires_grad=True)
    z = m.tensor([3.0, 3.0, 3.0, 1.0], requires_grad=True)
    for f in (m.max, m.min, m.median, m.nanmedian):
        (f(x) ** 2 + f(y) ** 2).backward()
    x.grad = y.grad = None
    (x.amax() ** 2 + y.amax() ** 2 + y.amin()).backward()
    (z.amax() + z.max()).backward(m.tensor(0.7))
    return x, y, z


@program
def renorm_of_what_is_not_a_number(m):
    x = m.tensor([[1.0, 2.0], [nan, 1.0], [0.1, 0.2], [inf, 1.0], [0.0, 0.0]], requires_grad=True)
    x.renorm(2, 0, 1.0).backward(m.arange(1.0, 11.0).view(5, 2))
    y = m.tensor([[1.0, 2.0], [0.3, -0.1]], dtype=m.float64, requires_grad=True)
    z = y.renorm(3, 1, 0.5)
    m.autograd.grad(z.square().sum(), y, create_graph=True)[0].sum().backward()
    return seen(locals())


@program
def views_of_another_dtype_of_a_part(m):
    x = m.arange(5.0, requires_grad=True)
    a, b, c = x * 1, m.arange(3, dtype=m.float32), m.arange(7, dtype=m.uint8)
    v = m.view_as_complex(a[:4].view(2, 2))
    v.exp_()
    a.sum().backward()
    w = b[:2].view(m.float64)
    w.mul_(2.0)
    u = c[:4].view(m.int32)
    u.add_(1)
    return attempt(lambda: c[:6].view(m.int16).zero_()), seen(locals())


@program
def zeros_that_sums_begin_with(m):
    F, w = m.nn.functional, m.tensor([1.0, -2.0, 0.5])
    z, i = -m.zeros(2, 3), -m.zeros(1, 1, 4, 4, requires_grad=True)
    found = {
        "layer_norm": F.layer_norm(z, (3,)),
        "layer_norm with a weight": F.layer_norm(z + 2, (3,), w),
        "batch_norm of a batch": F.batch_norm(z, None, None, training=True),
        "batch_norm": F.batch_norm(z, z[0], -z[0] + 1, w),
        "group_norm": F.group_norm(z.view(1, 2, 3), 2),
        "instance_norm": F.instance_norm(z[None]),
        "avg_pool2d": F.avg_pool2d(i, 2),
        "avg_pool2d with padding": F.avg_pool2d(i, 3, padding=1),
        "adaptive_avg_pool2d": F.adaptive_avg_pool2d(i, 2),
        "avg_pool1d": F.avg_pool1d(z[None], 2),
        "fold": F.fold(F.unfold(i, 2), 4, 2),
        "i1": m.special.i1(z),
        "i1e": m.special.i1e(z),
    }
    found["adaptive_avg_pool2d"].sum().backward()
    return seen(i), seen(found), {name: 1 / y for name, y in found.items()}


@program
def losses_of_classes_that_are_left_out(m):
    F = m.nn.functional
    x = m.tensor([[0.1, -0.2, 0.3], [1.0, 2.0, -1.0]], requires_grad=True)
    t, w = m.tensor([-100, 1]), m.tensor([0.5, 0.0, 2.0])
    for r in ("mean", "sum", "none"):
        F.nll_loss(x, t, w, reduction=r).sum().backward()
    a, x.grad = 1 / x.grad, None
    F.nll_loss(x, m.tensor([-100, -100])).backward()
    refused = attempt(lambda: F.cross_entropy(x, t, w + 1, ignore_index=1))
    m.autograd.grad(F.cross_entropy(x, t, w + 1), x, create_graph=True)[0].square().sum().backward()
    return a, x, refused


@program
def gradients_of_elements_that_share_a_place(m):
    x = m.tensor([0.0, -2.0, 1.0], requires_grad=True)
    y, a, e = x.as_strided((2, 3), (0, 1)), x.as_strided((2, 2), (1, 1)), x.expand(2, 3)
    windows = [(y, (2,), 1), (a, (3,), 0), (e, (2,), 0)]
    found = [m.autograd.grad((v.as_strided(shape, (1,), at) ** 2).sum(), [v, x]) for v, shape, at in windows]
    return found, seen([x, y, a, e])


@program
def dual_tensors_are_plain_in_inference_mode(m):
    ad, found = m.autograd.forward_ad, []
    x, y, e = m.ones(2), m.tensor([2.0, 3.0]), m.ones(1).expand(2)

    def look(make):
        def facts():
            u, v = ad.unpack_dual(v := make()), v
            return u.primal.tolist(), u.tangent is None, v.is_inference(), v._is_view()

        found.append(attempt(facts))

    with ad.dual_level():
        z = ad.make_dual(x, y)
        with m.inference_mode():
            look(lambda: z)
            look(lambda: z * 2)
            for primal, tangent in ((x, y), (z, y), (y, z), (e, y), (x, m.ones(3)), (x, m.ones(2, dtype=m.int64))):
                look(lambda p=primal, t=tangent: ad.make_dual(p, t))
            w = m.ones(2)
        look(lambda: z)
        for primal, tangent in ((w, y), (y, w), (e, y)):
            look(lambda p=primal, t=tangent: ad.make_dual(p, t))
        return found, seen([x, y, e, z, w])


ONE_ELEMENT = {
    "sum": lambda x: x.sum(), "sum of one element of another shape": lambda x: x.reshape(1).sum(),
    "product": lambda x: x.prod(), "mean": lambda x: x.mean(), "maximum": lambda x: x.amax(),
    "copy": lambda x: x.clone(), "expanded to its shape": lambda x: x.expand(x.shape),
    "viewed as its shape": lambda x: x.view(x.shape), "sum with a number": lambda x: x + 1,
    "sum along a dimension": lambda x: x.sum(-1), "product along a dimension": lambda x: x.prod(-1),
    "sum along a dimension that is kept": lambda x: x.sum(-1, keepdim=True), "running sum": lambda x: x.cumsum(-1),
    "running product": lambda x: x.cumprod(-1),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_ELEMENT)
def test_the_gradient_of_a_single_element(name: str, same: Any) -> None:
    def run(m: Any) -> Any:
        seen = []
        for shape in ((), (1,), (1, 1)):
            for twice in (False, True):
                x = m.full(shape, 3.0).requires_grad_()
                roots = [ONE_ELEMENT[name](x) for _ in range(1 + twice)]
                m.autograd.backward(roots, [m.full(y.shape, 2.0) for y in roots])
                seen.append(x.grad.tolist())
        return seen

    same(run, f"single {name}", raises=False)


@pytest.mark.parametrize("grad_mode", [True, False])
def test_tangents_lie_as_their_primals_do(grad_mode: bool, same: Any) -> None:
    def run(m: Any) -> Any:
        made = {
            "leaf": lambda: m.ones(3, requires_grad=True),
            "part": lambda: m.ones(3, 3)[1],
            "other part": lambda: m.ones(3, 3)[2],
            "part of a result": lambda: (m.ones(3, 3, requires_grad=True) * 1)[1],
            "unbound": lambda: m.ones(3, 3).unbind()[0],
            "half": lambda: m.ones(6)[3:],
            "steps": lambda: m.ones(6)[::2],
            "whole": lambda: m.ones(1, 3)[0],
            "real": lambda: m.ones(3, dtype=m.complex64).real,
            "imaginary": lambda: m.ones(2, 3, dtype=m.complex64).imag[1],
        }
        seen = {}
        for a, primal in made.items():
            for b, tangent in made.items():
                with m.set_grad_enabled(grad_mode), m.autograd.forward_ad.dual_level():
                    dual = m.autograd.forward_ad.make_dual(primal(), tangent())
                    found = m.autograd.forward_ad.unpack_dual(dual).tangent
                    seen[f"{b} of {a}"] = everything(found)
        return seen

    same(run, f"tangents {grad_mode}")
