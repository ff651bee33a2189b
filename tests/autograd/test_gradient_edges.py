"""Gradient edges, batched gradients, gradients of other dtypes and of views, compared with torch."""

import importlib

from tests.autograd.functions import function
from tests.autograd.programs import attempt, leaf
from tests.own_gradients import saving_input
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


@program
def edges(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 2
    z = y.exp().sum()
    E = m.autograd.graph.get_gradient_edge
    G = m.autograd.grad
    e = E(y)
    return (
        G(z, e, retain_graph=True),
        G(E(z), e, m.ones(()), retain_graph=True),
        attempt(G, E(z), x, retain_graph=True),
        G([E(z), y], [e, x, y], [m.ones(()), m.ones(2)], retain_graph=True),
        attempt(G, E(y), x, m.ones(3), retain_graph=True),
        attempt(G, E(y), x, retain_graph=True),
        attempt(G, z, E(leaf(m, 1.0)), retain_graph=True),
        attempt(G, z, E(leaf(m, 1.0)), retain_graph=True, allow_unused=True),
        attempt(G, z, E(leaf(m, 1.0)), retain_graph=True, materialize_grads=True),
    )


@program
def edges2(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 2
    z = y.exp().sum()
    E = m.autograd.graph.get_gradient_edge
    m.autograd.backward(z, inputs=[E(x)], retain_graph=True)
    a = x.grad.clone()
    r = attempt(m.autograd.backward, z, inputs=[E(y)], retain_graph=True)
    r2 = attempt(m.autograd.backward, E(z), inputs=E(x), retain_graph=True)
    r3 = attempt(m.autograd.backward, E(z), m.ones(()), inputs=E(x), retain_graph=True)
    return (
        a,
        r,
        r2,
        r3,
        x.grad,
        E(x)._fields,
        E(x).node.name(),
        E(y).output_nr,
        len(E(y)),
        attempt(E, 1),
        attempt(E, m.ones(2)),
        attempt(E, None),
    )


@program
def edges3(m):
    x = leaf(m, 1.0, 2.0)
    a, b = x.unbind()
    E = m.autograd.graph.GradientEdge
    e = E(a.grad_fn, 1)
    return (
        attempt(m.autograd.grad, e, x, m.ones(()), retain_graph=True),
        attempt(m.autograd.grad, a * b, E(a.grad_fn, 1), retain_graph=True),
        attempt(m.autograd.grad, a * b, [E(a.grad_fn, 1), E(a.grad_fn, 0), a, b], retain_graph=True),
        attempt(E),
        attempt(E, 1, 2, 3, 4),
    )


@program
def nonleaf_dup(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 2
    z = (y * y).sum()
    return (
        m.autograd.grad(z, [y, y, x, x, z], retain_graph=True),
        attempt(z.backward, inputs=[y, y, x]),
        y.grad,
        x.grad,
    )


@program
def batched(m):
    x = leaf(m, 1.0, 2.0)
    y = x**3
    G = m.autograd.grad
    v = m.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 3.0]])
    return [
        attempt(G, y, x, g, is_grads_batched=True, retain_graph=True, create_graph=c)
        for c in (False, True)
        for g in (
            v,
            [v],
            m.ones(3),
            m.ones(()),
            m.ones(3, 3),
            m.ones(0, 2),
            None,
            [None],
            v.to(m.complex64),
            v.to(m.float64),
            m.ones(2, 3, 2),
            1,
        )
    ]


@program
def batched_two(m):
    x = leaf(m, 1.0, 2.0)
    y = x**3
    z = leaf(m, 3.0)
    w = x.sum()
    G = m.autograd.grad
    v = m.eye(2)
    return (
        attempt(G, [y, w], x, [v, m.ones(2)], is_grads_batched=True, retain_graph=True),
        attempt(G, [y, w], x, [v, m.ones(3)], is_grads_batched=True, retain_graph=True),
        attempt(G, [y, w], x, [v, None], is_grads_batched=True, retain_graph=True),
        attempt(G, y, [x, z], v, is_grads_batched=True, retain_graph=True),
        attempt(G, y, [x, z], v, is_grads_batched=True, retain_graph=True, allow_unused=True),
        attempt(G, y, [x, z], v, is_grads_batched=True, retain_graph=True, materialize_grads=True),
    )


