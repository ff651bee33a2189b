"""What a Function may return, save and mark, and what its node answers, compared with torch."""
# ruff: noqa: B023 - what the loops define is called within the same turn

from tests.autograd.functions import function
from tests.autograd.programs import attempt, leaf
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


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
        F = function(m, lambda ctx, a, b: a * b, b)
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
        F = function(m, lambda ctx, a: a * 2, b)
        x.grad = None
        out.append((attempt(F.apply(x).sum().backward), x.grad))
    return out


@program
def nontensor_grad(m):
    x = leaf(m, 1.0, 2.0)
    F = function(m, lambda ctx, a, k: a * k, lambda ctx, g: (g, g))
    G = function(m, lambda ctx, a, k: a * k, lambda ctx, g: (g, 1))
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
        attempt(B),
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
        F = function(m, f, lambda ctx, *g: g[0])
        out.append(attempt(lambda: F.apply(x)))
    return out


@program
def return_input(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 2
    F = function(m, lambda ctx, a: a, lambda ctx, g: g * 5)
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


@program.raises
def return_view(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 2
    F = function(m, lambda ctx, a: a[:1], lambda ctx, g: m.cat([g, g]))
    o = F.apply(y)
    a = attempt(o.mul_, 2)
    G = function(m, lambda ctx, a: (a[:1], a[1:]), lambda ctx, g, h: m.cat([g, h]))
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

    F = function(m, f, lambda ctx, g: g * 2)
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

    out.append(attempt(function(m, f2, lambda ctx, g: g).apply, x * 1))

    def f3(ctx, a):
        a.mul_(2)
        return a

    out.append(attempt(function(m, f3, lambda ctx, g: g).apply, x * 1))

    def f4(ctx, a):
        b = a * 2
        ctx.mark_dirty(b)
        return b

    out.append(attempt(function(m, f4, lambda ctx, g: g).apply, x * 1))

    def f5(ctx, a):
        ctx.mark_dirty(a)
        return a.mul_(2), a * 1

    out.append(attempt(function(m, f5, lambda ctx, g, h: g).apply, (x * 1)[:1]))
    base = x * 1
    v = base[:1]
    F.apply(v)
    base.sum().backward()
    out += [base.grad_fn.name(), x.grad]
    out.append(attempt(function(m, lambda ctx, a: (ctx.mark_dirty(1), a)[1], lambda ctx, g: g).apply, x * 1))
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

    F = function(m, f, lambda ctx, *g: (log.append([None if q is None else q.tolist() for q in g]), g[0])[1])
    a, b, c = F.apply(x)
    a.sum().backward()
    out = [a.requires_grad, b.requires_grad, c.requires_grad, c.grad_fn is None, log, x.grad]

    def f2(ctx, a):
        ctx.mark_non_differentiable(a)
        return a

    o = function(m, f2, lambda ctx, g: g).apply(x)
    out += [o is x, o.requires_grad, x.requires_grad]
    o = function(m, lambda ctx, a: (ctx.mark_non_differentiable(1), a * 1)[1], lambda ctx, g: g)
    out.append(attempt(o.apply, x))

    def f4(ctx, a):
        b = a * 2
        ctx.mark_non_differentiable(b)
        return b

    o = function(m, f4, lambda ctx, g: g).apply(x)
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

        F = function(
            m, f, lambda ctx, *g: (log.append([None if q is None else (q.tolist(), str(q.dtype)) for q in g]), g[0])[1]
        )
        F.apply(x)[0].sum().backward()

    def refused(value):
        def f(ctx, a):
            ctx.set_materialize_grads(value)
            return a * 2

        return attempt(function(m, f, lambda ctx, g: g).apply, x)

    def by_attribute(ctx, a):
        ctx.materialize_grads = 0
        return a * 2

    log += [refused(1), refused("a"), attempt(function(m, by_attribute, lambda ctx, g: g).apply, x)]
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

    F = function(m, f, b)
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

        F = function(m, f, lambda ctx, g: (out.append(ctx.saved_tensors), g)[1])
        out.append(attempt(lambda: F.apply(x).sum().backward()))
    return out


@program
def mark_shared(m):
    x = leaf(m, 1.0, 2.0)

    def f(ctx, a):
        ctx.mark_shared_storage((a, a))
        return a * 2

    return attempt(function(m, f, lambda ctx, g: g).apply, x)


@program
def saved_output(m):
    x = leaf(m, 1.0, 2.0)

    def f(ctx, a):
        o = a.exp()
        ctx.save_for_backward(o)
        return o

    F = function(m, f, lambda ctx, g: g * ctx.saved_tensors[0])
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

    F = function(m, f, b)
    o = F.apply(x)
    (g,) = m.autograd.grad(o.sum(), x, create_graph=True)
    return g.requires_grad, g.detach(), attempt(m.autograd.grad, g.sum(), x)
