"""What checkpoint refuses and notices, compared with torch."""

import contextlib

from tests.programs import Programs
from tests.utils.checkpointed import error, leaf, module

program = Programs()
test_same_as_torch = program.test()


@program
def fewer_tensors(m):
    x, calls = leaf(m, 0.5), []

    def f(a):
        calls.append(1)
        return (a.sin().exp() if len(calls) == 2 else a.sin().exp().sin()).exp()

    y = module(m).checkpoint(f, x, use_reentrant=False)
    return error(y.sum().backward), len(calls)


@program
def more_tensors(m):
    x, calls = leaf(m, 0.5), []

    def f(a):
        calls.append(1)
        return (a.sin().exp() if len(calls) == 1 else a.sin().exp().sin()).exp()

    with module(m).set_checkpoint_early_stop(False):
        y = module(m).checkpoint(f, x, use_reentrant=False)
    return error(y.sum().backward), len(calls)


def _changing(m, check):
    x, calls = leaf(m, 0.5), []

    def f(a):
        calls.append(1)
        return a.sin() if len(calls) == 1 else m.cat([a, a]).sin()

    return module(m).checkpoint(f, x, use_reentrant=False, determinism_check=check)


@program
def other_metadata(m):
    return error(_changing(m, "default").sum().backward)


@program
def unknown_check(m):
    return error(lambda: _changing(m, "strict"))


@program
def unpacked_twice(m):
    class Twice(m.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * 2

        @staticmethod
        def backward(ctx, g):
            _ = ctx.saved_tensors
            return g * ctx.saved_tensors[0]

    x = leaf(m, 0.5)
    y = module(m).checkpoint(lambda a: Twice.apply(a.sin()), x, use_reentrant=False)
    return error(y.sum().backward)


@program
def raising_in_the_recomputation(m):
    x, calls = leaf(m, 0.5), []

    def f(a):
        calls.append(1)
        b = a.sin()
        if len(calls) == 2:
            raise KeyError("again")
        return b.exp()

    y = module(m).checkpoint(f, x, use_reentrant=False)
    first = error(lambda: y.sum().backward(retain_graph=True))
    x.grad = None
    y.sum().backward()  # nothing of the failed pass is left
    return first, x, m.is_grad_enabled(), len(calls)


@program
def raising_in_the_forward(m):
    def f(a):
        a.sin()
        raise KeyError("now")

    x = leaf(m, 0.5)
    first = error(lambda: module(m).checkpoint(f, x, use_reentrant=False))
    saved = x.exp().grad_fn._saved_result  # no hook is left behind
    return first, saved


@program
def swallowed_exception(m):
    def f(a):
        raise KeyError("now")

    return error(
        lambda: module(m).checkpoint(
            f,
            leaf(m, 0.5),
            use_reentrant=False,
            context_fn=lambda: (contextlib.suppress(KeyError), contextlib.nullcontext()),
        )
    )


@program
def reentrant_with_grad(m):
    x = leaf(m, 0.5)
    y = module(m).checkpoint(lambda a: a.sin(), x, use_reentrant=True)
    return error(lambda: m.autograd.grad(y.sum(), x)), error(lambda: y.sum().backward(inputs=[x]))


@program
def reentrant_without_need(m):
    x = leaf(m, 0.5)
    y = module(m).checkpoint(lambda a: a.detach() * 2, x, use_reentrant=True)
    return error(y.sum().backward)


@program
def reentrant_inputs_without_grad(m):
    w = leaf(m, 2.0)
    return module(m).checkpoint(lambda a: a * w, m.ones(1), use_reentrant=True)


@program
def wrong_keywords(m):
    c, x = module(m), leaf(m, 0.5)
    return [
        error(lambda: c.checkpoint(m.sin, x, use_reentrant=True, out=None, other=1)),
        error(lambda: c.checkpoint(m.sin, x, use_reentrant=True, debug=True)),
        error(lambda: c.checkpoint(m.sin, x, use_reentrant=True, context_fn=lambda: None)),
        error(lambda: c.checkpoint(m.sin, x, use_reentrant=False, debug=True, context_fn=lambda: None)),
        error(lambda: c.detach_variable([x])),
    ]


@program
def nested_groups(m):
    c = module(m)
    with c.GraphExecGroup():
        try:
            with c.GraphExecGroup():
                pass
        except RuntimeError as e:
            return str(e).partition("Already")[0]


@program
def detached_variables(m):
    c, x = module(m), leaf(m, 0.5)
    a, b, n = c.detach_variable((x * 2, m.ones(1), 3))
    return a, b, n, c.DefaultDeviceType.get_device_type(), c.get_device_states(x, [m.ones(2)])
