"""Nodes, saved values, hooks on them and gradient edges, compared with torch."""

import gc
import pickle

from tests.autograd.functions import function
from tests.autograd.programs import attempt, leaf
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


@program
def node_abc(m):
    N = m.autograd.graph.Node
    x = leaf(m, 1.0, 2.0)
    y = (x * 2).exp()
    acc = y.grad_fn.next_functions[0][0].next_functions[0][0]
    F = function(m, lambda ctx, a: a * 2, lambda ctx, g: g)
    f = F.apply(x).grad_fn
    return (
        [isinstance(q, N) for q in (y.grad_fn, acc, f, 1, x, None)],
        issubclass(type(y.grad_fn), N),
        type(attempt(N)).__name__,  # the words are Python's, and change with it
        issubclass(int, N),
        N.__name__,
        N.__module__[-5:],
        sorted(k for k in vars(N) if not k.startswith("_")),
        attempt(lambda: N.name(y.grad_fn)),
        issubclass(type(f), N),
        f.name(),
        acc.name(),
        acc.variable is x,
        sorted(N.__abstractmethods__),
    )


@program
def node_classes(m):
    """Nodes say that their classes are built in, and nobody else makes any."""
    x = leaf(m, 1.0, 2.0)
    part = x.clone()
    part[0] = 1
    nodes = [x.exp().grad_fn, x.exp().grad_fn.next_functions[0][0], part.grad_fn, x[:1].grad_fn]
    kinds = [type(n) for n in nodes]
    return [(str(k), k.__module__, k.__qualname__) for k in kinds], [attempt(kinds[k]) for k in (0, 2, 3)]


@program
def saved_statics(m):
    x = leaf(m, 1.0, 2.0)
    return (
        x.softmax(0).grad_fn._saved_dim,
        x.cumsum(0).grad_fn._saved_dim,
        x.unsqueeze(0).grad_fn._saved_dim,
        x.gather(0, m.tensor([1])).grad_fn._saved_dim,
        x.std().grad_fn._saved_keepdim,
        x.flip(0).grad_fn._saved_dims,
        x.clamp(0, 1).grad_fn._saved_min,
    )


@program
def packing_order(m):
    log = []

    def pack(t):
        log.append(t.tolist())
        return t

    a, b, c = leaf(m, 1.0, 2.0), leaf(m, 3.0, 4.0), leaf(m, 5.0, 6.0)
    s = leaf(m, 1.0, 2.0, 3.0, 4.0).view(2, 2)

    def each(f):
        log.append("-")
        with m.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            f()

    for f in (
        lambda: a * b,
        lambda: a / b,
        lambda: a**b,
        lambda: m.atan2(a, b),
        lambda: m.addcmul(a, b, c),
        lambda: m.lerp(a, b, c),
        lambda: s @ s.t(),
        lambda: m.dot(a, b),
        lambda: m.mv(s, a),
        lambda: m.maximum(a, b),
        lambda: m.logaddexp(a, b),
        lambda: m.hypot(a, b),
    ):
        each(f)
    return log


@program
def raw_saved(m):
    x = leaf(m, 1.0, 2.0)
    y = x * x
    n = y.grad_fn
    s = n._raw_saved_self
    log = []
    a = (type(s).__name__, attempt(lambda: s.data.tolist()), s.unpack_hook if hasattr(s, "unpack_hook") else "no")
    r = attempt(s.register_hooks, lambda t: (log.append("pack"), t)[1], lambda t: (log.append("unpack"), t * 2)[1])
    r2 = attempt(s.register_hooks, lambda t: t, lambda t: t)
    r3 = attempt(n._raw_saved_other.register_hooks, 1, 2)
    attempt(n._raw_saved_other.register_hooks, lambda t: t)
    v = n._saved_self
    y.sum().backward()
    g = x.grad
    r5 = attempt(lambda: s.register_hooks(lambda t: t, lambda t: t))
    r6 = attempt(lambda: n._saved_self)
    r7 = attempt(lambda: n._raw_saved_self)
    return a, r, r2, r3, v, g, log, r5, r6, r7


