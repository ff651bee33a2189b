"""Arguments of backward and grad, and those of .grad and requires_grad, compared with torch."""

from tests.autograd.programs import attempt, leaf
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


@program
def layout_contract(m):
    p = m.zeros(2, 3, requires_grad=True)
    p.grad = m.zeros(3, 2).t()
    (p * 2).sum().backward()
    return p.grad.stride(), p.grad


@program
def layout_policy(m):
    p = m.zeros(2, 3, requires_grad=True)
    out = []
    for e in (True, False):
        p.grad = None
        with m.autograd.enforce_grad_layout_policy(e) as r:
            (p.t() * m.ones(3, 2)).sum().backward()
        out += [p.grad.clone(), e and p.grad.stride(), r]
        p.grad = None
        with m.autograd.enforce_grad_layout_policy(enable=e):
            p.backward(m.ones(3, 2).t())
        out += [p.grad.clone(), e and p.grad.stride()]
        p.grad = None
        with m.autograd.enforce_grad_layout_policy(e):
            p.t().backward(m.ones(3, 2))
        out += [p.grad.clone(), e and p.grad.stride()]
        p.grad = None
        with m.autograd.enforce_grad_layout_policy(e):
            (p.t() * 2).backward(m.ones(3, 2))
        out += [p.grad.clone(), e and p.grad.stride()]
    return out


@program
def layout_policy_permuted(m):
    out = []
    for e in (True, False):
        p = m.empty(2, 3, 4).permute(2, 0, 1).requires_grad_()
        p.data.zero_()
        with m.autograd.enforce_grad_layout_policy(e):
            (p * 2).sum().backward()
        out.append((p.grad.detach().clone(), e and p.grad.stride()))
        p.grad = None
        with m.autograd.enforce_grad_layout_policy(e):
            p.clone(memory_format=m.contiguous_format).sum().backward()
        out.append((p.grad.detach().clone(), e and p.grad.stride()))
        p.grad = None
        with m.autograd.enforce_grad_layout_policy(e):
            (p.reshape(-1) ** 2).sum().backward()
        out.append((p.grad.detach().clone(), e and p.grad.stride()))
        p.grad = None
        with m.autograd.enforce_grad_layout_policy(e):
            (p**2).sum().backward(create_graph=True)
        out.append((p.grad.detach().clone(), e and p.grad.stride()))
    return out


@program
def layout_policy_modes(m):
    P = m.autograd.enforce_grad_layout_policy

    @P(False)
    def f(p):
        p.grad = None
        p.t().backward(m.ones(3, 2))
        return p.grad

    p = m.zeros(2, 3, requires_grad=True)

    def g():
        return (setattr(p, "grad", None), p.backward(m.ones(3, 2).t()), p.grad)[2]

    a = f(p), g()
    x = P(False)
    b = g()
    x.__exit__(None, None, None)
    c = g()
    return (
        a,
        b,
        c,
        P(False).clone().mode,
        P(True).prev,
        repr(type(P)),
        attempt(P, "a"),
        attempt(P, 1),
        attempt(P, None),
    )


@program
def setgrad_errors(m):
    x = leaf(m, 1.0, 2.0)

    def s(v):
        x.grad = v

    return [
        attempt(s, v)
        for v in (
            1,
            m.ones(3),
            m.ones(2, dtype=m.float64),
            m.ones(2, dtype=m.int64),
            "a",
            x,
            None,
            m.ones(2, 1),
            m.ones(2, dtype=m.complex64),
        )
    ]


@program
def setgrad_int(m):
    x = m.ones(2, dtype=m.int32)

    def s(v):
        x.grad = v

    return [attempt(s, v) for v in (m.ones(2), m.ones(2, dtype=m.int32), x)], x.grad


