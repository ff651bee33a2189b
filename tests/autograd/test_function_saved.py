"""What a Function saves, and when it can be read, compared with torch."""

from tests.autograd.functions import cube, function, with_backward
from tests.autograd.programs import leaf
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


@program.raises
def saved_result_double_backward(m):
    class Exp(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            ctx.seen = (y.grad_fn is None, y.requires_grad)
            return g * y

    x = leaf(m, 0.5, 1.0)
    y = Exp.apply(x)
    (g,) = m.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = m.autograd.grad(g.sum(), x)
    return g, h, y.grad_fn.seen, y.grad_fn.saved_tensors[0]


@program.raises
def backward_twice(m):
    x = leaf(m, 1.0, 2.0)
    y = cube(m).apply(x).sum()
    y.backward()
    y.backward()


@program
def nothing_saved_twice(m):
    Two = function(m, lambda ctx, x: x * 2, lambda ctx, g: g * 2, name="Two")
    x = leaf(m, 1.0)
    y = Two.apply(x)
    y.backward()
    y.backward()
    return x


@program.raises
def saved_modified(m):
    x = leaf(m, 1.0, 2.0)
    z = x * 1
    y = cube(m).apply(z)
    z.add_(1)
    y.sum().backward()


@program.raises
def saves_inference_tensor(m):
    with m.inference_mode():
        t = m.tensor([2.0])

    def forward(ctx, x):
        ctx.save_for_backward(t)
        return x * 2

    return with_backward(m, lambda ctx, g: g, forward).apply(leaf(m, 1.0))


@program
def raw_saved_tensors(m):
    x = leaf(m, 3.0)
    y = cube(m).apply(x)
    seen = []
    (raw,) = y.grad_fn._raw_saved_tensors
    raw.register_hooks(lambda t: (seen.append("pack"), t.detach() * 2)[1], lambda t: t)
    y.backward()
    return x, seen, type(raw).__name__
