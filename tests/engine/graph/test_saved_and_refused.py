"""What a node saves although no gradient reads it, nodes without gradients,
roots that lead nowhere, the steps of composed functions."""

from __future__ import annotations

from operator import setitem
from typing import Any

import pytest

from tests.engine.helpers import attempt, given, seen, steps, under


def tensors(m: Any) -> dict[str, Any]:
    b, c = m.tensor([0.3, 1.2, -0.7]), m.tensor([0.5, -0.4, 2.0])
    x, q = b.clone().requires_grad_(), c.clone().requires_grad_()
    square = m.tensor([[2.0, 0.1, 0.3], [0.2, 3.0, 0.4], [0.1, 0.5, 4.0]]) * (x * x + 1)
    return {"b": b, "x": x, "c": c, "q": q, "a": x * 1, "s": q * 1, "rows": m.tensor([0, 2, 1]), "square": square}


# A result `y`, and what may not be written to before the backward pass, since torch saved it; some are not saved.
SAVED = {
    "sgn": (lambda m, a: m.sgn(a), "ay"),
    "angle": (lambda m, a: m.angle(a), "ay"),
    "floored quotient": (lambda m, a, s: m.div(a, s, rounding_mode="floor"), "a"),
    "truncated quotient": (lambda m, a, s: m.div(a, s, rounding_mode="trunc"), "s"),
    "floored quotient by a constant": (lambda m, a, c: m.div(a, c, rounding_mode="floor"), "ac"),
    "pow": (lambda m, a, c: m.pow(a.abs(), c), "y"),
    "copysign": (lambda m, b, s: m.copysign(b, s), "y"),
    "ldexp": (lambda m, a, c: m.ldexp(a, c), "y"),
    "dist": (lambda m, a, s: m.dist(a, s, 1), "ya"),
    "vector_norm": (lambda m, a: m.linalg.vector_norm(a, 1), "y"),
    "norm": (lambda m, a: m.norm(a, 0), "a"),
    "cummax": (lambda m, a: m.cummax(a, 0)[0], "a"),
    "cummin": (lambda m, a: m.cummin(a, 0)[0], "a"),
    "index_put": (lambda a, c, rows: a.index_put((rows,), c, accumulate=True), ("rows",)),
    "index_reduce": (lambda a, s, rows: a.index_reduce(0, rows, s, "mean"), "as"),
    "scatter_reduce": (lambda a, s, rows: a.scatter_reduce(0, rows, s, "sum"), "y"),
    "scatter_reduce of a constant": (lambda a, c, rows: a.scatter_reduce(0, rows, c, "sum"), "c"),
    "masked_select": (lambda a: a.masked_select(a > 0), "a"),
    "put": (lambda a, c, rows: a.put(rows, c, True), ("rows",)),
    "gather": (lambda a, rows: a.gather(0, rows), "a"),
    "take": (lambda a, rows: a.take(rows), "a"),
    "index_copy": (lambda b, s, rows: b.index_copy(0, rows[:1], s[:1]), "s"),
    "index_add": (lambda b, s, rows: b.index_add(0, rows[:1], s[:1]), "s"),
    "complex": (lambda m, a, c: m.complex(a, c), "a"),
    "product of one number": (lambda a: a[0].prod(), "a"),
    "nll_loss": (lambda m, a: m.nn.functional.nll_loss(a[None], m.tensor([1])), "a"),
    "binary_cross_entropy": (lambda m, b, s: m.nn.functional.binary_cross_entropy(b[:1].sigmoid(), s[:1]), "s"),
    "prelu": (lambda m, b, s: m.nn.functional.prelu(b, s[:1]), "s"),
    "layer_norm": (lambda m, a, s, q: m.nn.functional.layer_norm(a, (3,), s, q), "s"),
    "layer_norm with a constant bias": (lambda m, a, s, b: m.nn.functional.layer_norm(a, (3,), s, b), "b"),
    "conv1d": (lambda m, b, s: m.nn.functional.conv1d(b[None, None], s[None, None]), "s"),
    "max_pool1d": (lambda m, a: m.nn.functional.max_pool1d(a[None], 2), "a"),
    "avg_pool2d": (lambda m, a: m.nn.functional.avg_pool2d(a[None, None], 1), "a"),
    "adaptive_avg_pool2d": (lambda m, a: m.nn.functional.adaptive_avg_pool2d(a[None, None], 1), "a"),
    "pad": (lambda m, a: m.nn.functional.pad(a[None], (1, 1), mode="replicate"), "a"),
    "rfft": (lambda m, a: m.fft.rfft(a).real, "a"),
    "cdist": (lambda m, a, s: m.cdist(a[None], s[None], 1.0), "y"),
    "slogdet": (lambda m, square: m.linalg.slogdet(square)[0], "y"),
    "cholesky_solve": (lambda m, a: m.cholesky_solve(a[:, None], m.eye(3)), "a"),
    "triangular_solve": (lambda m, a, square: m.triangular_solve(a[:, None], square)[0], "a"),
    "lstsq": (lambda m, a, square: m.linalg.lstsq(square, a[:, None])[0], "y"),
    "add": (lambda m, a, s: m.add(a, s), "a"),
    "sum": (lambda m, a: m.sum(a, 0), "a"),
    "index_fill": (lambda a, rows: a.index_fill(0, rows, 2.0), "a"),
    "where": (lambda m, a, b, s: m.where(b > 0, a, s), "s"),
}


