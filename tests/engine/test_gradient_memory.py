"""What strides and versions of gradients show: which lie in one memory, which are copied, which added to in place."""

from __future__ import annotations

from typing import Any

from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


def _shown(t: Any) -> list[Any]:
    return [t._version, list(t.stride())]


def _matrix(m: Any, by_columns: bool) -> Any:
    t = m.tensor([[3.0, 1.0, 0.5], [1.0, 3.5, 1.25], [0.5, 1.25, 4.0]], dtype=m.float64)
    return (t.t().contiguous().t() if by_columns else t).clone().requires_grad_()


def _looked_at(m: Any, functions: Any) -> list[Any]:
    """Gradients of sums: given back, recorded, stored, and added to others before and after."""
    found = []
    for fn in functions:
        for by_columns in (False, True):
            x = _matrix(m, by_columns)
            found.append(_shown(m.autograd.grad(fn(x).sum(), x)[0]))
            found.append(_shown(m.autograd.grad(fn(x).sum(), x, create_graph=True)[0]))
            fn(x).sum().backward()
            found.append(_shown(x.grad))
            for total in (
                lambda x, fn=fn: fn(x).sum() + x.exp().sum(),
                lambda x, fn=fn: x.exp().sum() + fn(x).sum(),
                lambda x, fn=fn: fn(x.view(3, 3) if x.is_contiguous() else x.t()).sum() + x.t().sum() + fn(x).sum(),
            ):  # fmt: skip
                x.grad = None
                total(x).backward()
                found.append(_shown(x.grad))
    return found


@program
def a_tensor_and_a_view_of_it(m):
    return _looked_at(m, (
        lambda x: (x + x.t()).exp(), lambda x: (x.t() + x).exp(), lambda x: (x - x.t()).tanh(), lambda x: x - x.t(),
        lambda x: (x.view(9) + x.flatten()).exp() if x.is_contiguous() else (x.t() + x.mT).exp(),
        lambda x: (x + x + x.t()).exp(), lambda x: (x[None] + x[:, None]).exp(),
        lambda x: (x.narrow(0, 0, 2) + x.narrow(0, 1, 2)).exp(), lambda x: (x.select(0, 0) + x.select(1, 0)).exp(),
        lambda x: sum(x.t().chunk(3)).exp(), lambda x: m.cat([x.t(), x]).tanh(), lambda x: m.complex(x, x.t()).abs(),
    ))  # fmt: skip


@program
def matrices(m):
    linalg = m.linalg
    return _looked_at(m, (
        linalg.det, lambda x: linalg.slogdet(x)[1], linalg.inv, linalg.pinv, linalg.cholesky, lambda x: linalg.qr(x)[1],
        lambda x: linalg.solve(x, x), lambda x: linalg.solve_triangular(x.detach(), x, upper=True),
        lambda x: linalg.lstsq(x, x.detach())[0], linalg.matrix_exp, lambda x: linalg.eigvals(x).abs(),
        lambda x: linalg.eigvalsh(x + x.t()), lambda x: m.cholesky_solve(x, x.detach()), m.trace,
        lambda x: x @ x.t(), lambda x: x @ x, lambda x: m.addmm(x, x, x), lambda x: m.addmm(x, x, x, alpha=2),
        lambda x: m.addmm(x.detach(), x, x, beta=0), m.cov, lambda x: linalg.matrix_power(x, 3),
        lambda x: m.nn.functional.linear(x, x, x[0]), lambda x: x.t() @ x + x,
    ))  # fmt: skip


@program
def rearranged(m):
    return _looked_at(m, (
        m.rot90, lambda x: m.rot90(x, 0), lambda x: m.rot90(x, 2), lambda x: x.unfold(0, 2, 1) * 2,
        lambda x: x.as_strided((2, 2), (3, 1)) * 2, lambda x: x.expand(2, 3, 3) * 2, lambda x: x.sort(0)[0] * x,
        lambda x: x.median(0)[0], lambda x: x.mode(0)[0], lambda x: x.cummax(0)[0], lambda x: m.where(x > 1, x, x * 2),
        lambda x: m.lerp(x, x.t(), x), lambda x: x ** x.t(), lambda x: x.clamp(0, 1) * x,
        lambda x: m.nn.functional.pad(x[None], (1, 1), mode="circular"),
    ))  # fmt: skip


@program
def long_chains(m):
    steps = (
        lambda i, z, x, w: (z + z.t()).tanh(), lambda i, z, x, w: (z + x + x.t()).tanh(),
        lambda i, z, x, w: (z.view(4) + w.view(4)).view(2, 2).sin(), lambda i, z, x, w: z.t() + w,
        lambda i, z, x, w: z.t().contiguous() + (w if i % 3 else w.t()),
    )  # fmt: skip
    found = []
    for step in steps:
        for n in (3, 40, 1200):
            x, w = (m.tensor([[0.3, 0.1], [0.05, 0.3]]).requires_grad_() for _ in range(2))
            z = x
            for i in range(n):
                z = step(i, z, x, w)
            z.sum().backward()
            found.append([None if t.grad is None else _shown(t.grad) for t in (x, w)])
    return found


