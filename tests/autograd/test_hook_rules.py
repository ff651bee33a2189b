"""Order, replacement, removal and failure of hooks, handles, module hooks, compared with torch."""

import copy
import pickle
import weakref

from tests.autograd.functions import function
from tests.autograd.programs import attempt, leaf
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


@program
def order(m):
    x = leaf(m, 1.0, 2.0)
    log = []
    x.register_hook(lambda g: log.append("x hook"))
    x.register_post_accumulate_grad_hook(lambda p: log.append("x post acc"))
    y = x * 2
    y.register_hook(lambda g: log.append("y hook 1"))
    y.grad_fn.register_prehook(lambda g: log.append("y pre"))
    y.register_hook(lambda g: log.append("y hook 2"))
    y.retain_grad()
    y.register_hook(lambda g: log.append(("y hook 3", g.tolist())))
    y.grad_fn.register_hook(lambda i, o: log.append("y post"))
    acc = y.grad_fn.next_functions[0][0]
    acc.register_prehook(lambda g: log.append("acc pre"))
    acc.register_hook(lambda i, o: log.append(("acc post", i, o)))
    m.autograd.graph.register_multi_grad_hook((x, y), lambda gs: log.append(("multi", len(gs))))
    m.autograd.graph.register_multi_grad_hook((x, y), lambda g: log.append("any"), mode="any")
    y.sum().backward()
    return log, y.grad, x.grad


@program
def order_inputs(m):
    x = leaf(m, 1.0, 2.0)
    log = []
    x.register_hook(lambda g: log.append("x hook"))
    y = x * 2
    y.register_hook(lambda g: log.append("y hook"))
    y.grad_fn.register_prehook(lambda g: log.append("y pre"))
    y.grad_fn.register_hook(lambda i, o: log.append("y post"))
    z = y * 3
    z.grad_fn.register_prehook(lambda g: log.append("z pre"))
    z.register_hook(lambda g: g * 2)
    a = m.autograd.grad(z.sum(), y, retain_graph=True)
    log.append("--")
    b = m.autograd.grad(z.sum(), x, retain_graph=True)
    log.append("--")
    c = m.autograd.grad(z.sum(), [x, y], retain_graph=True)
    log.append("--")
    z.sum().backward(inputs=[y], retain_graph=True)
    log.append("--")
    z.sum().backward(inputs=[x], retain_graph=True)
    return a, b, c, log, x.grad, y.grad


