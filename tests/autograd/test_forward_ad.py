"""Forward mode: errors, views, in-place writes, custom Functions, threads, compared with torch."""
# ruff: noqa: B023 - what the loops define is called within the same turn

import threading

from tests.autograd.programs import attempt, leaf
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


def forward_ad(lib):
    return lib.autograd.forward_ad


@program
def basics(m):
    f = forward_ad(m)
    x = m.tensor([1.0, 2.0])
    t = m.tensor([1.0, 1.0])
    with f.dual_level():
        d = f.make_dual(x, t)
        y = d.exp() * 2
        u = f.unpack_dual(y)
        return [
            type(u).__name__,
            u._fields,
            u.primal,
            u.tangent,
            f.unpack_dual(x).tangent,
            d is x,
            d._is_view(),
            d.grad_fn,
            repr(u)[:40],
            repr(d),
            f.unpack_dual(x),
        ]


@program
def errors(m):
    f = forward_ad(m)
    x = m.ones(2)
    out = [
        attempt(f.make_dual, x, x),
        attempt(f.unpack_dual, x),
        attempt(f.exit_dual_level),
        attempt(f.enter_dual_level),
    ]
    out.append(attempt(f.enter_dual_level))
    out.append(attempt(f.exit_dual_level))
    out.append(attempt(f.exit_dual_level))
    out.append(attempt(f.exit_dual_level, level=5))
    with f.dual_level():
        out += [
            attempt(f.make_dual, x, m.ones(3)),
            attempt(f.make_dual, x, m.ones(2, dtype=m.float64)),
            attempt(f.make_dual, m.ones(2, dtype=m.int64), m.ones(2, dtype=m.int64)),
            attempt(f.make_dual, x, m.ones(2, dtype=m.int64)),
            attempt(f.make_dual, 1, x),
            attempt(f.make_dual, x, 1),
            attempt(f.make_dual, x, m.ones(1, 2)),
            attempt(f.make_dual, x, m.ones(2, dtype=m.complex64)),
            attempt(f.make_dual, x),
            attempt(f.make_dual, x, None),
            attempt(f.make_dual, x, x, level=1),
            attempt(f.make_dual, x, x, level=-1),
            attempt(f.unpack_dual, 1),
            attempt(f.unpack_dual, x, level=3),
            attempt(f.make_dual, m.ones(2, dtype=m.bool), m.ones(2)),
        ]
        d = f.make_dual(x, m.ones(2))
        out.append(attempt(f.make_dual, d, m.ones(2)))
        out.append(attempt(f.make_dual, x, d))
    return out


@program
def nested_levels(m):
    f = forward_ad(m)

    def g():
        with f.dual_level(), f.dual_level():
            pass

    r = attempt(g)
    r2 = attempt(f.exit_dual_level)
    return r, r2, f._current_level


@program
def exit_clears(m):
    f = forward_ad(m)
    x = m.ones(2)
    with f.dual_level():
        d = f.make_dual(x, m.ones(2))
        y = d * 2
    with f.dual_level():
        a = f.unpack_dual(y).tangent, f.unpack_dual(d).tangent
    return a, (d * 2)


@program
def views(m):
    f = forward_ad(m)
    x = m.ones(2, 3)
    with f.dual_level():
        d = f.make_dual(x, m.full((2, 3), 5.0))
        v = d[0]
        f.unpack_dual(v)
        v.mul_(2)
        a = f.unpack_dual(d)
        b = f.unpack_dual(v)
        r = [a.primal, a.tangent, b.tangent, b.tangent._base is not None, x]
        w = d.t()
        w.add_(1)
        r += [f.unpack_dual(d).primal, f.unpack_dual(w).tangent]
        z = m.zeros(2, 3)
        z[0] = d[1]
        r += [f.unpack_dual(z)]
        q = m.zeros(2, 3)
        q[:, 0].copy_(d[:, 1])
        r.append(f.unpack_dual(q))
        r.append(f.unpack_dual(q[:, 0]))
        r.append(f.unpack_dual(q[:, 1]).tangent)
    return r


