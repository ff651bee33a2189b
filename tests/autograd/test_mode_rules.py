"""Grad modes, inference tensors, decorators and threads, compared with torch."""
# ruff: noqa: B023 - what the loops define is called within the same turn

import asyncio
import inspect
import threading
import warnings

from tests.autograd.programs import attempt, leaf
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


@program
def inf_rules(m):
    x = leaf(m, 1.0, 2.0)
    with m.inference_mode():
        i = m.ones(2)
        v = i.view(1, 2)
        k = x * 2
        xv = x[:1]
    n = m.ones(2)
    return [
        i.is_inference(),
        v.is_inference(),
        k.is_inference(),
        xv.is_inference(),
        k.requires_grad,
        xv.requires_grad,
        attempt(lambda: i._version),
        attempt(lambda: x * i),
        attempt(lambda: i.add_(1)),
        attempt(lambda: n.add_(i)),
        attempt(lambda: i.requires_grad_()),
        attempt(lambda: setattr(i, "requires_grad", True)),
        attempt(lambda: i.view(1, 2).is_inference()),
        attempt(lambda: (i + 1).is_inference()),
        attempt(lambda: i.detach().is_inference()),
        attempt(lambda: i.clone().is_inference()),
        attempt(lambda: x.add_(i)),
        attempt(lambda: n.copy_(i)),
        attempt(lambda: i.backward()),
        attempt(lambda: v.add_(1)),
        attempt(lambda: i[0].is_inference()),
    ]


@program
def inf_rules2(m):
    x = leaf(m, 1.0, 2.0)
    n = m.ones(2)
    y = x * 1
    out = []
    with m.inference_mode():
        out += [
            attempt(lambda: n.add_(1)),
            n._version,
            attempt(lambda: y.add_(1)),
            attempt(lambda: x.add_(1)),
            attempt(lambda: n.view(2).is_inference()),
            attempt(lambda: n.view(2).add_(1)),
            n._version,
            attempt(lambda: (y * 2).sum().backward()),
            attempt(lambda: y.requires_grad),
            attempt(lambda: y.detach().is_inference()),
            m.is_grad_enabled(),
            m.is_inference_mode_enabled(),
        ]
        with m.enable_grad():
            out += [m.is_grad_enabled(), (x * 2).requires_grad, (x * 2).is_inference()]
        with m.inference_mode(False):
            out += [m.is_grad_enabled(), (x * 2).requires_grad, (x * 2).is_inference(), m.ones(2).is_inference()]
        with m.no_grad():
            out += [m.ones(1).is_inference()]
        i = m.ones(2)
        out.append(attempt(i.requires_grad_))
        out.append(i.requires_grad)
        out.append(attempt(lambda: i.sum().backward()))
        out.append(attempt(lambda: i.add_(1)))
        out.append(attempt(lambda: i._version))
        out.append(attempt(lambda: i.data.is_inference()))
    out.append(attempt(lambda: y.sum().backward()))
    out.append(x.grad)
    return out


@program
def inf_view_of_normal(m):
    b = leaf(m, 1.0, 2.0) * 1
    with m.inference_mode():
        v = b[:1]
    return (
        attempt(lambda: v.add_(1)),
        attempt(lambda: v * 2),
        attempt(lambda: v.requires_grad),
        v._is_view(),
        attempt(lambda: v.grad_fn),
        attempt(lambda: b.add_(1)),
        attempt(lambda: v.is_inference()),
        attempt(lambda: v._version),
        attempt(lambda: v.clone().add_(1)),
        attempt(lambda: v.view(1).add_(2)),
    )


@program
def inf_leafview(m):
    b = leaf(m, 1.0, 2.0)
    with m.inference_mode():
        v = b[:1]
    return attempt(lambda: v.add_(1)), attempt(lambda: (v * 2).requires_grad)


@program
def inf_saved(m):
    x = leaf(m, 1.0, 2.0)
    with m.inference_mode():
        i = m.ones(2)
    return (
        attempt(lambda: x * i),
        attempt(lambda: x + i),
        attempt(lambda: (x + i).sum().backward()),
        x.grad,
        attempt(lambda: x.mul(i)),
        attempt(lambda: m.cat([x, i])),
        attempt(lambda: x.matmul(i)),
        attempt(lambda: m.where(i > 0, x, x)),
        attempt(lambda: x[i.long()]),
        attempt(lambda: x.index_select(0, i.long())),
    )


