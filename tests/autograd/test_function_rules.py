"""What a Function may return, save and mark, and what its node answers, compared with torch."""

# ruff: noqa: B023 - what the loops define is called within the same turn

import pytest

from tests.autograd.programs import attempt, leaf

PROGRAMS = []


def program(fn):
    PROGRAMS.append(fn)
    return fn


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
def test_same_as_torch(fn, same):
    same(fn)


def fn(m, fwd, bwd=None, **kw):
    d = {"forward": staticmethod(fwd)}
    if bwd:
        d["backward"] = staticmethod(bwd)
    d.update({k: (staticmethod(v) if callable(v) else v) for k, v in kw.items()})
    return type("F", (m.autograd.Function,), d)


@program
def counts(m):
    x = leaf(m, 1.0, 2.0)
    w = leaf(m, 3.0, 4.0)
    out = []
    for b in (
        lambda ctx, g: g,
        lambda ctx, g: (g, g),
        lambda ctx, g: (g, g, g),
        lambda ctx, g: (g, g, None),
        lambda ctx, g: (g, g, None, None),
        lambda ctx, g: (g,),
        lambda ctx, g: (),
        lambda ctx, g: None,
        lambda ctx, g: [g, g],
        lambda ctx, g: (g, 1),
        lambda ctx, g: (None, None),
        lambda ctx, g: 1,
        lambda ctx, g: "ab",
    ):
        F = fn(m, lambda ctx, a, b: a * b, b)
        x.grad = w.grad = None
        out.append((attempt(F.apply(x, w).sum().backward), x.grad, w.grad))
    return out


@program
def shapes(m):
    x = leaf(m, 1.0, 2.0)
    out = []
    for b in (
        lambda ctx, g: m.ones(3),
        lambda ctx, g: m.ones(1, 2),
        lambda ctx, g: m.ones(2, dtype=m.float64),
        lambda ctx, g: m.ones(2, dtype=m.int64),
        lambda ctx, g: m.ones(2, dtype=m.complex64),
        lambda ctx, g: m.ones(()),
        lambda ctx, g: m.ones(5, 2),
        lambda ctx, g: g.expand(3, 2),
        lambda ctx, g: m.ones(1),
        lambda ctx, g: m.ones(0),
        lambda ctx, g: m.ones(2, dtype=m.bool),
    ):
        F = fn(m, lambda ctx, a: a * 2, b)
        x.grad = None
        out.append((attempt(F.apply(x).sum().backward), x.grad))
    return out


@program
def nontensor_grad(m):
    x = leaf(m, 1.0, 2.0)
    F = fn(m, lambda ctx, a, k: a * k, lambda ctx, g: (g, g))
    G = fn(m, lambda ctx, a, k: a * k, lambda ctx, g: (g, 1))
    return (
        attempt(F.apply(x, 2).sum().backward),
        attempt(G.apply(x, 2).sum().backward),
        attempt(F.apply(x, m.ones(2)).sum().backward),
        x.grad,
    )