@program
def batched_create(m):
    x = leaf(m, 1.0, 2.0, 3.0)
    y = x**3
    G = m.autograd.grad
    (h,) = G(y, x, m.eye(3), is_grads_batched=True, create_graph=True)
    return (
        h,
        h.requires_grad,
        G(h.sum(), x),
        G(G(y.sum(), x, create_graph=True)[0], x, m.eye(3), is_grads_batched=True),
    )


@program
def batched_create_gradgrad(m):
    x = leaf(m, 1.0, 2.0, 3.0)
    v = m.eye(3).requires_grad_()
    y = x**3
    (h,) = m.autograd.grad(y, x, v, is_grads_batched=True, create_graph=True)
    return m.autograd.grad((h**2).sum(), [x, v])


@program
def batched_hooks(m):
    x = leaf(m, 1.0, 2.0, 3.0)
    log = []
    y = x * 2
    y.register_hook(lambda g: log.append((tuple(g.shape), g.dim())))
    z = y**2
    (h,) = m.autograd.grad(z, x, m.eye(3), is_grads_batched=True, create_graph=True)
    return h, log


@program
def batched_function(m):
    F = saving_input(m, "F", lambda x: x**2, lambda x, g: g * 2 * x)

    x = leaf(m, 1.0, 2.0, 3.0)
    return m.autograd.grad(F.apply(x), x, m.eye(3), is_grads_batched=True, retain_graph=True), m.autograd.grad(
        F.apply(x), x, m.eye(3), is_grads_batched=True, create_graph=True
    )[0].detach()


@program
def complex_real(m):
    x = m.tensor([1 + 2j, 3.0], requires_grad=True)
    y = x * 2
    G = m.autograd.grad
    return (
        attempt(G, y, x, m.ones(2), retain_graph=True),
        attempt(G, y, x, m.ones(2, dtype=m.complex64), retain_graph=True),
        attempt(G, y.sum(), x, retain_graph=True),
        attempt(G, y.abs().sum(), x, m.ones((), dtype=m.complex64), retain_graph=True),
        attempt(G, y, x, m.ones(2, dtype=m.complex128), retain_graph=True),
        attempt(lambda: y.sum().backward()),
    )


@program
def create_graph_warning(m):
    x = leaf(m, 1.0, 2.0)
    (x**2).sum().backward(create_graph=True)
    return x.grad.detach()


@program
def dtype_cast(m):
    x = leaf(m, 1.0, 2.0)
    y = x.double() * 2
    y.backward(m.ones(2))
    return (
        x.grad,
        attempt((x * 2).backward, m.ones(2, dtype=m.float64)),
        attempt((x * 2).backward, m.ones(2, dtype=m.int32)),
        x.grad,
    )


@program
def free(m):
    x = leaf(m, 1.0, 2.0)
    y = (x**2).sum()
    y.backward()
    return (
        attempt(y.backward),
        attempt(lambda: y.grad_fn.next_functions[0][0]._saved_self),
        attempt(m.autograd.grad, y, x),
        (x * 3).sum().backward(),
    )


