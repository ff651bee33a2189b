"""Lazily conjugated and negated memory: results that store their conjugates, views of such bases, writes to those."""

from __future__ import annotations

from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


def _reached(t):
    """The name of a tensor's node, and whether the tensor is conjugated, a view, and how often it was written to."""
    node = t.grad_fn and t.grad_fn.name()
    return t.detach().resolve_conj(), t.is_conj(), t._is_view(), t._version, t.requires_grad, node


def _vectors(m, leaf=True):
    x = m.tensor([1 + 2j, 3 - 1j, 2j])
    return x.requires_grad_() if leaf else x, m.tensor([0.5j, 2 + 1j, 1.0])


@program
def products_of_conjugated_vectors(m):
    """Of two conjugated vectors the dot product is conjugated itself, of its operands' memory nothing is."""
    products = (
        m.dot,
        m.vdot,
        m.matmul,
        m.inner,
        m.linalg.vecdot,
        lambda x, y: x @ y,
        lambda x, y: x.dot(y),
        lambda x, y: m.tensordot(x, y, 1),
        lambda x, y: m.einsum("i,i->", x, y),
        lambda x, y: x[None] @ y[:, None],
        lambda x, y: x[None] @ y,
        lambda x, y: (x * y).sum(),
    )
    found = []
    for product in products:
        for kind in range(4):
            x, y = _vectors(m)
            left = x.conj() if kind & 1 else x * 1
            z = product(left, y.conj() if kind & 2 else y)
            found += [_reached(z), z.clone().is_conj(), (z * 2).is_conj(), z.detach().is_conj(), z.conj().is_conj()]
            found.append(complaint(lambda z=z: m.view_as_real(z)))
            z.abs().sum().backward()
            found.append(x.grad.resolve_conj())
    return found


@program
def products_that_are_written_to(m):
    """A conjugated result goes on being one, and what is written to it comes back out of it."""
    found = []
    for product in (m.dot, m.inner, lambda x, y: m.vdot(x.conj(), y), lambda x, y: m.tensordot(x, y, 1)):
        for write in (
            lambda z, x: z.mul_(2),
            lambda z, x: z.mul_(x[0]),
            lambda z, x: z.copy_(x[1]),
            lambda z, x: z[None].add_(x[:1]),
            lambda z, x: z.conj().mul_(x[2]),
        ):
            x, y = _vectors(m)
            z = product(x.conj(), y.conj())
            write(z, x)
            found.append(_reached(z))
            z.abs().backward()
            found.append(x.grad.resolve_conj())
    return found


@program
def products_in_other_modes(m):
    """In inference mode, without gradients, with `out=`, with a tangent, and in a transform."""
    found = []
    x, y = _vectors(m, leaf=False)
    for mode in (m.no_grad, m.inference_mode):
        with mode():
            z = m.dot(x.conj(), y.conj())
        found += [z.is_conj(), z.is_inference(), z.resolve_conj().clone()]
    given = m.zeros((), dtype=m.complex64)
    found += [m.dot(x.conj(), y.conj(), out=given).is_conj(), given]
    given = m.zeros((), dtype=m.complex64).conj()
    found += [m.dot(x.conj(), y.conj(), out=given).is_conj(), given.resolve_conj()]
    with m.autograd.forward_ad.dual_level():
        dual = m.autograd.forward_ad.make_dual(x, y)
        z = m.dot(dual.conj(), y.conj())
        primal, tangent = m.autograd.forward_ad.unpack_dual(z)
        found += [primal.is_conj(), primal.resolve_conj(), tangent.resolve_conj()]
    pairs = m.stack([x, y])
    found.append(m.func.vmap(lambda a: m.dot(a.conj(), y.conj()))(pairs))
    found.append(m.func.grad(lambda a: m.dot(a.conj(), y.conj()).abs())(x).resolve_conj())
    return found


