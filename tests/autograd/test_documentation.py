"""Programs after the chapters of the documentation on autograd; what they print is compared with torch."""

import threading

import pytest

from tests.autograd.programs import attempt, leaf
from tests.programs import Programs

program = Programs()


SHOWN = []


def show(*values):
    """Print, so to say."""
    SHOWN.append(" ".join(map(str, values)))


def printed(fn):
    def run(m):
        SHOWN.clear()
        fn(m)
        return list(SHOWN)

    run.__name__ = fn.__name__
    return run


@pytest.mark.parametrize("fn", program, ids=lambda f: f.__name__)
def test_prints_what_torch_prints(fn, same):
    same(printed(fn))


@program
def mechanics_saved(m):
    x = leaf(m, 1.0, 2.0, 3.0, 4.0, 5.0)
    y = x.pow(2)
    show(x.equal(y.grad_fn._saved_self))
    show(x is y.grad_fn._saved_self)
    y = x.exp()
    show(y.equal(y.grad_fn._saved_result))
    show(y is y.grad_fn._saved_result)
    show(y.grad_fn, type(y.grad_fn._saved_result).__name__, y.grad_fn._saved_result)


@program
def mechanics_nondiff(m):
    x = leaf(m, 0.0, -0.0, 4.0)
    for f in ("abs", "sqrt", "relu", "sign", "floor", "reciprocal", "log", "neg"):
        (g,) = m.autograd.grad(getattr(x, f)().sum(), x)
        show(f, g)
    y = leaf(m, 1.0, 1.0, 3.0, 3.0)
    show(m.autograd.grad(y.max(), y))
    show(m.autograd.grad(y.amax(), y))
    show(m.autograd.grad(y.min(), y))
    show(m.autograd.grad(y.median(), y))
    show(m.autograd.grad(y.norm(), y))
    show(m.autograd.grad(m.maximum(y, y.flip(0)).sum(), y))
    show(m.autograd.grad(y.clamp(1, 3).sum(), y))


@program
def mechanics_requires(m):
    x = m.zeros(2)
    z = leaf(m, 5.0, 6.0)
    show(x.requires_grad, (x + x).requires_grad, (x + z).requires_grad, x.is_leaf, (x + z).is_leaf)
    x.requires_grad_()
    show(x)
    show(x + 1)
    show((x * 2).detach())
    show(z.detach().requires_grad)
    show(z.data)
    show(m.zeros(1, requires_grad=True))
    show(repr(x.sum()))
    show(x.sum().grad_fn)


@program
def mechanics_modes(m):
    x = leaf(m, 1.0)
    with m.no_grad():
        y = x * 2
        y.requires_grad
        show(y, y.requires_grad)
    with m.no_grad(), m.enable_grad():
        show(x * 2)
    with m.inference_mode():
        y = x * x
        show(y.requires_grad, y.is_inference())
    try:
        y._version
    except RuntimeError as e:
        show(e)
    try:
        x * y
    except RuntimeError as e:
        show(e)

    @m.inference_mode()
    def f(x):
        return x * x

    show(f(x).requires_grad)

    @m.inference_mode
    def g(x):
        return x * x

    show(g(x).requires_grad)


@program
def mechanics_inplace(m):
    x = leaf(m, 1.0, 2.0)
    for f in (
        lambda: x.add_(1),
        lambda: x.view(2).mul_(2),
        lambda: x[0].fill_(2.0),
        lambda: x.zero_(),
        lambda: x.detach().add_(1),
        lambda: x.data.mul_(2),
        lambda: x.copy_(m.ones(2)),
        lambda: x.__setitem__(0, 1.0),
    ):
        r = attempt(f)
        show(r[0][1])
    y = x * 1
    y.add_(1)
    show(y)
    y[0] = 5
    show(y)
    y.sum().backward()
    show(x.grad)


