"""Rows of torch.autograd.function: what a Function may define, and what its methods do with `ctx`."""

from tests.autograd.page.rows import Rows, leaf, text_of_error

FUNCTIONS = Rows()


def function(m, *, base=None, **methods):
    """A subclass of Function; methods are given as lambdas, options as values."""
    made = {k: staticmethod(v) if callable(v) else v for k, v in methods.items()}
    return type("Made", (base or m.autograd.Function,), made)


@FUNCTIONS("Function: example, Function.forward, Function.backward, Function.apply")
def exponential(m):
    class Exp(m.autograd.Function):
        @staticmethod
        def forward(ctx, i):
            result = i.exp()
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx, grad_output):
            (result,) = ctx.saved_tensors
            return grad_output * result

    x = leaf(m, 0, 1)
    y = Exp.apply(x)
    y.sum().backward()
    bare = function(m)
    return y, x.grad, text_of_error(lambda: bare.apply(x)), text_of_error(lambda: bare.backward(None))


@FUNCTIONS("Function.setup_context(ctx, inputs, output), Function.generate_vmap_rule")
def setup_context(m):
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    F = function(
        m, forward=lambda x: x**2, setup_context=setup_context, generate_vmap_rule=True,
        backward=lambda ctx, g: g * 2 * ctx.saved_tensors[0],
    )  # fmt: skip
    x = leaf(m, 1, 2)
    F.apply(x).sum().backward()
    return x.grad, m.func.vmap(m.func.grad(F.apply))(x.detach())


@FUNCTIONS("Function.vjp")
def vjp(m):
    x = leaf(m, 1, 2)
    F = function(m, forward=lambda ctx, x: x * 2, vjp=lambda ctx, g: g * 2)
    both = function(m, forward=lambda ctx, x: x * 2, vjp=lambda ctx, g: g, backward=lambda ctx, g: g)
    F.apply(x).sum().backward()
    return x.grad, text_of_error(lambda: both.apply(x).sum().backward())


@FUNCTIONS("Function.jvp")
def jvp(m):
    fw = m.autograd.forward_ad
    F = function(m, forward=lambda ctx, x: x * 2, jvp=lambda ctx, t: t * 3)
    with fw.dual_level():
        x = fw.make_dual(m.ones(2), m.ones(2))
        bare = function(m, forward=lambda ctx, x: x * 2)
        return fw.unpack_dual(F.apply(x)), text_of_error(lambda: bare.apply(x))


@FUNCTIONS("Function.vmap(info, in_dims)")
def vmap(m):
    seen = []

    def vmap(info, in_dims, x):
        seen.append((info.batch_size, info.randomness, in_dims))
        return x * 2, in_dims[0]

    F = function(m, forward=lambda x: x * 2, setup_context=lambda ctx, inputs, output: None, vmap=vmap)
    bare = function(m, forward=lambda x: x * 2, setup_context=lambda ctx, inputs, output: None)
    x = m.arange(6.0).reshape(2, 3)
    return m.func.vmap(F.apply, 1, 1)(x), seen, text_of_error(lambda: m.func.vmap(bare.apply)(x))


@FUNCTIONS("Function.clear_saved_tensors_on_access, Function.boxed_grads_call")
def switches(m):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    once = function(
        m, forward=forward, clear_saved_tensors_on_access=True,
        backward=lambda ctx, g: (ctx.saved_tensors, ctx.saved_tensors)[0][0] * g,
    )  # fmt: skip
    boxed = function(m, forward=forward, backward=lambda ctx, grads: grads.pop() * 3, boxed_grads_call=True)
    x = leaf(m, 1, 2)
    boxed.apply(x).sum().backward()
    defaults = m.autograd.Function.clear_saved_tensors_on_access, m.autograd.Function.boxed_grads_call
    return x.grad, text_of_error(lambda: once.apply(x).sum().backward()), defaults


