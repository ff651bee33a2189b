"""torch.autograd.Function: user-written nodes, compared with torch."""

import warnings

import pytest

PROGRAMS = []


def program(fn):
    PROGRAMS.append(fn)
    return fn


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
def test_same_as_torch(fn, same):
    same(fn)


def cube(m):
    class Cube(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    return Cube


def leaf(m, *values):
    return m.tensor(list(values), requires_grad=True)


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
        type(f).__name__, f.name(), f.next_functions, f.needs_input_grad, f.saved_tensors,
        isinstance(f, m.autograd.function.BackwardCFunction), isinstance(f, m.autograd.graph.Node),
        isinstance(f, m.autograd.function.FunctionCtx), f._forward_cls.__name__, y.output_nr, f.metadata,
    ]  # fmt: skip


@program
def double_backward(m):
    x = leaf(m, 1.0, 2.0)
    y = cube(m).apply(x)
    (g,) = m.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = m.autograd.grad(g.sum(), x, create_graph=True)
    (k,) = m.autograd.grad(h.sum(), x)
    return g, h, k


@program
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


@program
def backward_twice(m):
    x = leaf(m, 1.0, 2.0)
    y = cube(m).apply(x).sum()
    y.backward()
    y.backward()


@program
def backward_twice_through_function_only(m):
    x = leaf(m, 1.0, 2.0)
    y = cube(m).apply(x)
    y.backward(m.ones(2))
    y.backward(m.ones(2))


@program
def saved_tensors_after_free(m):
    x = leaf(m, 1.0, 2.0)
    y = cube(m).apply(x)
    y.backward(m.ones(2))
    return y.grad_fn.saved_tensors