@program
def mechanics_complex(m):
    z = m.tensor([1 + 2j], requires_grad=True)
    L = (z.abs() ** 2).sum()
    L.backward()
    show(z.grad)
    z.grad = None
    (z * z.conj()).real.sum().backward()
    show(z.grad)
    z.grad = None
    z.imag.sum().backward()
    show(z.grad)
    show(z.conj())
    show(z * 2)
    show(z.conj().grad_fn)


@program
def mechanics_threads(m):
    x = m.ones(5, 5, requires_grad=True)

    def train():
        y = (x + 3) * (x + 4) * 0.5
        y.sum().backward()

    ts = [threading.Thread(target=train) for _ in range(4)]
    [t.start() for t in ts]
    [t.join() for t in ts]
    show(x.grad[0])


@program
def mechanics_hooks_saved(m):
    class Self:
        pass

    def pack(x):
        show("Packing", x)
        return x

    def unpack(x):
        show("Unpacking", x)
        return x

    a = m.ones(5, requires_grad=True)
    b = m.ones(5, requires_grad=True) * 2
    with m.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = a * b
    y.sum().backward()
    show(a.grad)
    x = leaf(m, 1.0, 2.0)
    y = x.pow(2)
    y.grad_fn._raw_saved_self.register_hooks(lambda t: (show("p", t), t * 1)[1], lambda t: (show("u", t), t)[1])
    show(y.grad_fn._saved_self)
    y.sum().backward()
    show(x.grad)


@program
def mechanics_tensor_hooks(m):
    t1 = leaf(m, 1.0).sin()
    t1.register_hook(lambda g: show("first", g))
    t1.retain_grad()
    t1.register_hook(lambda g: (show("second", g), g * 2)[1])
    t1.sum().backward()
    show(t1.grad)
    a = leaf(m, 0.0)
    b = a.clone() * 1
    a.register_hook(lambda g: show("a", g))
    b.register_hook(lambda g: show("b", g))
    b.grad_fn.register_prehook(lambda g: show("pre", g))
    b.grad_fn.register_hook(lambda i, o: show("post", i, o))
    b.sum().backward()


@program
def ext_linear(m):
    class Linear(m.autograd.Function):
        @staticmethod
        def forward(input, weight, bias=None):
            out = input.mm(weight.t())
            return out if bias is None else out + bias.unsqueeze(0).expand_as(out)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            i, w, b = ctx.saved_tensors
            gi = gw = gb = None
            if ctx.needs_input_grad[0]:
                gi = g.mm(w)
            if ctx.needs_input_grad[1]:
                gw = g.t().mm(i)
            if b is not None and ctx.needs_input_grad[2]:
                gb = g.sum(0)
            return gi, gw, gb

    x = m.arange(6.0).reshape(2, 3).double().requires_grad_()
    w = m.arange(12.0).reshape(4, 3).double().requires_grad_()
    b = m.ones(4).double().requires_grad_()
    o = Linear.apply(x, w, b)
    show(o)
    o.sum().backward()
    show(x.grad, w.grad, b.grad)
    show(m.autograd.gradcheck(Linear.apply, (x, w, b)))
    show(Linear.apply(x, w, None))
    try:
        show(Linear.apply(x, w))
    except Exception as e:
        show(type(e).__name__, e)


@program
def ext_mulconst(m):
    class MulConstant(m.autograd.Function):
        @staticmethod
        def forward(tensor, constant):
            return tensor * constant

        @staticmethod
        def setup_context(ctx, inputs, output):
            _t, c = inputs
            ctx.constant = c
            ctx.set_materialize_grads(False)

        @staticmethod
        def backward(ctx, g):
            if g is None:
                return None, None
            return g * ctx.constant, None

    x = leaf(m, 1.0, 2.0)
    y = MulConstant.apply(x, 3)
    show(y)
    y.sum().backward()
    show(x.grad)
    show(y.grad_fn.constant, y.grad_fn.next_functions)