@program
def writes_to_views_of_conjugated_bases(m):
    """A base whose memory holds conjugates or negatives, views of it, and recorded and unrecorded writes to them."""
    start = m.tensor([1 + 2j, 3 - 1j, 2.0], dtype=m.complex128)
    x = start.clone()
    bases = (
        lambda: x.conj().detach(),
        lambda: x.conj().data,
        lambda: x.conj().imag.detach(),
        lambda: m.dot(x.conj(), x.conj()).view(1),
    )
    views = (
        lambda b: b[:1],
        lambda b: b.view(-1, 1),
        lambda b: b.conj(),
        lambda b: b[:2].conj(),
        lambda b: b.detach(),
        lambda b: b.unfold(0, 1, 1),
        lambda b: b.conj()[:1].conj(),
    )
    writes = (
        lambda v, u: v.mul_(2),
        lambda v, u: v.mul_(u),
        lambda v, u: v.copy_(u),
        lambda v, u: v.zero_(),
        lambda v, u: v.add_(u * u),
    )
    found = []
    for base in bases:
        for view in views:
            for write in writes:
                for recorded in (False, True):
                    w = m.tensor([2 + 1j, 1 - 3j, 0.5j], requires_grad=True, dtype=m.complex128)
                    x.copy_(start)
                    b = base()
                    u = w if b.is_complex() else w.imag
                    b.mul_(u[: b.numel()])
                    v = view(b)
                    with m.set_grad_enabled(recorded):
                        write(v, u[: v.numel()].reshape(v.shape))
                    loss = ((b + 1j).abs() ** 2).sum() + ((v - 0.5j).abs() ** 2).sum()
                    found += [m.autograd.grad(loss, w)[0].resolve_conj(), b._version, v.grad_fn and v.grad_fn.name()]
                    found.append(b.detach().resolve_conj().resolve_neg())
    return found


def _leaves(m):
    return m.tensor([1 + 2j, 3 - 1j], dtype=m.complex128, requires_grad=True)


def _gradient(g):
    return g if g is None else (g.detach().clone().resolve_conj(), g.requires_grad)


def _through_conjugates(m):
    """Functions of one vector, most of which have a gradient that is the conjugate of another."""
    y = m.tensor([0.5j, 2 + 1j], dtype=m.complex128)
    a = m.stack([y, y.conj() * 2])

    def often(x, n):
        for _ in range(n):
            x = x.conj() * 1.01
        return x

    return (
        lambda x: x.conj(), lambda x: x.conj() * y, lambda x: x.conj() + x, lambda x: x.conj() + x.conj(),
        lambda x: x.conj().conj(), lambda x: x.conj().expand(2, 2), lambda x: x.conj().view(2, 1),
        lambda x: x.conj().imag, lambda x: x.conj().real, lambda x: x.conj().clone(),
        lambda x: x.conj().resolve_conj(), lambda x: a @ x.conj(), lambda x: x.conj_physical(),
        lambda x: x.conj().sum(), lambda x: m.cat([x.conj(), y]), lambda x: -x.conj(),
        lambda x: m.view_as_real(x.conj().resolve_conj()), lambda x: (x * x.conj()).real,
        lambda x: x.conj().split(1)[1], lambda x: m.where(m.tensor([True, False]), x.conj(), y),
        lambda x: m.dot(x.conj(), y), lambda x: m.vdot(x, y), lambda x: m.outer(x.conj(), x),
        lambda x: x.conj()[None].mH.adjoint()[0], lambda x: m.fft.fft(x.conj()), lambda x: often(x, 4),
        lambda x: often(x, 5), lambda x: often(x, 301), lambda x: x[1:].conj(),
        lambda x: x.conj().sum(0).expand(3), lambda x: m.stack(x.conj().unbind()),
        lambda x: x[None].mH @ x[None],
    )  # fmt: skip


