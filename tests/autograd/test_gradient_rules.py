"""Gradients through views, in-place writes, hooks, .data and threads, compared with torch."""

import threading

from tests.autograd.programs import attempt, leaf
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


@program
def expanded_gradient_views(m):
    x = leaf(m, 1.0, 2.0)
    log = []
    y = x * 1
    y.register_hook(
        lambda g: log.append(
            [g.view(2, 1), g[:1], g.expand(3, 2), g.unsqueeze(0), g.clone(), g.repeat(2), g.view(1, 2) + 0, g.flip(0)]
        )
    )
    y.sum().backward()
    return log


@program
def expanded_gradient_rows(m):
    x = m.ones(2, 3, requires_grad=True)
    log = []
    y = x * 1
    y.register_hook(
        lambda g: log.append([g[1], g.t(), g[:, 1:], g.reshape(-1), g.expand(2, 2, 3), g.select(1, 2), g.diagonal()])
    )
    y.sum(0).backward(m.tensor([1.0, 2.0, 3.0]))
    return log


@program
def multi_out_hooks(m):
    x = leaf(m, 1.0, 2.0, 3.0, 4.0)
    a, b = x.split(2)
    log = []
    a.register_hook(lambda g: log.append(("a", g if g is None else g.tolist())))
    b.register_hook(lambda g: (log.append(("b", g.tolist())), g * 3)[1])
    a.grad_fn.register_prehook(lambda gs: log.append(("pre", [None if g is None else g.tolist() for g in gs])))
    a.grad_fn.register_hook(
        lambda i, o: log.append(("post", *[[None if g is None else g.tolist() for g in gs] for gs in (i, o)]))
    )
    b.retain_grad()
    (b * 2).sum().backward(retain_graph=True)
    log.append("-")
    (a * b).sum().backward()
    return log, x.grad, b.grad