@program
def inf_function(m):
    with m.inference_mode():
        i = m.ones(2)

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, g):
            return g, g

    x = leaf(m, 1.0, 2.0)
    return attempt(lambda: F.apply(x, i)), attempt(lambda: F.apply(i, i).requires_grad)


@program
def inf_decor(m):
    @m.inference_mode()
    def f(x):
        return x * 2

    @m.inference_mode
    def g(x):
        return x * 2

    @m.inference_mode(False)
    def h(x):
        return x * 2

    @m.inference_mode(mode=True)
    def k(x):
        return x * 2

    x = leaf(m, 1.0)
    return (
        [q(x).is_inference() for q in (f, g, h, k)],
        f.__name__,
        g.__name__,
        callable(m.inference_mode(1)),
        repr(m.inference_mode(True).mode),
        m.inference_mode(False).clone().mode,
    )


@program
def inf_state(m):
    c = m.inference_mode()
    a = m.is_inference_mode_enabled()
    c.__enter__()
    b = m.is_inference_mode_enabled()
    c.__exit__(None, None, None)
    c2 = m.inference_mode(False)
    with c2:
        d = m.is_inference_mode_enabled(), m.is_grad_enabled()
    with m.no_grad():
        with m.inference_mode(False):
            e = m.is_grad_enabled()
        f = m.is_grad_enabled()
    with m.inference_mode():
        m.set_grad_enabled(True)
        g = m.is_grad_enabled()
    h = m.is_grad_enabled()
    return a, b, d, e, f, g, h


@program
def decor_fn(m):
    out = []
    for M in (m.no_grad, m.enable_grad):

        @M()
        def f(x):
            "doc"
            return m.is_grad_enabled()

        @M
        def g(x):
            return m.is_grad_enabled()

        out += [f(1), g(1), f.__name__, f.__doc__, m.is_grad_enabled(), f.__wrapped__.__name__]

    @m.set_grad_enabled(False)
    def h():
        return m.is_grad_enabled()

    out += [m.is_grad_enabled(), h(), m.is_grad_enabled()]

    @m.set_grad_enabled(mode=True)
    def k():
        return m.is_grad_enabled()

    with m.no_grad():
        out += [k(), m.is_grad_enabled()]
    return out


@program
def decor_gen(m):
    log = []

    @m.no_grad()
    def g(n):
        try:
            for i in range(n):
                s = yield (i, m.is_grad_enabled())
                log.append((s, m.is_grad_enabled()))
        except ValueError:
            log.append(("caught", m.is_grad_enabled()))
            yield "after"
        finally:
            log.append(("fin", m.is_grad_enabled()))
        return "ret"

    it = g(3)
    a = next(it)
    log.append(m.is_grad_enabled())
    b = it.send("x")
    c = it.throw(ValueError())
    try:
        next(it)
    except StopIteration as e:
        log.append(("stop", e.value))
    it = g(3)
    next(it)
    it.close()
    log.append("closed")
    return a, b, c, log, m.is_grad_enabled(), inspect.isgeneratorfunction(g), list(g(2))


@program
def decor_gen_inference(m):
    @m.inference_mode()
    def g():
        for _i in range(2):
            yield m.ones(1).is_inference(), m.is_inference_mode_enabled()

    return list(g()), m.is_inference_mode_enabled()


@program
def decor_gen_attempt(m):
    @m.no_grad()
    def g():
        yield 1
        raise KeyError("k")

    it = g()
    next(it)
    return attempt(lambda: next(it)), attempt(lambda: next(it)), m.is_grad_enabled()


@program
def decor_coroutine(m):
    @m.no_grad()
    async def f():
        a = m.is_grad_enabled()
        await asyncio.sleep(0)
        return a, m.is_grad_enabled()

    c = f()
    r = asyncio.run(c)
    return r, inspect.iscoroutinefunction(f), m.is_grad_enabled()


@program
def decor_asyncgen(m):
    @m.no_grad()
    async def f():
        yield m.is_grad_enabled()
        yield m.is_grad_enabled()

    async def main():
        return [x async for x in f()]

    return asyncio.run(main()), inspect.isasyncgenfunction(f), m.is_grad_enabled()


