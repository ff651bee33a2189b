"""Modes and writes: inference tensors, overlapping memory, forbidden views."""

from __future__ import annotations

import pytest

from tests.engine.helpers import played

INFERENCE = "with torch.inference_mode(): a = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])"
LEAF = "x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)"
CONJ = "v = torch.tensor([1 + 2j, 3 - 1j, 2j, 4.0]); c = v.conj(); i = torch.tensor([0])"
WRITE = """
class Write(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        return x.add_(y)
    @staticmethod
    def backward(ctx, g):
        return g, g
"""
READS = """
class Reads(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.seen = hasattr(ctx, "materialize_grads")
        return x * 2
    @staticmethod
    def backward(ctx, g):
        return g
"""

PROGRAMS: dict[str, tuple[str, ...]] = {
    # Kernels that end with a view show it where autograd does not wrap them.
    "inference_stack": (INFERENCE, "b = torch.stack([a, a])", "c = b._base"),
    "inference_stack_inside": (INFERENCE, "b = torch.stack([a, a], 1)", "c = b._base"),
    "inference_stack_last": (INFERENCE, "b = torch.stack([a, a], -1)"),
    "inference_stack_mixed": (INFERENCE, "b = torch.stack([a, torch.ones(2, 3)])"),
    "inference_stack_promoted": (INFERENCE, "b = torch.stack([a, a.double()])"),
    "inference_stack_in_mode": (INFERENCE, "with torch.inference_mode(): b = torch.stack([a, a])"),
    "inference_roll": (INFERENCE, "b = a.roll(1)", "c = b._base", "d = a.roll(1, 0)"),
    "inference_repeat": (INFERENCE, "b = a.repeat(2, 1)", "c = a.repeat(0, 1)", "b.mul_(2)"),
    # `.data =` leaves an inference tensor without a version counter, and nothing can share one.
    "uncounted_view": (INFERENCE, "a.data = torch.ones(2, 3)", "b = a[0]", "c = a * 2"),
    "uncounted_saved": (INFERENCE, LEAF, "a.data = torch.ones(2, 3)", "y = x * a"),
    "uncounted_detached": (INFERENCE, "a.data = torch.ones(2, 3)", "b = a.detach()", "b.mul_(2)"),
    "uncounted_in_mode": (INFERENCE, "a.data = torch.ones(2, 3)", "with torch.inference_mode(): b = a.view(-1)"),
    "inference_copied": (
        LEAF,
        "import copy",
        "with torch.inference_mode(): b = copy.deepcopy(x); c = copy.copy(x.detach())",
    ),
    "inference_detach": (LEAF, "y = x * 2", "v = y[0]", "with torch.inference_mode(): y.detach_(); v.detach_()"),
    "inference_edge": (LEAF, "with torch.inference_mode(): torch.autograd.graph.get_gradient_edge(x)"),
    "inference_hooks": (
        LEAF,
        "with torch.inference_mode(): torch.autograd.graph.register_multi_grad_hook([x], print)",
        "y = x * 2",
        "with torch.inference_mode(): torch.autograd.graph.register_multi_grad_hook([y], print)",
    ),
    # Kernels get copies of conjugated operands, which overlap nothing.
    "conjugated_index_add": (CONJ, "c[:3].index_add_(0, i, c[:1])"),
    "conjugated_add": (CONJ, "c[:3].add_(c[1:])"),
    "conjugated_source": (CONJ, "v[:3].index_add_(0, i, c[:1])"),
    "conjugated_copy": (CONJ, "c[:3].copy_(c[1:])"),
    # Which complaint comes first, and where there is none.
    "copied_to_itself": ("a = torch.ones(3).expand(2, 3)", "a.copy_(a)", "a.copy_(a.view_as(a))"),
    "copied_to_its_like": ("a = torch.ones(3).expand(2, 3)", "a.copy_(torch.ones(2, 3))"),
    "clamp_of_expanded": (
        "a = torch.tensor([True, False]).expand(2, 2)",
        "a.clamp_min_(0)",
        "a.float().expand(2, 2, 2).clamp_(0)",
    ),
    "cumprod_of_bool": (
        "a = torch.zeros(0, 3, dtype=torch.bool)",
        "a.cumprod_(0)",
        "b = torch.tensor(True)",
        "b.cumsum_(0)",
        "torch.ones(2, dtype=torch.bool).cumprod_(0)",
    ),
    "untracked_overlap": (LEAF, "with torch.no_grad(): v = x.as_strided((2, 3), (0, 1))", "v[v > 0] = 3"),
    "baddbmm_of_matrices": (
        "a, b = torch.ones(2, 3), torch.ones(3, 4)",
        "torch.baddbmm(a, a, b)",
        "torch.addbmm(a, a, b)",
        "torch.baddbmm(a, torch.ones(()), b)",
    ),
    # A Function that writes forgets the gradient of what it wrote to, even if it may not write.
    "forgotten": (WRITE, LEAF, "v = x[0:1]", "torch.autograd.backward(v.sum(), inputs=[v, x])", "Write.apply(v, v)"),
    "unreadable": (READS, LEAF, "y = Reads.apply(x)", "seen = torch.tensor(y.grad_fn.seen)"),
    "retained_after_detaching": (
        LEAF,
        "y = x.exp()",
        "y.retain_grad()",
        "y.detach_()",
        "kept = torch.tensor(y.retains_grad)",
    ),
    "dual_of_expanded": (
        "b = torch.tensor([1.0, 2.0, 3.0]).expand(2, 3)",
        "with torch.autograd.forward_ad.dual_level(): torch.autograd.forward_ad.make_dual(b, torch.ones(2, 3))",
    ),
    "dual_written_by_name": (
        LEAF,
        "p, q = x.split(1)",
        "level = torch.autograd.forward_ad",
        "with level.dual_level(): y = level.unpack_dual(level.make_dual(p, torch.ones(1, 3)).view(-1)[0]).primal",
        "y.sin_()",
    ),
    # What torch makes of these on the way.
    "along_dim": (LEAF, "y = torch.take_along_dim(x, torch.tensor([[0, -1, 1]]), 0)", "y.sum().backward()"),
    "along_flat": (LEAF, "y = torch.take_along_dim(x, torch.tensor([0, -1]))", "y.sum().backward()"),
    "inner_of_one": (LEAF, "y = torch.inner(x[:, :1], x[:, :1].detach())", "y.sum().backward()"),
    "inner_of_rows": (LEAF, "y = torch.inner(x[:1], x[:1])"),
    "tensordot_turned": (LEAF, "y = torch.tensordot(x, x.detach(), ([1, 0], [1, 0]))"),
    "tensordot_of_one": (LEAF, "y = torch.tensordot(x[:1], torch.ones(1, 3), ([0], [0]))"),
    "trapezoid": (LEAF, "y = torch.trapezoid(x)", "z = torch.trapezoid(x, torch.tensor([0.0, 1.0, 3.0]))"),
    "pool_without_gradient": (
        LEAF,
        "y = torch.nn.functional.max_pool1d(x.detach(), 3)",
        "z = torch.nn.functional.max_pool1d(x, 3)",
        "with torch.no_grad(): w = torch.nn.functional.max_pool1d(x[None], 2)",
    ),
    "hardsigmoid": (
        "x = torch.tensor([0.5, 4.0], dtype=torch.float64, requires_grad=True)",
        "torch.nn.functional.hardsigmoid(x).sum().backward()",
    ),
    "empty_min": ("x = torch.zeros(0, 3, requires_grad=True)", "y, i = x.min(-1)", "i.mul_(i)", "y.sum().backward()"),
    "transforms_of_what_nobody_counts": (
        "with torch.inference_mode(): i, a = torch.ones(2, 2), torch.ones(2, 2)",
        "a.data = torch.full((2, 2), 3.0)",
        "b = torch.vmap(lambda t: t * 2)(a); c = torch.func.grad(lambda t: (t * t).sum())(a)",
        "d = torch.vmap(lambda t: t.view(-1))(a)",
        "d, _ = torch.func.vjp(lambda t: t.t() * 1, a)",
        "d = torch.func.grad(lambda t: t[0].sum())(a)",
        "d = torch.autograd.functional.jacobian(lambda t: t * 2, a)",
        "d = torch.autograd.functional.jacobian(lambda t: t.view(-1), a)",
        "d = torch.autograd.functional.jacobian(lambda t: t * 2, i)",
        "e = torch.func.grad(lambda t: t[0].sum())(i)",
    ),
    "empty_sin": (
        "x = torch.zeros(0, 3, requires_grad=True)",
        "y = x.sin()",
        "y.sum().backward()",
        "y.sum().backward()",
    ),
    "empty_recorded": (
        "x = torch.zeros(0, 3, requires_grad=True)",
        "y = x[:, [0]].prod()",
        "y.backward(create_graph=True)",
        "wants = torch.tensor(x.grad.requires_grad)",
        "x.grad = None",
    ),
    "empty_cat": (
        "x = torch.zeros(0, requires_grad=True)",
        "y = torch.cat([x, x]).tanh()",
        "g, = torch.autograd.grad(y.sum(), x, create_graph=True)",
    ),
}

test_program = pytest.mark.long("empty_recorded")(played(PROGRAMS))