@FUNCTIONS("FunctionCtx.save_for_backward: example, once_differentiable(fn)")
def save_for_backward(m):
    def forward(ctx, x, y, z):
        w = x * z
        out = x * y + y * z + w * y
        ctx.save_for_backward(x, y, w, out, None)
        ctx.z = z
        return out

    def backward(ctx, g):
        x, y, w, _out, nothing = ctx.saved_tensors
        assert nothing is None
        return g * (y + y * ctx.z), g * (x + ctx.z + w), None

    F = function(m, forward=forward, backward=m.autograd.function.once_differentiable(fn=backward))
    a, b = leaf(m, 1, dtype="float64"), leaf(m, 2, dtype="float64")
    first = m.autograd.grad(F.apply(a, b, 4), [a, b], create_graph=True)
    return [t.detach() for t in first], text_of_error(lambda: m.autograd.grad(first[0], a))


@FUNCTIONS("FunctionCtx.save_for_forward: example")
def save_for_forward(m):
    def forward(ctx, x, y, z):
        ctx.save_for_backward(x, y)
        ctx.save_for_forward(x, y)
        ctx.z = z
        return x * y * z

    def jvp(ctx, x_t, y_t, _):
        x, y = ctx.saved_tensors
        return ctx.z * (y * x_t + x * y_t)

    def vjp(ctx, g):
        x, y = ctx.saved_tensors
        return ctx.z * g * y, ctx.z * g * x, None

    F, fw = function(m, forward=forward, jvp=jvp, vjp=vjp), m.autograd.forward_ad
    a, b = leaf(m, 1, dtype="float64"), leaf(m, 2, dtype="float64")
    with fw.dual_level():
        y_t = m.zeros(1, dtype=m.float64)
        d = F.apply(fw.make_dual(a, m.ones(1, dtype=m.float64)), fw.make_dual(b, y_t), 4)
        tangent = fw.unpack_dual(d).tangent.detach()
    bad = function(m, forward=lambda ctx, x: (ctx.save_for_forward(3), x)[1])
    return tangent, m.autograd.grad(F.apply(a, b, 4), [a, b]), text_of_error(lambda: bad.apply(a))


@FUNCTIONS("FunctionCtx.mark_dirty: example")
def mark_dirty(m):
    def forward(ctx, x):
        x_npy = x.detach().numpy()
        x_npy += 1
        ctx.mark_dirty(x)
        return x

    F = function(m, forward=forward, backward=lambda ctx, g: g)
    a = leaf(m, 1, dtype="float64").clone()
    b = a * a
    F.apply(a)
    return a.detach(), text_of_error(b.backward)


@FUNCTIONS("FunctionCtx.mark_non_differentiable: example")
def mark_non_differentiable(m):
    def forward(ctx, x):
        values, index = x.sort()
        ctx.mark_non_differentiable(index)
        ctx.save_for_backward(x, index)
        return values, index

    def backward(ctx, g1, g2):
        x, index = ctx.saved_tensors
        return m.zeros_like(x).index_add_(0, index, g1)

    x = leaf(m, 3, 1, 2)
    values, index = function(m, forward=forward, backward=backward).apply(x)
    (values * m.tensor([1.0, 2.0, 3.0])).sum().backward()
    return index.requires_grad, values.requires_grad, x.grad


@FUNCTIONS("FunctionCtx.set_materialize_grads(value): example")
def set_materialize_grads(m):
    def run(value):
        seen = []

        def forward(ctx, x):
            ctx.set_materialize_grads(value=value)
            return x.clone(), x.clone()

        def backward(ctx, g1, g2):
            seen.append(g2)
            return g1

        a = leaf(m, 1)
        b, _ = function(m, forward=forward, backward=backward).apply(a)
        b.sum().backward()
        return seen, a.grad

    return run(False), run(True)


FUNCTIONS["FunctionCtx.mark_shared_storage"] = lambda m: m.autograd.function.FunctionCtx().mark_shared_storage((1, 2))


@FUNCTIONS("_ContextMethodMixin")
def context_methods(m):
    function = m.autograd.function
    ctx = function._ContextMethodMixin()
    ctx.save_for_backward(1, 2), ctx.mark_dirty(3), ctx.mark_non_differentiable(4), ctx.set_materialize_grads(False)
    given = ctx.to_save, ctx.dirty_tensors, ctx.non_differentiable, ctx.materialize_grads
    return function._ContextMethodMixin is function.FunctionCtx, given


