"""Rarely met: layouts, numbers that do not fit, views in modes, transforms."""

from __future__ import annotations

import warnings
from typing import Any

from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


def _square(m: Any) -> Any:
    return m.arange(9, dtype=m.float64).view(3, 3)


# --- layouts ----------------------------------------------------------------------------------------


@program
def a_reflected_difference_is_laid_out_like_its_second_operand(m):
    a, b = _square(m).t(), _square(m)
    return [m.rsub(a, b).stride(), m.rsub(b, a).stride(), m.rsub(a, 2).stride(), (2 - a).stride()]


@program
def products_of_blocks_keep_the_layout_that_a_view_can_have(m):
    a = _square(m).t()
    out = m.kron(a, a)
    return out, out.stride(), m.kron(_square(m), _square(m)).stride()


@program
def arrays_are_laid_out_like_the_tensors_that_they_come_from(m):
    x = m.arange(24.0).view(2, 3, 4)
    views = (x.permute(2, 0, 1), x.transpose(0, 1), x.mT.clone())
    return [(v.numpy().tolist(), v.numpy().strides, m.from_numpy(v.numpy()).stride()) for v in views]


# --- numbers ----------------------------------------------------------------------------------------


@program
def a_factor_has_to_fit_the_dtype(m):
    half, byte, whole = m.ones(2).half(), m.ones(2, dtype=m.int8), m.ones(2, dtype=m.int32)
    return [
        complaint(lambda: m.add(half, half, alpha=1e6)),
        complaint(lambda: m.add(half, 1, alpha=1e6)),
        complaint(lambda: m.sub(half, half, alpha=1e6)),
        complaint(lambda: m.rsub(half, half, alpha=1e6)),
        complaint(lambda: half.add_(half, alpha=1e6)),
        complaint(lambda: m.add(half.bfloat16(), half.bfloat16(), alpha=1e39)),
        complaint(lambda: m.add(half.float(), half.float(), alpha=1e39)),
        complaint(lambda: m.add(byte, byte, alpha=1000)),
        complaint(lambda: m.sub(whole, 1, alpha=2**40)),
        complaint(lambda: m.add(half[:0], half[:0], alpha=1e6)),
        complaint(lambda: m.add(half.cfloat(), half.cfloat(), alpha=1e39)),
        m.add(half, half, alpha=float("inf")),
        m.add(half, half.double(), alpha=1e6),
    ]


@program
def complex_numbers_have_to_fit_too(m):
    x = m.ones(2, dtype=m.complex64)
    wide = m.ones(1, dtype=m.complex128)
    return (
        complaint(lambda: x.fill_(1e39)),
        complaint(lambda: x.masked_fill_(x == x, 1e39j)),
        complaint(lambda: m.full((2,), 1e39, dtype=m.complex64)),
        wide.fill_(1e39),
    )


# --- gradients --------------------------------------------------------------------------------------


@program
def the_gradient_of_a_running_product_of_one_element_is_the_incoming_one(m):
    x = _square(m)[None].requires_grad_()
    (g,) = m.autograd.grad(x.cumprod(0).sum(), x, create_graph=True)
    (h,) = m.autograd.grad(x.cumprod(1).sum(), x, create_graph=True)
    return g, g.requires_grad, h.requires_grad


@program
def unpacked_values_of_another_dtype_are_cast_in_recorded_passes(m):
    seen = []
    for unpack in (lambda t: t.double(), lambda t: m.ones(1).double()):
        for leaf in (True, False):
            x = m.tensor([1.0, 2.0], requires_grad=True)
            y = x if leaf else x * 1
            with m.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), unpack):
                z = y.exp() * y
            (g,) = m.autograd.grad(z.sum(), y, create_graph=True)
            seen += [g.dtype == m.float32, z.grad_fn._saved_other.dtype == m.float64]
            g.sum().backward(retain_graph=True)
            seen.append(x.grad)
    return seen


@program
def transforms_of_powers_are_mapped_in_an_outer_graph(m):
    x = m.tensor([0.5, 1.0, 2.0], dtype=m.float64, requires_grad=True)
    out = []
    for f in (lambda t: t.pow(2).sum(), lambda t: t.exp().pow(2).sum(), lambda t: (t**3).sum()):
        for change in (m.func.hessian, lambda g: m.func.jacrev(m.func.jacrev(g))):
            found = m.vmap(change(f))(x[None])
            (g,) = m.autograd.grad(found.pow(2).sum(), x)
            out += [found.tolist(), g.tolist()]
    return out


# --- views in modes ---------------------------------------------------------------------------------


@program
def views_of_views_that_are_turned_without_recording(m):
    x = _square(m).requires_grad_()
    out = []
    for mode in (m.no_grad, m.inference_mode):
        for turn in ("t_", "squeeze_", "unsqueeze_"):
            for start in (x, x * 2, x.detach() * 2):
                with mode():
                    part = start[...][:, 1:]
                    getattr(part, turn)(*[0] * (turn == "unsqueeze_"))
                out += [part.shape, part.requires_grad]
                out += [complaint(lambda p=part: p.grad_fn), complaint(lambda p=part: p * 2)]
    return out


