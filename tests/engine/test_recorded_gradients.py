"""What recorded gradients save: which later writes a second pass refuses, and which it does not notice."""

from __future__ import annotations

import math
from typing import Any

from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()

_OF_ONE = """
abs(a); atanh(a); exp(a); log(a); log10(a); log1p(a); log2(a); reciprocal(a); rsqrt(a); tan(a); nan_to_num(a)
clamp(a, 0.2, 0.8); special.log_ndtr(a); special.ndtri(a); logsumexp(a, 0); take(a, one); index_select(a, 0, one)
max(a); amax(a, 0); min(a, 1)[0]; median(a); aminmax(a)[0]; var(a, 0); std(a, 0); var_mean(a)[0]; norm(a); norm(a, 1)
norm(a, inf); linalg.vector_norm(a, 1, 0); pow(a, 1); pow(a, 2); linalg.matrix_exp(a); linalg.inv(a); trace(a @ a)
nn.functional.hardtanh(a); nn.functional.rrelu(a); nn.functional.normalize(a, 1)
"""
_OF_MORE = """
mul(a, b); div(a, b); pow(a, b); hypot(a, b); fmod(a, b); remainder(a, b); maximum(a, b); logaddexp(a, b)
logaddexp2(a, b); addcmul(a, b, c, value=2); addcdiv(a, b, c); lerp(a, b, c); clamp(a, b, c); dist(a, b); dist(a, b, 1)
dist(a, b, inf); inner(a, b); einsum('ij,jk,kl->il', a, b, c); stack([a, b * c]); cat([a * b, c]); linalg.solve(a, b)
linalg.solve_triangular(a, b, upper=True); nn.functional.prelu(a - 0.5, b[0]); nn.functional.linear(a, b, c[0])
nn.functional.mse_loss(a, b); scatter_reduce(a, 0, two, b, 'prod'); complex(a, b).abs()
"""
_VALUES = ([[0.9, 0.6], [0.3, 0.45]], [[0.8, 0.35], [0.15, 0.7]], [[0.95, 0.25], [0.4, 0.75]])


def _outcomes(m: Any, text: str, n: int) -> dict[str, str]:
    """For every write (to nothing, an input, the result, what came in) whether each gradient has a gradient still."""
    found = {}
    places = {"inf": math.inf, "one": m.tensor([0]), "two": m.tensor([[0, 1]])}
    for expression in text.replace("\n", ";").split(";"):
        if expression.strip():
            code = compile(expression.strip(), "<expression>", "eval")
            rows = [
                _outcome(m, code, n, places, written, recorded)
                for recorded in (False, True)
                for written in range(n + 3)
            ]
            found[expression.strip()] = " ".join(rows)
    return found


def _outcome(
    m: Any, code: Any, n: int, places: dict[str, Any], written: int, recorded: bool
) -> str:
    leaves = [m.tensor(v, dtype=m.float64, requires_grad=True) for v in _VALUES[:n]]
    inputs = [t * 1 for t in leaves]
    names = {n: getattr(m, n) for n in code.co_names if hasattr(m, n) and n not in places}
    y = eval(code, {}, {**names, **places, **dict(zip("abc", inputs))})
    given = m.ones_like(y).requires_grad_(recorded)
    grads = m.autograd.grad(y, inputs, given, create_graph=True, allow_unused=True)
    if written:
        with m.no_grad():
            [*inputs, y, given][written - 1].mul_(1)
    letters = []

    def again(g: Any) -> None:
        wanted = [*leaves, given] if recorded else leaves
        seconds = m.autograd.grad(g.sum(), wanted, allow_unused=True, retain_graph=True)
        letters.extend("." if s is None else "o" for s in seconds)

    for g in grads:
        if g is not None and g.requires_grad:
            text = complaint(lambda g=g: again(g))
            letters.append("V" if "inplace operation" in text[1] else text[1])
        letters.append("/")
    return "".join(letters)


@program
def writes_beside_recorded_gradients_of_one(m):
    return _outcomes(m, _OF_ONE, 1)


@program
def writes_beside_recorded_gradients_of_more(m):
    return _outcomes(m, _OF_MORE, 3)