@program
def unreachable(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 2
    return (
        attempt(m.autograd.grad, x, x, m.ones(2)),
        attempt(m.autograd.grad, x.sum(), y),
        attempt(m.autograd.grad, y.sum(), m.ones(2)),
        attempt(m.autograd.grad, m.ones(()), x),
    )


@program
def bwd_on_leaf(m):
    x = leaf(m, 1.0)
    x.backward()
    x.backward(m.tensor([4.0]))
    return x.grad, attempt(m.autograd.grad, x, x)


@program
def expanded(m):
    x = leaf(m, 1.0, 2.0)
    y = x.expand(3, 2)
    g = m.ones(1).expand(3, 2)
    y.backward(g)
    return x.grad, x.grad.stride(), x.grad._version


@program
def grad_warn(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 2
    return attempt(lambda: y.grad), y.is_leaf


@program
def grad_dtype(m):
    x = m.ones(2, requires_grad=True)
    y = x * 2

    def s(t, v):
        t.grad_dtype = v

    out = [
        x.grad_dtype,
        attempt(s, x, m.float64),
        x.grad_dtype,
        attempt(y.sum().backward),
        x.grad,
        attempt((x * 2).sum().backward),
        x.grad,
        attempt(s, x, None),
        attempt(s, x, m.float32),
        attempt(s, x, 1),
        attempt(lambda: y.grad_dtype),
        attempt(s, y, m.float64),
        attempt(s, y, None),
    ]
    x.grad = None
    out += [
        attempt(s, x, m.float64),
        m.autograd.grad((x * 2).sum(), x),
        x.register_hook(lambda g: out.append(str(g.dtype))) and None,
        attempt((x * 2).sum().backward),
        x.grad,
    ]
    return out


@program
def gradients_asked_for_in_another_dtype(m):
    found = []
    for made in (lambda x: (x * 2).sum(), lambda x: x.sum(), lambda x: x * 1):
        x = m.ones((), requires_grad=True)
        x.grad_dtype = m.float64
        y = made(x)
        found += [m.autograd.grad(y, x, retain_graph=True)[0], attempt(y.backward), x.grad]
    leaf_itself = m.ones(2, requires_grad=True)
    leaf_itself.grad_dtype = m.float64
    return [*found, attempt(lambda: leaf_itself.backward(m.ones(2))), leaf_itself.grad]


@program
def grad_dtype_any(m):
    x = m.ones(2, requires_grad=True)
    x.grad_dtype = None
    F = function(m, lambda ctx, x: x.clone(), lambda ctx, g: g.half())
    out = [attempt(F.apply(x).sum().backward), x.grad]
    x.grad = None
    out += [attempt(x.backward, m.ones(2, dtype=m.float64)), x.grad]
    x.grad = m.ones(2, dtype=m.int64)
    return [*out, attempt((x * 2).sum().backward), x.grad]


@program
def grad_dtype_int(m):
    i = m.ones(2, dtype=m.int32)

    def s(v):
        i.grad = v

    i.grad_dtype = m.float64
    return (
        i.grad_dtype,
        attempt(s, m.ones(2, dtype=m.float64)),
        i.grad,
        attempt(s, m.ones(2)),
        i.detach().grad_dtype,
        i.clone().grad_dtype,
        i.view(2).grad_dtype,
    )


@program
def grad_types(m):
    x = m.ones(2)

    def s(v):
        x.grad = v

    def r(d):
        m.ones(2, dtype=d).grad = m.ones(2)

    ds = [m.uint8, m.int8, m.int16, m.bool, m.float16, m.bfloat16, m.complex128, m.complex64, m.int64, m.int32]
    return [attempt(s, m.ones(2, dtype=d)) for d in ds], [attempt(r, d) for d in ds]


@program
def variables(m):
    v = importlib.import_module(f"{m.__name__}.autograd.variable")  # a function hides it
    return (
        isinstance(m.ones(1), v.Variable),
        isinstance(1, v.Variable),
        type(v.Variable) is v.VariableMeta,
        v.VariableMeta.__instancecheck__(v.Variable, m.ones(1)),
        issubclass(v.VariableMeta, type),
        v.Variable(m.ones(2)).requires_grad,
        v.Variable(m.ones(2), requires_grad=True).requires_grad,
        attempt(m.autograd.variable, 1),
    )
