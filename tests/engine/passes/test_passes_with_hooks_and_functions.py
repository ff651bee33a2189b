"""Backward passes: nodes without a gradient, memory that hooks and Functions give."""

from __future__ import annotations

from typing import Any

from tests.own_gradients import saving_input
from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


def _lazy(m: Any) -> Any:
    """Two results, of which each passes a gradient on only to its own input."""

    class Lazy(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.set_materialize_grads(False)
            return x * 2.0, y * 3.0

        @staticmethod
        def backward(ctx, g, h):
            return None if g is None else g * 2.0, None if h is None else h * 3.0

    return Lazy.apply


def _leaf(m: Any) -> Any:
    return m.tensor([1.0, 2.0, 3.0], dtype=m.float64, requires_grad=True)


def _part_exp(x: Any) -> Any:
    out = x.clone()
    out[:2].exp_()
    return out


# --- a node that no gradient came to ----------------------------------------------------------------


@program
def saved_values_are_checked(m):
    x = _leaf(m)
    y = x.exp()
    first, _ = _lazy(m)(x, y)
    y.add_(1)
    return complaint(first.sum().backward)


@program
def saved_values_are_unpacked(m):
    x, log = _leaf(m), []
    with m.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: (log.append(1), t)[1]):
        y = x.exp()
    _lazy(m)(x, y)[0].sum().backward()
    return log, x.grad


@program
def a_write_to_a_part_is_not_unpacked(m):
    x = _leaf(m)
    y = _part_exp(x)
    first, _ = _lazy(m)(x, y)
    y.sum().backward()
    first.sum().backward()
    return x.grad


# --- gradients that Python code made ------------------------------------------------------------------

HELD: list[Any] = []
GIVEN = {
    "new": lambda ctx, g: (g * 2, g * 3),
    "the one that came": lambda ctx, g: (g, g),
    "a view": lambda ctx, g: (g.view(-1), g * 2),
    "a view of a new one": lambda ctx, g: ((g * 2).view(-1), g * 2),
    "detached": lambda ctx, g: ((g * 2).detach(), g),
    "data": lambda ctx, g: ((g * 2).data, g),
    "written to": lambda ctx, g: ((g * 2).mul_(2), g),
    "held": lambda ctx, g: (HELD.append(g * 2) or HELD[-1], g),
    "a saved tensor": lambda ctx, g: (ctx.saved_tensors[0], g * 2),
}


def _gradients(kind: str) -> Any:
    def gradients(m: Any) -> Any:
        HELD.clear()

        class Product(m.autograd.Function):
            @staticmethod
            def forward(ctx, x, y):
                ctx.save_for_backward(x, y)
                return x * y

            backward = staticmethod(GIVEN[kind])

        x, y = _leaf(m), _leaf(m)
        Product.apply(x, x).sum().backward()
        z = y * 2
        (Product.apply(z, z) * z).sum().backward()
        return x.grad, y.grad

    gradients.__name__ = "gradient_is_" + kind.replace(" ", "_")
    return gradients


for _kind in GIVEN:
    program(_gradients(_kind))


@program
def gradients_of_post_hooks(m):
    found = []
    for hook in (lambda g: g * 2, lambda g: g, lambda g: g.clone()):
        x = _leaf(m)
        k, z, y = x.sin(), x * 3, x * 2
        y.grad_fn.register_hook(lambda gs, _, hook=hook: tuple(g if g is None else hook(g) for g in gs))
        (z * y + k).sum().backward()
        found.append(x.grad.clone())
    return found


