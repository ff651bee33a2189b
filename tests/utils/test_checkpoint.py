"""torch.utils.checkpoint: numbers, how often what runs again, errors, and what stays in memory."""

import contextlib
import functools
import gc
import importlib
import threading
import weakref
from typing import Any

import pytest

import torchgrad_jax

tg: Any = torchgrad_jax

PROGRAMS = []


def program(fn):
    PROGRAMS.append(fn)
    return fn


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
def test_same_as_torch(fn, same):
    same(fn)


def module(m) -> Any:
    return importlib.import_module(f"{m.__name__}.utils.checkpoint")


def leaf(m, *values):
    return m.tensor(list(values), requires_grad=True)


def error(run):
    """What a call raises, without the advice at the end of a checkpoint's errors."""
    try:
        return run()
    except Exception as e:
        return type(e).__name__, str(e).partition("\n\nTip:")[0]


class Counted:
    """A function that counts its operations."""

    def __init__(self, *names):
        self.names, self.ran = names, []

    def __call__(self, x):
        for name in self.names:
            self.ran.append(name)
            x = getattr(x, name)()
        return x


# --- values and counts ----------------------------------------------------------------------------


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
        b[0].mul_(3)
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
        y = module(m).checkpoint(
            f, x, use_reentrant=False, context_fn=lambda: (note("forward"), note("again"))
        )
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
        lambda a: a.sin().exp(), x, use_reentrant=False,
        context_fn=lambda: (note("forward"), contextlib.ExitStack()),
    )  # fmt: skip
    y.sum().backward()
    return x, entered


@program
def random_numbers_again(m):
    m.manual_seed(3)
    x = m.ones(20, requires_grad=True)
    for reentrant in (False, True):
        y = module(m).checkpoint(
            lambda a: m.nn.functional.dropout(a * 2, 0.5) * a, x, use_reentrant=reentrant
        )
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
    return one, error(lambda: module(m).checkpoint_sequential([m.sin], 1, x)), error(
        lambda: module(m).checkpoint_sequential([m.sin], 1, x, use_reentrant=False, other=1)
    )  # fmt: skip


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


# --- errors ---------------------------------------------------------------------------------------


@program
def input_written_to(m):
    x = leaf(m, 0.5)
    z = x * 2
    y = module(m).checkpoint(lambda a: a.sin(), z, use_reentrant=False)
    z.add_(1)
    return error(y.sum().backward)


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
            f, leaf(m, 0.5), use_reentrant=False,
            context_fn=lambda: (contextlib.suppress(KeyError), contextlib.nullcontext()),
        )
    )  # fmt: skip


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
    ]  # fmt: skip


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


# --- selective ------------------------------------------------------------------------------------


@program
def selective_values(m):
    c = module(m)
    x = m.arange(4.0).reshape(2, 2).requires_grad_()
    save = [m.ops.aten.mm.default, m.ops.aten.sin.default]
    y = c.checkpoint(
        lambda a: ((a @ a).sin() @ a).exp(), x, use_reentrant=False,
        context_fn=functools.partial(c.create_selective_checkpoint_contexts, save),
    )  # fmt: skip
    y.sum().backward()
    return y, x


@program
def selective_policy(m):
    c = module(m)
    asked = []

    def policy(ctx, op, *args, **kwargs):
        asked.append((str(op), tuple(ctx.op_output.shape), ctx.is_recompute, len(args)))
        return op == m.ops.aten.mm.default

    x = m.ones(2, 2, requires_grad=True)
    y = c.checkpoint(
        lambda a: (a @ a).sin() * 2, x, use_reentrant=False,
        context_fn=lambda: c.create_selective_checkpoint_contexts(policy),
    )  # fmt: skip
    y.sum().backward()
    return x, asked


@program
def selective_once(m):
    c = module(m)
    x = leaf(m, 0.5)
    y = c.checkpoint(
        lambda a: a.sin().exp(), x, use_reentrant=False,
        context_fn=lambda: c.create_selective_checkpoint_contexts([m.ops.aten.sin.default]),
    )  # fmt: skip
    y.sum().backward(retain_graph=True)
    return x, error(y.sum().backward)


@program
def selective_mismatch(m):
    c = module(m)
    x, calls = leaf(m, 0.5), []

    def f(a):
        calls.append(1)
        return (a.sin() if len(calls) == 1 else a.cos()).exp()

    y = c.checkpoint(
        f, x, use_reentrant=False,
        context_fn=lambda: c.create_selective_checkpoint_contexts([m.ops.aten.sin.default]),
    )  # fmt: skip
    return error(y.sum().backward)


@program
def selective_mutated(m):
    c = module(m)
    outs = []
    for allowed in (False, True):
        kept = []

        def f(a, kept=kept):
            b = a * 2
            kept.append(b)
            return b.sin().sin()

        x = leaf(m, 0.5)
        y = c.checkpoint(
            f, x, use_reentrant=False,
            context_fn=lambda allowed=allowed: c.create_selective_checkpoint_contexts(
                [m.ops.aten.mul.Tensor], allow_cache_entry_mutation=allowed
            ),
        )  # fmt: skip
        with m.no_grad():
            kept[0].mul_(1)
        outs.append((error(y.sum().backward), x))
    return outs


@program
def selective_arguments(m):
    c = module(m)
    names = [p.name for p in c.CheckpointPolicy], [p.value for p in c.CheckpointPolicy]
    packet = error(lambda: c.create_selective_checkpoint_contexts([m.ops.aten.mm]))
    return names, packet[0], "change it to" in packet[1], error(
        lambda: c.create_selective_checkpoint_contexts(3)
    )  # fmt: skip


# --- ours alone -----------------------------------------------------------------------------------