@program
def raw_saved_none(m):
    x = leaf(m, 1.0, 2.0)
    n = x.clamp(0, None).grad_fn
    return (
        n._saved_min,
        attempt(lambda: n._raw_saved_self.register_hooks(lambda t: t.add_(1), lambda t: t)),
        attempt(lambda: n._raw_saved_min),
        attempt(lambda: n._saved_nothing),
    )


@program
def raw_hook_bad(m):
    x = leaf(m, 1.0, 2.0)
    out = []
    y = x * x
    out.append(attempt(y.grad_fn._raw_saved_self.register_hooks, lambda t: 1, lambda t: 1))
    out.append(attempt(y.sum().backward))
    y = x * x
    out.append(attempt(y.grad_fn._raw_saved_self.register_hooks, lambda t: 1, lambda t: m.ones(3)))
    out.append(attempt(y.sum().backward))
    y = x * x
    out.append(attempt(y.grad_fn._raw_saved_self.register_hooks, lambda t: 1 / 0, lambda t: t))
    return out


@program
def hooks_default(m):
    log = []
    x = leaf(m, 1.0, 2.0)
    H = m.autograd.graph.saved_tensors_hooks
    with H(
        lambda t: (log.append(("p", t.tolist(), t.requires_grad, t.grad_fn is None, t is x)), t.detach().clone())[1],
        lambda t: (log.append("u"), t)[1],
    ):
        y = (x * 2).exp()
        z = y * x
        w = z.sum()
    w.backward(retain_graph=True)
    a = x.grad.clone()
    log.append("--")
    w.backward()
    return log, a, x.grad


@program
def hooks_bad(m):
    H = m.autograd.graph.saved_tensors_hooks
    x = leaf(m, 1.0, 2.0)
    out = []

    def go(p, u):
        def f():
            with H(p, u):
                y = x * x
            y.sum().backward()

        out.append(attempt(f))

    go(lambda t: t, lambda t: 1)
    go(lambda t: t, lambda t: None)
    go(lambda t: 1 / 0, lambda t: t)
    go(lambda t: t, lambda t: 1 / 0)
    go(lambda t: t.add_(1), lambda t: t)
    go(lambda t: t, lambda t: m.ones(5))
    go(1, 2)
    go(lambda t: None, lambda t: m.ones(2))
    go(lambda t: t, lambda t: t.double())
    return out, x, attempt(H), attempt(H, lambda t: t), m.is_grad_enabled()


@program
def hooks_in_hooks(m):
    H = m.autograd.graph.saved_tensors_hooks
    log = []
    x = leaf(m, 1.0, 2.0)

    def p(t):
        log.append("p")
        return (t * t).detach() if not t.requires_grad else (t.detach(), (t * 2).requires_grad)

    with H(p, lambda t: t[0] if isinstance(t, tuple) else t):
        y = x.exp().sin()
    return log, attempt(y.sum().backward), x.grad


@program
def hooks_on_fn(m):
    H = m.autograd.graph.saved_tensors_hooks
    log = []

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            o = a.exp()
            ctx.save_for_backward(a, o, None)
            return o

        @staticmethod
        def backward(ctx, g):
            a, o, _ = ctx.saved_tensors
            log.append((a.requires_grad, o.grad_fn and o.grad_fn.name()))
            return g * o

    x = leaf(m, 1.0, 2.0)
    with H(lambda t: (log.append(("p", t.requires_grad)), t.tolist())[1], lambda t: (log.append("u"), m.tensor(t))[1]):
        y = F.apply(x)
    y.sum().backward()
    return log, x.grad