@program
def gradients_that_are_conjugated(m):
    """The same numbers in passes that are compiled as in those that are walked."""
    found = []
    for fn in _through_conjugates(m):

        def total(x, fn=fn):
            out = fn(x)
            return out.abs().sum() if out.is_complex() else out.sum()

        passes = []
        for _ in range(4):  # the fourth pass is one kernel
            x = _leaves(m)
            total(x).backward()
            passes += [x.grad.resolve_conj(), m.autograd.grad(total(x), x)[0].resolve_conj()]
        found.append([passes[0], [m.allclose(g, passes[0], rtol=1e-12) for g in passes]])
        total(x).backward()
        found.append(_gradient(x.grad))
        found.append(_gradient(m.autograd.grad(total(x), x, create_graph=True)[0]))
        total(x).backward(create_graph=True)
        found.append(_gradient(x.grad))
    return found


@program
def conjugated_gradients_on_their_way(m):
    """What hooks see, and what is retained, where a gradient given by hand is lazily conjugated."""
    found = []
    for fn in _through_conjugates(m):
        x = _leaves(m)
        y = fn(x)
        y.retain_grad()
        y.register_hook(lambda g, found=found: found.append(_gradient(g)))
        x.register_hook(lambda g, found=found: found.append(_gradient(g)) or g.conj())
        y.grad_fn.register_hook(lambda given, came, found=found: found.append([_gradient(g) for g in given]))
        given = m.ones_like(y) * (1 + 2j if y.is_complex() else 2.0)
        y.backward(given.conj())
        found += [_gradient(x.grad), _gradient(y.grad)]
    return found


@program
def conjugated_gradients_given_by_hand(m):
    """The same numbers in a pass that is walked, compiled whole, and in repeating windows."""
    found = []
    for steps in (1, 3, 1600):
        for last in (lambda x: x, lambda x: x.conj()):
            passes = []
            for _ in range(4):  # the fourth pass of a structure is one kernel
                x = _leaves(m)
                y = x.view(2)
                for _ in range(steps):
                    y = y.view(2)
                given = m.tensor([1 + 2j, 3j], dtype=m.complex128)
                last(y).backward(given.conj())
                passes.append(x.grad.resolve_conj())
            found.append([passes[0], [m.equal(g, passes[0]) for g in passes]])
    return found


@program
def recorded_writes_inside_of_a_dual_level(m):
    """The sign of a tensor has no gradient to depend on, whatever carries its tangent."""
    x = m.tensor([1.0, 1.0, -2.0], dtype=m.float64, requires_grad=True)
    with m.autograd.forward_ad.dual_level():
        dual = m.autograd.forward_ad.make_dual(x, m.full_like(x, 2.0))
        y, _ = m.autograd.forward_ad.unpack_dual(dual.clone())
    y.sgn_()
    y.sum().backward(create_graph=True)
    return [x.grad, x.grad.requires_grad]


@program
def views_that_got_another_window_in_place(m):
    """Where a chain of views ends in a window, another one takes its place; one that changes nothing is no step."""

    def names(node):
        return node and [node.name(), *[names(n) for n, _ in node.next_functions]]

    weights = m.tensor([3.0, 1.0, 2.0, 5.0])
    found = []
    for view in (
        lambda v: v.real,
        lambda v: v.imag,
        lambda v: v.real.t(),
        lambda v: v.real[:1],
        lambda v: m.view_as_real(v)[..., 0],
    ):
        for window in (
            lambda t: t.squeeze_(),
            lambda t: t.unsqueeze_(0).squeeze_(0),
            lambda t: t.transpose_(0, 1),
            lambda t: t.t_().t_(),
            lambda t: t.transpose_(0, 0),
        ):
            x = m.tensor(2.0, requires_grad=True)
            v = m.arange(4.0).view(2, 2) * (1 + 2j)
            u = view(v)
            window(u)
            v.mul_(x)
            found.append([names(u.grad_fn), u.detach().abs()])
            if u.shape == view(v).shape and u.stride() == view(v).stride():
                (u.abs().reshape(-1) * weights[: u.numel()]).sum().backward()
                found.append(x.grad)
    same = m.arange(4.0).view(2, 2).to(m.complex64)
    for view in (m.view_as_real, m.conj):
        u = view(same)
        u.squeeze_()
        same.mul_(m.ones((), requires_grad=True))
        found.append(names(u.grad_fn))
    return found
