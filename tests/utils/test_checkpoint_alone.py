"""Checkpoints on their own: what is kept and for how long, modes, threads, debugging."""

import functools
import gc
import threading
import weakref

import jax
import pytest

from tests.utils.checkpointed import error, tg


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
        f,
        tg.ones(2, 2, requires_grad=True),
        use_reentrant=False,
        context_fn=lambda: c.create_selective_checkpoint_contexts([tg.ops.aten.mm.default]),
    )
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
        keep = {} if save is None else {"context_fn": functools.partial(c.create_selective_checkpoint_contexts, save)}
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
    assert error_of == ("RuntimeError", "Function 'SqrtBackward0' returned nan values in its 0th output.")
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


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_compiled_program_recomputes(reentrant):
    """What XLA would merge with the forward is kept apart."""
    weight = tg.linspace(-1, 1, 16).reshape(4, 4)

    def link(z, w):
        return (z @ w).sin().exp()

    def loss(x, w):
        for _ in range(3):
            x = tg.utils.checkpoint.checkpoint(link, x, w, use_reentrant=reentrant)
        return x.sum()

    def gradient(x, w):
        w = w.detach().requires_grad_()
        loss(x.detach().requires_grad_(), w).backward()
        return w.grad

    x = tg.linspace(0, 1, 8).reshape(2, 4)
    tg.testing.assert_close(tg.compile(gradient)(x, weight), gradient(x, weight))
    program = jax.jit(tg.to_jax(gradient)).lower(x.numpy(), weight.numpy()).as_text()
    assert "optimization_barrier" in program


def test_second_derivatives_of_a_compiled_checkpoint():
    def second(x):
        x = x.detach().requires_grad_()
        y = tg.utils.checkpoint.checkpoint(lambda a: a.sin().exp(), x, use_reentrant=False)
        (first,) = tg.autograd.grad(y.sum(), x, create_graph=True)
        return tg.autograd.grad(first.square().sum(), x)[0]

    x = tg.linspace(0, 1, 8)
    tg.testing.assert_close(tg.compile(second)(x), second(x))


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_compiled_recomputation_meets_the_random_numbers_of_its_forward(reentrant):
    def part(a):
        return tg.nn.functional.dropout(a * 2, 0.5).tanh()

    def run(x):
        x.grad = None
        y = tg.utils.checkpoint.checkpoint(part, x, use_reentrant=reentrant)
        z = tg.nn.functional.dropout(y, 0.5)
        tg.utils.checkpoint.checkpoint(part, z, use_reentrant=reentrant).sum().backward()
        return x.grad.clone(), tg.rand(2)

    def found(f):
        tg.manual_seed(0)
        x = tg.linspace(1, 2, 40).requires_grad_()
        return [f(x), f(x)]

    tg.testing.assert_close(found(tg.compile(run)), found(run))


def test_a_compiled_recomputation_may_not_draw_other_numbers():
    calls = []

    def part(a):
        calls.append(1)
        return a * tg.rand(len(calls)).sum()

    def run(x):
        tg.utils.checkpoint.checkpoint(part, x, use_reentrant=False).sum().backward()

    with pytest.raises(RuntimeError, match="a recomputation draws random numbers of shape"):
        tg.compile(run)(tg.ones(3, requires_grad=True))