def _held(frees):
    """Which of a function's intermediate storages are still there after the forward."""
    refs = []

    def f(a):
        for _ in range(4):
            a = a.sin()
            refs.append(weakref.ref(a._st))
        return a

    x = tg.ones(3, requires_grad=True)
    y = tg.utils.checkpoint.checkpoint(f, x * 1, use_reentrant=False) if frees else f(x * 1)
    gc.collect()
    return [r() is not None for r in refs], y


@pytest.mark.parametrize("frees", [True, False])
def test_intermediate_results_are_not_kept(frees):
    held, _ = _held(frees)
    assert held == [not frees] * 3 + [True]  # the last is the result itself


def test_recomputed_values_go_as_the_pass_goes_on():
    refs = []

    def f(a):
        for _ in range(3):
            a = a.sin()
            refs.append(weakref.ref(a._st))
        return a

    x = tg.ones(3, requires_grad=True)
    y = tg.utils.checkpoint.checkpoint(f, x, use_reentrant=False)
    y.sum().backward()
    gc.collect()
    assert [r() is not None for r in refs] == [False, False, True, False, False]


def test_a_graph_with_a_checkpoint_is_freed_without_the_collector():
    x = tg.ones(3, requires_grad=True)
    y = tg.utils.checkpoint.checkpoint(lambda a: a.sin().exp(), x * 1, use_reentrant=False)
    ref = weakref.ref(y.grad_fn)
    gc.disable()
    try:
        del y
        assert ref() is None
    finally:
        gc.enable()


def test_kept_results_are_not_computed_again():
    c = tg.utils.checkpoint
    products, sines = [], []

    def f(a):
        b = a @ a
        products.append(b._st.array)
        d = b.sin()
        sines.append(d._st.array)
        return d.exp()

    y = c.checkpoint(
        f, tg.ones(2, 2, requires_grad=True), use_reentrant=False,
        context_fn=lambda: c.create_selective_checkpoint_contexts([tg.ops.aten.mm.default]),
    )  # fmt: skip
    y.sum().backward()
    assert len(products) == len(sines) == 2
    assert products[0] is products[1]
    assert sines[0] is not sines[1]


def test_modes_are_left_as_they_were():
    from torchgrad_jax._core.state import MODES

    bits = MODES.bits
    c = tg.utils.checkpoint
    x = tg.ones(2, requires_grad=True)

    def fails(a):
        if not calls:
            calls.append(1)
            return a.sin()
        raise ValueError("again")

    for save in (None, [tg.ops.aten.sin.default]):
        calls: list[int] = []
        keep = {} if save is None else {
            "context_fn": functools.partial(c.create_selective_checkpoint_contexts, save)
        }  # fmt: skip
        y = c.checkpoint(fails, x, use_reentrant=False, **keep)
        with pytest.raises(ValueError, match="again"):
            y.sum().backward()
        assert (MODES.bits, MODES.observers, MODES.pack_hooks) == (bits, (), ())


def test_debug_names_the_operations():
    calls = []

    def f(a):
        calls.append(1)
        return a.sin() if len(calls) == 1 else a.double().sin()

    x = tg.ones(3, requires_grad=True)
    y = tg.utils.checkpoint.checkpoint(f, x, use_reentrant=False, debug=True)
    with pytest.raises(tg.utils.checkpoint.CheckpointError) as caught:
        y.sum().backward()
    text = str(caught.value)
    assert text.startswith("An error happened while unpacking tensors; dumping logs")
    assert "aten::sin(float32[3]) -> float32[3]   (1 of 1 in original)" in text
    assert "aten::_to_copy(float32[3]) -> float64[3]   (1 of 2 in recompute)" in text
    assert "aten::sin(float64[3])   (2 of 2 in recompute)" in text
    assert f"{__file__}:" in text


def test_debug_for_all_calls():
    c = tg.utils.checkpoint
    with c.set_checkpoint_debug_enabled(True), pytest.raises(ValueError, match="debug=True"):
        c.checkpoint(tg.sin, tg.ones(1), use_reentrant=False, context_fn=lambda: (None, None))


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_anomaly_mode_names_the_failing_node():
    x = tg.zeros(1, requires_grad=True)
    with tg.autograd.detect_anomaly():
        y = tg.utils.checkpoint.checkpoint(lambda a: a.sqrt() * 0, x, use_reentrant=False).sum()
        with pytest.warns(UserWarning, match="Error detected in SqrtBackward0") as caught:
            error_of = error(y.backward)
    assert error_of == (
        "RuntimeError",
        "Function 'SqrtBackward0' returned nan values in its 0th output.",
    )
    assert "a.sqrt() * 0" in str(caught[0].message)


def test_threads_do_not_mix():
    x = tg.ones(4, requires_grad=True)
    grads = {}

    def work(i):
        y = tg.utils.checkpoint.checkpoint(lambda a: (a * i).sin().exp(), x, use_reentrant=False)
        grads[i] = tg.autograd.grad(y.sum(), x)[0].tolist()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    for i in range(4):
        assert grads[i] == tg.autograd.grad((x * i).sin().exp().sum(), x)[0].tolist()


# --- operators as objects -------------------------------------------------------------------------


@program
def operators_as_objects(m):
    mm = m.ops.aten.mm
    return str(mm), str(mm.default), mm.default is mm.default, mm.default.name(), mm.default(
        m.ones(1, 2), m.ones(2, 1)
    ), str(m.ops.aten.add.Tensor), m.ops.aten.add.Tensor.name(), mm.default.overloadpacket is mm  # fmt: skip


@pytest.mark.parametrize("path", ["no_such_operator", "mm.no_such_overload"])
def test_unknown_operators_say_so(path):
    with pytest.raises(AttributeError, match="no_such"):
        functools.reduce(getattr, path.split("."), tg.ops.aten)
