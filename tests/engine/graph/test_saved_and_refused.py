"""What a node saves although no gradient reads it, nodes without gradients,
roots that lead nowhere, the steps of composed functions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.helpers import play, played

DATA = (
    "b = torch.tensor([0.3, 1.2, -0.7]); x = b.clone().requires_grad_(); c = torch.tensor([0.5, -0.4, 2.0]); "
    "q = c.clone().requires_grad_(); a = x * 1; s = q * 1; rows = torch.tensor([0, 2, 1]); "
    "m = torch.tensor([[2.0, 0.1, 0.3], [0.2, 3.0, 0.4], [0.1, 0.5, 4.0]]) * (x * x + 1)"
)

# An expression of `a` and `s`, and what is written to before the backward pass: torch saved it, so it complains.
SAVED = (
    ("torch.sgn(a)", "a"), ("torch.sgn(a)", "y"), ("torch.angle(a)", "a"), ("torch.angle(a)", "y"),
    ("torch.div(a, s, rounding_mode='floor')", "a"), ("torch.div(a, s, rounding_mode='trunc')", "s"),
    ("torch.div(a, c, rounding_mode='floor')", "a"), ("torch.div(a, c, rounding_mode='floor')", "c"),
    ("torch.pow(a.abs(), c)", "y"), ("torch.copysign(b, s)", "y"), ("torch.ldexp(a, c)", "y"),
    ("torch.dist(a, s, 1)", "y"), ("torch.dist(a, s, 1)", "a"), ("torch.linalg.vector_norm(a, 1)", "y"),
    ("torch.norm(a, 0)", "a"), ("torch.cummax(a, 0)[0]", "a"), ("torch.cummin(a, 0)[0]", "a"),
    ("a.index_put((rows,), c, accumulate=True)", "rows"), ("a.index_reduce(0, rows, s, 'mean')", "a"),
    ("a.index_reduce(0, rows, s, 'mean')", "s"), ("a.scatter_reduce(0, rows, s, 'sum')", "y"),
    ("a.scatter_reduce(0, rows, c, 'sum')", "c"), ("a.masked_select(a > 0)", "a"), ("a.put(rows, c, True)", "rows"),
    ("torch.nn.functional.nll_loss(a[None], torch.tensor([1]))", "a"),
    ("torch.nn.functional.binary_cross_entropy(b.sigmoid(), s)", "s"), ("torch.nn.functional.prelu(b, s[:1])", "s"),
    ("torch.nn.functional.layer_norm(a, (3,), s, q)", "s"), ("torch.nn.functional.layer_norm(a, (3,), s, b)", "b"),
    ("torch.nn.functional.conv1d(b[None, None], s[None, None])", "s"),
    ("torch.nn.functional.max_pool1d(a[None], 2)", "a"), ("torch.nn.functional.avg_pool2d(a[None, None], 1)", "a"),
    ("torch.nn.functional.adaptive_avg_pool2d(a[None, None], 1)", "a"),
    ("torch.nn.functional.pad(a[None], (1, 1), mode='replicate')", "a"), ("torch.fft.rfft(a).real", "a"),
    ("torch.cdist(a[None], s[None], 1.0)", "y"), ("torch.linalg.slogdet(m)[0]", "y"),
    ("torch.cholesky_solve(a[:, None], torch.eye(3))", "a"), ("torch.triangular_solve(a[:, None], m)[0]", "a"),
    ("torch.linalg.lstsq(m, a[:, None])[0]", "y"), ("torch.add(a, s)", "a"), ("torch.sum(a, 0)", "a"),
    ("a.index_fill(0, rows, 2.0)", "a"), ("torch.where(b > 0, a, s)", "s"),
)  # fmt: skip

# Functions made of others: the nodes that a user can walk through.
STEPS = (
    "torch.quantile(x, 0.3)",
    "torch.quantile(m, 0.3, 0)",
    "torch.quantile(m, 0.3, -1, True)",
    "torch.quantile(m, torch.tensor([0.2, 0.7]), 1)",
    "torch.quantile(m, torch.tensor([0.2, 0.7]))",
    "torch.nanquantile(m, 0.4, 0, True)",
    "torch.quantile(x, 0.3, interpolation='lower')",
    "torch.quantile(m, 0.3, None, True, interpolation='midpoint')",
    "torch.quantile(m, 0.6, 1, interpolation='nearest')",
    "torch.nn.functional.pad(m, (1, 2), mode='circular')",
    "torch.nn.functional.pad(m, (-1, 1), mode='circular')",
    "torch.nn.functional.pad(m[None], (1, 0, 0, 2), mode='circular')",
    "torch.nn.functional.pad(m, (0, 0), mode='circular')",
    "torch.nn.functional.rms_norm(m, (3,), x)",
    "torch.nn.functional.cosine_embedding_loss(x[None], q[None], torch.tensor([1]))",
    "torch.gradient(x)[0]",
    "torch.gradient(x, spacing=2.0)[0]",
    "torch.trapezoid(m, x)",
    "torch.trapezoid(x, q)",
    "torch.trapezoid(m, x, dim=0)",
    "torch.cumulative_trapezoid(m, x)",
    "torch.norm(x, 0)",
    "torch.linalg.vector_norm(m, 0, 1)",
)

PROGRAMS: dict[str, tuple[str, ...]] = {
    # A single root always runs its hooks; of several, those that lead to no input are left out.
    "roots_that_lead_nowhere": (
        DATA,
        "y = a * 2; y.retain_grad(); z = s * 2; z.retain_grad()",
        "torch.autograd.grad([y, z], [x], [b, c], retain_graph=True)",
        "torch.autograd.grad(z, [x], b, retain_graph=True, allow_unused=True)",
        "torch.autograd.backward([y.sum(), z.sum()], inputs=[x])",
    ),
    "written_view_as_second_root": (
        DATA,
        "w = a[1:]; v = w[0]; (w * w).sum().backward(inputs=[v], retain_graph=True); v.exp_()",
        "torch.autograd.grad([w, v], [w, w], [torch.ones_like(w), torch.ones_like(v)])",
    ),
    # Nodes without a derivative raise whenever they run, whoever waits for them.
    "missing_with_recording": (
        DATA,
        "y = a // 2",
        "torch.autograd.backward(y.sum(), inputs=[y], create_graph=True)",
        "torch.autograd.grad(y.sum(), [y])",
    ),
    "in_place_inverse_hyperbolic": (
        DATA,
        "y = (a * 0.1).asinh_()",
        "n = y.grad_fn.name()",
        "y.sum().backward()",
        "z = (a * 0.1).atanh()",
        "z.sum().backward()",
    ),
    "in_place_names": (
        DATA,
        "y = (a * 1).conj_physical_(); z = (a * a + 2).polygamma_(2)",
        "(y.sum() + z.sum()).backward()",
    ),
    "scatter_that_reduces": (
        DATA,
        "y = a.scatter(0, rows, s, reduce='add')",
        "y.sum().backward()",
        "z = a.scatter(0, rows, 2.0, reduce='multiply')",
        "z.sum().backward()",
    ),
    "scatter_of_a_part": (
        DATA,
        "y = a.scatter(0, rows[:1], s); torch.autograd.grad(y.sum(), x, retain_graph=True)",
        "y.sum().backward()",
        "a.scatter_add(0, rows[:2], s).sum().backward()",
    ),
    "zeta": (
        DATA,
        "y = torch.special.zeta(a.abs() + 2, s.abs() + 1)",
        "y.sum().backward()",
        "torch.special.zeta(b.abs() + 2, s.abs() + 1).sum().backward()",
    ),
    "set_is_recorded_without_a_gradient": (
        DATA,
        "y = torch.zeros(2); y.set_(a)",
        "y.sum().backward()",
        "z = a * 3; z.retain_grad(); z.set_(torch.ones(2))",
        "z.sum().backward()",
        "x.set_(b)",
    ),
    "factories_into_something_tracked": (
        DATA,
        "y = a * 2; torch.arange(3, out=y)",
        "y.sum().backward()",
        "torch.zeros(3, out=x)",
        "with torch.no_grad(): torch.zeros(3, out=x)",
        "z = a * 2; torch.empty(3, out=z)",
        "v = (a * 2)[1:]; torch.ones(2, out=v)",
    ),
    "index_reduce_without_a_kernel": (
        "z = torch.ones(3, 3, dtype=torch.complex128); t = z.real > 0; i = torch.tensor([0, 0])",
        "z.index_reduce_(0, i, z[:2].clone(), 'amax')",
        "z.index_reduce_(0, i, z[:2].clone(), 'amin')",
        "z.index_reduce_(0, i, z[:2].clone(), 'mean')",
        "z.index_reduce_(0, i, z[:2].clone(), 'prod', include_self=False)",
        "z[0].index_reduce_(0, i, z[0][:2].clone(), 'prod')",
        "t.index_reduce_(0, i, t[:2].clone(), 'mean')",
        "t.index_reduce_(0, i, t[:2].clone(), 'amax')",
        "t[0].index_reduce_(0, i, t[0][:2].clone(), 'amax')",
    ),
    "leaf_given_a_gradient_by_hand": (
        DATA,
        "n = a.grad_fn.next_functions[0][0]",
        "n(torch.ones(2, 3))",
        "n(torch.ones(1))",
        "n(torch.tensor(2.0))",
    ),
    "index_of_a_number": (
        DATA,
        "y = x[0]",
        "y[0]",
        "y[-1]",
        "y[1]",
        "y[0, 0]",
        "y[None, -1]",
        "y[..., 0]",
        "y[0:1]",
        "y[0] = 1.0",
        "y[-1] = 1.0",
        "y[0, 0] = 1.0",
    ),
    "number_unflattened": (
        DATA,
        "try: x[0].unflatten(0, (1,))\nexcept RuntimeError as e: y = torch.tensor('no dimensions' in str(e))",
    ),
    "poles_of_polygamma": (
        DATA,
        "p = torch.tensor([-2.0, 0.0, -1.0])",
        "y = torch.polygamma(2, p)",
        "z = torch.polygamma(3, p)",
    ),
    "margins_of_halves": (
        DATA,
        "y = torch.nn.functional.multi_margin_loss(b[None].half(), torch.tensor([1]))",
        "torch.nn.functional.multilabel_margin_loss(b[None].half(), torch.zeros(1, 3, dtype=torch.int64))",
    ),
    "number_to_a_power": (DATA, "y = 2.0 ** m.t()", "z = torch.pow(3, m.t())", "w = m.t() ** 2"),
    "index_add_out_of_range": (
        DATA,
        "m.index_add(0, torch.tensor([5]), x[None])",
        "m.index_add(0, torch.tensor([-1]), x[None], alpha=2)",
        "x.index_add(0, torch.tensor([-1]), x[:1])",
    ),
}

# Gradients of normalisations depend on all arguments, of what only compares on none.
RECORDED = (
    "torch.nn.functional.batch_norm(m, torch.zeros(3), torch.ones(3), x, q)",
    "torch.nn.functional.batch_norm(m, torch.zeros(3), torch.ones(3))",
    "torch.nn.functional.layer_norm(m, (3,), x, q)",
    "torch.nn.functional.layer_norm(b, (3,), None, q)",
    "torch.nn.functional.pad(x[None], (1, 1), mode='replicate')",
    "x.scatter_reduce(0, rows, q, 'amax')",
    "x.index_reduce(0, rows[:1], q[:1], 'amax')",
    "torch.quantile(x, 0.3)",
)

test_program = pytest.mark.long("zeta")(played(PROGRAMS))


@pytest.mark.long(
    "torch.dist(a, s, 1)-y", "torch.norm(a, 0)-a", "torch.nn.functional.conv1d(b[None, None], s[None, None])-s"
)
@pytest.mark.parametrize(("how", "written"), SAVED)
def test_write_to_what_was_saved(how: str, written: str, same: Any) -> None:
    def run(m: Any) -> Any:
        write = f"with torch.no_grad(): {written}.add_(1)"
        backward = "(y.abs() if y.is_complex() else y).sum().backward()"
        errors, tensors = play(m, (DATA, f"y = {how}", write, backward))
        return [errors, {k: v for k, v in tensors.items() if k in "xq"}]

    same(run, f"saved {how} {written}")


def _graph(node: Any) -> Any:
    return node and [node.name(), *[_graph(n) for n, _ in node.next_functions]]


@pytest.mark.long(
    "torch.quantile(m, 0.3, 0)",
    "torch.quantile(m, 0.3, -1, True)",
    "torch.nn.functional.pad(m, (1, 2), mode='circular')",
    "torch.nn.functional.pad(m, (-1, 1), mode='circular')",
)
@pytest.mark.parametrize("how", STEPS)
def test_steps(how: str, same: Any) -> None:
    def run(m: Any) -> Any:
        env: dict[str, Any] = {"torch": m}
        exec(f"{DATA}; y = {how}", env)
        x, y = env["x"], env["y"]
        grad = m.autograd.grad(y.sum(), x, allow_unused=True)[0]
        return [y._version, y.stride(), y.tolist(), _graph(y.grad_fn), grad if grad is None else grad.tolist()]

    same(run, f"steps {how}")


@pytest.mark.parametrize("how", RECORDED)
def test_recorded_gradients(how: str, same: Any) -> None:
    def run(m: Any) -> Any:
        env: dict[str, Any] = {"torch": m}
        exec(f"{DATA}; y = {how}", env)
        inputs = [env["x"], env["q"], env["m"]]
        grads = m.autograd.grad(env["y"].sum(), inputs, create_graph=True, allow_unused=True, retain_graph=True)
        return [g if g is None else g.requires_grad for g in grads]

    same(run, f"recorded {how}")
