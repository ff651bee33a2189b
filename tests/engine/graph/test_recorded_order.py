"""In which order functions of several steps record their nodes, and what the hooks of those see."""

from __future__ import annotations

import functools
import operator
from typing import Any

from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


def _leaf(m: Any, *shape: int, by: float = 0.0) -> Any:
    n = 1
    for s in shape:
        n *= s
    return (m.arange(1.0, 1.0 + n, dtype=m.float64) * 0.37 + by).sin().reshape(shape).requires_grad_()


def _nodes(y: Any) -> list[Any]:
    """The nodes behind a tensor, the first recorded first, each with the numbers of those that it leads to."""
    found, rest = {}, [y.grad_fn]
    while rest:
        node = rest.pop()
        if node is not None and node not in found and not node.name().endswith("AccumulateGrad"):
            found[node] = node._sequence_nr()
            rest += [n for n, _ in node.next_functions]
    order = {n: i for i, n in enumerate(sorted(found, key=found.__getitem__))}
    return [(n.name(), [order.get(to) for to, _ in n.next_functions]) for n in order]


@program
def losses(m):
    functional = m.nn.functional
    x, y = _leaf(m, 5, 3), _leaf(m, 5, 3, by=1.0)
    made = [
        functional.kl_div(x, y, reduction="sum"),
        functional.kl_div(x, y, reduction="batchmean", log_target=True),
        functional.poisson_nll_loss(x, y, full=True),
        functional.poisson_nll_loss(x.exp(), y.exp(), log_input=False, full=True),
        functional.gaussian_nll_loss(x, y, x.exp(), full=True),
        functional.cosine_embedding_loss(x, y, m.tensor([1, -1, 1, -1, 1]), margin=0.25),
        functional.margin_ranking_loss(x, y, x.detach().sign()),
        functional.triplet_margin_loss(x, y, x * 2, swap=True),
        functional.hinge_embedding_loss(x, y.detach().sign()),
        functional.binary_cross_entropy_with_logits(x, y.sigmoid()),
        functional.cross_entropy(x, y.softmax(1), label_smoothing=0.1),
        functional.cosine_similarity(x, y),
        functional.cross_entropy(x, m.tensor([0, 1, 2, 0, 1]), label_smoothing=0.1),
        functional.multilabel_soft_margin_loss(x, y.sigmoid()),
        functional.pairwise_distance(x, y),
    ]
    return [(_nodes(t), t.detach(), *m.autograd.grad(t.sum(), (x, y), allow_unused=True)) for t in made]


@program
def slopes_and_areas(m):
    x, y = _leaf(m, 5, 3), _leaf(m, 5, 3, by=1.0)
    places = (m.tensor([0.0, 0.5, 2.0, 2.5, 4.0]).double(), m.tensor([0.0, 1.0, 3.0]).double())
    made = [
        m.trapezoid(x, y),
        m.trapezoid(x),
        m.trapezoid(x, places[1]),
        m.cumulative_trapezoid(x, y),
        m.cumulative_trapezoid(x),
        m.tensordot(x, y, ([0], [0])),
        m.tensordot(x, y, 2),
        m.inner(x, y),
        m.tensordot(x.t(), y.t(), 2),
        m.tensordot(x.t(), y, 1),
    ]
    for order in (1, 2):
        made += m.gradient(x, edge_order=order)
        made += m.gradient(x, spacing=0.3, edge_order=order)
        made += m.gradient(x, spacing=places, edge_order=order)
    return [(_nodes(t), t.detach(), *m.autograd.grad(t.sum(), (x, y), allow_unused=True)) for t in made]


@program
def hooks_of_layers(m):
    """Mean and deviation that a layer keeps for itself are no results of its node."""
    functional, found = m.nn.functional, []
    x = _leaf(m, 4, 6)
    for y in (
        functional.layer_norm(x, (6,)),
        functional.layer_norm(x, (6,), x[0], x[1]),
        m.native_layer_norm(x, (6,), None, None, 1e-5)[0],
        functional.batch_norm(x, None, None, training=True),
        functional.group_norm(x, 2),
        functional.instance_norm(x[None]),
        x.topk(2)[0],
        x.split(2)[1],
        m.linalg.svd(x + m.eye(4, 6, dtype=m.float64))[1],
        m.var_mean(x)[0],
    ):
        y.grad_fn.register_prehook(lambda g: found.append([t is None for t in g]))
        y.grad_fn.register_hook(lambda i, g: found.append([len(i), [t is None for t in g]]))
        y.sum().backward()
        found.append(x.grad.clone())
    doubled = functional.layer_norm(x, (6,))
    doubled.grad_fn.register_prehook(lambda g: tuple(t * 2 for t in g))
    return found, m.autograd.grad(doubled[0].sum(), x)[0]