@program
def unsafe_pieces_in_inference_mode_are_views_that_count_on_their_own(m):
    x = _square(m).requires_grad_()[..., 1]
    with m.inference_mode():
        first, *_ = x.unsafe_split(1)
        other, *_ = x.unsafe_chunk(3)
        first.add_(1)
    return [
        first.stride(),
        first._is_view(),
        first._version,
        other._version,
        x._version,
        x,
        first.is_inference(),
        other,
    ]


@program
def views_made_without_recording_go_through_nested_checkpoints(m):
    x = _square(m).requires_grad_() * 2
    with m.no_grad():
        part = x[0]
    run = m.utils.checkpoint.checkpoint

    def inner(t: Any, u: Any) -> Any:
        return run(lambda s: s.exp(), t, use_reentrant=False) * u

    out = run(inner, part, part, use_reentrant=False)
    return out, out.requires_grad, complaint(out.sum().backward)


@program
def a_number_whose_dimensions_are_moved_is_a_new_view(m):
    x = m.ones(3)[0]
    moved = [x.movedim(0, -1), x.moveaxis(0, 0), m.movedim(x, (0,), (0,))]
    moved[0].add_(1)
    return [[v is x, v._is_view(), v] for v in moved]


# --- saved values -----------------------------------------------------------------------------------


def _saving(m: Any, f: Any, x: Any) -> list[Any]:
    """What a function packs, and what its pass unpacks."""
    seen: list[Any] = []

    def hook(name: str) -> Any:
        return lambda t: (seen.append([name, t.shape, t.dtype]), t)[1]

    with m.autograd.graph.saved_tensors_hooks(hook("pack"), hook("unpack")):
        out = f(x)
    m.autograd.grad(out.sum(), x)
    return seen


@program
def empty_tensors_save_what_full_ones_do(m):
    x = m.zeros(0, 3, dtype=m.float64).requires_grad_()
    functions = ("softmax", "log_softmax", "cumprod", "logcumsumexp")
    recorded = [m.autograd.grad(getattr(x, f)(-1).sum(), x, create_graph=True)[0] for f in functions]
    return [g.requires_grad for g in recorded[:2]], [
        _saving(m, lambda t, f=f, d=d: getattr(t, f)(d), x) for f in functions for d in (0, 1)
    ]


@program
def a_power_of_0_saves_what_it_was_taken_of(m):
    x = _square(m).requires_grad_()
    y = x * 1
    out = y**0
    y.add_(1)
    powers = (lambda t: t**0, lambda t: t.pow(0.0), lambda t: m.float_power(t, 0))
    return [_saving(m, f, x) for f in powers], complaint(out.sum().backward)


@program
def results_are_packed_in_the_order_of_their_names(m):
    x = _square(m)[:, :2].sin().requires_grad_()
    functions = (
        lambda t: m.linalg.svd(t, full_matrices=False)[1],
        m.linalg.svdvals,
        lambda t: m.linalg.lu(t)[1],
        lambda t: m.linalg.det(t.mT @ t),
        lambda t: m.linalg.solve(t.mT @ t, t.mT),
        lambda t: m.linalg.slogdet(t.mT @ t)[1],
    )
    return [_saving(m, f, x) for f in functions]


@program
def looking_at_one_saved_value_leaves_the_others_alone(m):
    x = m.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    out = x * y
    x.detach().add_(1)
    seen = []
    with m.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: (seen.append(t.detach()), t)[1]):
        packed = y * x.sin()
    node = out.grad_fn
    return [
        node._saved_other,
        complaint(lambda: node._saved_self),
        packed.grad_fn._saved_self,
        len(seen),
        node._raw_saved_other.unpack() if hasattr(node._raw_saved_other, "unpack") else node._saved_other,
    ]


# --- errors -----------------------------------------------------------------------------------------


@program
def comparisons_do_not_ask_where_a_forbidden_view_comes_from(m):
    x = m.ones(2, 3, dtype=m.complex128).requires_grad_()
    part = x.split(1)[0]
    part.detach().mul_(2)
    return [
        complaint(lambda: part > 0),
        complaint(lambda: part < part),
        part == 0,
        complaint(lambda: part + m.ones(7)),
        complaint(lambda: part == m.ones(7)),
    ]


# --- transforms inside of vmap ----------------------------------------------------------------------


@program
def what_a_function_makes_of_captured_tensors_is_its_own(m):
    x, c = m.tensor([[1.0, 2.0], [3.0, 4.0]]), m.tensor([3.0, 5.0], requires_grad=True)
    f = m.func

    def doubled(t: Any) -> Any:
        return (c.clone().mul_(2) * t * t).sum()

    out = m.vmap(f.grad(doubled))(x)
    drawn = m.vmap(f.grad(lambda t: (m.rand(2).zero_() + t).sum()), randomness="same")(x)
    return [
        out,
        m.autograd.grad(out.sum(), c),
        drawn,
        m.vmap(f.hessian(doubled))(x).tolist(),
        m.vmap(f.jacrev(doubled))(x).tolist(),
        m.vmap(lambda t: f.vjp(lambda s: (c.detach() * 2).mul_(2) * s, t)[1](t)[0])(x),
        f.grad(lambda s: m.vmap(f.grad(lambda t: (s.clone().mul_(2) * t * t).sum()))(x).sum())(x[0]),
        complaint(lambda: m.vmap(f.grad(lambda t: (c.detach().add_(1) * t).sum()))(x)),
    ]