@program
def inplace(m):
    f = forward_ad(m)
    with f.dual_level():
        d = f.make_dual(m.ones(2), m.full((2,), 3.0))
        d.mul_(2)
        a = f.unpack_dual(d)
        z = m.ones(2)
        z.mul_(f.make_dual(m.ones(2), m.full((2,), 7.0)))
        b = f.unpack_dual(z)
        e = f.make_dual(m.ones(2), m.ones(2))
        e.zero_()
        c = f.unpack_dual(e)
        e = f.make_dual(m.ones(2), m.ones(2))
        e.fill_(2.0)
        c2 = f.unpack_dual(e)
        e = f.make_dual(m.ones(2), m.ones(2))
        e.copy_(m.zeros(2))
        c3 = f.unpack_dual(e)
        e = f.make_dual(m.ones(2), m.ones(2))
        c4 = attempt(e.detach_)
    return a, b, c, c2, c3, c4


@program
def detach(m):
    f = forward_ad(m)
    with f.dual_level():
        d = f.make_dual(m.ones(2), m.full((2,), 3.0))
        with m.no_grad():
            y = d * 2
        with m.inference_mode():
            z = attempt(lambda: f.unpack_dual(d * 2).tangent)
        return (
            f.unpack_dual(y),
            f.unpack_dual(d.detach()),
            f.unpack_dual(d.data),
            f.unpack_dual(d.clone()),
            f.unpack_dual(d).tangent,
            z,
        )


@program
def fwd_off(m):
    f = forward_ad(m)
    with f.dual_level():
        d = f.make_dual(m.ones(2), m.ones(2))
        with f._set_fwd_grad_enabled(False):
            y = d * 2
            attempt(f.make_dual, m.ones(2), m.ones(2))
            u = f.unpack_dual(d)
        z = d * 2
        return (
            f.unpack_dual(y).tangent,
            f.unpack_dual(z).tangent,
            u,
            f._is_fwd_grad_enabled() if hasattr(f, "_is_fwd_grad_enabled") else None,
        )


@program
def for_rev(m):
    f = forward_ad(m)
    x = leaf(m, 1.0, 2.0)
    with f.dual_level():
        d = f.make_dual(x, m.ones(2))
        y = (d**3).sum()
        (g,) = m.autograd.grad(y, x, create_graph=True)
        u = f.unpack_dual(g)
        t = f.unpack_dual(y).tangent
        (h,) = m.autograd.grad(t, x)
    return u.primal.detach(), u.tangent.detach(), t.detach(), h


@program
def leaf_req(m):
    f = forward_ad(m)
    x = leaf(m, 1.0, 2.0)
    with f.dual_level():
        d = f.make_dual(x, m.ones(2))
        return (
            d.requires_grad,
            d.is_leaf,
            d.grad_fn and d.grad_fn.name(),
            f.unpack_dual(d).primal.requires_grad,
            f.unpack_dual(d).tangent.requires_grad,
            d._is_view(),
            (f.unpack_dual(d).primal is x),
        )


@program
def tangent_req(m):
    f = forward_ad(m)
    t = leaf(m, 3.0, 4.0)
    with f.dual_level():
        d = f.make_dual(m.ones(2), t)
        y = f.unpack_dual(d * 5).tangent
        y.sum().backward()
    return t.grad