@program
def replace(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 2
    out = []
    for h in (
        lambda g: g * 2,
        lambda g: 1,
        lambda g: g.double(),
        lambda g: m.ones(3),
        lambda g: g.sum(),
        lambda g: (g,),
        lambda g: m.ones(2, dtype=m.complex64),
        lambda g: g.expand(1, 2),
    ):
        y = x * 2
        y.register_hook(h)
        x.grad = None
        out.append((attempt(y.sum().backward), x.grad))
        y = x * 2
        hh = x.register_hook(h)
        x.grad = None
        out.append((attempt(y.sum().backward), x.grad))
        hh.remove()
    return out


@program
def replace_node(m):
    x = leaf(m, 1.0, 2.0)
    out = []

    def named(i, o):
        return (None,)

    def two(i, o):
        return (i[0], i[0])

    for h in (
        lambda i, o: (i[0] * 2,),
        lambda i, o: i[0],
        lambda i, o: 1,
        lambda i, o: [i[0]],
        named,
        two,
        lambda i, o: (1,),
        lambda i, o: (i[0].double(),),
        lambda i, o: (m.ones(3),),
        lambda i, o: (i[0], None),
    ):
        y = x.exp()
        y.grad_fn.register_hook(h)
        x.grad = None
        out.append((attempt(y.sum().backward), x.grad))
    for h in (
        lambda o: (o[0] * 2,),
        lambda o: o[0],
        lambda o: 1,
        lambda o: [o[0]],
        lambda o: (None,),
        lambda o: (o[0], o[0]),
        lambda o: (1,),
        lambda o: (o[0].double(),),
        lambda o: (m.ones(3),),
    ):
        y = x.exp()
        y.grad_fn.register_prehook(h)
        x.grad = None
        out.append((attempt(y.sum().backward), x.grad))
    return out


@program
def bad_regs(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 2
    z = m.ones(2)
    return (
        attempt(z.register_hook, lambda g: g),
        attempt(x.register_hook, 1),
        attempt((x * 2).sum().backward),
        attempt(z.register_post_accumulate_grad_hook, lambda g: g),
        attempt(y.register_post_accumulate_grad_hook, lambda g: g),
        attempt(y.grad_fn.register_hook, 1),
        attempt(y.grad_fn.register_prehook, "a"),
        attempt(y.register_hook),
        attempt(y.register_hook, 1, 2),
        attempt(x.register_post_accumulate_grad_hook, 3),
        attempt((x * 2).sum().backward),
        attempt(x.register_hook, hook=lambda g: g),
    )


@program
def post_acc(m):
    x = leaf(m, 1.0, 2.0)
    log = []

    def h(p):
        log.append((p is x, p.grad))
        p.grad = None

    hd = x.register_post_accumulate_grad_hook(h)
    x.sum().backward()
    r = x.grad
    hd.remove()
    x.sum().backward()

    def ret(p):
        return p * 2

    x.register_post_accumulate_grad_hook(ret)
    return log, r, x.grad, attempt(x.sum().backward), m.autograd.grad(x.sum(), x)


@program
def post_acc_more(m):
    x = leaf(m, 1.0, 2.0)
    log = []
    hs = [x.register_post_accumulate_grad_hook(lambda p, i=i: log.append((i, p.grad.tolist()))) for i in range(3)]
    hs[1].remove()
    (x * x).sum().backward(inputs=[x])
    return log, x._post_accumulate_grad_hooks is None, len(x._post_accumulate_grad_hooks)


@program
def removal_in_pass(m):
    x = leaf(m, 1.0, 2.0)
    log = []
    hs = []
    y = x * 2

    def a(g):
        log.append("a")
        hs[1].remove()
        hs[0].remove()

    hs.append(y.register_hook(a))
    hs.append(y.register_hook(lambda g: log.append("b")))
    hs.append(y.register_hook(lambda g: log.append("c")))
    y.sum().backward(retain_graph=True)
    log.append("-")
    y.sum().backward()
    return log


@program
def add_in_pass(m):
    x = leaf(m, 1.0, 2.0)
    log = []
    y = x * 2

    def a(g):
        log.append("a")
        y.register_hook(lambda g: log.append("new"))

    y.register_hook(a)
    y.sum().backward(retain_graph=True)
    log.append("-")
    y.sum().backward()
    return log


@program
def reentrant_same_graph(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 2
    z = y * 3
    n = [0]

    def h(g):
        if n[0] < 3:
            n[0] += 1
            with m.enable_grad():
                y.sum().backward(retain_graph=True)

    z.register_hook(h)
    z.sum().backward(retain_graph=True)
    return x.grad, n


@program
def exception_clean(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 2
    z = (y * y).sum()
    h = y.register_hook(lambda g: 1 / 0)
    a = (
        attempt(z.backward, retain_graph=True),
        x.grad,
        m.is_grad_enabled(),
        m._C._current_graph_task_id() if hasattr(m, "_C") else None,
    )
    h.remove()
    z.backward()
    return a, x.grad


@program
def exception_kinds(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 2

    class My(ValueError):
        pass

    def h(g):
        raise My("x", 3)

    y.register_hook(h)
    try:
        y.sum().backward()
    except My as e:
        return e.args, e.__cause__, type(e.__context__)


@program
def kbd(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 2

    def h(g):
        raise KeyboardInterrupt

    hd = y.register_hook(h)
    try:
        y.sum().backward(retain_graph=True)
    except KeyboardInterrupt:
        pass
    hd.remove()
    y.sum().backward()
    return x.grad


@program
def handle(m):
    x = leaf(m, 1.0, 2.0)
    log = []
    with x.register_hook(lambda g: log.append(1)) as h:
        x.sum().backward()
    x.sum().backward()
    H = m.utils.hooks.RemovableHandle
    return (
        log,
        type(h).__name__,
        isinstance(h.id, int),
        sorted(vars(h)),
        h.hooks_dict_ref() is not None,
        len(x._backward_hooks),
        H.next_id > 0,
    )


@program
def handle_pickle(m):
    from collections import OrderedDict

    H = m.utils.hooks.RemovableHandle
    d = OrderedDict()
    h = H(d)
    d[h.id] = "a"
    h2 = pickle.loads(pickle.dumps(h))
    h3 = copy.copy(h)
    s = h.__getstate__()
    return (
        h2.id == h.id,
        h2.hooks_dict_ref(),
        len(s),
        s[0] is d,
        s[1] == h.id,
        len(h3.hooks_dict_ref()),
        (h2.remove(), len(d)),
        (h.remove(), len(d)),
        (h.remove(), len(d)),
        attempt(H, {}),
        attempt(H, 1),
        attempt(H),
    )


@program
def handle_extra(m):
    from collections import OrderedDict

    H = m.utils.hooks.RemovableHandle
    d = OrderedDict()
    e = OrderedDict()
    f = OrderedDict()
    h = H(d, extra_dict=e)
    d[h.id] = 1
    e[h.id] = 2
    a = len(h.extra_dict_ref)
    h.remove()
    g = H(d, extra_dict=[e, f])
    e[g.id] = 1
    f[g.id] = 2
    b = len(g.extra_dict_ref)
    g.remove()
    return (
        a,
        b,
        len(d),
        len(e),
        len(f),
        len(g.__getstate__()),
        attempt(H, d, extra_dict=1),
        g.extra_dict_ref[0]() is e,
        g.id == h.id + 1,
    )


@program
def setstate(m):
    from collections import OrderedDict

    H = m.utils.hooks.RemovableHandle
    h = H.__new__(H)
    h.__setstate__((None, 5))
    a = (h.id, h.hooks_dict_ref(), H.next_id > 5)
    d = OrderedDict()
    h.__setstate__((d, 7, ()))
    return a, h.id, h.hooks_dict_ref() is d, h.extra_dict_ref


@program
def backward_hook_util(m):
    B = m.utils.hooks.BackwardHook
    log = []

    def run(uh, ph, inp, f=lambda a: a[0] * 2, tup=True):
        b = B("mod", uh, ph)
        args = b.setup_input_hook(inp)
        o = f(args)
        o = b.setup_output_hook(o)
        return args, o

    x = leaf(m, 1.0, 2.0)

    def uh(mod, gi, go):
        log.append((mod, gi, go))

    def rep(mod, gi, go):
        return (gi[0] * 10, *tuple(gi[1:]))

    def pre(mod, go):
        log.append(("pre", go))
        return (go[0] * 3,)

    a, o = run([uh], [], (x,))
    o.sum().backward()
    g1 = x.grad
    x.grad = None
    a2, o2 = run([uh, rep], [pre], (x, "s"))
    o2.sum().backward()
    g2 = x.grad
    x.grad = None
    _a3, o3 = run([uh], [], (m.ones(2),), lambda a: a[0] * x)
    r = attempt(o3.sum().backward)
    _a4, o4 = run([lambda *q: (1, 2)], [], (x,))
    r4 = attempt(o4.sum().backward)
    _a5, o5 = run([], [lambda *q: (1, 2)], (x,))
    r5 = attempt(o5.sum().backward)
    _a6, o6 = run([lambda *q: (m.ones(2),)], [], (m.ones(2),), lambda a: a[0] * x)
    r6 = attempt(o6.sum().backward)
    _a7, o7 = run([uh], [], (x,), lambda a: (a[0] * 2, "k", a[0] * 3))
    (o7[0].sum() + o7[2].sum()).backward()
    with m.no_grad():
        q = attempt(lambda: run([uh], [], (x,))[0][0] is x)
    return (
        log,
        g1,
        g2,
        a[0].grad_fn.name(),
        o.grad_fn.name(),
        a2[1],
        r,
        r4,
        r5,
        r6,
        type(o7).__name__,
        q,
        attempt(lambda: run([uh], [], (1,), lambda a: m.ones(2))),
    )


@program
def warn_hooks(m):
    x = leaf(m, 1.0, 2.0)
    W = m.utils.hooks.warn_if_has_hooks

    def hook(g):
        return g

    def fine(g):
        return g

    a = attempt(W, x)
    x.register_hook(m.utils.hooks.unserializable_hook(fine))
    b = attempt(W, x)
    x.register_hook(hook)
    c = attempt(W, x)
    return a, b[1], c[1] and c[1][0][0], fine.__torch_unserializable__, len(c[1])


@program
def deepcopy_hooks(m):
    x = leaf(m, 1.0, 2.0)
    x.register_hook(lambda g: g * 2)
    x.sum().backward()
    y = attempt(copy.deepcopy, x)
    z = copy.deepcopy(x)
    z.sum().backward()
    return ([w[0] for w in y[1]], z.grad, z.requires_grad, attempt(copy.deepcopy, x * 2), copy.copy(x).requires_grad)


@program
def multi_all(m):
    a, b, c, d = (leaf(m, 1.0) for _ in range(4))
    log = []
    x = a * b
    h = m.autograd.graph.register_multi_grad_hook((a, b, c, d, x), lambda gs: log.append([g is None for g in gs]))
    (x * 2).sum().backward(retain_graph=True)
    (c * 2).sum().backward()
    (x * c).sum().backward(retain_graph=True, inputs=[a])
    refused = attempt(m.autograd.grad, (x * d).sum(), [a, x], retain_graph=True)
    h.remove()
    x.sum().backward()
    return log, refused, [len(t._backward_hooks) for t in (a, b, x)], type(h).__name__


@program
def multi_attempt(m):
    R = m.autograd.graph.register_multi_grad_hook
    x = leaf(m, 1.0)
    return (
        attempt(R, (x,), lambda g: g, mode="x"),
        attempt(R, (m.ones(1),), lambda g: g),
        attempt(R, (m.ones(1),), lambda g: g, mode="any"),
        attempt(R, x, lambda g: g),
        attempt(R, (1,), lambda g: g),
        attempt(R, (), lambda g: g),
        attempt(R, (x,), 1),
        attempt(R, (x,), 1, "any"),
    )


@program
def multi_any(m):
    a, b = leaf(m, 1.0), leaf(m, 2.0)
    log = []
    h = m.autograd.graph.register_multi_grad_hook((a, b), lambda g: log.append(g.tolist()), mode="any")
    (a * b).sum().backward()
    (a * b).sum().backward()
    h.remove()
    (a * b).sum().backward()
    return log


@program
def multi_raise(m):
    a, b = leaf(m, 1.0), leaf(m, 2.0)

    def f(gs):
        raise ValueError("no")

    h = m.autograd.graph.register_multi_grad_hook((a, b), f)
    r = attempt((a * b).sum().backward)
    h.remove()
    return r, attempt((a * b).sum().backward), a.grad


@program
def multi_pickle(m):
    a = leaf(m, 1.0)
    h = m.autograd.graph.register_multi_grad_hook((a,), lambda g: None)
    return len(h.__getstate__()), len(h.handles)


@program
def closure_gc(m):
    x = leaf(m, 1.0, 2.0)

    class Watched:
        pass

    o = Watched()
    r = weakref.ref(o)
    y = x * 2
    h = y.register_hook(lambda g, o=o: None)
    del o
    a = r() is not None
    h.remove()
    b = r() is None
    return a, b


@program
def hook_sees_flags(m):
    x = leaf(m, 1.0, 2.0)
    log = []
    y = x**2
    y.register_hook(lambda g: log.append((m.is_grad_enabled(), g.requires_grad)))
    x.register_hook(lambda g: log.append((m.is_grad_enabled(), g.requires_grad)))
    m.autograd.grad(y.sum(), x, create_graph=True)
    m.autograd.grad(y.sum(), x)
    with m.no_grad():
        y.sum
    return log


@program
def hook_inplace_on_grad(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 2

    def h(g):
        g.mul_(5)

    y.register_hook(h)
    g = m.ones(2)
    y.backward(g)
    return x.grad, g


@program
def create_graph_hook(m):
    x = leaf(m, 2.0, 3.0)
    y = x**3
    y.register_hook(lambda g: g * x)
    (a,) = m.autograd.grad(y.sum(), x, create_graph=True)
    (b,) = m.autograd.grad(a.sum(), x)
    return a.detach(), b


@program
def hook_none_grad(m):
    x = leaf(m, 2.0, 3.0)
    log = []
    F = function(m, lambda ctx, x: x * 2, lambda ctx, g: None)
    y = x * 1
    y.register_hook(lambda g: log.append(g))
    y.grad_fn.register_prehook(lambda g: log.append(g))
    x.register_hook(lambda g: log.append(("x", g)))
    x.register_post_accumulate_grad_hook(lambda g: log.append("acc"))
    r = attempt(F.apply(y).sum().backward)
    return log, x.grad, r


@program
def hook_replaces_none(m):
    x = leaf(m, 2.0, 3.0)
    F = function(m, lambda ctx, x: x * 2, lambda ctx, g: None)
    y = x * 1
    y.register_hook(lambda g: m.ones(2))
    r = attempt(F.apply(y).sum().backward)
    return x.grad, r