@program
def passes_that_come_again(m):
    """After some of them a whole pass is one kernel."""
    found = []
    for fn in (
        lambda x: (x + x.t()).exp(),
        lambda x: (x.view(9) + x.view(9)).view(3, 3).exp() + x,
        lambda x: (x * 2 + x.t()).tanh(),
    ):
        for _ in range(40):
            x = m.tensor([[3.0, 1.0, 0.5], [1.0, 3.5, 1.25], [0.5, 1.25, 4.0]]).requires_grad_()
            fn(x).sum().backward()
            found.append(_shown(x.grad))
    return found


@program
def cross_entropies(m):
    functional = m.nn.functional
    x = m.tensor([[0.5, 1.0, -1.0], [2.0, 0.25, 0.125]])
    y = m.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.5]])
    found = []
    for reduction in ("none", "mean"):
        for weight in (None, m.tensor([1.0, 2.0, 3.0])):
            for record in (False, True):
                for positive in (None, m.tensor([2.0, 2.0, 1.0])):
                    a, b = x.clone().requires_grad_(), y.clone().requires_grad_()
                    loss = functional.binary_cross_entropy_with_logits(
                        a, b, weight=weight, pos_weight=positive, reduction=reduction
                    )
                    grads = m.autograd.grad(loss.sum(), [a, b], create_graph=record)
                    found.append([g._version for g in grads])
                a, b = x.sigmoid().requires_grad_(), y.clone().requires_grad_()
                loss = functional.binary_cross_entropy(a, b, weight=weight, reduction=reduction)
                grads = m.autograd.grad(loss.sum(), [a, b], create_graph=record)
                found.append([g._version for g in grads])
    return found


@program
def parts_that_a_checkpoint_gives_back(m):
    """They lie in one memory, so that their sum is a new tensor."""
    found = []
    for body in (
        lambda t, u: m.cat([t, u]).tanh(),
        lambda t, u: t.view(-1) + u.view(-1),
        lambda t, u: t * u,
    ):
        x = m.ones(2, 3, requires_grad=True)
        m.utils.checkpoint.checkpoint(body, x, x, use_reentrant=True).sum().backward()
        found.append(_shown(x.grad))
    return found


@program
def decompositions_without_a_gradient(m):
    found = []
    for shape, mode in (((3, 2), "complete"), ((3, 2), "r"), ((2, 3), "complete")):
        x = m.arange(1.0, 7.0).reshape(shape).sin().requires_grad_()
        factors = m.linalg.qr(x, mode=mode)
        found.append([f.requires_grad for f in factors])
        found.append(complaint(lambda r=factors[1]: r.sum().backward()))
    return found


@program
def leaves_that_became_inner(m):
    x = m.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    x.requires_grad = False
    x.sub_(y)
    return complaint(x.exp().sum().backward), x.grad


@program
def nodes_that_do_not_ask_what_is_wanted(m):
    seen, level = [], m.autograd.forward_ad
    x = m.tensor([1.0, 2.0], requires_grad=True)
    with level.dual_level():
        y, _ = level.unpack_dual(level.make_dual(x, x.detach()).clone())
    y.grad_fn.register_hook(lambda gi, go: seen.append((gi, go)))
    y.sum().backward(inputs=[y])
    return seen