@program
def custom(m):
    f = forward_ad(m)
    log = []

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, a, b, k):
            ctx.save_for_forward(a, b)
            ctx.k = k
            return a * b * k

        @staticmethod
        def backward(ctx, g):
            return g, g, None

        @staticmethod
        def jvp(ctx, ta, tb, tk):
            log.append((ta is None, tb is None, tk, len(ctx.saved_tensors)))
            a, b = ctx.saved_tensors
            return ctx.k * (ta * b + a * tb)

    with f.dual_level():
        a = f.make_dual(m.full((2,), 3.0), m.ones(2))
        b = m.full((2,), 2.0)
        y = F.apply(a, b, 4)
        z = F.apply(a, a, 1)
        w = F.apply(b, b, 1)
        return f.unpack_dual(y), f.unpack_dual(z), f.unpack_dual(w), log


def keep_argument(ctx, a):
    return a


def view_argument(ctx, a):
    return a.view_as(a)


def double_in_place(ctx, a):
    ctx.mark_dirty(a)
    return a.mul_(2)


def with_a_mask(ctx, a):
    return a * 2, a > 0


def with_a_constant(ctx, a):
    b = a * 3
    ctx.mark_non_differentiable(b)
    return a * 2, b


def without_zeros(ctx, a):
    ctx.set_materialize_grads(False)
    return a * 2


def tangents_of_functions(m, functions):
    """For each label the tangents of a Function with this `jvp` and `forward`, or what it raises."""
    f = forward_ad(m)

    def tangents(jvp, forward=lambda ctx, a: a * 2):
        methods = {"forward": staticmethod(forward), "backward": staticmethod(lambda ctx, g: g)}
        if jvp:
            methods["jvp"] = staticmethod(jvp)
        function = type("F", (m.autograd.Function,), methods)
        out = function.apply(f.make_dual(m.ones(2), m.ones(2)))
        if isinstance(out, tuple):
            return [f.unpack_dual(x).tangent for x in out]
        return f.unpack_dual(out).tangent

    with f.dual_level():
        return {label: attempt(lambda: tangents(*made)) for label, made in functions.items()}


@program
def what_a_jvp_may_return(m):
    return tangents_of_functions(
        m,
        {
            "no jvp": (None,),
            "a number": (lambda c, t: 1,),
            "two tensors": (lambda c, t: (t, t),),
            "another shape": (lambda c, t: m.ones(3),),
            "another dtype": (lambda c, t: m.ones(2, dtype=m.float64),),
            "a tuple of one": (lambda c, t: (t * 2,),),
            "a list": (lambda c, t: [t],),
            "too few parameters": (lambda c: 1,),
            "an error": (lambda c, t: 1 / 0,),
            "no zeros for what has no tangent": (lambda c, t: t, without_zeros),
        },
    )


@program
def jvp_of_views_and_writes(m):
    return tangents_of_functions(
        m,
        {
            "the argument itself": (lambda c, t: t, keep_argument),
            "a view of it": (lambda c, t: t.view_as(t), view_argument),
            "a view of it, a copy of the tangent": (lambda c, t: t * 1, view_argument),
            "a write, also to the tangent": (lambda c, t: t.mul_(2), double_in_place),
            "a write, a copy of the tangent": (lambda c, t: t * 2, double_in_place),
        },
    )


@program
def jvp_of_several_results(m):
    return tangents_of_functions(
        m,
        {
            "none for a mask": (lambda c, t: (t, None), with_a_mask),
            "one for a mask": (lambda c, t: (t, t), with_a_mask),
            "none for a constant": (lambda c, t: (t, None), with_a_constant),
            "one for a constant": (lambda c, t: (t, t), with_a_constant),
        },
    )


@program
def custom_setup(m):
    f = forward_ad(m)

    class F(m.autograd.Function):
        @staticmethod
        def forward(a):
            return a.exp()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_forward(output)
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

        @staticmethod
        def jvp(ctx, t):
            (o,) = ctx.saved_tensors
            return t * o

    with f.dual_level():
        d = f.make_dual(leaf(m, 1.0, 2.0), m.ones(2))
        u = f.unpack_dual(F.apply(d))
        return u.primal.detach(), u.tangent.detach(), u.tangent.requires_grad


