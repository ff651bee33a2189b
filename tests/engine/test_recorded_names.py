"""The `grad_fn` of recorded gradients: the last step of torch's formula, by argument, layout, broadcast and cast."""

from __future__ import annotations

import itertools

from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


def _filled(m, *shape, dtype=None):
    return m.arange(1.0, 1 + m.Size(shape).numel(), dtype=dtype or m.float64).sin().reshape(shape)


def _names(m, f, tensors):
    """Of the gradients of each set of arguments."""
    found = []
    for chosen in itertools.product((False, True), repeat=len(tensors)):
        if not any(chosen):
            continue
        own = [t.detach().clone().requires_grad_(c) for t, c in zip(tensors, chosen)]

        def passed(own=own):
            y = f(*own)
            y = y.abs() if y.is_complex() else y.exp()
            needed = [t for t in own if t.requires_grad]
            grads = m.autograd.grad(y.sum(), needed, create_graph=True, allow_unused=True)
            return [g.grad_fn and g.grad_fn.name() for g in grads if g is not None]

        found.append(complaint(passed))
    return found


@program
def products_of_matrices(m):
    """A gradient in the layout of a column-major factor is a transpose; a number before the product comes last."""
    found = []
    for swapped in itertools.product((False, True), repeat=2):
        a, b = (
            _filled(m, *(shape[::-1] if s else shape))
            for shape, s in zip(((4, 3), (3, 2)), swapped)
        )
        x, y = ((t.t() if s else t).requires_grad_() for t, s in zip((a, b), swapped))
        for f in (m.mm, m.matmul, lambda x, y: x @ y + 1):
            grads = m.autograd.grad(f(x, y).exp().sum(), [x, y], create_graph=True)
            found.append([g.grad_fn.name() for g in grads])
        for options in ({}, {"alpha": 2}, {"beta": 2}, {"alpha": 2, "beta": 3}):
            for size in ((4, 2), (2,), (1, 2), (4, 1), ()):
                c = _filled(m, *size).requires_grad_()
                grads = m.autograd.grad(
                    m.addmm(c, x, y, **options).exp().sum(), [c, x, y], create_graph=True
                )
                found.append([g.grad_fn.name() for g in grads])
    return found


@program
def other_products(m):
    F = m.nn.functional
    found = []
    for f, *shapes in (
        (m.vdot, (3,), (3,)), (m.addmv, (), (4, 3), (3,)), (m.addmv, (1,), (4, 3), (3,)),
        (m.addr, (3,), (4,), (3,)), (m.addbmm, (2,), (3, 4, 3), (3, 3, 2)), (m.baddbmm, (2,), (3, 4, 3), (3, 3, 2)),
        (F.linear, (4, 3), (2, 3), (2,)), (F.linear, (2, 4, 3), (2, 3), (2,)), (F.linear, (3,), (2, 3), (2,)),
        (F.bilinear, (4, 3), (4, 2), (5, 3, 2), (5,)),
        (m.matmul, (2, 4, 3), (3, 2)), (m.chain_matmul, (2, 3), (3, 4), (4, 2)),
    ):  # fmt: skip
        found.append(_names(m, f, [_filled(m, *s) for s in shapes]))
    for f, *shapes in (
        (m.addmv, (4,), (4, 3), (3,)), (m.addr, (4, 3), (4,), (3,)), (m.addbmm, (4, 2), (3, 4, 3), (3, 3, 2)),
        (m.baddbmm, (3, 4, 2), (3, 4, 3), (3, 3, 2)),
    ):  # fmt: skip
        found.append(
            _names(m, lambda *a, f=f: f(*a, alpha=2, beta=3), [_filled(m, *s) for s in shapes])
        )
    return found


@program
def casts(m):
    """A cast comes last, but where a kernel does it; what becomes real is not cast."""
    F = m.nn.functional
    a, b = _filled(m, 3, 3, dtype=m.float32), _filled(m, 3, 3) + 1
    z = m.complex(_filled(m, 3, 3), _filled(m, 3, 3) + 1)
    found = [
        _names(m, f, [a, b])
        for f in (
            m.add, m.sub, m.mul, m.div, lambda a, b: m.sub(b, a), lambda a, b: m.sub(b, a, alpha=2),
            lambda a, b: m.sub(a, b, alpha=2), lambda a, b: m.cat([a, b]), lambda a, b: m.stack([b, a]),
            F.mse_loss, F.smooth_l1_loss, F.l1_loss, lambda a, b: F.mse_loss(a, b, reduction="none"),
            lambda a, b: F.l1_loss(a, b, reduction="none"),
        )
    ]  # fmt: skip
    found += [_names(m, f, [z]) for f in (m.abs, m.angle)]
    return found + [_names(m, lambda z, n=n: m.fft.irfft(z, n), [z]) for n in (1, 2, 3, 4)]


@program
def decompositions(m):
    """Products of many matrices end with a view."""
    found = []
    for batch in ((), (2,)):
        a = _filled(m, *batch, 3, 3) + 2 * m.eye(3, dtype=m.float64)
        s = a @ a.mT + 3 * m.eye(3, dtype=m.float64)
        b = _filled(m, *batch, 3, 2)
        found += [
            _names(m, f, [s])
            for f in (m.linalg.cholesky, m.cholesky, lambda s: m.linalg.eigh(s)[0], m.linalg.svdvals,
                      m.cholesky_inverse,
                      lambda s: m.linalg.lu(s)[2])
        ]  # fmt: skip
        found += [_names(m, lambda a, b: m.linalg.lstsq(a, b)[0], [b, _filled(m, *batch, 3, 1)])]
        found += [_names(m, lambda b, a: m.linalg.lu_solve(*m.linalg.lu_factor(a), b), [b, a])]
        found += [_names(m, m.linalg.solve, [a, b])]
    found += [_names(m, m.linalg.solve, [a[0], b[0, :, 0]])]
    found += [_names(m, m.linalg.householder_product, [b[0], b[0, 0]])]
    return found


@program
def formulas_of_one_step(m):
    F = m.nn.functional
    x = _filled(m, 4, 4)
    found = [_names(m, f, [x]) for f in (m.deg2rad, m.rad2deg, lambda x: m.frexp(x)[0])]
    found += [_names(m, m.nextafter, [x, x + 1]), _names(m, lambda x: F.fold(x, (3, 3), 2), [x])]
    return [*found, _names(m, lambda x: F.affine_grid(x, (1, 1, 3, 3)), [_filled(m, 1, 2, 3)])]