@program
def setgrad_int_itself(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 2

    def s(v):
        y.grad = v

    return attempt(s, m.ones(2)), attempt(lambda: y.grad), attempt(s, y), y.retains_grad


@program
def delgrad(m):
    x = leaf(m, 1.0, 2.0)
    x.sum().backward()
    return attempt(lambda: delattr(x, "grad")), x.grad


@program
def setrg(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 2

    def s(t, v):
        t.requires_grad = v

    return [
        attempt(s, x, "a"),
        attempt(s, x, 1),
        attempt(s, y, False),
        attempt(s, y, True),
        attempt(s, m.ones(2, dtype=m.int64), True),
        attempt(s, m.ones(2, dtype=m.int64), False),
        attempt(lambda: y.requires_grad_(False)),
        attempt(lambda: m.ones(2, dtype=m.int64).requires_grad_()),
        attempt(lambda: x.requires_grad_(1)),
        attempt(lambda: x.requires_grad_("a")),
        attempt(lambda: delattr(x, "requires_grad")),
    ]


@program
def backward_args(m):
    x = leaf(m, 1.0, 2.0)
    B = m.autograd.backward
    y = x * 2
    return [
        attempt(B, y, grad_tensors=v, retain_graph=True)
        for v in (
            1,
            "ab",
            [1],
            [m.ones(2), m.ones(2)],
            m.ones(3),
            m.ones(2, dtype=m.complex64),
            m.ones(2, dtype=m.float64),
            m.ones(2, dtype=m.int64),
            [None],
            (),
            m.ones(1, 2),
            {"a": 1},
        )
    ]


@program
def backward_args2(m):
    x = leaf(m, 1.0, 2.0)
    B = m.autograd.backward
    y = (x * 2).sum()
    return [
        attempt(B, v, retain_graph=True)
        for v in (
            1,
            "ab",
            [1],
            [y, 1],
            [],
            [y, y],
            (y, m.ones(1)),
            m.ones(()),
            None,
            [None],
            x,
            [[y]],
            {"a": y},
            (t for t in [y, y]),
        )
    ], x.grad


@program
def backward_args3(m):
    x = leaf(m, 1.0, 2.0)
    B = m.autograd.backward
    y = (x * 2).sum()
    return [
        attempt(B, y, retain_graph=True, inputs=v)
        for v in (
            1,
            "ab",
            [1],
            [y, 1],
            [],
            (),
            m.ones(()),
            None,
            [None],
            x,
            [x, x],
            y,
            [x, y],
            m.ones(2),
            {"a": x},
            {},
            {"a": 1},
        )
    ], x.grad


@program
def backward_args4(m):
    x = leaf(m, 1.0, 2.0)
    B = m.autograd.backward
    y = (x * 2).sum()
    return (
        [attempt(B, y, retain_graph=v) for v in (1, 0, "a", [], None)]
        + [attempt(B, (x * 2).sum(), create_graph=v) for v in (1, 0, "a", None)],
        attempt(B),
        attempt(B, y, None, None, False, None, None, None),
        attempt(B, y, foo=1),
        attempt(B, (x * 2).sum(), grad_variables=m.ones(())),
        attempt(B, (x * 2).sum(), m.ones(()), grad_variables=m.ones(())),
    )


@program
def tensor_backward_args(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 2
    return (
        [
            attempt(y.backward, v, retain_graph=True)
            for v in (1, "ab", [m.ones(2)], m.ones(3), m.ones(2, dtype=m.complex64), None)
        ],
        attempt(y.backward, m.ones(2), True, False, []),
        attempt(y.backward, m.ones(2), True, False, [x]),
        attempt(y.backward, foo=1),
        attempt(m.ones(2).backward),
        attempt(m.ones(2, dtype=m.int64).backward),
    )


@program
def grad_args(m):
    x = leaf(m, 1.0, 2.0)
    z = leaf(m, 1.0)
    G = m.autograd.grad
    y = (x * 2).sum()
    return [
        attempt(G, y, v, retain_graph=True)
        for v in (
            1,
            "ab",
            [1],
            [x, 1],
            [],
            (),
            m.ones(()),
            None,
            [None],
            x,
            [x, x],
            y,
            [x, y],
            m.ones(2),
            {"a": x},
            {},
            {"a": 1},
            z,
            [x, z],
            [z, x],
            {"x": x, "z": z},
        )
    ]


@program
def grad_args2(m):
    x = leaf(m, 1.0, 2.0)
    G = m.autograd.grad
    y = (x * 2).sum()
    return [
        attempt(G, v, x, retain_graph=True)
        for v in (1, "ab", [1], [y, 1], [], (), m.ones(()), None, [None], x, y, [y, y], {"a": y})
    ]


@program
def grad_args3(m):
    x = leaf(m, 1.0, 2.0)
    G = m.autograd.grad
    y = x * 2
    return [
        attempt(G, y, x, v, retain_graph=True)
        for v in (
            1,
            "ab",
            [1],
            [m.ones(2), m.ones(2)],
            m.ones(3),
            m.ones(2, dtype=m.complex64),
            m.ones(2, dtype=m.float64),
            m.ones(2, dtype=m.int64),
            [None],
            (),
            m.ones(1, 2),
            m.ones(2, requires_grad=True),
        )
    ]


@program
def grad_args4(m):
    x = leaf(m, 1.0, 2.0)
    z = leaf(m, 1.0)
    G = m.autograd.grad
    y = (x * 2).sum()
    return (
        [
            attempt(G, y, [x, z], retain_graph=True, allow_unused=a, materialize_grads=b)
            for a in (None, True, False)
            for b in (True, False, None)
        ],
        attempt(G, y, x, only_inputs=False, retain_graph=True),
        attempt(G, y, x, None, True, False, True, None, False, True),
        attempt(G, y, x, retain_graph="a"),
        attempt(G),
        attempt(G, y),
        attempt(G, y, x, bar=1),
    )