@program
def types(m):
    f = forward_ad(m)
    with f.dual_level():
        d = f.make_dual(m.ones(2), m.ones(2))
        return [
            f.unpack_dual(q).tangent
            for q in (
                d.double(),
                d.long(),
                d > 0,
                d.argmax(),
                d.to(m.complex64),
                d.max(),
                d.sum(),
                d.expand(3, 2),
                d.half(),
                d.sign(),
                d.round(),
                d.floor(),
                d.sort()[1],
                d.sort()[0],
                d.view(2, 1),
                d.numel() and d,
                m.zeros_like(d),
                m.empty_like(d) * 0,
                d.new_ones(2),
                m.cat([d, m.ones(1)]),
                m.stack([d, m.ones(2)]),
                d.split(1)[0],
                d.unbind()[1],
                d * m.ones(2),
                d @ d,
                m.where(d > 0, d, d * 2),
                d.cumsum(0),
                d.masked_fill(d > 0, 0.0),
                d.index_select(0, m.tensor([0])),
                d.gather(0, m.tensor([0, 1])),
                d.flip(0),
                d.repeat(2),
                d.norm(),
                d.softmax(0),
                d.std(),
                d.tanh(),
                d.pow(2),
                d**d,
                2**d,
                d / 3,
                3 / d,
                d.clamp(0, 0.5),
                d.relu(),
                d.abs(),
                d.reciprocal(),
            )
        ]


@program
def grad_of_int(m):
    f = forward_ad(m)
    with f.dual_level():
        d = f.make_dual(m.tensor(3.0), m.tensor(1.0))
        return float(d), d.item(), d.tolist(), bool(d), repr(d), f.unpack_dual(d * d), str(d)


@program
def complexd(m):
    f = forward_ad(m)
    with f.dual_level():
        d = f.make_dual(m.tensor([1 + 1j]), m.tensor([1j]))
        return (
            f.unpack_dual(d.abs()),
            f.unpack_dual(d.real),
            f.unpack_dual(d.conj()),
            f.unpack_dual(d * d),
            f.unpack_dual(m.view_as_real(d)),
        )


@program
def threads(m):
    f = forward_ad(m)
    out = []
    with f.dual_level():
        d = f.make_dual(m.ones(2), m.ones(2))

        def t():
            out.append((f._current_level, attempt(lambda: f.unpack_dual(d))))

        th = threading.Thread(target=t)
        th.start()
        th.join()
    return out


@program
def level_decorator(m):
    f = forward_ad(m)

    @f.dual_level()
    def g():
        return f.unpack_dual(f.make_dual(m.ones(1), m.ones(1)) * 3).tangent

    with f.dual_level() as level:
        k = level
    return g(), k, f._current_level


@program
def exc_in_level(m):
    f = forward_ad(m)
    try:
        with f.dual_level():
            raise KeyError
    except KeyError:
        pass
    return f._current_level


@program
def layouts(m):
    f = forward_ad(m)
    with f.dual_level():
        d = f.make_dual(m.ones(2, 3).t(), m.ones(3, 2))
        u = f.unpack_dual(d)
        e = f.make_dual(m.ones(2, 3), m.ones(3, 2).t())
        return (
            u.tangent.stride(),
            u.primal.stride(),
            f.unpack_dual(e).tangent.stride(),
            f.unpack_dual(d * 2).tangent.stride(),
            u.tangent._version,
        )


@program
def share(m):
    f = forward_ad(m)
    t = m.ones(2)
    with f.dual_level():
        d = f.make_dual(m.ones(2), t)
        u = f.unpack_dual(d).tangent
        u.mul_(5)
        return t, f.unpack_dual(d).tangent, u.data_ptr() == t.data_ptr()


@program
def unpacked_duals(m):
    kind = m.autograd.forward_ad.UnpackedDualTensor
    pair = kind(1, None)
    return pair, pair._replace(tangent=2), issubclass(kind, tuple), attempt(kind), kind._fields