@pytest.mark.parametrize("name", SAVED)
def test_write_to_what_was_saved(name: str, same: Any) -> None:
    fn, places = SAVED[name]

    def written(m: Any, place: str) -> Any:
        made = tensors(m)
        made["y"] = y = given(fn, m=m, **made)()
        with m.no_grad():
            made[place].add_(1)
        return attempt(lambda: (y.abs() if y.is_complex() else y).sum().backward()), seen([made["x"], made["q"]])

    same(lambda m: {place: written(m, place) for place in places}, f"saved {name}", raises=False)


# Functions made of others: the nodes that a user can walk through.
STEPS = {
    "quantile": lambda m, x: m.quantile(x, 0.3),
    "quantile along columns": lambda m, square: m.quantile(square, 0.3, 0),
    "quantile along rows that are kept": lambda m, square: m.quantile(square, 0.3, -1, True),
    "two quantiles along rows": lambda m, square: m.quantile(square, m.tensor([0.2, 0.7]), 1),
    "two quantiles": lambda m, square: m.quantile(square, m.tensor([0.2, 0.7])),
    "nanquantile along columns that are kept": lambda m, square: m.nanquantile(square, 0.4, 0, True),
    "lower quantile": lambda m, x: m.quantile(x, 0.3, interpolation="lower"),
    "quantile in the middle": lambda m, square: m.quantile(square, 0.3, None, True, interpolation="midpoint"),
    "nearest quantile": lambda m, square: m.quantile(square, 0.6, 1, interpolation="nearest"),
    "circular padding": lambda m, square: m.nn.functional.pad(square, (1, 2), mode="circular"),
    "circular padding that takes away": lambda m, square: m.nn.functional.pad(square, (-1, 1), mode="circular"),
    "circular padding of planes": lambda m, square: m.nn.functional.pad(square[None], (1, 0, 0, 2), mode="circular"),
    "circular padding by nothing": lambda m, square: m.nn.functional.pad(square, (0, 0), mode="circular"),
    "rms_norm": lambda m, x, square: m.nn.functional.rms_norm(square, (3,), x),
    "cosine_embedding_loss": lambda m, x, q: m.nn.functional.cosine_embedding_loss(x[None], q[None], m.tensor([1])),
    "gradient": lambda m, x: m.gradient(x)[0], "gradient with a spacing": lambda m, x: m.gradient(x, spacing=2.0)[0],
    "trapezoids of rows": lambda m, x, square: m.trapezoid(square, x), "trapezoids": lambda m, x, q: m.trapezoid(x, q),
    "trapezoids of columns": lambda m, x, square: m.trapezoid(square, x, dim=0),
    "running trapezoids": lambda m, x, square: m.cumulative_trapezoid(square, x),
    "norm of order 0": lambda m, x: m.norm(x, 0),
    "vector_norm of order 0": lambda m, square: m.linalg.vector_norm(square, 0, 1),
}  # fmt: skip