@program
def ext_cube(m):
    class MyCube(m.autograd.Function):
        @staticmethod
        def forward(x):
            dx = 3 * x**2
            return x**3, dx

        @staticmethod
        def setup_context(ctx, inputs, output):
            (x,) = inputs
            _r, dx = output
            ctx.save_for_backward(x, dx)

        @staticmethod
        def backward(ctx, g, gdx):
            x, dx = ctx.saved_tensors
            return g * dx + gdx * 6 * x

    def cube(x):
        return MyCube.apply(x)[0]

    x = m.tensor([1.0, 2.0], dtype=m.float64, requires_grad=True)
    show(m.autograd.gradcheck(cube, (x,)), m.autograd.gradgradcheck(cube, (x,)))
    show(cube(x))


@program
def dbl_sinh(m):
    class Sinh(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ex = m.exp(x)
            en = m.exp(-x)
            ctx.save_for_backward(ex, en)
            return (ex - en) / 2

        @staticmethod
        def backward(ctx, g):
            ex, en = ctx.saved_tensors
            return g * (ex + en) / 2

    class Sinh2(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ex = m.exp(x)
            en = m.exp(-x)
            ctx.save_for_backward(ex, en)
            return (ex - en) / 2, ex, en

        @staticmethod
        def backward(ctx, g, ge, gn):
            ex, en = ctx.saved_tensors
            r = g * (ex + en) / 2
            r += ge * ex
            r -= gn * en
            return r

    x = m.tensor([0.5, 1.0], dtype=m.float64, requires_grad=True)
    show(m.autograd.gradcheck(Sinh.apply, (x,)))
    r = attempt(m.autograd.gradgradcheck, Sinh.apply, (x,))
    show(r[0][0])
    show(m.autograd.gradcheck(lambda x: Sinh2.apply(x)[0], x), m.autograd.gradgradcheck(lambda x: Sinh2.apply(x)[0], x))
    show(Sinh2.apply(x))


@program
def dbl_reentrant(m):
    class Square(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x

    x = m.tensor([3.0], dtype=m.float64, requires_grad=True)
    o = Square.apply(x)
    (g,) = m.autograd.grad(o.sum(), x, create_graph=True)
    show(g.requires_grad)
    show(m.autograd.grad(g.sum(), x))
    show(m.autograd.gradgradcheck(Square.apply, x))


@program
def fwd_tutorial(m):
    fw = m.autograd.forward_ad
    primal = m.ones(2, 2)
    tangent = m.full((2, 2), 2.0)

    def fn(x, y):
        return x**2 + y**2

    with fw.dual_level():
        d = fw.make_dual(primal, tangent)
        show(fw.unpack_dual(d).tangent is tangent)
        show(d)
        other = fw.make_dual(primal, tangent.t())
        show(fw.unpack_dual(other).tangent is tangent)
        o = fn(d, m.ones(2, 2))
        show(fw.unpack_dual(o).tangent)
        show(fw.unpack_dual(o))
    show(fw.unpack_dual(o).tangent)

    class Fn(m.autograd.Function):
        @staticmethod
        def forward(ctx, foo):
            r = m.exp(foo)
            ctx.result = r
            return r

        @staticmethod
        def jvp(ctx, g):
            gI = g * ctx.result
            del ctx.result
            return gI

    with fw.dual_level():
        d = fw.make_dual(m.ones(2, dtype=m.float64), m.ones(2, dtype=m.float64))
        show(fw.unpack_dual(Fn.apply(d)))
    show(
        m.autograd.gradcheck(
            Fn.apply,
            (m.tensor([1.0, 2.0], dtype=m.float64, requires_grad=True),),
            check_forward_ad=True,
            check_backward_ad=False,
            check_undefined_grad=False,
            check_batched_grad=False,
        )
    )


@program
def docstring_ctx(m):
    class Func(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, y, z):
            w = x * z
            out = x * y + y * z + w * y
            ctx.save_for_backward(x, y, w, out)
            ctx.z = z
            return out

        @staticmethod
        def backward(ctx, g):
            x, y, w, _out = ctx.saved_tensors
            z = ctx.z
            return g * (y + y * z), g * (x + z + w), None

    a = leaf(m, 1.0)
    b = leaf(m, 2.0)
    d = Func.apply(a, b, 4)
    show(d)
    d.backward()
    show(a.grad, b.grad)

    class Inplace(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g

    a = leaf(m, 1.0).clone()
    b = a * a
    Inplace.apply(a)
    r = attempt(b.backward)
    show(r[0][1])

    class Sort(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            s, i = x.sort()
            ctx.mark_non_differentiable(i)
            ctx.save_for_backward(x, i)
            return s, i

        @staticmethod
        def backward(ctx, g, gi):
            x, i = ctx.saved_tensors
            o = m.zeros_like(x)
            o.index_add_(0, i, g)
            show(gi)
            return o

    x = leaf(m, 3.0, 1.0, 2.0)
    s, i = Sort.apply(x)
    show(s, i)
    (s * m.tensor([1.0, 2.0, 3.0])).sum().backward()
    show(x.grad)

    class Simple(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(x)
            return x.clone(), x.clone()

        @staticmethod
        def backward(ctx, g1, g2):
            show(g1, g2)
            return g1

    a = leaf(m, 1.0)
    b, _ = Simple.apply(a)
    b.backward()


@program
def docstring_multi(m):
    q = m.autograd.graph
    a, b, c, d = (leaf(m, 1.0, 2.0) for _ in range(4))

    def fn(grads):
        show([g is not None for g in grads])

    h = q.register_multi_grad_hook((a, b, c, d), fn)
    x = a * b
    x.sum().backward(retain_graph=True)
    c.sum().backward(retain_graph=True)
    (a * b * c * d).sum().backward()
    h.remove()


@program
def docstring_anomaly(m):
    class MyFunc(m.autograd.Function):
        @staticmethod
        def forward(ctx, inp):
            return inp.clone()

        @staticmethod
        def backward(ctx, g):
            raise RuntimeError("Some error in backward")

    def run(a):
        return MyFunc.apply(a).sum()

    o = run(m.ones(10, 10, requires_grad=True))
    r = attempt(o.backward)
    show(r)
    with m.autograd.set_detect_anomaly(True):
        o = run(m.ones(10, 10, requires_grad=True))
        r = attempt(o.backward)
        show(r[0])
        show("run(" in r[1][0][1], r[1][0][1].split("\n")[0])


@program
def docstring_edge(m):
    x = leaf(m, 1.0, 2.0)
    y = x * 3
    e = m.autograd.graph.get_gradient_edge(y)
    z = (y**2).sum()
    show(m.autograd.grad(z, e))
    show(e.node, e.output_nr)
    with m.autograd.graph.allow_mutation_on_saved_tensors():
        a = m.ones(2, 3, requires_grad=True)
        b = a.clone()
        o = (b**2).sum()
        b.sin_()
        o.sum().backward()
        show(a.grad)
    show(m.autograd.graph.Node.__subclasshook__(type(y.grad_fn)))


@program
def handle_print(m):
    v = leaf(m, 0.0, 0.0, 0.0)
    h = v.register_hook(lambda g: g * 2)
    v.backward(m.tensor([1.0, 2.0, 3.0]))
    show(v.grad)
    h.remove()
    show(v._backward_hooks)
    show(type(h).__name__)
    v.register_post_accumulate_grad_hook(lambda p: None)
    v.backward(m.tensor([1.0, 2.0, 3.0]))
    show(v.grad, v)


@program
def funcs_repr(m):
    x = leaf(m, 1.0, 2.0)
    show(x * 2)
    show((x * 2).sum())
    show(x[0])
    show(x.view(2, 1))
    show(x.exp().grad_fn)
    show(x.unbind())
    show(x.sort())
    show(x.max(0))
    show(x.t())
    show(m.stack([x, x]))
    show(x.detach())
    show(m.nn.Parameter(m.ones(2)))