@program
def decor_class(m):
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("always")

        @m.no_grad()
        class A:
            def __init__(self):
                self.g = m.is_grad_enabled()

            def f(self):
                return m.is_grad_enabled()

        @m.no_grad
        class B:
            def f(self):
                return m.is_grad_enabled()

        @m.inference_mode()
        class C:
            def __init__(self):
                self.g = m.is_inference_mode_enabled()

    a = A()
    return (
        a.g,
        a.f(),
        type(A).__name__,
        B().f(),
        C().g,
        [(x.category.__name__, str(x.message)) for x in w],
        A.__name__,
    )


@program
def decor_method(m):
    class A:
        @m.no_grad()
        def f(self):
            return m.is_grad_enabled()

        @staticmethod
        @m.no_grad()
        def g():
            return m.is_grad_enabled()

        @classmethod
        @m.no_grad()
        def h(cls):
            return m.is_grad_enabled()

        @property
        @m.no_grad()
        def p(self):
            return m.is_grad_enabled()

    a = A()
    return a.f(), a.g(), a.h(), a.p


@program
def decor_bad(m):
    return (
        attempt(lambda: m.no_grad(None)),
        attempt(lambda: m.set_grad_enabled()),
        attempt(lambda: m.set_grad_enabled(1)),
        attempt(lambda: m.set_grad_enabled("a")),
        attempt(lambda: m.set_grad_enabled(None)),
        attempt(lambda: m.set_multithreading_enabled(1)) if hasattr(m, "set_multithreading_enabled") else None,
        attempt(lambda: m.autograd.set_multithreading_enabled(1)),
        attempt(m.no_grad, 1, 2),
    )


@program
def ctx_reuse(m):
    c = m.no_grad()
    out = []
    with c:
        out.append(m.is_grad_enabled())
        with m.enable_grad():
            out.append(m.is_grad_enabled())
        out.append(m.is_grad_enabled())
    with c:
        out.append(m.is_grad_enabled())
    out.append(m.is_grad_enabled())
    out.append(c.prev)
    s = m.set_grad_enabled(False)
    out.append(m.is_grad_enabled())
    out.append((s.prev, s.mode))
    with s:
        out.append(m.is_grad_enabled())
    out.append(m.is_grad_enabled())
    out.append(repr(s))
    out.append(str(s))
    out.append(s.clone().prev)
    m.set_grad_enabled(True)
    with m.no_grad() as r:
        out.append(r)
    return out


@program
def thread_local(m):
    out = []

    def t():
        out.append(
            (
                m.is_grad_enabled(),
                m.is_inference_mode_enabled(),
                m.is_anomaly_enabled(),
                m.autograd.forward_ad._current_level,
            )
        )

    with m.no_grad():
        th = threading.Thread(target=t)
        th.start()
        th.join()
    with m.inference_mode():
        th = threading.Thread(target=t)
        th.start()
        th.join()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with m.autograd.detect_anomaly():
            th = threading.Thread(target=t)
            th.start()
            th.join()
    return out


@program
def thread_hooks(m):
    out = []
    x = leaf(m, 1.0)

    def t():
        out.append("in")
        y = x.exp()
        y.sum().backward()

    with m.autograd.graph.saved_tensors_hooks(lambda t: (out.append("pack"), t)[1], lambda t: t):
        th = threading.Thread(target=t)
        th.start()
        th.join()
    return out, x.grad


@program
def mt(m):
    S = m.autograd.set_multithreading_enabled
    is_on = m.autograd.is_multithreading_enabled
    a = is_on()
    s = S(False)
    b = is_on()
    s.__exit__(None, None, None)
    c = is_on()
    with S(False) as r:
        d = is_on(), r
    e = is_on()

    @S(False)
    def f():
        return is_on()

    return a, b, c, d, e, f(), is_on(), S(True).clone().mode, S(True).prev


@program
def unsafe_bwd(m):
    U = m.autograd.grad_mode._unsafe_preserve_version_counter
    x = leaf(m, 1.0, 2.0)
    w = m.ones(2)
    y = x * w
    with U(w):
        w.mul_(5)
    y.sum().backward()
    return x.grad


@program
def many_threads_shared(m):
    x = m.ones(50, requires_grad=True)

    def t():
        for _ in range(20):
            (x * 2).sum().backward()

    ts = [threading.Thread(target=t) for _ in range(6)]
    [q.start() for q in ts]
    [q.join() for q in ts]
    return x.grad[:3]


