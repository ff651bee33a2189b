"""What a Function may return: several tensors, its inputs, views, no tensors at all; compared with torch."""

from tests.autograd.functions import with_backward
from tests.autograd.programs import leaf
from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


@program
def several_outputs(m):
    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3, 7, "text", None

        @staticmethod
        def backward(ctx, *gs):
            ctx.seen = [None if g is None else g.tolist() for g in gs]
            return gs[0] * 2 + gs[1] * 3

    x = leaf(m, 1.0, 2.0)
    out = F.apply(x)
    out[1].sum().backward()
    return (out, x, out[0].grad_fn.seen, [o.output_nr for o in out[:2]], out[0].grad_fn is out[1].grad_fn)


@program
def single_tuple_output(m):
    product = with_backward(m, lambda ctx, g: (g, g), lambda ctx, x, y: (x * y,))
    return product.apply(leaf(m, 1.0), leaf(m, 1.0))


@program
def integer_tensor_output(m):
    x = leaf(m, 1.0, 2.0)
    y = with_backward(m, lambda ctx, g, h: (g, None), lambda ctx, x, y: (x * 2, (x > 1).long())).apply(x, 1)
    y[0].sum().backward()
    return y, x


@program
def non_differentiable_input(m):
    def forward(ctx, x):
        ctx.mark_non_differentiable(x)
        return x

    x = leaf(m, 1.0)
    y = with_backward(m, lambda ctx, g: g, forward).apply(x * 1)
    return y, y is x


@program
def return_input_without_grad(m):
    x = m.tensor([1.0])
    y = with_backward(m, lambda ctx, g: g * 5, lambda ctx, x: x).apply(x)
    return y, y is x


@program
def return_input_no_grad_mode(m):
    x = leaf(m, 1.0)
    with m.no_grad():
        y = with_backward(m, lambda ctx, g: g * 5, lambda ctx, x: x).apply(x)
    return y, y is x


@program
def return_other_input_without_grad(m):
    x, z = leaf(m, 1.0), m.tensor([3.0])
    y = with_backward(m, lambda ctx, g: (g, g * 2), lambda ctx, x, z: z).apply(x, z)
    return y, y is z, z


@program
def return_same_output_twice(m):
    def forward(ctx, x):
        y = x * 2
        return y, y

    x = leaf(m, 1.0)
    a, b = with_backward(m, lambda ctx, g, h: g + h, forward).apply(x)
    return a, b, a is b, a.output_nr, b.output_nr


@program
def return_view(m):
    x = leaf(m, 1.0, 2.0)
    z = x * 1
    y = with_backward(m, lambda ctx, g: g * 5, lambda ctx, x: x[:1]).apply(z)
    return y, y._base is z


@program
def return_view_of_temporary(m):
    x = leaf(m, 1.0, 2.0)
    y = with_backward(m, lambda ctx, g: g.expand(2) * 5, lambda ctx, x: (x * 2)[:1]).apply(x)
    return y, y._base


@program.raises
def return_view_of_temporary_and_write(m):
    x = leaf(m, 1.0, 2.0)
    y = with_backward(m, lambda ctx, g: g.expand(2) * 5, lambda ctx, x: (x * 2)[:1]).apply(x)
    y.mul_(2)


@program
def one_of_two_returned_views_takes_no_write(m):
    views = with_backward(m, lambda ctx, g, h: m.stack([g, h]), lambda ctx, x: (x[0], x[1]))
    alone = with_backward(m, lambda ctx, g: m.stack([g, g]), lambda ctx, x: (x[0], 7))
    x = leaf(m, 1.0, 2.0) * 1
    return [complaint(lambda out=out: out.add_(1)) for out in (*views.apply(x), alone.apply(x)[0])]


@program
def return_detached(m):
    x = leaf(m, 1.0, 2.0)
    y = with_backward(m, lambda ctx, g: g * 5, lambda ctx, x: x.detach()).apply(x)
    y.sum().backward()
    return y, x


@program
def subset_of_inputs(m):
    seen = []

    def backward(ctx, g):
        seen.append(ctx.needs_input_grad)
        return g * 2, g * 3

    x, y = leaf(m, 1.0), leaf(m, 2.0)
    out = with_backward(m, backward).apply(x, y)
    out.backward(inputs=[x])
    return seen, x, y


@program
def returns_leaf_created_inside(m):
    def forward(ctx, x):
        return m.ones(1, requires_grad=True)

    return with_backward(m, lambda ctx, g: g * 2, forward).apply(leaf(m, 1.0))


@program
def returns_graph_tensor_made_inside(m):
    x = leaf(m, 1.0)

    def forward(ctx, x):
        with m.enable_grad():
            return x * 3

    y = with_backward(m, lambda ctx, g: g * 2, forward).apply(x)
    y.backward()
    return y, x