@program
def capture_vs_hooks(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    y.grad_fn.register_prehook(lambda g: (g[0] * 100,))
    y.grad_fn.register_hook(lambda i, o: (i[0] * 1000, *tuple(i[1:])))
    z = y.sum()
    G = m.autograd.grad
    return (
        G(z, y, retain_graph=True),
        G(z, x, retain_graph=True),
        G(z, [x, y], retain_graph=True),
        G(z, [y, x, z], retain_graph=True),
    )


@program
def acc_prehook_grad(m):
    x = leaf(m, 1.0, 2.0)
    log = []
    acc = m.autograd.graph.get_gradient_edge(x).node
    acc.register_prehook(lambda g: (log.append("pre"), (g[0] * 5,))[1])
    acc.register_hook(lambda i, o: log.append(("post", o[0].tolist())))
    x.register_hook(lambda g: (log.append("h"), g * 2)[1])
    x.register_post_accumulate_grad_hook(lambda p: log.append("pa"))
    r = m.autograd.grad((x * 3).sum(), x)
    (x * 3).sum().backward()
    (x * 3).sum().backward(inputs=[x])
    return r, x.grad, log


@program
def retain_then_grad(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 2
    y.retain_grad()
    z = (y**2).sum()
    r = m.autograd.grad(z, x, retain_graph=True)
    a = y.grad
    z.backward(retain_graph=True)
    b = y.grad.clone()
    z.backward()
    return r, a, b, y.grad


@program
def retain_create(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 2
    y.retain_grad()
    (y**3).sum().backward(create_graph=True)
    g = y.grad
    return g.requires_grad, g.detach(), m.autograd.grad(g.sum(), x)[0].detach()


@program
def grad_of_grad_leaf(m):
    x = leaf(m, 1.0, 2.0)
    x.grad = m.ones(2, requires_grad=True)
    r = attempt((x * 2).sum().backward)
    return r, x.grad.detach(), x.grad.requires_grad


@program
def grad_shared_create(m):
    x = leaf(m, 1.0, 2.0)
    g = m.zeros(2)
    x.grad = g
    (x * 2).sum().backward(create_graph=True)
    return g, x.grad is g, x.grad.detach()


@program
def zero_grad_patterns(m):
    x = leaf(m, 1.0, 2.0)
    (x * 2).sum().backward()
    x.grad.zero_()
    (x * 2).sum().backward()
    a = x.grad.clone()
    x.grad = None
    (x * 3).sum().backward()
    x.grad.detach_()
    return a, x.grad


@program
def data_swap(m):
    x = leaf(m, 1.0, 2.0)
    y = x * x
    x.data = m.tensor([5.0, 6.0])
    y.sum().backward()
    return x.grad, x


@program
def data_write(m):
    x = leaf(m, 1.0, 2.0)
    y = x * x
    x.data.mul_(10)
    y.sum().backward()
    return x.grad, x._version


@program
def data_shape(m):
    x = leaf(m, 1.0, 2.0)
    y = (x * 2).sum()
    x.data = m.ones(3)
    return (
        attempt(y.backward),
        x.grad,
        attempt(lambda: setattr(x, "data", m.ones(3, dtype=m.float64))),
        attempt(lambda: setattr(x, "data", 1)),
        attempt(lambda: setattr(x, "data", m.ones(2, dtype=m.int64))),
    )


@program
def detach_rules(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 2
    d = y.detach()
    r = [d.requires_grad, d.is_leaf, d._is_view(), d._version]
    y.exp()
    z2 = y * y
    d.add_(1)
    r += [y._version, attempt(z2.sum().backward)]
    y2 = x * 2
    y2.detach_()
    r += [y2.requires_grad, y2.grad_fn, y2.is_leaf, attempt(x.view(2).detach_), attempt(x.detach_)]
    return r


@program
def leaf_view_ops(m):
    x = leaf(m, 1.0, 2.0)
    v = x.view(2)
    r = [attempt(lambda: v.add_(1)), attempt(lambda: x.add_(1)), v.is_leaf, v.grad_fn.name()]
    with m.no_grad():
        v.add_(1)
        x.add_(1)
    return r, x, v, x._version, v._version


@program
def requires_grad_view(m):
    b = m.ones(4)
    v = b[:2]
    v.requires_grad_()
    r = [b.requires_grad, v.is_leaf, attempt(lambda: v.mul_(2)), attempt(lambda: b.mul_(2))]
    (v * 3).sum().backward()
    return r, v.grad, b.grad


@program
def inplace_view_of_view(m):
    x = leaf(m, 1.0, 2.0, 3.0, 4.0)
    b = x * 1
    v = b.view(2, 2)
    w = v[0]
    w.mul_(5)
    v.add_(1)
    b.mul_(2)
    r = [t.grad_fn.name() for t in (b, v, w)] + [t._version for t in (b, v, w)]
    (b * w.sum()).sum().backward()
    return r, x.grad


@program
def none_inputs(m):
    x = leaf(m, 1.0, 2.0)
    y = leaf(m, 1.0)
    z = x.sum() * m.ones(1).sum()
    return z.grad_fn.next_functions[1], m.autograd.grad(z, [x, y], allow_unused=True)


@program
def double_through_none(m):
    x = leaf(m, 1.0, 2.0)
    y = leaf(m, 3.0)
    (g,) = m.autograd.grad((x * 2).sum(), x, create_graph=True)
    return (
        g.requires_grad,
        g.grad_fn,
        attempt(m.autograd.grad, g.sum(), x),
        attempt(m.autograd.grad, g.sum(), y, allow_unused=True),
    )


@program
def root_is_input(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 2
    z = y * 3
    return m.autograd.grad([z.sum(), y], [y, x], [m.tensor(1.0), m.ones(2)])


@program
def int_index_bwd(m):
    x = m.ones(3, 3, requires_grad=True)
    i = m.tensor([0, 0, 2])
    x[i].sum().backward()
    a = x.grad.clone()
    x.grad = None
    x[i, i].sum().backward()
    b = x.grad.clone()
    x.grad = None
    x.index_select(1, i).sum().backward()
    return a, b, x.grad


@program
def no_accum_when_error(m):
    x = leaf(m, 1.0, 2.0)
    w = leaf(m, 1.0)
    y = x.exp()

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 1

        @staticmethod
        def backward(ctx, g):
            raise ValueError("no")

    r = attempt((F.apply(y).sum() + w.sum()).backward)
    return r, x.grad, w.grad


@program
def changed_dtype_param(m):
    x = leaf(m, 1.0, 2.0)
    y = x.double().sum() + x.half().sum().double()
    y.backward()
    return x.grad


@program
def scalar_types(m):
    x = leaf(m, 1.0, 2.0)
    return (
        [(x * k).dtype == m.float32 for k in (2, 2.5, True)],
        (x * (1 + 2j)).dtype == m.complex64,
        attempt(lambda: (x * (1 + 2j)).sum().backward()),
        m.autograd.grad((x * (1 + 2j)).abs().sum(), x),
    )


@program
def backward_in_thread_of_hook(m):
    x = leaf(m, 1.0, 2.0)
    w = leaf(m, 2.0)
    log = []

    def h(g):
        t = threading.Thread(target=lambda: (w * 3).sum().backward())
        t.start()
        t.join()
        log.append(w.grad.tolist())

    y = x * 2
    y.register_hook(h)
    y.sum().backward()
    return log, x.grad


@program
def who_gets_a_gradient_of_an_empty_matrix(m):
    """An input of no elements gets a gradient of none, also where only some of the results are used."""
    functions = {
        "svd": m.linalg.svd,
        "eigh": m.linalg.eigh,
        "qr": m.linalg.qr,
        "slogdet": m.linalg.slogdet,
        "logdet": lambda a: [m.logdet(a)],
        "lu": m.linalg.lu,
        "sort": m.sort,
    }
    seen = []
    for name, function in functions.items():
        for shape in ((0, 2, 2), (2, 0, 0)):
            for k in range(3):
                a = m.ones(shape, dtype=m.float64, requires_grad=True)
                results = function(a)
                if k < len(results) and results[k].requires_grad:
                    results[k].sum().backward()
                    seen.append([name, shape, k, None if a.grad is None else list(a.grad.shape)])
    return seen
