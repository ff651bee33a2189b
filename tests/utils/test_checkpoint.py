"""torch.utils.checkpoint: values and how often things are computed, compared with torch."""

import contextlib
import functools

from tests.programs import Programs
from tests.utils.checkpointed import error, leaf, module

program = Programs()
test_same_as_torch = program.test()


class Counted:
    """A function that counts its operations."""

    def __init__(self, *names):
        self.names, self.ran = names, []

    def __call__(self, x):
        for name in self.names:
            self.ran.append(name)
            x = getattr(x, name)()
        return x


@program
def without_reentrant(m):
    x, f = leaf(m, 0.5, 1.0), Counted("sin", "exp", "cos", "neg")
    y = module(m).checkpoint(f, x * 2, use_reentrant=False)
    y.sum().backward()
    return y, x, f.ran


@program
def with_reentrant(m):
    x, f = leaf(m, 0.5, 1.0), Counted("sin", "exp", "cos", "neg")
    y = module(m).checkpoint(f, x * 2, use_reentrant=True)
    y.sum().backward()
    return y, x, f.ran


@program
def unspecified_variant(m):
    x = leaf(m, 0.5)
    y = module(m).checkpoint(lambda a: a.exp(), x)
    y.sum().backward()
    return y, x


@program
def early_stop_off(m):
    c = module(m)
    x, f, g = leaf(m, 0.5), Counted("exp", "neg"), Counted("exp", "neg")
    with c.set_checkpoint_early_stop(False):
        y = c.checkpoint(f, x, use_reentrant=False)
    z = c.checkpoint(g, x, use_reentrant=False, early_stop=False)
    (y + z).sum().backward()
    return x, f.ran, g.ran


@program
def early_stop_setting_wins(m):
    c = module(m)
    x, f = leaf(m, 0.5), Counted("exp", "neg")
    with c.set_checkpoint_early_stop(True):
        y = c.checkpoint(f, x, use_reentrant=False, early_stop=False)
    y.sum().backward()
    return x, f.ran


@program
def inputs_that_left_the_graph(m):
    found = []
    for reentrant in (False, True):
        for change in (
            lambda t: t.detach_(),
            lambda t: t.add_(1),
            lambda t: t.detach_().add_(1),
            lambda t: t.detach_().requires_grad_(),
        ):
            x = m.tensor(1.0, requires_grad=True)
            t = x + x
            y = module(m).checkpoint(lambda a, b: (a * b).exp().sum(), t, t, use_reentrant=reentrant)
            with m.no_grad():
                change(t)
            found.append((error(y.neg().backward), x.grad))
    return found


@program
def nothing_to_recompute(m):
    x, f = leaf(m, 0.5), Counted("neg", "neg")
    module(m).checkpoint(f, x, use_reentrant=False).sum().backward()
    return x, f.ran


@program
def nested(m):
    c = module(m)
    x, inner, outer = leaf(m, 0.5, 1.0), Counted("sin", "exp"), Counted("cos", "exp")

    def both(a):
        return outer(c.checkpoint(inner, a.exp(), use_reentrant=False))

    y = c.checkpoint(both, x, use_reentrant=False)
    y.sum().backward()
    return y, x, inner.ran, outer.ran


@program
def nested_thrice(m):
    c = module(m)
    x, f = leaf(m, 0.5, 1.0), Counted("sin")
    wrapped = f
    for _ in range(3):
        wrapped = functools.partial(c.checkpoint, wrapped, use_reentrant=False)
    (wrapped(x * 1) * wrapped(x * 2)).sum().backward()
    return x, f.ran


@program
def reentrant_nested(m):
    c = module(m)
    x, f = leaf(m, 0.5, 1.0), Counted("sin", "exp")
    y = c.checkpoint(lambda a: c.checkpoint(f, a.exp(), use_reentrant=True), x, use_reentrant=True)
    y.sum().backward()
    return x, f.ran