@program
def missing_formulas(m):
    """torch knows of these that they have none; of others it does not know at all."""
    x = m.ones(3, 3, dtype=m.float64).cumsum(0).requires_grad_()
    found = []
    for fn in (
        m.unique,
        m.unique_consecutive,
        lambda t: m.unique(t, dim=0),
        lambda t: m.geqrf(t)[0],
        lambda t: m.linalg.ldl_factor(t)[0],
        lambda t: m.heaviside(t, t),
        lambda t: m.histogram(t, 3)[0],
        lambda t: m.bincount(m.tensor([1, 2, 2]), t[0]),
    ):
        y = fn(x)
        found.append((y.requires_grad, y.grad_fn.name(), complaint(lambda y=y: y.sum().backward())))
    empty = m.empty(0, 3, dtype=m.complex64, requires_grad=True)
    found += [complaint(lambda: empty.softmax(0)), complaint(lambda: empty.log_softmax(-1))]
    return found


@program
def nodes_with_nothing_to_compute(m):
    """They look at what was saved, and at nothing more: a value that has changed its shape since is no matter."""
    x = m.ones(2, 3, dtype=m.float64, requires_grad=True)
    values, at = x.topk(1)
    with m.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        squares = values * values
    values.squeeze_()
    total = m.addcmul(m.ones(2, 1, 3, dtype=m.float64, requires_grad=True), at, squares, value=2)
    m.autograd.backward(total.sum(), inputs=[total, squares])
    kept = m.tensor([1.0, 2.0], requires_grad=True)
    product = kept.exp() * kept
    product.retain_grad()
    (product * 2).sum().backward(inputs=[product], retain_graph=True)
    (product * 2).sum().backward(inputs=[product])
    again = complaint(lambda: (product * 2).sum().backward(inputs=[product]))
    return total.grad, squares.grad, product.grad, again


@program
def edges_that_lead_nowhere(m):
    """A view of a leaf that was made without recording requires grad and has no edge: nothing is saved for it."""
    x = m.tensor([[1.0, 2.0, 3.0]], dtype=m.float64, requires_grad=True)
    with m.no_grad():
        first, *_ = x.unbind(-1)
    y = m.ones(2, 3, dtype=m.float64)
    product = first * y
    y[0] = y[0] * 2
    found = [first.requires_grad, product.requires_grad, product.grad_fn.next_functions]
    product[..., 1].backward(m.ones(2, dtype=m.float64))
    return found, x.grad


@program
def values_for_edges_that_lead_nowhere(m):
    """torch asks whether there is an edge where one gradient alone reads a value; it complains of what it saved."""
    v, u = m.tensor([[1.0, 0.3], [-1.3, 2.0]], dtype=m.float64), m.ones(2, 2, dtype=m.float64)
    calls = [
        m.mul,
        m.hypot,
        m.fmod,
        m.atan2,
        m.div,
        m.mm,
        m.xlogy,
        lambda a, b: m.addmm(u, a, b),
        lambda a, b: m.addcmul(u, a, b),
        lambda a, b: m.addcdiv(u, a, b),
        lambda a, b: a[0].dot(b[0]),
        lambda a, b: m.lerp(a, b, 0.5),
    ]
    found = []
    for call in calls:
        for pick in range(6):
            x = v.clone().requires_grad_()
            base = x.exp()
            with m.no_grad():
                quiet = base[:]
            pairs = (
                (quiet.t(), quiet),
                (quiet, quiet.t()),
                (x + 0, quiet),
                (quiet, x + 0),
                (quiet[:], quiet.t()),
                (quiet, 2.0),
            )
            a, b = pairs[pick]
            if pick == 5 and call not in calls[:1]:
                continue
            with m.autograd.graph.saved_tensors_hooks(lambda t: found.append(t.detach()) or t, lambda t: t):
                out = call(a, b)
            found.append([getattr(out.grad_fn, n) is None for n in dir(out.grad_fn) if n == "_saved_other"])
            out = call(a, b)
            base.mul_(1)
            found.append(complaint(out.sum().backward))
    low = x[:1].clamp(min=quiet[:1])
    ratio = m.addcdiv(quiet, quiet, m.tensor([[True, True], [True, False]]))
    return found, low.grad_fn.name(), ratio, complaint(ratio.sum().backward)