@program
def hooks_disk(m):

    H = m.autograd.graph.saved_tensors_hooks
    store = {}

    def p(t):
        k = len(store)
        store[k] = t.numpy().copy() if not t.requires_grad else t.detach().numpy().copy()
        return k

    x = leaf(m, 1.0, 2.0)
    with H(p, lambda k: m.from_numpy(store[k]) if hasattr(m, "from_numpy") else m.tensor(store[k])):
        y = x.pow(2).exp()
    y.sum().backward()
    return x.grad, len(store)


@program
def save_cpu(m):
    S = m.autograd.graph.save_on_cpu
    x = leaf(m, 1.0, 2.0)
    s = m.ones(2)
    with S():
        y = (x * s).exp()
    a = y.grad_fn._saved_result
    y.sum().backward()
    with S(pin_memory=False, device_type="cuda"):
        (x * x).sum().backward()
    return x.grad, a is y, attempt(S, 1, 2, 3), a.device.type


@program
def disable(m):
    D = m.autograd.graph.disable_saved_tensors_hooks
    H = m.autograd.graph.saved_tensors_hooks
    x = leaf(m, 1.0)

    def a():
        with D("no way"), H(lambda t: t, lambda t: t):
            pass

    def b():
        with H(lambda t: t, lambda t: t), D("never"):
            pass

    def c():
        with D("one"), D("two"), H(lambda t: t, lambda t: t):
            pass

    def d():
        with D("x"):
            y = x * x
        y.backward()

    @D("deco")
    def e():
        with H(lambda t: t, lambda t: t):
            pass

    def f():
        with D(1), H(lambda t: t, lambda t: t):
            pass

    def g():
        with D("save"), m.autograd.graph.save_on_cpu():
            pass

    return [attempt(q) for q in (a, b, c, d, e, f, g)], attempt(D)


@program
def values_that_were_overwritten(m):
    counts = []
    with m.autograd.graph.allow_mutation_on_saved_tensors() as ctx:
        x = leaf(m, 1.0, 2.0)
        a, b = x * 1, x * 2
        out = a.sin() + a.exp() * b + (a * a)
        counts.append(len(ctx.cloned))
        a.add_(1)
        counts.append(len(ctx.cloned))
        a.add_(1)
        b.mul_(0)
        counts.append((len(ctx.cloned), sorted(t.tolist() for t in ctx.cloned.values())))
        out.sum().backward()
        counts.append(x.grad)
    return counts, len(ctx.cloned)


@program
def allow_mut(m):
    A = m.autograd.graph.allow_mutation_on_saved_tensors
    out = []
    with A() as ctx:
        a = m.ones(2, 3, requires_grad=True)
        b = a.clone()
        o = (b**2).sum()
        b.sin_()
        o.backward()
        out.append(a.grad)
    with A():
        a = m.rand(2, 3).requires_grad_()
        b = a.clone()
        c = b.exp()
        v = b.view(-1)
        s = (v * v).sum()
        b.mul_(0)
        c.mul_(0)
        (s).backward()
        out.append(m.allclose(a.grad, 2 * a.detach()))
    with A() as ctx:
        a = leaf(m, 1.0, 2.0)
        b = a * 1
        o = b.exp()
        o2 = o * 1
        o.zero_()
        out.append(attempt(o2.sum().backward))
        out.append(a.grad)
    with A() as ctx:
        a = leaf(m, 1.0, 2.0)
        b = a * 1
        o = (b * b).sum()
        b.add_(1)
    out.append(attempt(o.backward))
    with A() as ctx:
        a = leaf(m, 1.0, 2.0)
        b = a * 1
        o = (b * b).sum()
        b.add_(1)
        ctx.clear()
        out.append(attempt(o.backward))

    def n():
        with A(), A():
            pass

    out.append(attempt(n))

    def n2():
        with A():
            a = leaf(m, 1.0, 2.0)
            (a * a).sum()
            a.add_(1)

    out.append(attempt(n2))

    def n3():
        with A():
            a = leaf(m, 1.0, 2.0)
            o = (a * a).sum()
            with m.no_grad():
                a.add_(1)
            o.backward()
            return a.grad, a

    out.append(attempt(n3))
    return out


