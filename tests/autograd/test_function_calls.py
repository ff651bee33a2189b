"""How a Function is called, nested, set up and asked about its node, compared with torch."""

from tests.autograd.functions import function
from tests.autograd.programs import attempt, leaf
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


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

    F = function(m, f, od(b))
    (g,) = m.autograd.grad(F.apply(x).sum(), x, create_graph=True)
    r = [g, g.grad_fn and g.grad_fn.name(), attempt(g.sum().backward), attempt(m.autograd.grad, g.sum(), x)]
    F2 = function(m, lambda ctx, a, c: (a * 2, c * 3), od(lambda ctx, g, h: (g * 2, h * 3)))
    y = leaf(m, 1.0)
    a, c = F2.apply(x, y)
    gs = m.autograd.grad(a.sum() + c.sum(), [x, y], create_graph=True)
    r += [q.grad_fn and q.grad_fn.name() for q in gs]
    F3 = function(m, lambda ctx, a, k: a * 2, od(lambda ctx, g: (g * 2, None)))
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
    log += [attempt(lambda: F()), attempt(lambda: F.apply(x)), attempt(lambda: F.apply((x, [y], {"a": 1})))]
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
    F = function(m, lambda ctx, a: a * 2, lambda ctx, g: g * 2)
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
    F = function(m, lambda ctx, a: a * 2, lambda ctx, g: g * 2)
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
    F = function(m, lambda ctx, a, k=3: a * k, lambda ctx, g: (g, None))
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
def results_that_are_the_same_for_every_example(m):
    kept = []

    class F(m.autograd.Function):
        @staticmethod
        def forward(x):
            return m.ones(3) * 5, x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g, h):
            return h * 2

        @staticmethod
        def vmap(info, in_dims, x):
            return (m.ones(3) * 5, x * 2), (None, in_dims[0])

    def f(x):
        same, own = F.apply(x)
        kept.append(same)
        return (same * own).sum(), same

    outs = m.func.vmap(f)(m.arange(4.0)), m.func.vmap(f, out_dims=(0, None))(m.arange(4.0))
    slopes = m.func.grad(lambda x: m.func.vmap(f)(x)[0].sum())(m.arange(4.0))
    return outs, slopes, kept[0].tolist(), (kept[1] * 2).sum().item()


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

    o = function(m, lambda ctx, a: a * 2, b).apply(x)
    try:
        o.backward()
    except My as e:
        r = e.args

    def f(ctx, a):
        raise My("f")

    try:
        function(m, f, b).apply(x)
    except My as e:
        r2 = e.args
    return r, r2, m.is_grad_enabled(), (x * 2).backward(), x.grad


@program
def complexfn(m):
    x = m.tensor([1 + 1j, 2.0], requires_grad=True)
    F = function(m, lambda ctx, a: a.real, lambda ctx, g: g * (1 + 2j))
    G = function(m, lambda ctx, a: a * 2, lambda ctx, g: g.real)
    r = leaf(m, 1.0)
    H = function(m, lambda ctx, a: a * (1 + 1j), lambda ctx, g: g)
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
    F = function(m, lambda ctx, a, b: (a, b), lambda ctx, g, h: (g * 2, h * 3))
    a, b = F.apply(x, x)
    (a * 5 + b).sum().backward()
    G = function(m, lambda ctx, a: (lambda t: (t, t))(a * 2), lambda ctx, g, h: g * 2 + h * 3)
    r = attempt(lambda: G.apply(x))
    c, d = G.apply(x)
    g = m.autograd.grad((c + d * 7).sum(), x)
    return x.grad, a is b, c is d, r, g


@program
def undefined_edge(m):
    x = leaf(m, 1.0, 2.0)
    z = m.ones(2)
    log = []
    F = function(m, lambda ctx, a, b: a * b, lambda ctx, g: (log.append(ctx.needs_input_grad), g, g)[1:])
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

    F = function(m, f, lambda ctx, g: g)
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

    F = function(m, f, lambda ctx, g: g)
    F.apply(x)
    return log