@program
def nodes_without_edges_look_at_what_they_saved(m):
    """Where nobody asks which edges are there (`atan2`), all is saved, and a pass complains of written values."""
    found = []
    for call in (m.atan2, m.hypot, m.mul, m.maximum, m.div, m.copysign):
        for written in (None, 0, 1):
            for through in (False, True):
                leaf = m.tensor([[1.0, 2.0, 3.0]], dtype=m.float64, requires_grad=True)
                with m.no_grad():
                    (view,) = leaf.tensor_split(1)
                pair = [m.full((2, 3), 0.5, dtype=m.float64), view]
                y = call(*pair)
                if written is not None:
                    with m.no_grad():
                        pair[written].mul_(2)
                inputs = [y] if through else None
                found.append((complaint(lambda y=y, i=inputs: y.sum().backward(inputs=i)), y.grad))
                found.append(complaint(lambda y=y, i=inputs: y.sum().backward(inputs=i)))
    return found


@program
def parameters_that_second_derivatives_do_not_reach(m):
    """A gradient penalty gives them no gradient at all; what recorded gradients require stays in name."""
    F = m.nn.functional
    calls = [
        lambda x, w, b: F.layer_norm(x, (3,), w, b),
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
        lambda x, w, b: F.batch_norm(x, m.zeros(3, dtype=x.dtype), m.ones(3, dtype=x.dtype), w, b),
        lambda x, w, b: F.batch_norm(x, m.zeros(3, dtype=x.dtype), m.ones(3, dtype=x.dtype), w, b, True),
        lambda x, w, b: F.instance_norm(x[None], weight=w, bias=b),
        lambda x, w, b: F.conv1d(x[None], w[None, :, None].expand(2, -1, -1), b[:2]),
        lambda x, w, b: F.conv_transpose1d(x[None], w[:, None, None], b[:1]),
        lambda x, w, b: F.grid_sample(x[None, None], w[:2].reshape(1, 1, 1, 2) / 3 + b.sum() * 0),
        lambda x, w, b: F.prelu(x - 2.2, w[:1]) + b,
    ]
    found = []
    for call in calls:
        for tracked in ((1, 1, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0)):
            values = ([[1.0, 2.0, 3.5], [0.5, 2.0, 2.5], [1.0, 0.7, 2.0]], [0.3, 1.5, 0.7], [0.1, 0.2, 0.3])
            given = [m.tensor(v, dtype=m.float64, requires_grad=bool(t)) for v, t in zip(values, tracked)]
            leaves = [t for t in given if t.requires_grad]
            y = call(*given)
            if not y.requires_grad:
                continue
            y = (y * y).sum() if tracked[0] else y.sum()
            first = m.autograd.grad(y, leaves, create_graph=True, allow_unused=True)
            penalty = sum((g * g).sum() for g in first if g is not None)
            found.append([(g.detach(), g.requires_grad) for g in first if g is not None])
            if isinstance(penalty, m.Tensor) and penalty.requires_grad:
                found.append(
                    [complaint(lambda p=penalty, t=t: m.autograd.grad(p, t, retain_graph=True)) for t in leaves]
                )
                penalty.backward()
                found.append([t.grad for t in leaves])
    return found


@program
def results_resized_without_a_record(m):
    """The node still has the shape of before, which gradients have to fit."""
    found = []
    uses = (lambda v: 1 / v, lambda v: v * v, lambda v: v.sum(), lambda v: v.reshape(-1))
    for size in ((6,), (3, 2), (2, 3), (7,), (3, 1), ()):
        for use in uses:
            x = m.tensor([[1.0, 1.0], [-2.0, 1.0], [1.0, -1.0]], requires_grad=True)
            y = m.nn.functional.hardsigmoid(x)
            with m.no_grad():
                m.mul(m.full(size, 0.5), 2, out=y)
            found.append((complaint(use(y).mean().backward), x.grad, y._version))
    return found