@program
def incr(m):
    incr = m.autograd.graph.increment_version
    x = m.ones(2)
    y = m.ones(2)
    r = incr(x)
    incr([x, y])
    incr((x,))
    incr(t for t in [y])
    with m.inference_mode():
        i = m.ones(1)
    return (
        r,
        x._version,
        y._version,
        attempt(incr, 1),
        attempt(incr, [1]),
        attempt(incr, i),
        attempt(incr, None),
        attempt(incr),
        attempt(incr, []),
        attempt(incr, "ab"),
        attempt(incr, {"a": x}),
    )


@program
def others(m):
    G = m.autograd.graph
    return (
        [attempt(G.set_warn_on_accumulate_grad_stream_mismatch, v) for v in (True, False, 1, None)],
        [attempt(G.set_override_stale_capture_stream, v) for v in (True, False, 1)],
        attempt(G.set_override_stale_capture_stream),
        [attempt(G.region_activation_memory_budget, v) for v in (0.5, -1, 2, "a", 1, None, True)],
        attempt(G.region_activation_memory_budget),
    )


@program
def edge(m):
    E = m.autograd.graph.get_gradient_edge
    GE = m.autograd.graph.GradientEdge
    x = leaf(m, 1.0, 2.0)
    y = x * 2
    e = E(x)
    f = E(y)
    return (
        repr(type(e)),
        isinstance(e, tuple),
        e.node.name(),
        e.output_nr,
        f.node is y.grad_fn,
        len(f),
        GE(1, 2),
        f == E(y),
        e == E(x),
        hash(e) == hash(E(x)),
        GE._field_defaults,
        E(y.view(2)).node.name(),
        attempt(E, m.ones(2)),
        attempt(lambda: E(x.unbind()[1]).output_nr),
        attempt(E, E(y)),
    )


@program
def edge_alive(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 2
    e = m.autograd.graph.get_gradient_edge(y)
    del y
    gc.collect()
    return m.autograd.grad(e, x, m.ones(2))


@program
def next_fns(m):
    x = leaf(m, 1.0, 2.0)
    w = leaf(m, 3.0, 4.0)
    y = m.stack([x, w, m.ones(2)])

    def walk(n):
        return None if n is None else (n.name(), [(walk(c), k) for c, k in n.next_functions])

    return walk((y.sum(0) * x).sum().grad_fn), walk(x[0].mul(2).add_(1).grad_fn)


@program
def node_misc(m):
    x = leaf(m, 1.0, 2.0)
    n = (x * 2).grad_fn
    k = (x * 3).grad_fn
    return (
        k._sequence_nr() > n._sequence_nr(),
        n.metadata,
        attempt(lambda: n.metadata.update(a=1)),
        n.metadata,
        type(attempt(lambda: setattr(n, "foo", 1))).__name__,
        len(n._input_metadata),
        n._input_metadata[0].dtype == m.float32,
        tuple(n._input_metadata[0].shape),
        attempt(lambda: n._input_metadata[0].device.type),
        n == n,
        n == k,
        n.name(),
        type(n).__name__,
        attempt(lambda: pickle.dumps(n)),
    )


@program
def hooks_disabled_fwd(m):
    x = leaf(m, 1.0, 2.0)
    with m.autograd.graph.disable_saved_tensors_hooks("zzz"):
        y = x * x
        return attempt(y.grad_fn._raw_saved_self.register_hooks, lambda t: t, lambda t: t)


@program
def sequence_numbers(m):
    x, log = leaf(m, 1.0, 2.0), []
    a, b = x * 2, x * 3
    z = (a + b).sum()
    a.grad_fn.register_prehook(lambda g: log.append("a"))
    b.grad_fn.register_prehook(lambda g: log.append("b"))
    z.backward(retain_graph=True)
    a.grad_fn._set_sequence_nr(b.grad_fn._sequence_nr() + 1)
    z.backward()
    return log
