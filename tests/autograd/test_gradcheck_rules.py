"""gradcheck and gradgradcheck with all their arguments, compared with torch."""

import re

from tests.autograd.functions import function
from tests.autograd.programs import attempt, leaf
from tests.own_gradients import saving_input
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


def doubles(m, *v, **k):
    return m.tensor(list(v), dtype=m.float64, requires_grad=True, **k)


@program
def ok(m):
    gc = m.autograd.gradcheck
    x = doubles(m, 1.0, 2.0)
    y = doubles(m, 3.0, 4.0)
    return [
        attempt(gc, lambda a, b: a * b, (x, y), **k)
        for k in (
            {},
            {"fast_mode": True},
            {"check_forward_ad": True},
            {"check_batched_grad": True},
            {"check_batched_forward_grad": True, "check_forward_ad": True},
            {"check_undefined_grad": False},
            {"masked": True},
            {"masked": False},
            {"check_backward_ad": False},
            {"check_backward_ad": False, "check_forward_ad": True},
            {"check_grad_dtypes": True},
            {"nondet_tol": 1e-3},
            {"raise_exception": False},
            {"check_batched_forward_grad": True},
            {"eps": 1e-4, "atol": 1e-3, "rtol": 1e-2},
            {"check_sparse_nnz": True, "masked": False},
            {"foo": 1},
        )
    ]


def without_numbers(t):
    return re.sub(r" +", " ", re.sub(r" *-?\d+\.\d+(e-?\d+)?", "#", t))


@program
def inputs(m):
    gc = m.autograd.gradcheck
    x = leaf(m, 1.0, 2.0)
    r = [
        attempt(gc, lambda a: a * 2, (x,)),
        attempt(gc, lambda a: a * 2, (x.detach(),)),
        attempt(gc, lambda a: a * 2, (doubles(m, 1.0, 2.0).expand(2, 2),)),
        attempt(gc, lambda a: a * 2, ()),
        attempt(gc, lambda a: a * 2, doubles(m, 1.0)),
        attempt(gc, lambda a: a.detach(), (doubles(m, 1.0),)),
        attempt(gc, lambda a: 3, (doubles(m, 1.0),)),
        attempt(gc, lambda a: a > 0, (doubles(m, 1.0),)),
        attempt(gc, lambda a: a.long(), (doubles(m, 1.0),)),
        attempt(gc, lambda a: [a * 2, a * 3], [doubles(m, 1.0)]),
        attempt(gc, lambda a, b: a * b, (doubles(m, 1.0), 3.0)),
        attempt(gc, lambda a, b: a * b, (doubles(m, 1.0), m.ones(1, dtype=m.int64))),
    ]
    return [((a[0], without_numbers(str(a[1]))), b) for a, b in r]


@program
def undefined(m):
    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.set_materialize_grads(False)
            return a * 2, b * 3

        @staticmethod
        def backward(ctx, g, h):
            return g * 2, h * 3

    x = doubles(m, 1.0, 2.0)
    y = doubles(m, 3.0)
    a = attempt(m.autograd.gradcheck, F.apply, (x, y))
    return (
        a[0][0],
        without_numbers(str(a[0][1])),
        attempt(m.autograd.gradcheck, F.apply, (x, y), check_undefined_grad=False)[0][0],
    )


@program
def fwd(m):
    F = function(m, lambda ctx, a: a * 2, lambda ctx, g: g * 2, jvp=lambda ctx, t: t * 5)

    class H(F):
        @staticmethod
        def jvp(ctx, t):
            raise NotImplementedError("zz")

    x = doubles(m, 1.0, 2.0)
    out = []
    for k in (
        {"check_forward_ad": True},
        {"check_forward_ad": True, "fast_mode": True},
        {"check_forward_ad": True, "raise_exception": False},
    ):
        a = attempt(m.autograd.gradcheck, F.apply, (x,), **k)
        out.append((a[0][0], without_numbers(str(a[0][1]))))
    return out, attempt(m.autograd.gradcheck, H.apply, (x,), check_forward_ad=True)


@program
def cplx(m):
    z = m.tensor([1 + 1j, 2.0 - 1j], dtype=m.complex128, requires_grad=True)
    gc = m.autograd.gradcheck
    F = function(m, lambda ctx, a: a * (2 + 1j), lambda ctx, g: g * (2 + 1j))
    a = attempt(gc, F.apply, (z,))
    b = attempt(gc, F.apply, (z,), fast_mode=True)
    return (
        [
            attempt(gc, f, (z,), check_forward_ad=True, fast_mode=k)
            for f in (lambda a: a * a, lambda a: a.abs(), lambda a: a.real, lambda a: a.conj() * 2, lambda a: a.exp())
            for k in (False, True)
        ],
        (a[0][0], without_numbers(str(a[0][1]))),
        (b[0][0], without_numbers(str(b[0][1]))),
    )


@program
def gradgrad(m):
    gg = m.autograd.gradgradcheck
    x = doubles(m, 1.0, 2.0)
    y = doubles(m, 3.0, 4.0)

    F = saving_input(m, "F", lambda a: a**3, lambda a, g: g * 3 * a.detach() ** 2)

    a = attempt(gg, F.apply, (x,))
    return [
        attempt(gg, lambda a, b: a * a * b, (x, y), **k)
        for k in (
            {},
            {"gen_non_contig_grad_outputs": True},
            {"fast_mode": True},
            {"check_fwd_over_rev": True},
            {"check_rev_over_rev": False, "check_fwd_over_rev": True},
            {"check_batched_grad": True},
            {"raise_exception": False},
            {"masked": True},
            {"check_undefined_grad": False},
            {"grad_outputs": m.ones(2, dtype=m.float64)},
            {"grad_outputs": doubles(m, 1.0, 2.0)},
            {"check_rev_over_rev": False},
            {"nondet_tol": 1e-5, "atol": 1e-3},
        )
    ], (a[0][0], without_numbers(str(a[0][1])))


@program
def float32warn(m):
    x = leaf(m, 1.0, 2.0)
    return attempt(m.autograd.gradcheck, lambda a: a * 2, (x,), eps=1e-2, atol=1e-2), attempt(
        m.autograd.gradcheck,
        lambda a, b: a * b.double(),
        (doubles(m, 1.0, 2.0), x),
        eps=1e-2,
        atol=1e-2,
        raise_exception=False,
    )