@program
def values_after_such_writes(m):
    """The second gradient is that of the numbers there were."""
    found = []
    for fn in (
        m.log1p, m.log10, m.var, m.max, m.matrix_exp, lambda x: x.clamp(0.4, 0.8), lambda x: m.logaddexp(x, x * 2),
        lambda x: m.addcmul(x, x, x), lambda x: m.linalg.vector_norm(x, math.inf), lambda x: m.dist(x, x * 2, 1),
        lambda x: m.lerp(x, x * 2, x * 3), lambda x: m.fmax(x, x.flip(0)),
    ):  # fmt: skip
        leaf = m.tensor(_VALUES[0], dtype=m.float64, requires_grad=True)
        x = leaf * 1
        y = fn(x)
        given = m.ones_like(y).requires_grad_()
        (g,) = m.autograd.grad(y, x, given, create_graph=True)
        with m.no_grad():
            x.mul_(3)
        found.append(complaint(lambda g=g: g.sum().backward()))
        found += [leaf.grad, given.grad]
    return found


@program
def writes_to_what_gradients_of_functions_of_several_tensors_save(m):
    """One step of torch records all gradients of these, and saves what any of them reads."""
    f, found = m.nn.functional, []
    for fn in (
        lambda a, b, c: f.layer_norm(a, (2,), b[0], c[0]), lambda a, b, c: f.conv1d(a[None], b[None, :, :1], c[0, :1]),
        lambda a, b, c: f.batch_norm(a, None, None, b[0], c[0], True), lambda a, b, c: f.prelu(a, b[0]) + c,
    ):  # fmt: skip
        for written in range(3):
            leaves = [m.tensor(v, dtype=m.float64, requires_grad=True) for v in _VALUES]
            inputs = [t * 1 for t in leaves]
            y = fn(*inputs)
            grads = m.autograd.grad(y, inputs[:2], m.ones_like(y), create_graph=True)
            with m.no_grad():
                inputs[written].mul_(1)
            for g in grads:
                text = complaint(lambda g=g: g.sum().backward(retain_graph=True))
                found.append("inplace operation" in text[1])
    return found


@program
def complaints_where_several_were_written_to(m):
    found = []
    for p in (2, 3, 1, 1.5, math.inf):
        leaf = m.tensor([1.0, 1.0, 1.0], dtype=m.float64, requires_grad=True)
        x = leaf * 1
        y = m.linalg.norm(x, p)
        (g,) = m.autograd.grad(y.tanh(), x, create_graph=True)
        with m.no_grad():
            x.fill_(2.0)
            y.clamp_(-1, 1)
        found.append(complaint(lambda g=g: g.backward(m.ones(3, dtype=m.float64))))
    for fn in (m.pow, m.mul, m.fmod, lambda a, b: a.sin() * b, lambda a, b: m.tanh(a)):
        a, b = (m.tensor(v[0], dtype=m.float64, requires_grad=True) * 1 for v in _VALUES[:2])
        y = fn(a, b)
        given = m.ones_like(y)
        (g,) = m.autograd.grad(y, a, given, create_graph=True)
        with m.no_grad():
            for times, t in enumerate((a, b, y, given), 1):
                for _ in range(times):
                    t.mul_(1)
        found.append(g.requires_grad and complaint(lambda g=g: g.sum().backward()))
    return found


@program
def second_gradients_of_means_of_nothing(m):
    f, found = m.nn.functional, []
    for fn in (
        lambda x: x.mean(), lambda x: x.mean(0), lambda x: f.mse_loss(x, x.detach()), lambda x: m.var_mean(x)[1],
        lambda x: f.smooth_l1_loss(x, x.detach()), lambda x: f.soft_margin_loss(x, x.detach()), lambda x: x.nanmean(),
    ):  # fmt: skip
        for shape in ((0, 3), (3, 0), (0,)):
            x = m.zeros(shape, requires_grad=True)
            y = fn(x)
            (g,) = m.autograd.grad((y * y).sum(), x, create_graph=True)
            found += [y.detach(), g.detach()]
            found += m.autograd.grad(g.sum(), [x, y], allow_unused=True)
    return found