@program
def arguments_of_all_kinds(m):
    seen = []

    def f(a, n, b, *, scale, text="t"):
        seen.append((n, text))
        return a * b * scale, n, None, [b.exp()], {"k": (a + n).sin()}

    x, y = leaf(m, 0.5), leaf(m, 2.0)
    out = module(m).checkpoint(f, x, 3, y, scale=m.tensor([4.0]), use_reentrant=False)
    (out[0] + out[3][0] + out[4]["k"]).sum().backward()
    return out, x, y, seen


@program
def reentrant_arguments(m):
    def f(a, n, nothing, b):
        assert nothing is None
        return a * b * n, None, n, b.exp()

    x, y = leaf(m, 0.5), leaf(m, 2.0)
    out = module(m).checkpoint(f, x, 3, None, y, use_reentrant=True)
    (out[0] + out[3]).sum().backward()
    return [o if isinstance(o, int) or o is None else o.detach() for o in out], x, y


@program
def reentrant_part_of_outputs(m):
    x = leaf(m, 0.5)
    a, b = module(m).checkpoint(lambda t: (t.exp(), t.detach() * 2), x, use_reentrant=True)
    a.sum().backward()
    return x, a.grad_fn, a.requires_grad, b.requires_grad


@program
def grad_and_higher_order(m):
    x = leaf(m, 0.5, 1.0)
    y = module(m).checkpoint(lambda a: (a**3).sin(), x, use_reentrant=False)
    (g,) = m.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = m.autograd.grad(g.sum(), x)
    return g.detach(), h


@program
def retained(m):
    x, f = leaf(m, 0.5), Counted("sin", "exp")
    y = module(m).checkpoint(f, x, use_reentrant=False).sum()
    y.backward(retain_graph=True)
    y.backward(retain_graph=True)
    y.backward()
    return x, f.ran, error(y.backward)


@program
def part_of_the_graph(m):
    x, w, f = leaf(m, 0.5), leaf(m, 2.0), Counted("sin", "exp")
    y = module(m).checkpoint(lambda a: f(a) * w, x, use_reentrant=False).sum()
    return m.autograd.grad(y, w, retain_graph=True), m.autograd.grad(y, x), f.ran


@program
def backward_with_inputs(m):
    x, f = leaf(m, 0.5), Counted("sin", "exp")
    module(m).checkpoint(f, x, use_reentrant=False).sum().backward(inputs=[x])
    return x


@program
def hooks_see_the_same(m):
    log = []
    x = leaf(m, 0.5)

    def f(a):
        b = a.sin()
        if b.requires_grad:
            b.register_hook(lambda g: log.append(g.tolist()))
        return b.exp()

    y = module(m).checkpoint(f, x, use_reentrant=False)
    y.grad_fn.register_hook(lambda gi, go: log.append("node"))
    y.sum().backward()
    return x, log


@program
def custom_function(m):
    class Cube(m.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a, a * a)
            return a**3

        @staticmethod
        def backward(ctx, g):
            _, square = ctx.saved_tensors
            return g * 3 * square

    x = leaf(m, 0.5)
    y = module(m).checkpoint(lambda a: Cube.apply(a.sin()).exp(), x, use_reentrant=False)
    y.sum().backward()
    return y, x


@program
def in_place_inside(m):
    x = leaf(m, 0.5)

    def f(a):
        b = a * 2
        b.exp_()
        b[0].mul_(0.25)
        return b.sin()

    y = module(m).checkpoint(f, x, use_reentrant=False)
    y.sum().backward()
    return y, x


@program
def views_and_matrices(m):
    w = m.arange(6.0).reshape(2, 3).requires_grad_()
    x = m.arange(4.0).reshape(2, 2).requires_grad_()
    y = module(m).checkpoint(lambda a, b: (a @ b).t().relu() @ a, x, w, use_reentrant=False)
    y.sum().backward()
    return y, w, x


@program
def backward_inside(m):
    x, f = leaf(m, 0.5), Counted("sin", "exp")

    def g(a):
        b = f(a)
        (d,) = m.autograd.grad(b.sum(), a, retain_graph=True)
        return b * d

    with module(m).set_checkpoint_early_stop(False):
        y = module(m).checkpoint(g, x * 1, use_reentrant=False)
    y.sum().backward()
    return x, f.ran