@program
def many_threads_shared_graph(m):
    x = m.ones(5, requires_grad=True)
    y = (x * 2).exp().log()
    ex = []

    def t():
        try:
            y.sum().backward(retain_graph=True)
        except Exception as e:
            ex.append(e)

    ts = [threading.Thread(target=t) for _ in range(8)]
    [q.start() for q in ts]
    [q.join() for q in ts]
    return x.grad, ex


@program
def threads_hooks(m):
    x = m.ones(3, requires_grad=True)
    n = [0]
    L = threading.Lock()

    def h(g):
        with L:
            n[0] += 1

    x.register_hook(h)

    def t():
        for _ in range(10):
            (x * 2).sum().backward()

    ts = [threading.Thread(target=t) for _ in range(4)]
    [q.start() for q in ts]
    [q.join() for q in ts]
    return x.grad, n


@program
def no_grad_rules(m):
    x = leaf(m, 1.0, 2.0)
    with m.no_grad():
        p = m.ones(2, requires_grad=True)
        y = x * 2
        v = x[:1]
        y.requires_grad_()
        d = m.zeros_like(x)
        q = x.view(2)
        r = attempt(lambda: x.add_(1))
    return (
        p.requires_grad,
        p.is_leaf,
        y.requires_grad,
        y.is_leaf,
        v.requires_grad,
        v._is_view(),
        d.requires_grad,
        q.requires_grad,
        r,
        x._version,
        attempt(lambda: v.mul_(2).shape),
        attempt(lambda: v.requires_grad_().shape),
        (y * 2).grad_fn.name(),
    )


@program
def no_grad_view_inplace(m):
    b = leaf(m, 1.0, 2.0) * 1
    with m.no_grad():
        v = b[:1]
    a = attempt(lambda: v.mul_(2))
    with m.no_grad():
        w = b.view(2)
        s = b.split(1)
    return a, attempt(lambda: w.mul_(3)), attempt(lambda: s[0].mul_(2)), v.requires_grad


@program
def nogradmulti(m):
    out = []
    for f in (
        lambda b: b.split(1),
        lambda b: b.unbind(),
        lambda b: b.chunk(2),
        lambda b: b.split([1, 1]),
        lambda b: b.tensor_split(2),
        lambda b: m.unbind(b),
        lambda b: [b[0:1]],
        lambda b: m.split(b, 1),
        lambda b: b.hsplit(2),
    ):
        b = leaf(m, 1.0, 2.0) * 1
        with m.no_grad():
            s = f(b)
        out.append(attempt(lambda: s[0].mul_(2)))
        b = leaf(m, 1.0, 2.0) * 1
        s = f(b)
        out.append(attempt(lambda: s[0].mul_(2)))
        b = leaf(m, 1.0, 2.0)
        with m.no_grad():
            s = f(b)
        out.append(attempt(lambda: s[0].mul_(2)))
        b = m.ones(2)
        s = f(b)
        out.append(attempt(lambda: s[0].mul_(leaf(m, 2.0))))
        with m.no_grad():
            s = f(b)
        out.append(attempt(lambda: s[0].mul_(leaf(m, 2.0))))
        b = leaf(m, 1.0, 2.0) * 1
        with m.inference_mode():
            s = f(b)
        out.append(attempt(lambda: s[0].mul_(2)))
        b = leaf(m, 1.0, 2.0) * 1
        with m.no_grad():
            s = f(b)
        v = s[0].view(-1)
        out.append(attempt(lambda: v.mul_(2)))
        s = f(b)
        v = s[0].view(-1)
        out.append(attempt(lambda: v.mul_(2)))
        with m.no_grad():
            v = f(b)[0].view(-1)
        out.append(attempt(lambda: v.mul_(2)))
        b.mul_(2)
        out.append(attempt(lambda: v.grad_fn))
        out.append(attempt(lambda: s[0].grad_fn))
    return out


@program
def module_of_modes(m):
    modes = m.autograd.grad_mode
    names = ("no_grad", "enable_grad", "set_grad_enabled", "inference_mode")
    return [getattr(modes, name) is getattr(m, name) for name in names], sorted(modes.__all__)


@program
def inference_parameters(m):
    with m.inference_mode():
        i = m.ones(2)
        inside = attempt(lambda: m.nn.Parameter(i).is_inference())
    return (
        inside,
        attempt(m.nn.Parameter, i),
        attempt(lambda: m.nn.Parameter(i, requires_grad=False).is_inference()),
        attempt(m.Tensor._make_subclass, m.Tensor, i, True),
        attempt(lambda: m.nn.Parameter(i.clone()).requires_grad),
    )