@program
def packed_views_that_are_forbidden_since(m):
    """What hooks gave is a view of nothing, and nobody counts writes to it."""
    graph, found = m.autograd.graph, []
    for hooks in (
        lambda: graph.save_on_cpu(), lambda: graph.saved_tensors_hooks(lambda t: t, lambda t: t),
        lambda: graph.saved_tensors_hooks(lambda t: t[...], lambda t: t.view_as(t)),
    ):  # fmt: skip
        for fn in (m.sin, m.exp, m.square, m.Tensor.cumsum):
            for view in (
                lambda v: v.split(1)[0], lambda v: v.unbind()[0], lambda v: v[0], lambda v: v,
            ):  # fmt: skip
                leaf = m.tensor([[1.0, 2.0], [0.5, 3.0]], dtype=m.float64, requires_grad=True)
                base = leaf * 1
                part = view(base)
                with hooks():
                    y = fn(part) if fn is not m.Tensor.cumsum else fn(part, 0)
                with m.no_grad():
                    base.add_(1)
                (g,) = m.autograd.grad(y.sum(), leaf, create_graph=True)
                if hasattr(y.grad_fn, "_saved_self"):
                    saved = y.grad_fn._saved_self
                    found.append((saved._is_view(), saved.grad_fn.name()))
                found += [g.detach(), g.requires_grad]
                if g.requires_grad:
                    found += m.autograd.grad(g.sum(), leaf)
    return found


@program
def what_recorded_gradients_of_writes_to_parts_lead_to(m):
    """The result that a write to a part saved comes from that write, not from the base as it is now."""
    found = []
    for write in (lambda v: v[::2].exp_(), lambda v: v.exp_(), lambda v: v[0].tanh_()):
        for first in ("leaf", "base", "grad"):
            for second in ("leaf", "base", "grad"):
                leaf = m.ones(3, 2, dtype=m.float64, requires_grad=True)
                base = leaf.clone()
                write(base)
                (g,) = m.autograd.grad(base.sum(), leaf, create_graph=True)
                inputs = {"leaf": leaf, "base": base, "grad": g}
                found += [
                    complaint(lambda n=name, g=g, i=inputs: g[0].sum().backward(inputs=[i[n]]))
                    for name in (first, second)
                ]
                found += [leaf.grad, base.retains_grad]
    return found


@program
def complaints_about_factors_of_recorded_products(m):
    """The formulas have saved transposed views of them."""
    f, found = m.nn.functional, []
    for fn in (
        lambda x, w: x @ w, lambda x, w: f.linear(x, w.t()), lambda x, w: m.bmm(x[None], w[None]),
        lambda x, w: m.addmm(m.ones(4, dtype=m.float64), x, w), lambda x, w: x[None] @ w, lambda x, w: (x @ w).sin(),
    ):  # fmt: skip
        for leaves in (False, True):
            for written in range(3):
                for of in range(2):
                    for recorded in (False, True):
                        x = m.ones(2, 3, dtype=m.float64, requires_grad=True)
                        w = m.ones(3, 4, dtype=m.float64, requires_grad=True)
                        x, w = (x, w) if leaves else (x * 1, w * 1)
                        y = fn(x, w)
                        given = m.ones_like(y).requires_grad_(recorded)
                        (g,) = m.autograd.grad(y, (x, w)[of], given, create_graph=True)
                        with m.no_grad():
                            (x, w, given)[written].mul_(2)
                        found.append(complaint(lambda g=g: g.sum().backward()))
    return found


_OF_RESULTS = """
std(a, 0); std(a); std_mean(a)[0]; std_mean(a, 0)[1]; logsumexp(a, 0); logcumsumexp(a, 1); sqrt(a); expm1(a); exp(a)
pow(2, a); pow(a, a); exp2(a); rsqrt(a); tan(a); tanh(a); sigmoid(a); reciprocal(a); cumprod(a, 0); softmax(a, 0)
norm(a); norm(a, inf); linalg.vector_norm(a, 3); dist(a, a * 2, inf); nn.functional.elu(a); linalg.inv(a)
"""


@program
def writes_to_results_whose_graph_is_freed(m):
    """What was computed from a result before it was saved leads to its node, and that says that it is freed."""
    found = []
    for expression in _OF_RESULTS.replace("\n", ";").split(";"):
        if not expression.strip():
            continue
        code = compile(expression.strip(), "<expression>", "eval")
        names = {n: getattr(m, n) for n in code.co_names if hasattr(m, n)} | {"inf": math.inf}
        for free in (False, True):
            leaf = m.tensor(_VALUES[0], dtype=m.float64, requires_grad=True)
            a = leaf * 1
            y = eval(code, {}, names | {"a": a})
            (g,) = m.autograd.grad(y, a, m.ones_like(y).requires_grad_(), create_graph=True)
            if free:
                y.sum().backward()
            with m.no_grad():
                y.mul_(1)
            found.append([expression.strip(), complaint(lambda g=g: g.sum().backward())[1][:60]])
    return found