@program
def without_recording(m):
    x, f = leaf(m, 0.5), Counted("sin", "exp")
    entered = []

    @contextlib.contextmanager
    def note(name):
        entered.append(name)
        yield

    with m.no_grad():
        y = module(m).checkpoint(f, x, use_reentrant=False, context_fn=lambda: (note("forward"), note("again")))
    return y, entered


@program
def contexts(m):
    entered = []

    @contextlib.contextmanager
    def note(name):
        entered.append(name)
        yield
        entered.append(name + " end")

    x = leaf(m, 0.5)
    y = module(m).checkpoint(
        lambda a: a.sin().exp(), x, use_reentrant=False, context_fn=lambda: (note("forward"), contextlib.ExitStack())
    )
    y.sum().backward()
    return x, entered


@program
def random_numbers_again(m):
    m.manual_seed(3)
    x = m.ones(20, requires_grad=True)
    for reentrant in (False, True):
        y = module(m).checkpoint(lambda a: m.nn.functional.dropout(a * 2, 0.5) * a, x, use_reentrant=reentrant)
        m.rand(3)
        y.sum().backward()
    return y.detach(), x.grad, m.rand(2)


@program
def random_numbers_not_kept(m):
    m.manual_seed(3)
    drawn = []

    def f(a):
        r = m.rand(1)
        drawn.append(r.item())
        return (a * r).exp()

    x = leaf(m, 1.0)
    y = module(m).checkpoint(f, x, use_reentrant=False, preserve_rng_state=False)
    y.sum().backward()
    return len(drawn), drawn[0] == drawn[1], m.rand(1)


@program
def sequential(m):
    x = leaf(m, 0.5, 1.0)
    steps = [Counted("sin"), Counted("exp"), Counted("cos"), Counted("sin"), Counted("exp")]
    for reentrant in (True, False):
        module(m).checkpoint_sequential(steps, 2, x, use_reentrant=reentrant).sum().backward()
    return x, [s.ran for s in steps]


@program
def sequential_module(m):
    m.manual_seed(0)
    x = leaf(m, 0.5, 1.0)
    one = module(m).checkpoint_sequential([m.sin], 1, x, use_reentrant=False)
    return (
        one,
        error(lambda: module(m).checkpoint_sequential([m.sin], 1, x)),
        error(lambda: module(m).checkpoint_sequential([m.sin], 1, x, use_reentrant=False, other=1)),
    )


@program
def group_of_passes(m):
    c = module(m)
    x, f = leaf(m, 0.5), Counted("sin", "exp")
    with c.set_checkpoint_early_stop(False):
        a, b = c.checkpoint(lambda t: (f(t), f(t * 2)), x, use_reentrant=False)
    with c.GraphExecGroup():
        a.sum().backward(retain_graph=True)
        b.sum().backward(retain_graph=True)
        again = error(a.sum().backward)
    return x, f.ran, again


@program
def input_written_to(m):
    x = leaf(m, 0.5)
    z = x * 2
    y = module(m).checkpoint(lambda a: a.sin(), z, use_reentrant=False)
    z.add_(1)
    return error(y.sum().backward)


@program
def autocast_is_what_it_was(m):
    """The recomputation casts as the forward did, wherever the backward pass runs."""
    found = []
    for reentrant in (False, True):
        for fast in (None, m.bfloat16, m.float16):
            x = leaf(m, 1.125, 2.25).float().detach().requires_grad_()
            w = leaf(m, 0.3, 0.7).float().detach().requires_grad_()
            seen = []

            def f(t, w=w, seen=seen):
                kind = m.get_autocast_dtype("cpu")
                seen.append((m.is_autocast_enabled("cpu"), str(kind), m.is_autocast_cache_enabled()))
                return t.outer(w) @ w

            with m.autocast("cpu", dtype=fast, enabled=fast is not None, cache_enabled=False):
                y = module(m).checkpoint(f, x, use_reentrant=reentrant)
            y.float().sum().backward()
            seen = [(on, kind.rpartition(".")[2], caching) for on, kind, caching in seen]
            found.append((y.detach(), x.grad, w.grad, seen, m.is_autocast_enabled("cpu")))
    return found