@program
def gradients_written_to_in_place(m):
    class Doubled(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g.mul_(2)

    found = []
    for reduce in (m.prod, lambda t: (t * t).sum()):
        x = m.ones(2, 3, requires_grad=True)
        found.append((complaint(reduce(Doubled.apply(x)).backward), x.grad))
    return found


@program
def hooks_on_saved_tensors_and_transforms(m):
    x = m.tensor([1.0, 2.0], dtype=m.float64)
    hooks = m.autograd.graph.saved_tensors_hooks

    def hooked(t):
        with hooks(lambda s: s * 2, lambda s: s / 2):
            return (t.sin() * t).sum()

    def total(t):
        return t.sin().sum()

    found = [complaint(lambda: m.func.grad(hooked)(x)), complaint(lambda: m.func.vjp(hooked, x))]
    with hooks(lambda s: s, lambda s: s):
        calls = (
            lambda: m.func.grad(total)(x),
            lambda: m.func.vjp(total, x),
            lambda: m.func.jacrev(m.sin)(x),
            lambda: m.func.hessian(total)(x),
            lambda: m.vmap(m.func.grad(m.sin))(x),
        )
        found += [complaint(call) for call in calls]
        found.append(m.func.jvp(m.sin, (x,), (x,)))
    return [*found, m.func.grad(total)(x)]


@program
def recorded_gradients_without_elements(m):
    functions = (lambda x: x.diagonal(1) * 1, lambda x: x.exp(), lambda x: x.sum(0), lambda x: m.cat([x, x]))
    found = []
    for fn in functions:
        x = m.zeros((0, 3), dtype=m.float64, requires_grad=True)
        (g,) = m.autograd.grad(fn(x).sum(), x, create_graph=True)
        h = m.autograd.grad(g.sum(), x, allow_unused=True)[0] if g.requires_grad else None
        found.append((tuple(g.shape), g.requires_grad, h is None))
    return found


@program
def functions_of_views_that_got_a_new_node(m):
    """A custom node is younger than the node that its input got for it."""

    Cube = saving_input(m, "Cube", lambda x: x**3, lambda x, g: 3 * x * x * g)

    found = []
    for end in (
        lambda y, a: m.autograd.grad(y.sum(), [a], allow_unused=True),
        lambda y, a: m.autograd.backward(y.sum(), inputs=[a]),
    ):
        a = m.ones(2, 3, requires_grad=True) * 1
        a.retain_grad()
        part = a[0]
        a.mul_(2)
        found.append((end(Cube.apply(part), a), a.grad))
    return found


@program
def written_parts_that_are_written_again(m):
    """The result that a write to a part saved is named after the part while that is in use."""
    found = []
    for view in (lambda b: b[0:1], lambda b: b.view(-1), lambda b: b.t()):
        for again in (lambda b, v: b.mul_(3), lambda b, v: v.add_(1), lambda b, v: (b.mul_(3), v.grad_fn)):
            b = m.ones(2, 3, dtype=m.float64, requires_grad=True) * 2
            part = view(b)
            part.exp_()
            y = part * 1
            again(b, part)
            found += [complaint(y.sum().backward), complaint(b.sum().backward)]
            del y
            found.append(complaint(b.sum().backward))
    # A write that a pass did not free still uses what the part was before.
    for keep in (False, True):
        b = m.ones(2, 3, dtype=m.float64, requires_grad=True) * 2
        part = b[0:1]
        part.exp_()
        part.add_(1)
        found += [complaint(lambda b=b, keep=keep: b.sum().backward(retain_graph=keep)) for _ in range(2)]
    return found


@program
def complaints_before_overlaps(m):
    """What an operator says of its arguments comes first, sizes and kernels come after the memory."""

    def lying(dtype):
        return m.ones(3, dtype=dtype).expand(2, 3)

    z, b, f = m.complex128, m.bool, m.float64
    five = m.ones(5, dtype=f)
    calls = (
        lambda: lying(z).floor_(),
        lambda: lying(z).sign_(),
        lambda: lying(z).relu_(),
        lambda: lying(z).erf_(),
        lambda: lying(b).neg_(),
        lambda: lying(b).sub_(lying(b)),
        lambda: lying(b).abs_(),
        lambda: lying(f).add_(five),
        lambda: lying(f).add_(1j),
        lambda: lying(f).clamp_min_(five),
        lambda: lying(b).clamp_(0),
        lambda: lying(b).cumsum_(0),
        lambda: lying(f).heaviside_(lying(z)),
        lambda: lying(f).lerp_(lying(z), 0.5),
        lambda: lying(z).index_copy_(0, m.tensor([0]), m.ones(1, 3)),
        lambda: lying(f).index_copy_(7, m.tensor([0]), m.ones(1, 3)),
        lambda: lying(f).masked_scatter_(m.ones(3), five),
        lambda: lying(f).add_(1, alpha=1j),
        lambda: m.ones(3, dtype=b).lerp_(lying(b), 0.5),
        lambda: lying(f).uniform_(3, 1),
        lambda: lying(f).normal_(0, -1),
        lambda: lying(f).bernoulli_(5.0),
    )
    return [complaint(call) for call in (*calls, *calls)]


@program
def outputs_that_got_another_shape(m):
    """Gradients fit what the node made, or are summed to it; a write that is not recorded changes the tensor alone."""
    found = []
    for change in (lambda v: v.unsqueeze_(0), lambda v: v.t_(), lambda v: v.squeeze_()):
        for shape in ((2, 3), (1, 3), (3, 3)):
            for _ in range(3):
                x = m.arange(1.0, 1 + shape[0] * shape[1]).reshape(shape).requires_grad_()
                v = x * x
                with m.no_grad():
                    change(v)
                found.append((complaint(lambda v=v: v.backward(m.arange(float(v.numel())).reshape(v.shape))), x.grad))
    return found


@program
def views_of_what_is_tracked_later_as_inputs(m):
    found = []
    for look in (False, True):
        x = m.ones(1, 3, requires_grad=True).sin()
        y = m.ones(1, 3)
        part = y.reshape(-1)[0]
        y.mul_(x.sum())
        if look:
            found.append(part.grad_fn.name())
        x.backward(m.ones_like(x), inputs=[part])
        found.append((part.retains_grad, part.grad))
    return found


@program
def saved_inputs_that_were_detached(m):
    """torch refuses to use them, unless they had no node when they were saved."""
    functions = (
        lambda u, x: x * u,
        lambda u, x: x / u,
        lambda u, x: u.exp(),
        lambda u, x: x**u,
        lambda u, x: u.sin(),
        lambda u, x: u + x,
        lambda u, x: m.maximum(u, x),
        lambda u, x: m.where(u > 0, u * u, x),
    )
    found = []
    for fn in functions:
        for keep in (False, True, False):
            x = m.tensor([1.0, 2.0], requires_grad=True)
            u = x * 2
            y = fn(u, x)
            u.detach_()
            found.append((complaint(lambda y=y, keep=keep: y.sum().backward(create_graph=keep)), x.grad is None))
            later = fn(u, x).sum()  # saved as it is now
            if later.requires_grad:
                found.append(complaint(later.backward))
    return found


@program
def recorded_gradients_of_writes_to_parts(m):
    """What such a gradient does not read, it does not depend on."""
    writes = (
        lambda a, b: a.div_(b, rounding_mode="floor"),
        lambda a, b: a.div_(b),
        lambda a, b: a.mul_(b),
        lambda a, b: a.copy_(b),
        lambda a, b: a.copysign_(b),
        lambda a, b: a.fill_(b[0]),
        lambda a, b: a.sub_(b),
        lambda a, b: a.lerp_(b, 0.5),
        lambda a, b: a.pow_(b),
        lambda a, b: a.heaviside_(b),
        lambda a, b: a.fmod_(b),
    )
    found = []
    for write in writes:
        for part in (lambda u: u, lambda u: u.view_as(u), lambda u: u[:]):
            u = m.tensor([2.0, 3.0], requires_grad=True) * 1
            w = m.tensor([2.0, 3.0], requires_grad=True)

            def graded(write=write, part=part, u=u, w=w):
                write(part(u), w)
                (g,) = m.autograd.grad(u.sum(), w, create_graph=True, allow_unused=True)
                found.append(g is None or (g.detach(), g.requires_grad))

            found.append(complaint(graded))
    return found


@program
def numbers_of_another_dtype_written_by_a_mask(m):
    found = []
    at, mask = m.tensor([1]), m.tensor([True, False, True])
    writes = (
        lambda x, v: x.__setitem__(mask, v),
        lambda x, v: x.view(1, 3).__setitem__((slice(None), mask), v),
        lambda x, v: x.__setitem__(mask, v[None]),
        lambda x, v: x.index_fill_(0, at, v),
        lambda x, v: x.masked_fill_(mask, v),
        lambda x, v: x.lerp_(x.detach(), v),
    )
    for mine, other in (
        (m.complex64, m.float64),
        (m.float32, m.complex64),
        (m.float64, m.float32),
        (m.float64, m.int64),
    ):
        for write in writes[: None if other is not m.int64 else -1]:
            leaf = m.tensor([1, 2, 3], dtype=mine).requires_grad_()
            x, v = leaf * 1, m.tensor(-2, dtype=other)
            v.requires_grad_(other is not m.int64)
            found.append(complaint(lambda write=write, x=x, v=v: write(x, v)))
            found.append([x.grad_fn.name(), [n and n.name() for n, _ in x.grad_fn.next_functions]])
            found.append((complaint(lambda x=x: x.abs().sum().backward()), leaf.grad, v.grad))
    return found


@program
def what_may_be_added_to_in_place(m):
    """A gradient that something else still holds, a view's base say, is not; the sum is a new tensor."""
    c, wide = m.ones(3, 3) * 2, m.ones(2, 3, 3) * 3
    functional = m.nn.functional
    parts = (
        lambda x: x.clone().t() * c,
        lambda x: x.clone().unsqueeze(0) * c,
        lambda x: x.clone().view(9) * 2,
        lambda x: x.clone() * wide,
        lambda x: x * wide,
        lambda x: x + wide,
        lambda x: x.expand(2, 3, 3) * wide,
        lambda x: m.where(wide > 0, x, wide),
        lambda x: m.addcmul(wide, x, x),
        lambda x: x.sum(0) * wide,
        lambda x: m.stack([x.clone(), c]) * 2,
        lambda x: m.cat([x.clone(), c]) * 2,
        lambda x: x.clone().clone() * c,
        lambda x: functional.conv1d(x.clone(), x.clone()[None]),
        lambda x: functional.linear(x.clone(), x.clone()),
        lambda x: functional.conv1d(x[None], x[None], x[:1, 0]),
    )
    found = []
    for part in parts:
        for _ in range(3):
            x = m.arange(1.0, 10.0).reshape(3, 3).requires_grad_()
            v = (x * c).sum()
            (part(x).sum() + v).backward()
            found.append(x.grad)
    return found


@program
def variances_without_degrees_of_freedom(m):
    found = []
    for name in ("var", "std"):
        for values in ([1.0, 2.0, 4.0], [[1.0, 3.0], [2.0, 2.0]], 3.0, [3.0]):
            for options in ({"dim": 0, "correction": 3}, {"correction": 9}, {"dim": -1, "correction": 5}, {}):
                x = m.tensor(values, dtype=m.float64, requires_grad=True)
                y = getattr(m, name)(x, **options)
                (g,) = m.autograd.grad(y.sum(), x, create_graph=True)
                found.append((y.detach(), g.detach(), g.requires_grad))
    return found


@program
def complaints_of_masked_numbers(m):
    leaf, z = m.zeros(0, 3, requires_grad=True), m.tensor(-2 - 1.7j)
    return [
        complaint(lambda: leaf.__setitem__(leaf > 0, z)),
        complaint(lambda: m.ones(3).__setitem__(m.ones(3) > 0, z)),
    ]


@program
def which_output_was_modified(m):
    """Of saved inputs the messages say that they were output 0, whichever they were."""

    class Pair(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2, x.exp()

        @staticmethod
        def backward(ctx, g, h):
            return g * 2 + h * ctx.saved_tensors[0].exp()

    makers = (
        lambda x: Pair.apply(x),
        lambda x: x.aminmax(dim=0),
        lambda x: m.linalg.qr(x),
        lambda x: m.linalg.eigh(x @ x.T),
        lambda x: m.var_mean(x, 0),
    )
    uses = (lambda t: t * t, lambda t: t.detach() * t, lambda t: Pair.apply(t)[0], lambda t: t.sum())
    found = []
    for maker in makers:
        for use in uses:
            x = m.tensor([[0.8, 1.0, 2.0], [1.0, 2.0, 4.5]], dtype=m.float64, requires_grad=True)
            t = maker(x)[1]
            y = use(t)
            with m.no_grad():
                t.mul_(2)
            found.append(complaint(lambda y=y: y.sum().backward()))
    return found


@program
def forbidden_views_are_printed(m):
    found = []
    for view in (lambda t: t.split(1)[0], lambda t: t.unbind()[0], lambda t: t.split(1)[0][:]):
        base = m.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True) * 1
        part = view(base)
        found.append(repr(part))
        base.add_(1)
        found += [repr(part), f"{part}", complaint(lambda part=part: part.grad_fn)]
    return found


@program
def what_forward_transforms_give_to_a_graph(m):
    x = m.tensor([1.0, 2.0], requires_grad=True)
    ones = m.ones(2)
    results = (
        m.func.jvp(m.sin, (x,), (ones,)),
        m.func.jvp(lambda t: (t * 2, t.sum()), (x * 1,), (ones,))[0],
        m.func.jvp(lambda t: t * x, (ones,), (ones,))[:1],
        m.func.jvp(m.sin, (ones,), (x * 1,))[:1],
        m.func.jvp(lambda t: (t * 2, t + x), (ones,), (ones,), has_aux=True),
    )
    return [
        (t.grad_fn and t.grad_fn.name(), t._is_view(), t._version, t.requires_grad)
        for result in results
        for t in result
    ]