@program
def unimplemented(m):
    x = leaf(m, 1.0, 2.0)

    class A(m.autograd.Function):
        pass

    class B(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    class C(m.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    class D(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

        @staticmethod
        def vjp(ctx, g):
            return g

    class E(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, g):
            return g * 7

    return (
        attempt(A.apply, x),
        attempt(B.apply(x).sum().backward),
        attempt(C.apply, x),
        attempt(D.apply(x).sum().backward),
        attempt(E.apply(x).sum().backward),
        x.grad,
        attempt(
            B,
        ),
        attempt(lambda: B()(x)),
        attempt(lambda: B().apply(x)),
        attempt(B.apply),
        attempt(B.apply, 1),
        attempt(B.apply, x, x),
    )


@program
def legacy(m):
    x = leaf(m, 1.0, 2.0)

    class L(m.autograd.Function):
        def forward(self, x):
            return x * 2

        def backward(self, g):
            return g

    return attempt(lambda: L()(x)), attempt(lambda: L.apply(x)), attempt(L)


@program
def outputs(m):
    x = leaf(m, 1.0, 2.0)
    out = []
    for f in (
        lambda ctx, a: None,
        lambda ctx, a: 1,
        lambda ctx, a: (a * 2, None),
        lambda ctx, a: (a * 2, 1, "s"),
        lambda ctx, a: [a * 2],
        lambda ctx, a: {"a": a},
        lambda ctx, a: (),
        lambda ctx, a: ((a * 2,),),
        lambda ctx, a: (a * 2, [a * 3]),
    ):
        F = fn(m, f, lambda ctx, *g: g[0])
        out.append(attempt(lambda: F.apply(x)))
    return out


@program
def return_input(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 2
    F = fn(m, lambda ctx, a: a, lambda ctx, g: g * 5)
    o = F.apply(x)
    p = F.apply(y)
    q = F.apply(m.ones(2))
    o.sum().backward()
    return (
        o is x,
        o._is_view(),
        o._base is x,
        o.grad_fn.name(),
        p is y,
        p._is_view(),
        q._is_view(),
        x.grad,
        attempt(o.mul_, 2),
        attempt(p.mul_, 2),
    )


@program
def return_view(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 2
    F = fn(m, lambda ctx, a: a[:1], lambda ctx, g: m.cat([g, g]))
    o = F.apply(y)
    a = attempt(o.mul_, 2)
    G = fn(m, lambda ctx, a: (a[:1], a[1:]), lambda ctx, g, h: m.cat([g, h]))
    o2, _o3 = G.apply(y)
    b = attempt(o2.mul_, 2)
    with m.no_grad():
        c = attempt(F.apply(y).mul_, 2)
    return a, b, c, o._is_view(), o2._is_view(), o.grad_fn.name()


@program
def dirty(m):
    x = leaf(m, 1.0, 2.0)
    out = []

    def f(ctx, a):
        ctx.mark_dirty(a)
        return a.mul_(2)

    F = fn(m, f, lambda ctx, g: g * 2)
    out.append(attempt(F.apply, x))
    y = x * 1
    z = F.apply(y)
    out += [z is y, y._version, y.grad_fn.name()]
    z.sum().backward()
    out.append(x.grad)

    def f2(ctx, a):
        ctx.mark_dirty(a)
        a.mul_(2)
        return a * 1

    out.append(attempt(fn(m, f2, lambda ctx, g: g).apply, x * 1))

    def f3(ctx, a):
        a.mul_(2)
        return a

    out.append(attempt(fn(m, f3, lambda ctx, g: g).apply, x * 1))

    def f4(ctx, a):
        b = a * 2
        ctx.mark_dirty(b)
        return b

    out.append(attempt(fn(m, f4, lambda ctx, g: g).apply, x * 1))

    def f5(ctx, a):
        ctx.mark_dirty(a)
        return a.mul_(2), a * 1

    out.append(attempt(fn(m, f5, lambda ctx, g, h: g).apply, (x * 1)[:1]))
    base = x * 1
    v = base[:1]
    F.apply(v)
    base.sum().backward()
    out += [base.grad_fn.name(), x.grad]
    out.append(
        attempt(fn(m, lambda ctx, a: (ctx.mark_dirty(1), a)[1], lambda ctx, g: g).apply, x * 1)
    )
    with m.no_grad():
        out.append(attempt(F.apply, x))
    out.append(attempt(F.apply, m.ones(2)))
    return out


@program
def nondiff(m):
    x = leaf(m, 1.0, 2.0)
    log = []

    def f(ctx, a):
        i = a > 1
        s = a * 2
        ctx.mark_non_differentiable(i, s)
        return a * 3, i, s

    F = fn(
        m, f, lambda ctx, *g: (log.append([None if q is None else q.tolist() for q in g]), g[0])[1]
    )
    a, b, c = F.apply(x)
    a.sum().backward()
    out = [a.requires_grad, b.requires_grad, c.requires_grad, c.grad_fn is None, log, x.grad]

    def f2(ctx, a):
        ctx.mark_non_differentiable(a)
        return a

    o = fn(m, f2, lambda ctx, g: g).apply(x)
    out += [o is x, o.requires_grad, x.requires_grad]
    o = fn(m, lambda ctx, a: (ctx.mark_non_differentiable(1), a * 1)[1], lambda ctx, g: g)
    out.append(attempt(o.apply, x))

    def f4(ctx, a):
        b = a * 2
        ctx.mark_non_differentiable(b)
        return b

    o = fn(m, f4, lambda ctx, g: g).apply(x)
    out += [o.requires_grad, o.grad_fn]
    return out


@program
def materialize(m):
    x = leaf(m, 1.0, 2.0)
    log = []
    for flag in (True, False, None):

        def f(ctx, a):
            if flag is not None:
                ctx.set_materialize_grads(flag)
            return a * 2, a * 3, m.ones(3, dtype=m.int64)

        F = fn(
            m,
            f,
            lambda ctx, *g: (
                log.append([None if q is None else (q.tolist(), str(q.dtype)) for q in g]),
                g[0],
            )[1],
        )
        F.apply(x)[0].sum().backward()

    def refused(value):
        def f(ctx, a):
            ctx.set_materialize_grads(value)
            return a * 2

        return attempt(fn(m, f, lambda ctx, g: g).apply, x)

    def by_attribute(ctx, a):
        ctx.materialize_grads = 0
        return a * 2

    log += [refused(1), refused("a"), attempt(fn(m, by_attribute, lambda ctx, g: g).apply, x)]
    return log


@program
def ctx_things(m):
    x = leaf(m, 1.0, 2.0)
    log = []

    def f(ctx, a, b, c):
        log.append(
            (
                "fwd",
                ctx.needs_input_grad,
                m.is_grad_enabled(),
                a.requires_grad,
                type(ctx).__name__,
                ctx.name() if hasattr(ctx, "name") else None,
                ctx.to_save,
                ctx.non_differentiable,
                ctx.dirty_tensors,
                ctx.saved_for_forward,
                ctx.requires_grad,
            )
        )
        log.append(attempt(lambda: ctx.saved_tensors))
        log.append(attempt(lambda: ctx.next_functions))
        log.append(attempt(lambda: ctx.metadata))
        ctx.k = 3
        ctx.save_for_backward(a, None, b)
        log.append(attempt(lambda: ctx.saved_tensors))
        return a * b

    def b(ctx, g):
        log.append(
            (
                ctx.needs_input_grad,
                len(ctx.saved_tensors),
                ctx.saved_tensors[1],
                ctx.k,
                m.is_grad_enabled(),
                ctx.saved_tensors[0] is x,
                ctx.saved_tensors[0].requires_grad,
                len(ctx.next_functions),
                ctx.next_functions[0][1],
                [n and n.name() for n, _ in ctx.next_functions],
            )
        )
        log.append(attempt(lambda: len(ctx.saved_variables)))
        return g, None, None

    F = fn(m, f, b)
    o = F.apply(x, m.ones(2), 4)
    n = o.grad_fn
    log.append(
        (
            n.k,
            len(n.saved_tensors),
            n.name(),
            n.needs_input_grad,
            type(n).__mro__[1].__name__,
            len(n._raw_saved_tensors),
            isinstance(n, m.autograd.function.FunctionCtx),
            isinstance(n, m.autograd.graph.Node),
        )
    )
    o.sum().backward()
    log.append(attempt(lambda: n.saved_tensors))
    log.append(attempt(lambda: n._raw_saved_tensors))
    log.append(attempt(o.sum().backward))
    return log


@program
def save_wrong(m):
    x = leaf(m, 1.0, 2.0)
    out = []
    for s in (
        lambda c, a: c.save_for_backward(1),
        lambda c, a: c.save_for_backward([a]),
        lambda c, a: c.save_for_backward("a"),
        lambda c, a: setattr(c, "to_save", a),
        lambda c, a: setattr(c, "to_save", [a]),
        lambda c, a: (c.save_for_backward(a), c.save_for_backward(a * 2)),
        lambda c, a: c.save_for_forward(1),
        lambda c, a: c.save_for_forward(a, None),
    ):

        def f(ctx, a):
            s(ctx, a)
            return a * 2

        F = fn(m, f, lambda ctx, g: (out.append(ctx.saved_tensors), g)[1])
        out.append(attempt(lambda: F.apply(x).sum().backward()))
    return out


@program
def mark_shared(m):
    x = leaf(m, 1.0, 2.0)

    def f(ctx, a):
        ctx.mark_shared_storage((a, a))
        return a * 2

    return attempt(fn(m, f, lambda ctx, g: g).apply, x)


@program
def saved_output(m):
    x = leaf(m, 1.0, 2.0)

    def f(ctx, a):
        o = a.exp()
        ctx.save_for_backward(o)
        return o

    F = fn(m, f, lambda ctx, g: g * ctx.saved_tensors[0])
    o = F.apply(x)
    s = o.grad_fn.saved_tensors[0]
    (g,) = m.autograd.grad(o.sum(), x, create_graph=True)
    (h,) = m.autograd.grad(g.sum(), x)
    r = [s is o, s.grad_fn is o.grad_fn, g.detach(), h]
    o = F.apply(x)
    o.detach().mul_(2)
    r.append(attempt(o.sum().backward))
    o = F.apply(x)
    o2 = o * 1
    o.add_(1)
    r.append(attempt(o2.sum().backward))
    return r


@program
def saved_intermediate(m):
    x = leaf(m, 1.0, 2.0)

    def f(ctx, a):
        t = a * 2
        ctx.save_for_backward(a, t)
        return t.sin()

    def b(ctx, g):
        _a, t = ctx.saved_tensors
        return g * t.cos() * 2

    F = fn(m, f, b)
    o = F.apply(x)
    (g,) = m.autograd.grad(o.sum(), x, create_graph=True)
    return g.requires_grad, g.detach(), attempt(m.autograd.grad, g.sum(), x)


@program
def modified_saved(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 1

    def f(ctx, a):
        ctx.save_for_backward(a)
        return a * 2

    F = fn(m, f, lambda ctx, g: (ctx.saved_tensors, g)[1])
    o = F.apply(y)
    y.mul_(2)
    return attempt(o.sum().backward)


@program
def double_backward(m):
    x = leaf(m, 1.0, 2.0)

    def f(ctx, a):
        ctx.save_for_backward(a)
        return a**3

    def b(ctx, g):
        (a,) = ctx.saved_tensors
        return g * 3 * a**2

    F = fn(m, f, b)
    (g,) = m.autograd.grad(F.apply(x).sum(), x, create_graph=True)
    return g.detach(), m.autograd.grad(g.sum(), x)


@program
def once(m):
    x = leaf(m, 1.0, 2.0)
    od = m.autograd.function.once_differentiable

    def f(ctx, a):
        ctx.save_for_backward(a)
        return a**3

    def b(ctx, g):
        (a,) = ctx.saved_tensors
        return g * 3 * a**2

    F = fn(m, f, od(b))
    (g,) = m.autograd.grad(F.apply(x).sum(), x, create_graph=True)
    r = [g, g.grad_fn.name(), attempt(g.sum().backward), attempt(m.autograd.grad, g.sum(), x)]
    F2 = fn(m, lambda ctx, a, c: (a * 2, c * 3), od(lambda ctx, g, h: (g * 2, h * 3)))
    y = leaf(m, 1.0)
    a, c = F2.apply(x, y)
    gs = m.autograd.grad(a.sum() + c.sum(), [x, y], create_graph=True)
    r += [q.grad_fn and q.grad_fn.name() for q in gs]
    F3 = fn(m, lambda ctx, a, k: a * 2, od(lambda ctx, g: (g * 2, None)))
    (g,) = m.autograd.grad(F3.apply(x, 1).sum(), x, create_graph=True)
    r.append(g)
    (g,) = m.autograd.grad(F3.apply(x, 1), x, m.ones(2, requires_grad=True), create_graph=True)
    r.append((g, g.grad_fn and g.grad_fn.name(), attempt(g.sum().backward)))
    (g,) = m.autograd.grad(F3.apply(x, 1).sum(), x)
    r.append(g)
    return r


@program
def traceable(m):
    T = m.autograd.function.traceable if hasattr(m.autograd.function, "traceable") else None

    class F(m.autograd.Function):
        pass

    return (
        T and attempt(T, F),
        getattr(F, "is_traceable", "none"),
        F.generate_vmap_rule,
        F.clear_saved_tensors_on_access,
        F.boxed_grads_call,
    )


@program
def nested_io(m):
    N = m.autograd.NestedIOFunction
    x = leaf(m, 1.0, 2.0)
    y = leaf(m, 3.0, 4.0)

    class F(N):
        @staticmethod
        def forward_extended(self, *a):
            return a

        @staticmethod
        def backward_extended(self, *a):
            return a

    log = []
    log += [
        attempt(lambda: F()),
        attempt(lambda: F.apply(x)),
        attempt(lambda: F.apply((x, [y], {"a": 1}))),
    ]
    return (
        log,
        hasattr(N, "_do_forward"),
        attempt(lambda: N().forward_extended(1)),
        attempt(lambda: N().backward_extended(1)),
        attempt(lambda: N.forward_extended(1, 2)),
    )


@program
def inplace_function(m):
    Inplace = m.autograd.function.InplaceFunction

    class F(Inplace):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(m, 1.0, 2.0)
    o = F.apply(x)
    o.sum().backward()
    return x.grad, attempt(lambda: F(inplace=True).inplace), attempt(lambda: F()), o.grad_fn.name()


@program
def meta(m):
    M = m.autograd.function.FunctionMeta
    B = m.autograd.function.BackwardCFunction

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    n = F.apply(leaf(m, 1.0)).grad_fn
    return (
        type(F) is M,
        isinstance(n, B),
        F._backward_cls.__name__,
        F._backward_cls._forward_cls is F,
        type(n) is F._backward_cls,
        issubclass(F._backward_cls, B),
        type(n).__module__,
        repr(n)[:40],
        attempt(n.apply, m.ones(1)),
        hasattr(n, "_compiled_autograd_key"),
    )


@program
def call_node(m):
    F = fn(m, lambda ctx, a: a * 2, lambda ctx, g: g * 2)
    n = F.apply(leaf(m, 1.0)).grad_fn
    k = leaf(m, 1.0).exp().grad_fn
    with m.no_grad():
        plain = k(m.ones(1))
    return (
        plain,
        attempt(n, m.ones(1)),
        attempt(n),
        attempt(k),
        attempt(n, m.ones(1), m.ones(1)),
        attempt(k, 1),
        attempt(k, None),
        attempt(leaf(m, 1.0).sum().grad_fn, m.ones(())),
        attempt(n, None),
    )


@program
def kwargs_apply(m):
    F = fn(m, lambda ctx, a, k=3: a * k, lambda ctx, g: (g, None))
    x = leaf(m, 1.0)
    return (
        attempt(F.apply, x, k=2),
        attempt(F.apply, a=x),
        attempt(lambda: F.apply(x)),
        attempt(F.apply(x, 2).backward),
        attempt(lambda: F.apply(x).backward()),
    )


@program
def setup_ctx(m):
    x = leaf(m, 1.0, 2.0)
    log = []

    class F(m.autograd.Function):
        @staticmethod
        def forward(a, k):
            log.append(m.is_grad_enabled())
            return a * k, a + 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            log.append(
                (
                    len(inputs),
                    inputs[0] is x,
                    type(output).__name__,
                    inputs[1],
                    m.is_grad_enabled(),
                    output[0].requires_grad,
                )
            )
            ctx.k = inputs[1]
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx, g, h):
            return g * ctx.k, None

    a, b = F.apply(x, 3)
    (a.sum() + b.sum()).backward()
    return log, x.grad


@program
def setup_ctx_wrong(m):
    x = leaf(m, 1.0, 2.0)

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a

        @staticmethod
        def setup_context(ctx, inputs, output):
            return 3

        @staticmethod
        def backward(ctx, g):
            return g

    class G(m.autograd.Function):
        @staticmethod
        def forward(a):
            return a * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            return 3

        @staticmethod
        def backward(ctx, g):
            return g

    return attempt(F.apply, x), attempt(G.apply, x)


@program
def vmap_static(m):
    x = leaf(m, 1.0, 2.0)

    class F(m.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(a):
            return a * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g

    class G(F):
        @staticmethod
        def vmap(info, in_dims, a):
            return a * 2, 0

    return (
        attempt(F.apply, x),
        attempt(G.apply, x),
        attempt(F.vmap, 1, 2),
        attempt(m.autograd.Function.vmap, 1, 2, 3),
        F.generate_vmap_rule,
    )


@program
def boxed(m):
    x = leaf(m, 1.0, 2.0)
    log = []

    class F(m.autograd.Function):
        boxed_grads_call = True

        @staticmethod
        def forward(ctx, a):
            return a * 2, a * 3

        @staticmethod
        def backward(ctx, *g):
            log.append((len(g), type(g[0]).__name__, len(g[0]) if isinstance(g[0], list) else None))
            gs = g[0]
            a = gs[0] * 2
            gs.clear()
            return a

    a, b = F.apply(x)
    return attempt((a.sum() + b.sum()).backward), x.grad, log


@program
def clear_saved(m):
    x = leaf(m, 1.0, 2.0)
    log = []

    class F(m.autograd.Function):
        clear_saved_tensors_on_access = True

        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * 2

        @staticmethod
        def backward(ctx, g):
            log.append(attempt(lambda: len(ctx.saved_tensors)))
            log.append(attempt(lambda: len(ctx.saved_tensors)))
            return g

    o = F.apply(x)
    r = [
        attempt(o.sum().backward, retain_graph=True),
        attempt(o.sum().backward, retain_graph=True),
        attempt(o.sum().backward),
    ]
    o = F.apply(x)
    r += [
        attempt(lambda: len(o.grad_fn.saved_tensors)),
        attempt(lambda: len(o.grad_fn.saved_tensors)),
        attempt(lambda: F.apply(x).grad_fn.maybe_clear_saved_tensors()),
    ]
    return r, log


@program
def reentrant_fn(m):
    x = leaf(m, 1.0, 2.0)

    def f(ctx, a):
        with m.enable_grad():
            ctx.x = a.detach().requires_grad_()
            ctx.y = ctx.x**2
        return ctx.y.detach()

    def b(ctx, g):
        return m.autograd.grad(ctx.y, ctx.x, g)[0]

    F = fn(m, f, b)
    F.apply(F.apply(x)).sum().backward()
    return x.grad


@program
def deep(m):
    x = leaf(m, 1.0)

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, a, n):
            ctx.n = n
            ctx.save_for_backward(a)
            return a.clone()

        @staticmethod
        def backward(ctx, g):
            if ctx.n == 0:
                return g, None
            with m.enable_grad():
                a = ctx.saved_tensors[0].detach().requires_grad_()
                F.apply(a, ctx.n - 1).sum().backward()
            return a.grad * g, None

    F.apply(x, 150).sum().backward()
    return x.grad


@program
def raising(m):
    x = leaf(m, 1.0)

    class My(Exception):
        pass

    def b(ctx, g):
        raise My("a", 1)

    o = fn(m, lambda ctx, a: a * 2, b).apply(x)
    try:
        o.backward()
    except My as e:
        r = e.args

    def f(ctx, a):
        raise My("f")

    try:
        fn(m, f, b).apply(x)
    except My as e:
        r2 = e.args
    return r, r2, m.is_grad_enabled(), (x * 2).backward(), x.grad


@program
def complexfn(m):
    x = m.tensor([1 + 1j, 2.0], requires_grad=True)
    F = fn(m, lambda ctx, a: a.real, lambda ctx, g: g * (1 + 2j))
    G = fn(m, lambda ctx, a: a * 2, lambda ctx, g: g.real)
    r = leaf(m, 1.0)
    H = fn(m, lambda ctx, a: a * (1 + 1j), lambda ctx, g: g)
    return (
        attempt(F.apply(x).sum().backward),
        x.grad,
        attempt(lambda: G.apply(x).backward(m.ones(2, dtype=m.complex64))),
        x.grad,
        attempt(lambda: H.apply(r).backward(m.ones(1, dtype=m.complex64))),
        r.grad,
    )


@program
def same_twice(m):
    x = leaf(m, 1.0, 2.0)
    F = fn(m, lambda ctx, a, b: (a, b), lambda ctx, g, h: (g * 2, h * 3))
    a, b = F.apply(x, x)
    (a * 5 + b).sum().backward()
    G = fn(m, lambda ctx, a: (lambda t: (t, t))(a * 2), lambda ctx, g, h: g * 2 + h * 3)
    r = attempt(lambda: G.apply(x))
    c, d = G.apply(x)
    g = m.autograd.grad((c + d * 7).sum(), x)
    return x.grad, a is b, c is d, r, g


@program
def undefined_edge(m):
    x = leaf(m, 1.0, 2.0)
    z = m.ones(2)
    log = []
    F = fn(m, lambda ctx, a, b: a * b, lambda ctx, g: (log.append(ctx.needs_input_grad), g, g)[1:])
    o = F.apply(x, z)
    o.sum().backward()
    return log, z.grad, x.grad, o.grad_fn.next_functions[1]


@program
def nograd_apply(m):
    x = leaf(m, 1.0, 2.0)
    log = []

    def f(ctx, a):
        log.append(ctx.needs_input_grad)
        return a * 2

    F = fn(m, f, lambda ctx, g: g)
    with m.no_grad():
        o = F.apply(x)
    with m.inference_mode():
        p = F.apply(x)
    return o.requires_grad, o.grad_fn, p.is_inference(), log, F.apply(m.ones(2)).requires_grad


@program
def ctx_attr(m):
    x = leaf(m, 1.0)
    log = []

    def f(ctx, a):
        ctx.foo = a
        log.append(attempt(lambda: ctx.nope))
        log.append(attempt(lambda: setattr(ctx, "needs_input_grad", (False,))))
        del ctx.foo
        return a * 2

    F = fn(m, f, lambda ctx, g: g)
    F.apply(x)
    return log