@program
def gradients_asked_for_at_nodes_that_lead_nowhere(m):
    x, z = (m.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    with m.no_grad():
        part = x.view(-1)
    y = part**2
    m.autograd.graph.register_multi_grad_hook([y, z[z > 0]], lambda grads: None)
    return complaint(lambda: m.autograd.grad((y * 2).sum(), y))


@program
def what_is_forbidden_before_what_overlaps(m):
    class Swap(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return y, x

        @staticmethod
        def backward(ctx, g, h):
            return h, g

    leaf, x = m.ones(1, 3, requires_grad=True), m.tensor([[1.0, -1.0, -0.25]])
    _, same = Swap.apply(x, leaf)
    part = x[:, None]
    part.abs_()
    return complaint(lambda: part.sub_(same)), x, x._version


def _leaves(m: Any, *shapes: tuple[int, ...]) -> list[Any]:
    found = []
    for k, shape in enumerate(shapes):
        n = 1
        for size in shape:
            n *= size
        t = (m.arange(1.0, 1.0 + n, dtype=m.float64) * 0.375 + k).sin().reshape(shape)
        found.append(t.requires_grad_())
    return found


@program
def several_leaves(m):
    """What is summed to its size is a view of the sum, unless that is a number."""
    functional, rows = m.nn.functional, m.tensor([0, 0])
    calls = (
        (functional.linear, (2, 3), (4, 3), (4,)), (functional.linear, (2, 2, 3), (4, 3), (4,)),
        (functional.conv1d, (2, 3, 5), (4, 3, 2), (4,)), (functional.conv1d, (3, 5), (4, 3, 2), (4,)),
        (functional.conv2d, (2, 3, 4, 4), (4, 3, 2, 2), (4,)),
        (functional.conv_transpose1d, (2, 3, 5), (3, 4, 2), (4,)),
        (m.add, (2, 3), ()), (m.mul, (2, 3), (3,)), (m.maximum, (2, 3), ()), (m.addmm, (4,), (2, 3), (3, 4)),
        (m.addmv, (2,), (2, 3), (3,)), (m.baddbmm, (2, 4), (2, 2, 3), (2, 3, 4)), (m.kron, (2, 2), (2, 2)),
        (lambda x, y: x.index_add(0, rows, y), (3, 2), (2, 2)),
        (lambda x, y: x.index_copy(0, rows[:1], y), (3, 2), (1, 2)),
        (lambda x, y: x.index_put((rows[:1],), y), (3, 2), (2,)),
        (lambda x, y: x.put(m.tensor([0, 3]), y), (3, 2), (2,)),
        (lambda x, y: x.scatter_add(0, m.tensor([[0, 1], [1, 1]]), y), (3, 2), (2, 2)), (m.copysign, (2, 3), (2, 3)),
        (lambda x: m.zeros(2, 3, dtype=m.float64).ne_(x), (2, 3)),
        (lambda x: m.zeros(2, 3, dtype=m.float32).lt_(x), (3,)),
    )  # fmt: skip
    found = []
    for fn, *shapes in calls:
        for record in (False, True):
            xs = _leaves(m, *shapes)
            grads = m.autograd.grad(fn(*xs).sum(), xs, create_graph=record)
            found.append([_shown(g) for g in grads])
        (sum(x.exp().sum() for x in xs) + fn(*xs).sum()).backward()
        found.append([_shown(x.grad) for x in xs])
    return found


@program
def single_elements(m):
    x = m.ones(1, 3, requires_grad=True).split(1, -1)[2]
    functional = m.nn.functional
    return [
        list(f(x).stride())
        for f in (functional.hardtanh, functional.relu6, functional.relu, functional.elu)
    ]


@program
def contractions(m):
    """Operands change places where the product then lies as it is wanted; sums go by the alphabet."""
    cases = (
        ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk->ki", (2, 3), (3, 4)), ("ij,kj->ki", (2, 3), (4, 3)),
        ("bij,bjk->kbi", (2, 2, 3), (2, 3, 4)), ("bij,bjk->ibk", (2, 2, 3), (2, 3, 4)), ("i,j->ji", (2,), (3,)),
        ("ijk,kl->lij", (2, 2, 3), (3, 4)), ("ijk,kl->ilj", (2, 2, 3), (3, 4)),
        ("ij,jk,kl->li", (2, 3), (3, 4), (4, 2)),
        ("ab,cb,dc->da", (2, 3), (4, 3), (5, 4)), ("ij,jk,ki->", (2, 3), (3, 4), (4, 2)),
        ("...ij,jk", (2, 2, 3), (3, 4)),
        ("bi,ij,bj->b", (2, 3), (3, 4), (2, 4)), ("nk,kd,dm,mp->np", (2, 3), (3, 4), (4, 5), (5, 2)),
        ("ij,ik->i", (2, 3), (2, 4)),
        ("ij,j->", (2, 3), (3,)), ("ij,kl->il", (2, 3), (4, 5)), ("...i,...j->ij", (2, 3), (2, 4)),
    )  # fmt: skip
    found = []
    for equation, *shapes in cases:
        xs = _leaves(m, *shapes)
        y = m.einsum(equation, *xs)
        grads = m.autograd.grad((y * y).sum(), xs)
        names, node = [], y.grad_fn
        while node is not None:
            names.append(node.name())
            node = node.next_functions[0][0] if node.next_functions else None
        found.append((y.detach(), _shown(y), names, [_shown(g) for g in grads]))
    return found


@program
def recorded_products(m):
    """A gradient that goes back through a product's recorded gradient: torch has transposed one of the factors."""
    functional = m.nn.functional
    calls = (
        (m.mm, (2, 3), (3, 4)), (m.mm, (2, 3), (3, 1)), (m.addmm, (2, 4), (2, 3), (3, 4)),
        (m.bmm, (2, 3, 4), (2, 4, 5)), (m.baddbmm, (2, 3, 5), (2, 3, 4), (2, 4, 5)), (m.mv, (2, 3), (3,)),
        (functional.linear, (2, 3), (4, 3), (4,)), (functional.linear, (2, 3), (1, 3)),
        (functional.linear, (2, 2, 3), (4, 3), (4,)), (m.matmul, (2, 3, 4), (4, 5)), (m.matmul, (4,), (4, 5)),
        (lambda a, b: m.einsum("ij,kj->ik", a, b), (2, 3), (4, 3)), (lambda a, b: a @ b.t(), (2, 3), (4, 3)),
    )  # fmt: skip
    found = []
    for fn, *shapes in calls:
        for by_columns in (False, True):
            for which in range(len(shapes)):
                if (fn is m.mv and which == 0) or (len(shapes) == 3 and which in (0, 2)):
                    continue  # sums to broadcast inputs, and the outer product
                xs = _leaves(m, *shapes)
                if by_columns:
                    xs = [
                        x.detach().mT.contiguous().mT.requires_grad_() if x.ndim > 1 else x
                        for x in xs
                    ]
                y = fn(*xs)
                (g,) = m.autograd.grad((y * y).sum(), xs[which], create_graph=True)
                grads = m.autograd.grad(
                    (g * g).sum(), [*xs, y], retain_graph=True, allow_unused=True
                )
                found.append([None if t is None else _shown(t) for t in grads])
                ((g * g).sum() + y.sum()).backward()
                found.append(
                    [None if x.grad is None else (_shown(x.grad), x.grad.clone()) for x in xs]
                )
    return found


@program
def gradient_penalty(m):
    """Of a network whose last layer has one output: its weight's gradient may be viewed as a vector."""
    functional = m.nn.functional
    x, w, b, v = _leaves(m, (4, 3), (8, 3), (8,), (1, 8))
    score = functional.linear(functional.linear(x, w, b).tanh(), v)
    (slope,) = m.autograd.grad(score.sum(), x, create_graph=True)
    ((slope.norm(2, dim=1) - 1) ** 2).mean().backward()
    return [(_shown(p.grad), p.grad.view(-1)) for p in (x, w, b, v)]


@program
def what_replaces_a_part(m):
    """Its gradient is that part of the incoming one, seen: copied into `.grad`, and not added to in place."""
    calls = (
        (lambda x, s: x.slice_scatter(s, 0, 0, 2), (3, 2), (2, 2)),
        (lambda x, s: x.slice_scatter(s, 1, 0, 4, 2), (3, 4), (3, 2)),
        (lambda x, s: x.slice_scatter(s, -1, -2), (3, 4), (3, 2)),
        (lambda x, s: x.select_scatter(s, 0, 1), (3, 2), (2,)),
        (lambda x, s: x.select_scatter(s, -1, -1), (2, 3, 2), (2, 3)),
        (lambda x, s: x.select_scatter(s, 0, 1), (3,), ()),
        (lambda x, s: x.diagonal_scatter(s), (3, 3), (3,)),
        (lambda x, s: x.diagonal_scatter(s, 1, 0, 2), (3, 2, 4), (2, 3)),
        (lambda x, s: x.diagonal_scatter(s, -1), (3, 4), (2,)),
    )  # fmt: skip
    found = []
    for fn, *shapes in calls:
        for total in (lambda y: y.sum(), lambda y: (y * y).sum()):
            xs = _leaves(m, *shapes)
            y = fn(*xs)
            found.append([_shown(g) for g in m.autograd.grad(total(y), xs, create_graph=True)])
            total(y).backward()
            found.append([_shown(x.grad) for x in xs])
            xs = _leaves(m, *shapes)
            (sum(x.exp().sum() for x in xs) + total(fn(*xs))).backward()
            found.append([(_shown(x.grad), x.grad.clone()) for x in xs])
    return found


@program
def gradients_of_permuted_leaves(m):
    """Laid out like a leaf a gradient is taken as it is, else copied, which its version tells."""
    calls = (
        m.sin, m.asin, m.cos, m.sinh, m.atan, m.square, m.abs, m.angle, m.sgn, m.exp, m.tanh, lambda v: v**3,
        lambda v: v.var(0), lambda v: v.std(0), m.linalg.vector_norm, lambda v: m.linalg.vector_norm(v, dim=0),
        lambda v: v.abs() * 2, lambda v: v.exp().abs(),
    )  # fmt: skip
    found = []
    for shape, order in (
        ((2, 3, 4), (0, 2, 1)),
        ((2, 1, 3), (0, 2, 1)),
        ((2, 1, 3), (2, 0, 1)),
        ((1, 3), (1, 0)),
    ):
        for dtype in (m.float64, m.complex128):
            for call in calls:
                x = m.full(shape, 0.7, dtype=dtype, requires_grad=True)
                y = call(x.permute(order))
                total = (y.abs() if y.is_complex() else y).sum()
                total.backward()
                found.append((_shown(x.grad), y.stride()))
    return found
