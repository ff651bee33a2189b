"""Short programs, each for a rule of torch's that no other file asks for."""

from __future__ import annotations

import pytest

from tests.engine.helpers import played

INFERENCE = "with torch.inference_mode(): a = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])"
LEAF = "x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)"
COMPLEX = "x = torch.tensor([[1 + 2j, 3j], [1.0, 2 - 1j]], requires_grad=True); y = x * 1"
EXPANDED = "b = torch.tensor([1.0, 2.0, 3.0]); a = b.expand(2, 3); i = torch.tensor([0])"
DUAL = "import_level = torch.autograd.forward_ad; level = import_level.dual_level(); level.__enter__()"
SIGN = """
class Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        s = x.sign()
        ctx.mark_non_differentiable(s)
        return x * 1.5, s
    @staticmethod
    def backward(ctx, g, h):
        return g * 1.5
"""
TWICE = """
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2.0)
    @staticmethod
    def backward(ctx, g):
        return g * 2.0
class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x
    @staticmethod
    def backward(ctx, g):
        return -g
"""

SAVES = """
class Saves(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        x.mul_(2.0)
        ctx.save_for_backward(y)
        return y * 2
    @staticmethod
    def backward(ctx, g):
        return None, g * 2
"""

# Lines that run one by one, whatever the ones before raised; then every tensor is looked at.
PROGRAMS: dict[str, tuple[str, ...]] = {
    # Inference tensors refuse a write when it is done, since that is when it is counted.
    "inference_write": (INFERENCE, "a.mul_(2)"),
    "inference_setitem": (INFERENCE, "a[0] = 3"),
    "inference_view_write": (INFERENCE, "a[:, 1:].zero_()"),
    "inference_resize": (INFERENCE, "a.resize_(2)"),
    "inference_transposed": (INFERENCE, "a.t_()"),
    "inference_unsqueezed": (INFERENCE, "a.unsqueeze_(0)"),
    "inference_shape_error_first": (INFERENCE, "a.add_(torch.ones(2))"),
    "inference_dtype_error_first": ("with torch.inference_mode(): a = torch.ones(3, dtype=torch.bool)", "a /= 2.0"),
    "inference_detached_counts": (
        INFERENCE,
        "b = a.detach()",
        "c = b.detach()",
        "b.mul_(2)",
        "d = b[0:1]",
        "d.mul_(2)",
    ),
    "inference_data_counts": (INFERENCE, "b = a.data", "b.mul_(2)", "b.requires_grad_()"),
    "inference_detached_inside": (INFERENCE, "with torch.inference_mode(): b = a.detach(); c = a.data", "b.mul_(2)"),
    "inference_into_data": (INFERENCE, "b = torch.ones(2, 3)", "b.data = a", "b.mul_(2)", LEAF, "y = x * b"),
    "inference_data_replaced": (INFERENCE, "b = torch.ones(2, 3)", "a.data = b", "a.mul_(2)"),
    "inference_returned_by_function": (TWICE, INFERENCE, "b = Same.apply(a)"),
    "inference_dual": (
        INFERENCE,
        DUAL,
        "d = import_level.make_dual(a, a)",
        "e = import_level.unpack_dual(d)[1]",
        "level.__exit__(None, None, None)",
    ),
    "dual_in_inference": (
        LEAF,
        "with torch.inference_mode(), torch.autograd.forward_ad.dual_level(): "
        "t = torch.autograd.forward_ad.unpack_dual(torch.autograd.forward_ad.make_dual(x, x) * 2)[1]",
    ),
    # Which writes may overlap themselves, and which must keep away from what they read.
    "expanded_fill": (EXPANDED, "a.fill_(4.0)"),
    "expanded_zero": (EXPANDED, "a.zero_()"),
    "expanded_fill_tensor": (EXPANDED, "a.fill_(torch.tensor(2.0))"),
    "expanded_mul": (EXPANDED, "a.mul_(2)"),
    "expanded_masked_fill": (
        EXPANDED,
        "a.masked_fill_(torch.tensor([[True, False, False], [False, False, True]]), 5.0)",
    ),
    "expanded_index_fill": (EXPANDED, "a.index_fill_(0, i, 4.0)"),
    "expanded_index_put": (EXPANDED, "a.index_put_((i,), torch.tensor([7.0, 8.0, 9.0]))"),
    "expanded_index_put_twice": (
        EXPANDED,
        "a.index_put_((torch.tensor([0, 1, 1]),), torch.tensor(1.0), accumulate=True)",
    ),
    "expanded_assigned": (EXPANDED, "a[a > 1] = 0.0"),
    "expanded_triangle": (EXPANDED, "a.tril_()"),
    "expanded_fill_gradient": (LEAF, "y = x * 1", "z = y[0].expand(2, 3)", "z.fill_(4.0)", "y.sum().backward()"),
    "overlap_index_add": ("a = torch.arange(3.0)", "a.index_add_(0, torch.tensor([0]), a[:1])"),
    "overlap_index_copy_of_one": ("a = torch.ones(1, 1)", "a.index_copy_(0, torch.tensor([0]), a[-1:])"),
    "overlap_scatter": ("a = torch.ones(2, 2)", "a.scatter_(0, torch.tensor([[0, 1]]), a)"),
    "overlap_index_put": ("a = torch.ones(2, 2)", "a.index_put_((torch.tensor([0]),), a[1])"),
    "overlap_diagonal_assigned": ("a = torch.ones(3, 3).diagonal(1)", "a[torch.tensor([0, 1])] = a"),
    "overlap_mask_assigned": ("a = torch.arange(3)", "b = a[1:2]", "a[a > 0] = b"),
    # In-place forms whose result has a wider type.
    "in_place_cumsum_bool": ("a = torch.tensor([True, False])", "a.cumsum_(0)", "a.cumprod_(0)"),
    "in_place_cumsum_int": ("a = torch.tensor([1, 2], dtype=torch.int32)", "a.cumsum_(0)"),
    "in_place_cast_before_kernel": (
        "a = torch.tensor([True, False])",
        "a.hypot_(torch.ones(2, dtype=torch.complex64))",
        "a.gcd_(torch.ones(2))",
    ),
    "in_place_abs_complex": ("a = torch.tensor([1j, 2.0])", "a.abs_()"),
    "in_place_clamp": ("a = torch.arange(3)", "a.clamp_(max=2.0)", "b = a > 0", "b.clip_(0, 1)"),
    "addcdiv_of_integers": (
        "a = torch.ones(2)",
        "b = torch.addcdiv(a, a.long(), a.long())",
        "c = torch.addcdiv(a, a, a.long())",
    ),
    "nan_times_false": ("a = torch.tensor([float('nan'), 1.0])", "b = a * torch.tensor([False, True])"),
    # Flags and history.
    "flag_turned_off_after": (LEAF, "y = x.expand(2, 2, 3)", "x.requires_grad_(False)", "y.sum().backward()"),
    "flag_of_stale_view": (
        LEAF,
        "v, w = x.unbind()",
        "with torch.no_grad(): x.mul_(2)",
        "v.requires_grad_()",
        "w.requires_grad = False",
    ),
    "view_of_detached": (LEAF, "v = x.view(3, 2)", "x.detach_()", "w = x.view(-1)", "w.squeeze_()"),
    "view_written_unlooked": (LEAF, "b = torch.ones(2, 3)", "v = b[::2]", "b[0:1].mul_(x[0])", "v.mul_(2)"),
    "view_written_after_look": (
        LEAF,
        "b = torch.ones(2, 3)",
        "v = b[::2]",
        "b[0:1].mul_(x[0])",
        "fn = v.grad_fn",
        "v.mul_(2)",
    ),
    "view_in_place_unrecorded": (LEAF, "v, w = x.unbind()", "with torch.no_grad(): v.unsqueeze_(0)"),
    "shape_in_place_unrecorded": (LEAF, "y = x * 2", "with torch.no_grad(): y.unsqueeze_(0)", "y.sum().backward()"),
    "shape_in_place_misfit": (
        "x = torch.ones(1, 3, requires_grad=True)",
        "y = x * 2",
        "with torch.no_grad(): y.squeeze_()",
        "(y * y).sum().backward()",
    ),
    "leaf_before_dims": ("x = torch.ones(2, 1, 3, requires_grad=True)", "x.t_()"),
    "data_of_view": ("x = torch.ones(2)", "v = x[0:1]", "v.data = torch.zeros(1)", "v.mul_(2)", "x.mul_(2)"),
    "data_with_shared_counter": ("x = torch.ones(2)", "d = x.detach()", "x.data = torch.zeros(2)", "x.mul_(2)"),
    "data_of_inference_view": (
        LEAF,
        "y = x * 1",
        "with torch.inference_mode(): v = y[0]",
        "v.data = torch.zeros(3)",
        "y.neg_()",
    ),
    "function_writes_view_leaf": (TWICE, "v = torch.zeros(3).view(-1).requires_grad_()", "y = Twice.apply(v)"),
    "function_result_written": (
        SIGN,
        "x = torch.tensor([[1.0, 2.0]], requires_grad=True)",
        "y, s = Sign.apply(x)",
        "v = s[::2]",
        "w = v[0:1]",
        "w *= x.sum()",
        "v[0:1] = w",
    ),
    "function_returns_odd_strides": (TWICE, "a = torch.zeros(3, 3)[None, 0]", "b = Same.apply(a)"),
    "unimplemented_first": (LEAF, "z = torch.ones(2, 3, requires_grad=True)", "(x // 2 - z).sum().backward()"),
    "unimplemented_last": (LEAF, "z = torch.ones(2, 3, requires_grad=True)", "(z - x // 2).sum().backward()"),
    "message_names_variant": (LEAF, "y = x.prod(0)", "with torch.no_grad(): y.mul_(2)", "y.sum().backward()"),
    "materialized_requires_grad": (
        LEAF,
        "z = torch.ones(1, requires_grad=True)",
        "g, h = torch.autograd.grad((x * x).sum(), [z, x], create_graph=True, materialize_grads=True)",
    ),
    # Views and their nodes.
    "reshape_of_gaps": (LEAF, "y = x[:, 0].reshape(-1)", "z = x.t().reshape(3, 1, 2)", "w = x.reshape(-1)"),
    "dtype_view_of_same": (LEAF, "y = x.view(torch.float32)"),
    "odd_strides": (
        "a = torch.ones(2, 3).t().t()[:1]",
        "b = torch.ones(3, 2).t()[:1]",
        "c = b * b",
        "d = c + 1",
        "e = c.exp()",
    ),
    "replayed_real": (COMPLEX, "v = y.real", "w = y.imag[0]", "y.mul_(2)"),
    "replayed_conj": (COMPLEX, "v = y.conj()", "w = y.H", "u = y.t().conj()[0]", "y.mul_(2)"),
    "replayed_plain_base": (
        "y = torch.ones(2, dtype=torch.complex64)",
        "v = torch.view_as_real(y)",
        "w = v[0]",
        "x = torch.ones(2, dtype=torch.complex64, requires_grad=True)",
        "y.mul_(x)",
    ),
    "logical_in_place": (
        LEAF,
        "y = x * 1",
        "v = x[0]",
        "v.logical_not_()",
        "x.logical_and_(torch.ones(2, 3))",
        "x.eq_(1)",
    ),
    "as_strided_in_place": (
        LEAF,
        "y = x * 1",
        "y.as_strided_((2, 2), (1, 1))",
        "(y * y).sum().backward()",
        "x.as_strided_((2,), (1,))",
    ),
    "as_strided_in_place_of_view": (
        LEAF,
        "y = x * 1",
        "v = y[0]",
        "v.as_strided_((3, 2), (1, 3))",
        "(v * v).sum().backward()",
    ),
    "as_strided_in_place_unrecorded": (
        LEAF,
        "y = x * 1",
        "with torch.no_grad(): y.as_strided_((2,), (1,))",
        "y.sum().backward()",
    ),
    "parts_assigned": (
        COMPLEX,
        "y.real = 1.0",
        "y.imag = torch.tensor([3.0, 4.0])",
        "y.imag = 1j",
        "y.real = 'a'",
        "x.real = 1.0",
    ),
    "fill_from_itself": (
        "a = torch.arange(3.0)",
        "b = a[0]",
        "a.index_fill_(0, torch.tensor([1]), b)",
        "a.masked_fill_(a > 1, a[2])",
    ),
    "masked_fill_layout": ("a = torch.ones(2, 3).t()", "b = torch.masked_fill(a, a > 0, 0.5)"),
    "deepcopy_of_inference_view": (
        LEAF,
        "with torch.inference_mode(): v = x.t()",
        "w = __import__('copy').deepcopy(v)",
    ),
    "function_saves_forbidden_view": (SAVES, LEAF, "v, w = x.split([1, 1])", "d = w.detach()", "y = Saves.apply(d, v)"),
    "expanded_number_assigned": (EXPANDED, "a[...] = 0.5", "a[:, 1] = 1.5"),
    # Errors of indexing.
    "index_place": (
        "a = torch.ones(3, 0)",
        "a[0, 0]",
        "b = torch.ones(2, 3)",
        "b[..., 0, 5]",
        "b[0, -4]",
        "b[None, 5]",
    ),
    "index_entry_by_entry": ("a = torch.ones(1, 1)", "a[torch.tensor([0, 1]), torch.tensor([1, 0])]"),
    "index_select_empty": (
        "a = torch.ones(0, 3)",
        "a.index_select(0, torch.tensor([1]))",
        "a.index_select(1, torch.tensor([1]))",
    ),
    # Forward mode: what a tangent depends on.
    "tangent_of_window_outside": (
        "x = torch.arange(6.0)[2:4]",
        DUAL,
        "d = import_level.make_dual(x, torch.ones(2))",
        "t = import_level.unpack_dual(d.as_strided((3,), (1,), 1))[1].clone()",
        "level.__exit__(None, None, None)",
    ),
    "tangent_of_linear": (
        LEAF,
        DUAL,
        "d = import_level.make_dual(x, torch.ones(2, 3))",
        "t = import_level.unpack_dual(d.neg())[1]",
        "u = torch.tensor(import_level.unpack_dual(d * 2)[1].requires_grad)",
        "p = import_level.unpack_dual(d.clone())[0]",
        "level.__exit__(None, None, None)",
    ),
    "dual_strides": (
        "x = torch.ones(3, 3)[None, 0]",
        DUAL,
        "d = import_level.make_dual(x, x * 2)",
        "level.__exit__(None, None, None)",
    ),
    # What a node says of its inputs and of what it saved.
    "entry_of_bound_left_out": (
        LEAF,
        "y = x.clamp(max=x.sum())",
        "z = x.clamp(min=x.sum())",
        "w = x.clone().clamp_(max=x.sum())",
        "v = x.clamp(max=2.0)",
    ),
    "entry_of_weight_left_out": (
        LEAF,
        "F = torch.nn.functional",
        "y = F.layer_norm(x, (3,), None, x[0])",
        "z = F.conv1d(x, torch.ones(1, 2, 1))",
        "w = F.batch_norm(x, torch.zeros(3), torch.ones(3))",
        "v = F.binary_cross_entropy_with_logits(x, torch.ones(2, 3), torch.ones(2, 3))",
        "u = F.nll_loss(x, torch.tensor([0, 1]), torch.ones(3))",
    ),
    "result_saved_by_write_to_part": (LEAF, "y = x.sum(0)", "y[::2].exp_()", "y.clamp_min_(0)", "y.sum().backward()"),
    "result_saved_of_one_element": (
        "x = torch.tensor(2.0, requires_grad=True)",
        "y = x.cumprod(0); y.fill_(2.0)",
        "y.backward()",
        "z = x.prod(); z.fill_(2.0)",
        "z.backward()",
        "w = x.logcumsumexp(0); w.fill_(2.0)",
        "w.backward()",
        "v = x.cumprod(0) * x.prod() * x.logcumsumexp(0)",
        "v.backward()",
    ),
    "layout_of_retained_grad": (
        LEAF,
        "y = x * 1",
        "y.exp().backward(torch.ones(3, 2).t(), inputs=[y])",
        "z = x * 2; z.retain_grad()",
        "z.view_as(z).backward(torch.ones(()).expand(2, 3), create_graph=True)",
        "w = x * 3; w.retain_grad()",
        "w.exp().backward(torch.ones(3, 2, requires_grad=True).t(), create_graph=True)",
        "g = [torch.tensor(t.grad.stride()) for t in (y, z, w)]",
        "a, b, c = g",
        "d = w.grad",
    ),
    # What torch has no gradient of.
    "no_formula_for_argument": (
        LEAF,
        "F = torch.nn.functional",
        "y = F.binary_cross_entropy(x.sigmoid(), torch.ones(2, 3), x)",
        "z = F.cross_entropy(torch.ones(2, 3), torch.tensor([0, 1]), x[0])",
        "w = F.batch_norm(x, x[0], x[0])",
        "v = F.soft_margin_loss(x, x)",
        "with torch.no_grad(): u = F.soft_margin_loss(x, x)",
    ),
    "no_formula_for_complex": (
        COMPLEX,
        "a = torch.slice_scatter(x, x[:1] * 2, 0, 0, 1)",
        "b = torch.select_scatter(x.detach(), x[0], 0, 0)",
        "c = torch.nn.functional.silu(x)",
        "d = torch.nn.functional.embedding(torch.tensor([0]), x)",
        "e = torch.slice_scatter(x.detach(), x.detach()[:1] * 2, 0, 0, 1)",
    ),
    "no_formula_for_counts": (LEAF, "y = torch.bincount(torch.tensor([0, 1, 1]), x[0])"),
    # out= and gradients.
    "out_of_comparison": (
        LEAF,
        "a = torch.zeros(2, 3, dtype=torch.bool)",
        "torch.lt(x, 3, out=a)",
        "b = torch.tensor(0)",
        "torch.argmax(x, out=b)",
        "torch.lt(x, 3, out=x)",
        "torch.add(x, 3, out=x)",
    ),
    "out_of_random_draw": (
        LEAF,
        "a = torch.zeros(2, 3)",
        "torch.bernoulli(x.sigmoid(), out=a)",
        "torch.normal(x, 1.0, out=a)",
    ),
    "out_is_input": (
        "a = torch.zeros(3, 0)",
        "torch.stack([a], out=a)",
        "b = torch.ones(2, 3)",
        "torch.index_add(b, 0, torch.tensor([0]), b[:1], out=b)",
    ),
    "edge_of_fill_value": (
        LEAF,
        "y = x.clone().masked_fill_(x > 3, torch.tensor(True))",
        "z = x.clone().index_fill_(0, torch.tensor([0]), torch.tensor(1))",
    ),
    "repeat_interleave_flattens": (LEAF, "y = torch.repeat_interleave(x, 2)", "z = torch.repeat_interleave(x.t(), 2)"),
    "forbidden_view_before_shapes": (
        LEAF,
        "with torch.no_grad(): a, b = x.clone().unbind()",
        "w = x * 1",
        "a, b = w.unbind()",
        "w.mul_(2)",
        "a / torch.ones(5)",
        "torch.cat([a, torch.ones(2, 2)])",
    ),
    "mask_changed_since_saved": (
        LEAF,
        "m = x > 3",
        "y = torch.where(m, x, x * 2)",
        "m.logical_not_()",
        "y.sum().backward()",
        "m.expand(3)",
        "m.bfloat16().expand(3)",
    ),
    "edges_of_missing_gradient": (
        LEAF,
        "y = torch.heaviside(x, torch.ones(2, 3))",
        "z = torch.floor_divide(x, torch.tensor(2))",
        "w = torch.heaviside(x, x)",
    ),
    "passes_from_nothing": (LEAF, *["torch.autograd.grad([], [x])"] * 4),
    # Dtypes of what is assigned.
    "assigned_number_of_other_dtype": (
        "a = torch.zeros(3)",
        "b = torch.zeros(3, dtype=torch.bool)",
        "a[torch.tensor([0, 1])] = torch.tensor(2)",
        "b[[0, 1]] = torch.tensor(2.0)",
        "a[a == 0] = torch.tensor(3)",
        "a[torch.tensor([True, False, False])] = torch.tensor([4])",
        "a[1] = torch.tensor(5)",
        "a[torch.tensor([2])] = 6",
        "a.index_put_((a > 5,), torch.tensor([7]))",
    ),
    # Hooks on several tensors.
    "hooks_of_single_root": (
        LEAF,
        "y = x.exp()",
        "log = []",
        "h = torch.autograd.graph.register_multi_grad_hook([x, y], log.append)",
        "y.backward(torch.ones(2, 3))",
        "seen = torch.tensor(len(log))",
    ),
    "hooks_beside_grad": (
        LEAF,
        "y = x.exp()",
        "log = []",
        "h = torch.autograd.graph.register_multi_grad_hook([x, y], log.append)",
        "g = torch.autograd.grad(y.sum(), [y])",
        "seen = torch.tensor(len(log))",
    ),
}

test_program = pytest.mark.long("index_entry_by_entry")(played(PROGRAMS))