def _graph(node: Any) -> Any:
    return node and [node.name(), *[_graph(n) for n, _ in node.next_functions]]


@pytest.mark.parametrize("name", STEPS)
def test_steps(name: str, same: Any) -> None:
    def run(m: Any) -> Any:
        made = tensors(m)
        y = given(STEPS[name], m=m, **made)()
        grad = m.autograd.grad(y.sum(), made["x"], allow_unused=True)[0]
        return [y._version, y.stride(), y.tolist(), _graph(y.grad_fn), grad if grad is None else grad.tolist()]

    same(run, f"steps {name}", raises=False)


# Gradients of normalisations depend on all arguments, of what only compares on none.
RECORDED = {
    "batch_norm": lambda m, square, x, q: m.nn.functional.batch_norm(square, m.zeros(3), m.ones(3), x, q),
    "batch_norm without a weight": lambda m, square: m.nn.functional.batch_norm(square, m.zeros(3), m.ones(3)),
    "layer_norm": lambda m, square, x, q: m.nn.functional.layer_norm(square, (3,), x, q),
    "layer_norm of a constant": lambda m, b, q: m.nn.functional.layer_norm(b, (3,), None, q),
    "replicating padding": lambda m, x: m.nn.functional.pad(x[None], (1, 1), mode="replicate"),
    "scatter_reduce": lambda x, q, rows: x.scatter_reduce(0, rows, q, "amax"),
    "index_reduce": lambda x, q, rows: x.index_reduce(0, rows[:1], q[:1], "amax"),
    "quantile": lambda m, x: m.quantile(x, 0.3),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_gradients(name: str, same: Any) -> None:
    def run(m: Any) -> Any:
        made = tensors(m)
        y, inputs = given(RECORDED[name], m=m, **made)(), [made[k] for k in ("x", "q", "square")]
        grads = m.autograd.grad(y.sum(), inputs, create_graph=True, allow_unused=True, retain_graph=True)
        return [g if g is None else g.requires_grad for g in grads]

    same(run, f"recorded {name}", raises=False)


PROGRAMS = {
    "of several roots those that lead to no input are left out": lambda m, x, a, b, c, s: (
        y := a * 2, y.retain_grad(), z := s * 2, z.retain_grad(),
        m.autograd.grad([y, z], [x], [b, c], retain_graph=True),
        m.autograd.grad(z, [x], b, retain_graph=True, allow_unused=True),
        m.autograd.backward([y.sum(), z.sum()], inputs=[x])),
    "a view that was written to is the second root": lambda m, a: (
        w := a[1:], v := w[0], (w * w).sum().backward(inputs=[v], retain_graph=True), v.exp_(),
        m.autograd.grad([w, v], [w, w], [m.ones_like(w), m.ones_like(v)])),
    "a node without a derivative raises where it runs, whichever thread waits for it": lambda m, a: (
        y := a // 2, attempt(lambda: m.autograd.backward(y.sum(), inputs=[y], create_graph=True)),
        m.autograd.grad(y.sum(), [y])[0].tolist()),
    "the gradient of asinh_ is refused": lambda a: (
        y := (a * 0.1).asinh_(), attempt(lambda: y.sum().backward()), z := (a * 0.1).atanh(), z.sum().backward()),
    "the nodes of conj_physical_ and polygamma_": lambda a: (
        y := (a * 1).conj_physical_(), z := (a * a + 2).polygamma_(2), (y.sum() + z.sum()).backward()),
    "a scatter that reduces has no gradient": lambda a, s, rows: (
        y := a.scatter(0, rows, s, reduce="add"), attempt(lambda: y.sum().backward()),
        z := a.scatter(0, rows, 2.0, reduce="multiply"), attempt(lambda: z.sum().backward())),
    "the gradient of values that scatter left out is refused": lambda m, x, a, s, rows: (
        y := a.scatter(0, rows[:1], s), m.autograd.grad(y.sum(), x, retain_graph=True),
        attempt(lambda: y.sum().backward()), attempt(lambda: a.scatter_add(0, rows[:2], s).sum().backward())),
    "zeta has a gradient by its shift alone": lambda m, a, s, b: (
        y := m.special.zeta(a.abs() + 2, s.abs() + 1), attempt(lambda: y.sum().backward()),
        m.special.zeta(b.abs() + 2, s.abs() + 1).sum().backward()),
    "set_ is recorded and has no gradient": lambda m, x, a, b: (
        y := m.zeros(2), y.set_(a), attempt(lambda: y.sum().backward()), z := a * 3, z.retain_grad(),
        z.set_(m.ones(2)), attempt(lambda: z.sum().backward()), attempt(lambda: x.set_(b))),
    "factories write into what is tracked, and not into leaves": lambda m, x, a: (
        y := a * 2, m.arange(3, out=y), attempt(lambda: y.sum().backward()), attempt(lambda: m.zeros(3, out=x)),
        under(m.no_grad(), lambda: m.zeros(3, out=x)), z := a * 2, attempt(lambda: m.empty(3, out=z)),
        v := (a * 2)[1:], m.ones(2, out=v)),
    "a leaf that is given a gradient by hand refuses another shape": lambda m, a: (
        n := a.grad_fn.next_functions[0][0], attempt(lambda: n(m.ones(2, 3))), n(m.ones(1)), n(m.tensor(2.0))),
    "unflatten of a number complains of its dimensions":
        lambda x: "no dimensions" in str(attempt(lambda: x[0].unflatten(0, (1,)))),
    "poles of polygamma": lambda m: (p := m.tensor([-2.0, 0.0, -1.0]), m.polygamma(2, p), m.polygamma(3, p)),
    "losses with margins have no kernel for halves": lambda m, b: (
        attempt(lambda: m.nn.functional.multi_margin_loss(b[None].half(), m.tensor([1]))),
        attempt(lambda: m.nn.functional.multilabel_margin_loss(b[None].half(), m.zeros(1, 3, dtype=m.int64)))),
    "a number to the power of a matrix keeps its layout": lambda m, square: (
        2.0 ** square.t(), m.pow(3, square.t()), square.t() ** 2),
    "index_add complains of an index that is out of range": lambda m, x, square: (
        attempt(lambda: square.index_add(0, m.tensor([5]), x[None])),
        attempt(lambda: square.index_add(0, m.tensor([-1]), x[None], alpha=2)),
        attempt(lambda: x.index_add(0, m.tensor([-1]), x[:1]))),
    "a number refuses every index": lambda x: (
        y := x[0], [attempt(lambda at=at: y[at]) for at in (0, -1, 1, (0, 0), (None, -1), (..., 0), slice(0, 1))],
        [attempt(lambda at=at: setitem(y, at, 1.0)) for at in (0, -1, (0, 0))]),
}  # fmt: skip
test_refused = steps(PROGRAMS, tensors).test()

INDEX_REDUCE = {
    "amax of complex numbers has no kernel": lambda z, i: z.index_reduce_(0, i, z[:2].clone(), "amax"),
    "amin of complex numbers has no kernel": lambda z, i: z.index_reduce_(0, i, z[:2].clone(), "amin"),
    "mean of complex numbers": lambda z, i: z.index_reduce_(0, i, z[:2].clone(), "mean"),
    "product of complex numbers has no kernel":
        lambda z, i: z.index_reduce_(0, i, z[:2].clone(), "prod", include_self=False),
    "product of a row of complex numbers has no kernel":
        lambda z, i: z[0].index_reduce_(0, i, z[0][:2].clone(), "prod"),
    "mean of booleans has no kernel": lambda t, i: t.index_reduce_(0, i, t[:2].clone(), "mean"),
    "amax of booleans": lambda t, i: t.index_reduce_(0, i, t[:2].clone(), "amax"),
    "amax of a row of booleans has no kernel": lambda t, i: t[0].index_reduce_(0, i, t[0][:2].clone(), "amax"),
}  # fmt: skip


def complex_and_boolean(m: Any) -> dict[str, Any]:
    z = m.ones(3, 3, dtype=m.complex128)
    return {"z": z, "t": z.real > 0, "i": m.tensor([0, 0])}


test_index_reduce_without_a_kernel = steps(INDEX_REDUCE, complex_and_boolean, attempted=True).test()