@program
def complaints_before_arguments(m):
    """A view that must not be used any more says so before anything is said of a dimension or a shape."""
    x = m.tensor([2.0, 1.0, -1.0], requires_grad=True)
    base = x.exp()
    _, part, _ = base.unbind()
    with m.no_grad():
        quiet = base[:1]
    base.exp_()
    found = []
    for t in (part, quiet):
        uses = (
            lambda t: t[:1],
            lambda t: t[None, :1],
            lambda t: t.reshape(3).shape,
            lambda t: t.rot90(),
            lambda t: t.std(4),
            lambda t: t.T,
            lambda t: t.repeat(()),
        )
        found += [complaint(functools.partial(use, t)) for use in uses]
    zero = m.tensor(1.0)
    return found, [
        complaint(functools.partial(operator.getitem, zero, at))
        for at in (slice(1), (slice(1),), (None, slice(1)), (0, slice(1)))
    ]


@program
def gradients_of_inference_mode(m):
    """Adding to one outside of the mode is refused, once it is done."""
    found = []
    for n in (1, 40):
        x = m.ones(3, 3, dtype=m.float64, requires_grad=True)
        with m.inference_mode():
            x.grad = m.full((3, 3), 2.0, dtype=m.float64)
        y = x
        for _ in range(n):
            y = (y * 0.5).sin()
        total = y.sum()
        found += [complaint(lambda t=total: t.backward(retain_graph=True)) for _ in range(3)]
        found.append(x.grad.is_inference())
    return found


@program
def selections_of_nothing(m):
    """The gradient of a recorded pass depends on what its formula reads, even if that is nothing."""
    found = []
    for shape, mask in (((0, 3), (0, 3)), ((2, 3), (2, 3)), ((2, 3), (3,)), ((), ())):
        x = m.ones(shape, dtype=m.float64, requires_grad=True)
        y = x.masked_select(m.ones(mask) > 0).exp()
        (g,) = m.autograd.grad(y.sum(), x, create_graph=True)
        found.append((g.requires_grad, g.detach()))
    return found


@program
def inference_tensors_beside_views_without_edges(m):
    """torch saves an input for one gradient alone only where that has somewhere to go."""
    w = m.ones(3, dtype=m.float64, requires_grad=True)
    base = w * 2
    with m.no_grad():
        v = base.view(1, 3)
    with m.inference_mode():
        given = m.full((3,), 2.0, dtype=m.float64)
    calls = (
        lambda: v * given,
        lambda: given * v,
        lambda: v + given,
        lambda: w * given,
        lambda: m.addcmul(w, v, given),
        lambda: m.where(given > 0, v, w),
        lambda: v.pow(given),
        lambda: v @ given,
        lambda: m.lerp(w, v, given),
        lambda: v / given,
        lambda: given.sin() * w,
        lambda: m.atan2(v, given),
    )
    return [complaint(lambda fn=fn: fn().sum().backward()) for fn in calls], w.grad


@program
def slopes_of_slopes(m):
    """The second derivative of hardswish is 1/3 or 0: what is only compared lets nothing through."""
    x = m.tensor([-1.0, 1.0, 0.5, 4.0, -4.0], dtype=m.float64, requires_grad=True)
    found = []
    for fn in (m.nn.functional.hardswish, m.nn.functional.silu, m.nn.functional.relu, m.nn.functional.hardtanh):
        y = fn(x)
        for _ in range(2):
            (y,) = m.autograd.grad(y.sum(), x, create_graph=True)
            found.append((y.requires_grad, y.detach()))
    return found


@program
def one_gradient_of_several_refused(m):
    """Only where it is asked for."""
    x = m.tensor([1.0, 2.0], dtype=m.float64, requires_grad=True)
    a = m.tensor(3.0, dtype=m.float64, requires_grad=True)
    y = m.addcdiv(x, a, m.tensor([3, 4]))
    found = m.autograd.grad(y.sum(), x, retain_graph=True)
    return found, complaint(lambda: m.autograd.grad(y.sum(), [x, a]))