@program
def nothing_of_a_hidden_gradient_shows_in_vmap(m):
    x = m.ones(2, 3, requires_grad=True)
    w = m.ones(3, requires_grad=True)
    seen = []

    def look(t: Any) -> Any:
        y = t * 2
        seen.extend([v.requires_grad, v.is_leaf, v.grad_fn is None] for v in (y, y * w, w * 2))
        return y

    m.vmap(look)(x)
    return seen


@program
def tangents_of_a_batch_go_into_what_the_function_made(m):
    x = m.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]], requires_grad=True)
    y = x * 2

    def put(t: Any) -> Any:
        z = m.zeros_like(t)
        z[0:1] = t[-1:] * y.reshape(-1)[0]
        z.mul_(t)
        return z

    options = {"strategy": "forward-mode", "vectorize": True}
    return [
        m.autograd.functional.jacobian(f, x, **options).tolist()
        for f in (put, lambda t: put(t).sum(), lambda t: put(t.detach()) * t)
    ]


@program
def what_a_linearized_function_read_is_constant(m):
    with warnings.catch_warnings():  # torch has some of its own
        warnings.simplefilter("ignore")
        return _linearized(m)


def _linearized(m: Any) -> Any:
    x = m.tensor([1.0, 0.0, 2.0], dtype=m.float64, requires_grad=True)
    y, z = x.detach().add(1).requires_grad_(), x.detach() + 2
    seen = []
    for f in (
        lambda t: t * t * y,
        lambda t: t * y,
        lambda t: t * z,
        lambda t: t.sin(),
        lambda t: (t * t).sum(),
        lambda t: (t > 0).double() * t,
        lambda t: y.exp() * 2,
    ):
        for start in (x, x.detach()):
            out, push = m.func.linearize(f, start)
            along = (y * 3).detach().requires_grad_()
            for tangent in (along, along.detach()):
                found = push(tangent)
                seen += [found.tolist(), found.requires_grad]
                if found.requires_grad:
                    seen.append(m.autograd.grad(found.pow(2).sum(), [x, y, along], allow_unused=True))
            seen += [out.requires_grad, m.autograd.functional.jvp(push, along, along)[1].tolist()]
    out, push = m.func.linearize(lambda t: (t.exp() * t).sum(), x)
    out.backward()
    x.detach().mul_(1)
    seen += [push(z).tolist(), push(z * 2).tolist(), x.grad]
    one = m.ones(3, dtype=m.float64)
    pair = m.func.linearize(lambda a, b: (a * b, [a * 2]), x, y)[1](one, one)
    (g,) = m.autograd.grad(push(along.requires_grad_()), along, create_graph=True)
    return seen, pair[0].tolist(), pair[1][0].tolist(), g.tolist(), g.requires_grad


@program
def tangents_of_running_sums_of_exponentials_with_infinities_and_nan(m):
    inf, nan, found = float("inf"), float("nan"), []
    level = m.autograd.forward_ad
    for row in ([1, nan, 2], [nan, 1, 2], [1, 2, nan], [-inf, nan, 1], [inf, 1, 2], [1, inf, 2], [-inf, 1, 2]):
        x = m.tensor([row, [1.0, 2.0, 3.0]], dtype=m.float64)
        with level.dual_level():
            dual = level.make_dual(x, m.arange(1.0, 7.0, dtype=m.float64).view(2, 3))
            found += [level.unpack_dual(dual.logcumsumexp(d)).tangent.clone() for d in (0, 1)]
            found.append(level.unpack_dual(dual[0].logcumsumexp(0)).tangent.clone())
    return found


@program
def gradients_of_functions_in_vmap_are_summed_to_what_was_expanded(m):
    class Times(m.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any, y: Any) -> Any:
            return x * y

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, y = ctx.saved_tensors
            return g * y, g * x

    found = []
    for rows, other in (((3, 2), (3, 2)), ((3, 1), (2, 3)), ((3, 2, 1), (2, 3)), ((3,), (3,))):
        x = m.arange(1.0, 7.0, dtype=m.float64)[: m.Size(rows).numel()].view(rows).requires_grad_()
        y = m.arange(2.0, 8.0, dtype=m.float64)[: m.Size(other).numel()].view(other)
        for f in (lambda t, y=y: Times.apply(t, y).sum(), lambda t, y=y: Times.apply(y, t).pow(2).sum()):
            out = m.vmap(f)(x)
            found += [out.tolist(), m.autograd.grad(out.pow(2).sum(), x)]
    return found
