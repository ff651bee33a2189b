"""torch.autograd.Function: how one is written, called and nested, compared with torch."""

import warnings

from tests.autograd.functions import cube, with_backward
from tests.autograd.programs import leaf
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


@program
def simple(m):
    x = leaf(m, 1.0, 2.0)
    y = cube(m).apply(x)
    y.sum().backward()
    return y, x


@program
def node_identity(m):
    x = leaf(m, 1.0, 2.0)
    y = cube(m).apply(x)
    f = y.grad_fn
    return [
        type(f).__name__,
        f.name(),
        f.next_functions,
        f.needs_input_grad,
        f.saved_tensors,
        isinstance(f, m.autograd.function.BackwardCFunction),
        isinstance(f, m.autograd.graph.Node),
        isinstance(f, m.autograd.function.FunctionCtx),
        f._forward_cls.__name__,
        y.output_nr,
        f.metadata,
    ]


@program
def double_backward(m):
    x = leaf(m, 1.0, 2.0)
    y = cube(m).apply(x)
    (g,) = m.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = m.autograd.grad(g.sum(), x, create_graph=True)
    (k,) = m.autograd.grad(h.sum(), x)
    return g, h, k


@program
def instance_warns(m):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cube(m)()
    return [(w.category.__name__, str(w.message).split(">")[-1]) for w in caught]


def split_style(m):
    class Mul(m.autograd.Function):
        @staticmethod
        def forward(x, k=3):
            return x * k

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.k = inputs[1]
            ctx.shape = tuple(output.shape)
            ctx.inputs_len = len(inputs)

        @staticmethod
        def backward(ctx, g):
            return g * ctx.k, None

    return Mul


@program
def setup_context_default_argument(m):
    x = leaf(m, 1.0, 2.0)
    y = split_style(m).apply(x)
    y.sum().backward()
    return y, x, y.grad_fn.inputs_len


@program
def setup_context_keyword(m):
    x = leaf(m, 1.0, 2.0)
    return split_style(m).apply(x, k=2)


@program.raises
def setup_context_too_many(m):
    return split_style(m).apply(leaf(m, 1.0), 1, 2)


@program
def grad_mode_inside(m):
    seen = []

    def forward(ctx, x, y):
        seen.append((m.is_grad_enabled(), (x * 2).requires_grad, x.requires_grad, ctx.needs_input_grad))
        return x * y

    def backward(ctx, g):
        seen.append((m.is_grad_enabled(), g.requires_grad, ctx.needs_input_grad))
        return g, g

    x, y = leaf(m, 1.0), leaf(m, 2.0)
    out = with_backward(m, backward, forward).apply(x, y)
    m.autograd.grad(out, x, retain_graph=True)
    m.autograd.grad(out, x, create_graph=True)
    m.autograd.grad(out, y)
    return seen


@program
def needs_input_grad(m):
    seen = []

    def forward(ctx, a, b, c, d):
        seen.append(ctx.needs_input_grad)
        return a * 2

    def backward(ctx, g):
        seen.append(ctx.needs_input_grad)
        return g, None, None, None

    out = with_backward(m, backward, forward).apply(leaf(m, 1.0), m.tensor([1.0]), 3, [leaf(m, 1.0)])
    out.backward()
    return seen, out.grad_fn.next_functions


@program
def function_repr(m):
    y = cube(m).apply(leaf(m, 1.0))
    return repr(y.grad_fn), repr(y), cube(m).__name__, cube(m)._backward_cls.__name__


@program
def deep_chain(m):
    x = leaf(m, 1.0)
    y = x
    F = with_backward(m, lambda ctx, g: g, lambda ctx, x: x.clone())
    for _ in range(2000):
        y = F.apply(y)
    y.backward()
    return x


@program.raises
def default_setup_context(m):
    return m.autograd.Function.setup_context(None, (), None)


@program.raises
def default_jvp(m):
    return m.autograd.Function.jvp(None)


@program.raises
def default_backward(m):
    return m.autograd.Function.backward(None)
