"""Functions as part of larger graphs: nested, reentrant, hooked, used twice; compared with torch."""

from tests.autograd.functions import cube, function, with_backward
from tests.autograd.programs import leaf
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


@program
def once_differentiable(m):
    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @m.autograd.function.once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            ctx.mode = m.is_grad_enabled()
            return 2 * x * g

    x = leaf(m, 3.0)
    y = F.apply(x)
    (g,) = m.autograd.grad(y, x, retain_graph=True)
    (h,) = m.autograd.grad(y, x, create_graph=True)
    return g, h, y.grad_fn.mode


@program
def nested_functions(m):
    inner = cube(m)

    class Outer(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            with m.enable_grad():
                a = x.detach().requires_grad_()
                y = inner.apply(a)
                (ctx.g,) = m.autograd.grad(y.sum(), a)
            return y.detach()

        @staticmethod
        def backward(ctx, g):
            return inner.apply(g) * ctx.g

    x = leaf(m, 1.0, 2.0)
    y = Outer.apply(x)
    (g,) = m.autograd.grad(y.sum(), x, create_graph=True)
    return y, g


@program
def reentrant_backward(m):
    seen = []

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with m.enable_grad():
                ctx.a = x.detach().requires_grad_()
                ctx.y = ctx.a * ctx.a
            return ctx.y.detach()

        @staticmethod
        def backward(ctx, g):
            seen.append(m.is_grad_enabled())
            with m.enable_grad():
                ctx.y.sum().backward()
            return ctx.a.grad * g

    x = leaf(m, 3.0)
    F.apply(x).backward()
    return x, seen


@program.raises
def ctx_missing_attribute(m):
    return cube(m).apply(leaf(m, 1.0)).grad_fn.nothing


@program
def backward_changes_needs(m):
    y = cube(m).apply(leaf(m, 1.0))
    y.grad_fn.needs_input_grad = (False,)
    y.grad_fn.materialize_grads = False
    return y.grad_fn.needs_input_grad


@program
def backward_calls_function_again(m):
    C = cube(m)
    x = leaf(m, 2.0)
    return C.backward(C.apply(x).grad_fn, m.ones(1))


@program
def hooks_on_function_node(m):
    seen = []
    x = leaf(m, 1.0, 2.0)
    y = cube(m).apply(x)
    y.grad_fn.register_prehook(lambda gs: seen.append(("pre", gs)))
    y.grad_fn.register_hook(lambda gi, go: seen.append(("post", gi, go)))
    y.register_hook(lambda g: seen.append(("tensor", g)))
    y.sum().backward()
    return seen, x


@program
def hook_changes_function_gradient(m):
    x = leaf(m, 1.0, 2.0)
    y = cube(m).apply(x)
    y.grad_fn.register_hook(lambda gi, go: (gi[0] * 10,))
    y.grad_fn.register_prehook(lambda gs: (gs[0] * 2,))
    y.sum().backward()
    return x


@program
def double_input(m):
    Both = function(m, lambda ctx, x: x.double(), lambda ctx, g: g, name="Both")
    x = leaf(m, 1.0)
    y = Both.apply(x)
    y.backward()
    return y, x


@program
def sum_reduced(m):
    x, y = leaf(m, 1.0), m.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)

    def forward(ctx, x, y):
        ctx.x, ctx.y = x, y
        return x * y

    out = with_backward(m, lambda ctx, g: (g * ctx.y, g * ctx.x), forward).apply(x, y)
    out.sum().backward()
    return x, y


@program
def input_used_twice(m):
    x = leaf(m, 2.0)
    out = with_backward(m, lambda ctx, g: (g * 2, g * 3)).apply(x, x)
    out.backward()
    return x, out.grad_fn.next_functions