@FUNCTIONS(
    "BackwardCFunction.apply, BackwardCFunction.apply_boxed, BackwardCFunction.apply_jvp, "
    "BackwardCFunction.needs_input_grad, BackwardCFunction.next_functions, BackwardCFunction.requires_grad, "
    "BackwardCFunction.saved_tensors, BackwardCFunction.saved_variables, BackwardCFunction.to_save, "
    "BackwardCFunction.saved_for_forward, BackwardCFunction.dirty_tensors, BackwardCFunction.non_differentiable, "
    "BackwardCFunction.materialize_grads, BackwardCFunction.maybe_clear_saved_tensors, BackwardCFunction.metadata, "
    "BackwardCFunction.name, BackwardCFunction.register_hook, BackwardCFunction.register_prehook"
)
def node_of_a_function(m):
    def forward(ctx, x, y):
        ctx.save_for_backward(x)
        given = ctx.needs_input_grad, ctx.to_save, ctx.saved_for_forward, ctx.dirty_tensors
        ctx.seen = given, ctx.non_differentiable, text_of_error(lambda: ctx.materialize_grads)
        return x * y

    F = function(m, forward=forward, backward=lambda ctx, g: (g * 2, None), jvp=lambda ctx, t, u: t * 5)
    x = leaf(m, 1, 2)
    y = F.apply(x, 3.0)
    node = y.grad_fn
    node.register_prehook(lambda grads: (grads[0] * 10,))
    node.register_hook(lambda inputs, outputs: (inputs[0] + 1, None))
    seen = node.name(), node.requires_grad, node.next_functions[0][1], node.metadata, node.saved_tensors, node.seen
    runs = node.apply(m.ones(2)), node.apply_boxed([m.ones(2)]), node.apply_jvp(m.ones(2), None)
    y.sum().backward(retain_graph=True)
    kept = node.saved_variables
    node.maybe_clear_saved_tensors()
    return seen, runs, kept, x.grad, isinstance(node, m.autograd.function.BackwardCFunction)


@FUNCTIONS("FunctionMeta(name, bases, attrs)")
def meta(m):
    M = m.autograd.function.FunctionMeta
    name, bases, attrs = "Made", (m.autograd.Function,), {"forward": staticmethod(lambda ctx, x: x * 2)}
    F = M(name, bases, attrs)
    return type(F) is M, F._backward_cls.__name__, F.apply(leaf(m, 1)).grad_fn.name()


@FUNCTIONS("InplaceFunction(inplace)")
def inplace(m):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = [m.autograd.function.InplaceFunction(inplace=flag).inplace for flag in (True, False)]
    F = function(
        m, base=m.autograd.function.InplaceFunction, forward=lambda ctx, x: x * 2, backward=lambda ctx, g: g * 2
    )
    x = leaf(m, 1)
    F.apply(x).backward()
    return made, x.grad


@FUNCTIONS(
    "NestedIOFunction.backward, NestedIOFunction.backward_extended(grad_output), NestedIOFunction.forward, "
    "NestedIOFunction.forward_extended(input), NestedIOFunction.mark_dirty, NestedIOFunction.save_for_backward, "
    "NestedIOFunction.mark_non_differentiable, NestedIOFunction.saved_tensors"
)
def nested(m):
    N = m.autograd.function.NestedIOFunction
    ctx = N.__new__(N)
    N.save_for_backward(ctx, 1 * m.ones(1), [m.ones(2)])
    N.mark_dirty(ctx, m.ones(1))
    N.mark_non_differentiable(ctx, m.ones(3))
    kept = len(ctx.to_save), ctx.dirty_tensors, ctx.non_differentiable
    return kept, [
        text_of_error(lambda: N.forward_extended(ctx, input=1)),
        text_of_error(lambda: N.backward_extended(ctx, grad_output=1)),
        text_of_error(lambda: N.saved_tensors.fget(ctx))[0],
        N.forward.__qualname__,
        N.backward.__qualname__,
    ]


@FUNCTIONS("VariableMeta")
def variable_meta(m):
    from importlib import import_module

    variable = import_module(f"{m.__name__}.autograd.variable")
    return type(variable.Variable) is variable.VariableMeta, isinstance(m.ones(1), variable.Variable)