@program
def nothing_saved_twice(m):
    class Two(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(m, 1.0)
    y = Two.apply(x)
    y.backward()
    y.backward()
    return x


@program
def saved_modified(m):
    x = leaf(m, 1.0, 2.0)
    z = x * 1
    y = cube(m).apply(z)
    z.add_(1)
    y.sum().backward()


@program
def saved_output_modified(m):
    class Exp(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    y = Exp.apply(leaf(m, 1.0))
    y.add_(1)
    y.backward()


def _fn(m, backward, forward=None, name="MyFn"):
    return type(m.autograd.Function)(
        name, (m.autograd.Function,),
        {"forward": staticmethod(forward or (lambda ctx, x, y: x * y)), "backward": staticmethod(backward)},
    )  # fmt: skip


def _run(m, backward, forward=None, args=None):
    x, y = leaf(m, 1.0, 2.0), leaf(m, 3.0, 4.0)
    out = _fn(m, backward, forward).apply(*(args or (x, y)))
    out.sum().backward()
    return out, x, y


@program
def too_few_gradients(m):
    return _run(m, lambda ctx, g: g)


@program
def too_many_gradients(m):
    return _run(m, lambda ctx, g: (g, g, g))


@program
def extra_nones(m):
    return _run(m, lambda ctx, g: (g, g, None, None))


@program
def no_gradients(m):
    return _run(m, lambda ctx, g: ())


@program
def none_gradient(m):
    return _run(m, lambda ctx, g: None)


@program
def both_none(m):
    return _run(m, lambda ctx, g: (None, None))


@program
def gradient_not_a_tensor(m):
    return _run(m, lambda ctx, g: (g, 1.0))


@program
def gradient_list(m):
    return _run(m, lambda ctx, g: [g, g])


@program
def gradient_for_number(m):
    return _run(m, lambda ctx, g: (g, g), lambda ctx, x, k: x * k, (leaf(m, 1.0), 2.0))


@program
def gradient_for_tensor_without_grad(m):
    return _run(m, lambda ctx, g: (g, g), None, (leaf(m, 1.0), m.tensor([2.0])))


@program
def wrong_shape(m):
    return _run(m, lambda ctx, g: (g, m.ones(3)))


@program
def wrong_shape_expandable(m):
    return _run(m, lambda ctx, g: (g, m.ones(3, 2)))


@program
def too_small_shape(m):
    return _run(m, lambda ctx, g: (g, m.ones(1)))


@program
def scalar_gradient(m):
    return _run(m, lambda ctx, g: (g, m.tensor(1.0)))


@program
def wrong_dtype(m):
    return _run(m, lambda ctx, g: (g, m.ones(2, dtype=m.float64)))


@program
def integer_gradient(m):
    return _run(m, lambda ctx, g: (g, m.ones(2, dtype=m.int64)))


@program
def complex_gradient(m):
    return _run(m, lambda ctx, g: (g, m.ones(2, dtype=m.complex64)))


@program
def forward_raises(m):
    def forward(ctx, x, y):
        raise ValueError("forward went wrong")

    try:
        _run(m, lambda ctx, g: (g, g), forward)
    except ValueError as e:
        return e, m.is_grad_enabled(), leaf(m, 1.0) * 2


@program
def backward_raises(m):
    def backward(ctx, g):
        raise ValueError("backward went wrong")

    try:
        _run(m, backward)
    except ValueError as e:
        return e, m.is_grad_enabled(), leaf(m, 1.0) * 2


@program
def no_backward(m):
    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    F.apply(leaf(m, 1.0)).backward()


@program
def no_forward(m):
    class F(m.autograd.Function):
        pass

    F.apply(leaf(m, 1.0))


@program
def both_backward_and_vjp(m):
    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

        @staticmethod
        def vjp(ctx, g):
            return g

    F.apply(leaf(m, 1.0)).backward()


@program
def vjp_alias(m):
    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, g):
            return g * 5

    x = leaf(m, 1.0)
    F.apply(x).backward()
    return x


@program
def legacy_call(m):
    class F(m.autograd.Function):
        def forward(self, x):
            return x

        def backward(self, g):
            return g

    return F()(leaf(m, 1.0))


@program
def legacy_apply(m):
    class F(m.autograd.Function):
        def forward(self, x):
            return x

        def backward(self, g):
            return g

    return F.apply(leaf(m, 1.0))


@program
def instance_warns(m):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cube(m)()
    return [(w.category.__name__, str(w.message).split(">")[-1]) for w in caught]


@program
def keyword_arguments(m):
    return cube(m).apply(x=leaf(m, 1.0))


@program
def missing_argument(m):
    return cube(m).apply()


@program
def surplus_argument(m):
    return cube(m).apply(leaf(m, 1.0), 2)


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
def setup_context(m):
    x = leaf(m, 1.0, 2.0)
    y = split_style(m).apply(x, 4)
    y.sum().backward()
    return y, x, y.grad_fn.k, y.grad_fn.shape, y.grad_fn.inputs_len


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


@program
def setup_context_too_many(m):
    return split_style(m).apply(leaf(m, 1.0), 1, 2)


@program
def setup_context_returns_something(m):
    class F(split_style(m)):
        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.k = 1
            return 3

    return F.apply(leaf(m, 1.0), 1)


@program
def under_no_grad(m):
    x = leaf(m, 1.0, 2.0)
    with m.no_grad():
        return cube(m).apply(x)


@program
def without_requires_grad(m):
    return cube(m).apply(m.tensor([1.0]))


@program
def grad_mode_inside(m):
    seen = []

    def forward(ctx, x, y):
        seen.append(
            (m.is_grad_enabled(), (x * 2).requires_grad, x.requires_grad, ctx.needs_input_grad)
        )
        return x * y

    def backward(ctx, g):
        seen.append((m.is_grad_enabled(), g.requires_grad, ctx.needs_input_grad))
        return g, g

    x, y = leaf(m, 1.0), leaf(m, 2.0)
    out = _fn(m, backward, forward).apply(x, y)
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

    out = _fn(m, backward, forward).apply(leaf(m, 1.0), m.tensor([1.0]), 3, [leaf(m, 1.0)])
    out.backward()
    return seen, out.grad_fn.next_functions


@program
def needs_input_grad_under_no_grad(m):
    seen = []

    def forward(ctx, x):
        seen.append(ctx.needs_input_grad)
        return x * 2

    with m.no_grad():
        _fn(m, None, forward).apply(leaf(m, 1.0))
    return seen


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
    return (
        out,
        x,
        out[0].grad_fn.seen,
        [o.output_nr for o in out[:2]],
        out[0].grad_fn is out[1].grad_fn,
    )


@program
def unmaterialized(m):
    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            ctx.seen = (a is None, b is None)
            return b * 3

    x = leaf(m, 1.0, 2.0)
    out = F.apply(x)
    out[1].sum().backward()
    return x, out[0].grad_fn.seen


@program
def single_tuple_output(m):
    return _run(m, lambda ctx, g: (g, g), lambda ctx, x, y: (x * y,))[0:0] or _fn(
        m, lambda ctx, g: (g, g), lambda ctx, x, y: (x * y,)
    ).apply(leaf(m, 1.0), leaf(m, 1.0))


@program
def list_output(m):
    return _fn(m, lambda ctx, g: (g, g), lambda ctx, x, y: [x * y]).apply(
        leaf(m, 1.0), leaf(m, 1.0)
    )


@program
def number_output(m):
    return _fn(m, lambda ctx, g: (g, g), lambda ctx, x, y: 3).apply(leaf(m, 1.0), leaf(m, 1.0))


@program
def none_output(m):
    return _fn(m, lambda ctx, g: (g, g), lambda ctx, x, y: None).apply(leaf(m, 1.0), leaf(m, 1.0))


@program
def integer_tensor_output(m):
    x = leaf(m, 1.0, 2.0)
    y = _fn(m, lambda ctx, g, h: (g, None), lambda ctx, x, y: (x * 2, (x > 1).long())).apply(x, 1)
    y[0].sum().backward()
    return y, x


@program
def non_differentiable(m):
    seen = []

    def forward(ctx, x):
        a, b = x * 2, x * 3
        ctx.mark_non_differentiable(b)
        return a, b

    def backward(ctx, ga, gb):
        seen.append((ga, gb))
        return ga * 2

    x = leaf(m, 1.0, 2.0)
    out = _fn(m, backward, forward).apply(x)
    out[0].sum().backward()
    return out, x, seen


@program
def non_differentiable_unmaterialized(m):
    seen = []

    def forward(ctx, x):
        a, b = x * 2, x * 3
        ctx.mark_non_differentiable(b)
        ctx.set_materialize_grads(False)
        return a, b

    def backward(ctx, ga, gb):
        seen.append((ga, gb))
        return ga * 2

    out = _fn(m, backward, forward).apply(leaf(m, 1.0, 2.0))
    out[0].sum().backward()
    return seen


@program
def non_differentiable_input(m):
    def forward(ctx, x):
        ctx.mark_non_differentiable(x)
        return x

    x = leaf(m, 1.0)
    y = _fn(m, lambda ctx, g: g, forward).apply(x * 1)
    return y, y is x


@program
def mark_non_differentiable_wrong(m):
    def forward(ctx, x):
        ctx.mark_non_differentiable(3)
        return x * 2

    return _fn(m, lambda ctx, g: g, forward).apply(leaf(m, 1.0))


@program
def save_not_a_tensor(m):
    def forward(ctx, x):
        ctx.save_for_backward(x, 3)
        return x * 2

    return _fn(m, lambda ctx, g: g, forward).apply(leaf(m, 1.0))


@program
def save_none(m):
    def forward(ctx, x):
        ctx.save_for_backward(x, None)
        return x * 2

    y = _fn(m, lambda ctx, g: g, forward).apply(leaf(m, 1.0))
    return y.grad_fn.saved_tensors


@program
def save_twice(m):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_backward(x * 2, x * 3)
        return x * 2

    y = _fn(m, lambda ctx, g: g, forward).apply(leaf(m, 1.0))
    return y.grad_fn.saved_tensors


@program
def saved_tensors_in_forward(m):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2, len(ctx.saved_tensors)

    return _fn(m, lambda ctx, g: g, forward).apply(leaf(m, 1.0))


@program
def save_intermediate(m):
    def forward(ctx, x):
        ctx.save_for_backward(x * 2)
        return x * 3

    def backward(ctx, g):
        return g * ctx.saved_tensors[0]

    x = leaf(m, 2.0)
    y = _fn(m, backward, forward).apply(x)
    (g,) = m.autograd.grad(y, x, create_graph=True)
    return g, y.grad_fn.saved_tensors


@program
def return_input(m):
    x = leaf(m, 1.0, 2.0)
    y = _fn(m, lambda ctx, g: g * 5, lambda ctx, x: x).apply(x)
    y.sum().backward()
    return y, x, y is x, y._base is x


@program
def return_input_and_write(m):
    x = leaf(m, 1.0, 2.0) * 1
    y = _fn(m, lambda ctx, g: g * 5, lambda ctx, x: x).apply(x)
    y.add_(1)


@program
def return_input_without_grad(m):
    x = m.tensor([1.0])
    y = _fn(m, lambda ctx, g: g * 5, lambda ctx, x: x).apply(x)
    return y, y is x


@program
def return_input_no_grad_mode(m):
    x = leaf(m, 1.0)
    with m.no_grad():
        y = _fn(m, lambda ctx, g: g * 5, lambda ctx, x: x).apply(x)
    return y, y is x


@program
def return_other_input_without_grad(m):
    x, z = leaf(m, 1.0), m.tensor([3.0])
    y = _fn(m, lambda ctx, g: (g, g * 2), lambda ctx, x, z: z).apply(x, z)
    return y, y is z, z


@program
def return_same_output_twice(m):
    def forward(ctx, x):
        y = x * 2
        return y, y

    x = leaf(m, 1.0)
    a, b = _fn(m, lambda ctx, g, h: g + h, forward).apply(x)
    return a, b, a is b, a.output_nr, b.output_nr


@program
def return_view(m):
    x = leaf(m, 1.0, 2.0)
    z = x * 1
    y = _fn(m, lambda ctx, g: g * 5, lambda ctx, x: x[:1]).apply(z)
    return y, y._base is z


@program
def return_view_and_write(m):
    z = leaf(m, 1.0, 2.0) * 1
    y = _fn(m, lambda ctx, g: g * 5, lambda ctx, x: x[:1]).apply(z)
    y.add_(1)


@program
def return_view_of_temporary(m):
    x = leaf(m, 1.0, 2.0)
    y = _fn(m, lambda ctx, g: g.expand(2) * 5, lambda ctx, x: (x * 2)[:1]).apply(x)
    return y, y._base


@program
def return_view_of_temporary_and_write(m):
    x = leaf(m, 1.0, 2.0)
    y = _fn(m, lambda ctx, g: g.expand(2) * 5, lambda ctx, x: (x * 2)[:1]).apply(x)
    y.mul_(2)


@program
def two_views(m):
    x = leaf(m, 1.0, 2.0) * 1
    a, _ = _fn(m, lambda ctx, g, h: g, lambda ctx, x: (x[:1], x[1:])).apply(x)
    a.add_(1)


@program
def return_detached(m):
    x = leaf(m, 1.0, 2.0)
    y = _fn(m, lambda ctx, g: g * 5, lambda ctx, x: x.detach()).apply(x)
    y.sum().backward()
    return y, x


def _doubles_in_place(ctx, x):
    x.mul_(2)
    ctx.mark_dirty(x)
    return x


@program
def dirty(m):
    x = leaf(m, 1.0, 2.0)
    z = x * 1
    before = z.grad_fn
    y = _fn(m, lambda ctx, g: g * 2, _doubles_in_place).apply(z)
    y.sum().backward()
    return y, x, y is z, y.grad_fn.next_functions[0][0] is before


@program
def dirty_leaf(m):
    x = leaf(m, 1.0)
    return _fn(m, lambda ctx, g: g * 2, _doubles_in_place).apply(x)


@program
def dirty_leaf_without_grad(m):
    x = m.tensor([1.0])
    y = _fn(m, lambda ctx, g: g * 2, _doubles_in_place).apply(x)
    return y, y is x, y._version


@program
def dirty_leaf_other_needs_grad(m):
    x, w = m.tensor([1.0]), leaf(m, 3.0)

    def forward(ctx, x, w):
        x.mul_(w)
        ctx.mark_dirty(x)
        return x

    y = _fn(m, lambda ctx, g: (None, g * 7), forward).apply(x, w)
    y.backward()
    return y, y is x, w


@program
def dirty_not_returned(m):
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x * 1

    return _fn(m, lambda ctx, g: g, forward).apply(leaf(m, 1.0) * 1)


@program
def dirty_not_an_input(m):
    def forward(ctx, x):
        y = x * 2
        ctx.mark_dirty(y)
        return y

    return _fn(m, lambda ctx, g: g, forward).apply(leaf(m, 1.0) * 1)


@program
def dirty_not_a_tensor(m):
    def forward(ctx, x):
        ctx.mark_dirty(3)
        return x

    return _fn(m, lambda ctx, g: g, forward).apply(leaf(m, 1.0) * 1)


@program
def dirty_unmarked_write(m):
    def forward(ctx, x):
        x.mul_(2)
        return x

    z = leaf(m, 1.0) * 1
    y = _fn(m, lambda ctx, g: g, forward).apply(z)
    return y, z, y is z


@program
def dirty_view(m):
    x = leaf(m, 1.0, 2.0, 3.0)
    z = x * 1
    v = z[1:]
    y = _fn(m, lambda ctx, g: g * 2, _doubles_in_place).apply(v)
    (z * m.tensor([1.0, 10.0, 100.0])).sum().backward()
    return y, y is v, z, x, z.grad_fn.next_functions


@program
def dirty_view_double_backward(m):
    x = leaf(m, 1.0, 2.0, 3.0)
    z = x * x
    v = z[1:]
    _fn(m, lambda ctx, g: g * 2, _doubles_in_place).apply(v)
    (g,) = m.autograd.grad((z * z).sum(), x, create_graph=True)
    (h,) = m.autograd.grad(g.sum(), x)
    return g, h


@program
def dirty_view_of_leaf(m):
    x = leaf(m, 1.0, 2.0, 3.0)
    return _fn(m, lambda ctx, g: g * 2, _doubles_in_place).apply(x[1:])


@program
def dirty_view_two_outputs(m):
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x, x * 3

    z = leaf(m, 1.0, 2.0, 3.0) * 1
    return _fn(m, lambda ctx, g, h: g * 2, forward).apply(z[1:])


@program
def dirty_view_two_inputs(m):
    def forward(ctx, x, w):
        x.mul_(w)
        ctx.mark_dirty(x)
        return x

    z, w = leaf(m, 1.0, 2.0, 3.0), leaf(m, 3.0)
    base = z * 1
    v = base[1:]
    _fn(m, lambda ctx, g: (g * 2, g.sum().reshape(1)), forward).apply(v, w)
    base.sum().backward()
    return z, w, base


@program
def dirty_two(m):
    def forward(ctx, a, b):
        a.mul_(2)
        b.mul_(3)
        ctx.mark_dirty(a, b)
        return a, b

    x = leaf(m, 1.0)
    a, b = x * 1, x * 2
    ra, rb = _fn(m, lambda ctx, g, h: (g * 2, h * 3), forward).apply(a, b)
    (ra + rb).backward()
    return ra, rb, x, ra is a, rb is b


@program
def dirty_same_input_twice(m):
    z = leaf(m, 1.0) * 1
    y = _fn(m, lambda ctx, g: (g, g), lambda ctx, a, b: _doubles_in_place(ctx, a)).apply(z, z)
    y.backward()
    return y


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
def once_differentiable_twice(m):
    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @m.autograd.function.once_differentiable
        def backward(ctx, g):
            return 2 * g

    x = leaf(m, 3.0)
    w = leaf(m, 1.0)
    (g,) = m.autograd.grad(F.apply(x), x, w * 2, create_graph=True)
    seen = g.requires_grad, g.grad_fn.name()
    try:
        g.backward()
    except RuntimeError as e:
        return seen, e


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


@program
def inplace_function(m):
    class F(m.autograd.function.InplaceFunction):
        @staticmethod
        def forward(ctx, x, inplace):
            ctx.inplace = inplace
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2, None

    y = F.apply(leaf(m, 1.0), True)
    y.backward()
    return y, y.grad_fn.inplace


@program
def ctx_attributes(m):
    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.a = 3
            ctx.b = {"k": [1, 2]}
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * ctx.a

    x = leaf(m, 1.0)
    y = F.apply(x)
    y.backward()
    return x, y.grad_fn.a, y.grad_fn.b, hasattr(y.grad_fn, "c")


@program
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
    class Both(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.double()

        @staticmethod
        def backward(ctx, g):
            return g

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

    out = _fn(m, lambda ctx, g: (g * ctx.y, g * ctx.x), forward).apply(x, y)
    out.sum().backward()
    return x, y


@program
def complex_function(m):
    x = m.tensor([1 + 2j], requires_grad=True)
    y = cube(m).apply(x)
    y.real.sum().backward()
    return y, x


@program
def input_used_twice(m):
    x = leaf(m, 2.0)
    out = _fn(m, lambda ctx, g: (g * 2, g * 3)).apply(x, x)
    out.backward()
    return x, out.grad_fn.next_functions


@program
def mark_shared_storage(m):
    def forward(ctx, x):
        ctx.mark_shared_storage((x, x))
        return x * 2

    return _fn(m, lambda ctx, g: g, forward).apply(leaf(m, 1.0))


@program
def jvp(m):
    fw = m.autograd.forward_ad

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_forward(x, y)
            return x * y

        @staticmethod
        def jvp(ctx, tx, ty):
            x, y = ctx.saved_tensors
            ctx.seen = (tx.tolist(), ty.tolist())
            return tx * y + x * ty

    with fw.dual_level():
        a = fw.make_dual(m.tensor([2.0]), m.tensor([1.0]))
        out = F.apply(a, m.tensor([5.0]))
        return fw.unpack_dual(out)


@program
def jvp_missing(m):
    fw = m.autograd.forward_ad
    with fw.dual_level():
        a = fw.make_dual(m.tensor([2.0]), m.tensor([1.0]))
        return cube(m).apply(a)


@program
def jvp_wrong_count(m):
    fw = m.autograd.forward_ad

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def jvp(ctx, t):
            return t, t

    with fw.dual_level():
        return F.apply(fw.make_dual(m.tensor([2.0]), m.tensor([1.0])))


@program
def jvp_wrong_shape(m):
    fw = m.autograd.forward_ad

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def jvp(ctx, t):
            return m.ones(3)

    with fw.dual_level():
        return fw.unpack_dual(F.apply(fw.make_dual(m.tensor([2.0]), m.tensor([1.0]))))


@program
def jvp_of_dirty(m):
    fw = m.autograd.forward_ad

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return _doubles_in_place(ctx, x)

        @staticmethod
        def jvp(ctx, t):
            return t.mul_(2)

    with fw.dual_level():
        a = fw.make_dual(m.tensor([2.0]), m.tensor([1.0]))
        b = F.apply(a)
        return fw.unpack_dual(b), a is b


@program
def jvp_of_dirty_out_of_place(m):
    fw = m.autograd.forward_ad

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return _doubles_in_place(ctx, x)

        @staticmethod
        def jvp(ctx, t):
            return t * 2

    with fw.dual_level():
        a = fw.make_dual(m.tensor([2.0]), m.tensor([1.0]))
        return F.apply(a)


@program
def jvp_view(m):
    fw = m.autograd.forward_ad

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x[:1]

        @staticmethod
        def jvp(ctx, t):
            return t[:1]

    with fw.dual_level():
        a = fw.make_dual(m.tensor([2.0, 3.0]), m.tensor([1.0, 5.0]))
        return fw.unpack_dual(F.apply(a))


@program
def jvp_view_wrong(m):
    fw = m.autograd.forward_ad

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x[:1]

        @staticmethod
        def jvp(ctx, t):
            return t[:1] * 1

    with fw.dual_level():
        a = fw.make_dual(m.tensor([2.0, 3.0]), m.tensor([1.0, 5.0]))
        return fw.unpack_dual(F.apply(a))


@program
def inference_mode_inside(m):
    with m.inference_mode():
        return cube(m).apply(m.tensor([2.0]))


@program
def saves_inference_tensor(m):
    with m.inference_mode():
        t = m.tensor([2.0])

    def forward(ctx, x):
        ctx.save_for_backward(t)
        return x * 2

    return _fn(m, lambda ctx, g: g, forward).apply(leaf(m, 1.0))


@program
def saved_with_hooks(m):
    seen = []

    def pack(t):
        seen.append(("pack", t.tolist(), t.grad_fn is None, t.requires_grad))
        return t * 2

    def unpack(t):
        seen.append("unpack")
        return t

    x = leaf(m, 3.0)
    with m.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = cube(m).apply(x)
    y.backward()
    return x, seen


@program
def raw_saved_tensors(m):
    x = leaf(m, 3.0)
    y = cube(m).apply(x)
    seen = []
    (raw,) = y.grad_fn._raw_saved_tensors
    raw.register_hooks(lambda t: (seen.append("pack"), t.detach() * 2)[1], lambda t: t)
    y.backward()
    return x, seen, type(raw).__name__


@program
def traceable(m):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        C = cube(m)
        return hasattr(m.autograd.function, "traceable"), C.is_traceable, len(caught)


@program
def nested_io(m):
    class F(m.autograd.NestedIOFunction):
        @staticmethod
        def forward(ctx, *args):
            return args

    try:
        return F()(leaf(m, 1.0))
    except Exception as e:
        return e


@program
def function_repr(m):
    y = cube(m).apply(leaf(m, 1.0))
    return repr(y.grad_fn), repr(y), cube(m).__name__, cube(m)._backward_cls.__name__


@program
def deep_chain(m):
    x = leaf(m, 1.0)
    y = x
    F = _fn(m, lambda ctx, g: g, lambda ctx, x: x.clone())
    for _ in range(2000):
        y = F.apply(y)
    y.backward()
    return x


@program
def subset_of_inputs(m):
    seen = []

    def backward(ctx, g):
        seen.append(ctx.needs_input_grad)
        return g * 2, g * 3

    x, y = leaf(m, 1.0), leaf(m, 2.0)
    out = _fn(m, backward).apply(x, y)
    out.backward(inputs=[x])
    return seen, x, y


@program
def returns_leaf_created_inside(m):
    def forward(ctx, x):
        return m.ones(1, requires_grad=True)

    return _fn(m, lambda ctx, g: g * 2, forward).apply(leaf(m, 1.0))


@program
def returns_graph_tensor_made_inside(m):
    x = leaf(m, 1.0)

    def forward(ctx, x):
        with m.enable_grad():
            return x * 3

    y = _fn(m, lambda ctx, g: g * 2, forward).apply(x)
    y.backward()
    return y, x


@program
def generate_vmap_rule_default(m):
    return m.autograd.Function.generate_vmap_rule


@program
def vmap_default(m):
    return m.autograd.Function.vmap(None, None)


@program
def default_setup_context(m):
    return m.autograd.Function.setup_context(None, (), None)


@program
def default_jvp(m):
    return m.autograd.Function.jvp(None)


@program
def default_backward(m):
    return m.autograd.Function.backward(None)
