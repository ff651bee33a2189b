"""Modes belong to a thread; graphs and leaves may be shared by several."""

import threading

import pytest

import torchgrad_jax as tg
from tests.own_gradients import saving_input
from torchgrad_jax._core.state import MODES as STATE
from torchgrad_jax._engine.graph.saved import Packed

THREADS = 8


def in_threads(work, count=THREADS):
    """Run `work(i)` in that many threads at once; what the first failing one raised is raised here."""
    barrier, errors = threading.Barrier(count), []

    def run(i):
        try:
            barrier.wait()
            work(i)
        except BaseException as error:  # it is raised below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
        assert not t.is_alive()
    if errors:
        raise errors[0]


MODES = {
    "no_grad": (lambda: tg.no_grad(), lambda: not tg.is_grad_enabled()),
    "inference": (lambda: tg.inference_mode(), tg.is_inference_mode_enabled),
    "anomaly": (lambda: tg.autograd.set_detect_anomaly(True), lambda: STATE.anomaly is not None),
    "dual_level": (lambda: tg.autograd.forward_ad.dual_level(), lambda: _has_level()),
    "packing": (lambda: tg.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t), lambda: _packs()),
}


def _has_level():
    try:
        tg.autograd.forward_ad.make_dual(tg.ones(1), tg.ones(1))
    except RuntimeError:
        return False
    return True


def _packs():
    x = tg.ones(1, requires_grad=True)
    return isinstance((x * x).grad_fn.saved[0], Packed)


SHARED = ("anomaly", "dual_level")
"""Modes that are the process's in torch too."""


@pytest.mark.parametrize("name", MODES)
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_a_mode_is_of_its_thread_or_of_all(name):
    enter, active = MODES[name]
    seen = {}
    with enter():
        assert active()
        in_threads(lambda i: seen.__setitem__(i, active()), 2)
    assert seen == dict.fromkeys(range(2), name in SHARED)
    assert not active()
    in_threads(lambda i: seen.__setitem__(i, active()), 2)
    assert seen == {0: False, 1: False}


def test_a_thread_starts_with_recording_on():
    found = []
    with tg.no_grad():
        in_threads(lambda i: found.append((tg.ones(1, requires_grad=True) * 2).requires_grad), 2)
    assert found == [True, True]


def test_modes_do_not_leak_between_interleaved_threads():
    def work(i):
        for _ in range(50):
            with tg.set_grad_enabled(i % 2 == 0):
                x = tg.ones(2, requires_grad=True) * 2
                assert x.requires_grad == (i % 2 == 0)

    in_threads(work)


@pytest.mark.parametrize("rounds", [20])
def test_shared_leaves_lose_no_gradient(rounds):
    x = tg.zeros(3, requires_grad=True)
    (x * 1.0).sum().backward()  # compiled, and .grad exists, before the threads begin
    x.grad = None

    def work(i):
        for _ in range(rounds):
            (x * float(i + 1)).sum().backward()

    in_threads(work)
    want = rounds * sum(range(1, THREADS + 1))
    assert x.grad.tolist() == [want] * 3


def test_shared_leaves_with_hooks_lose_no_gradient():
    x = tg.zeros(3, requires_grad=True)
    seen = []
    x.register_hook(lambda g: seen.append(1))

    def work(i):
        for _ in range(10):
            (x * float(i)).exp().sum().backward()

    in_threads(work)
    assert len(seen) == 10 * THREADS
    assert x.grad.tolist() == [10 * sum(range(THREADS))] * 3


def test_shared_graph_is_walked_by_all():
    x = tg.ones(3, requires_grad=True)
    y = (x.exp() * x).sum()
    (want,) = tg.autograd.grad(y, x, retain_graph=True)
    found = []
    in_threads(lambda i: found.append(tg.autograd.grad(y, x, retain_graph=True)[0].tolist()))
    assert found == [want.tolist()] * THREADS


def test_first_use_in_several_threads_at_once():
    """Plans and kernels are built on first use, whichever thread comes first."""
    results = {}

    def work(i):
        x = tg.linspace(0.1, 0.7, 7).requires_grad_()
        y = (x.tan() * x.atan()).view(7, 1).expand(7, 3).sum()
        y.backward()
        results[i] = (y.item(), x.grad.tolist())

    in_threads(work)
    assert len({str(v) for v in results.values()}) == 1


def test_sequence_numbers_are_unique():
    numbers = []
    x = tg.ones(2, requires_grad=True)
    in_threads(lambda i: numbers.extend([(x * 2).grad_fn._sequence_nr() for _ in range(100)]))
    assert len(set(numbers)) == 100 * THREADS


def test_a_failing_thread_disturbs_no_other():
    x = tg.zeros(2, requires_grad=True)

    def work(i):
        y = x * 2.0
        if i == 0:
            y.register_hook(lambda g: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                y.sum().backward()
        else:
            y.sum().backward()
        assert tg.is_grad_enabled()

    in_threads(work)
    assert x.grad.tolist() == [2.0 * (THREADS - 1)] * 2


def _deep(x):
    y = x
    for _ in range(4):
        y = (y.sin() * y).exp().tanh()
    return y.sum()


def _with_hook(x):
    y = _deep(x)
    y.grad_fn.register_hook(lambda *_: None)
    return y


_Double = saving_input(tg, "_Double", lambda x: x * 2, lambda x, g: g * 2 + x * 0)


GRAPHS = {
    "deep": _deep,
    "with a hook": _with_hook,
    "one node": lambda x: (x * x).sum(),
    "custom": lambda x: _Double.apply(x).sum(),
    "long": lambda x: _repeated(x, 130),
    "branches": lambda x: (x.exp() * x.sin() + x.tanh() * x.cos()).sum(),
}


def _repeated(x, n):
    for _ in range(n):
        x = (x * x).sin()
    return x.sum()


def _outcomes(work):
    """What each thread's call raised, in words; None where it raised nothing."""
    outcomes: list[str | None] = [None] * THREADS

    def run(i):
        try:
            work(i)
        except RuntimeError as error:
            outcomes[i] = str(error)

    in_threads(run)
    return outcomes


@pytest.mark.usefixtures("many_switches")
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("how", ["backward", "grad"])
def test_of_many_passes_through_one_graph_one_succeeds(name, how):
    for _ in range(6):
        x = tg.full((3,), 0.5, requires_grad=True)
        loss = GRAPHS[name](x)
        run = loss.backward if how == "backward" else lambda: tg.autograd.grad(loss, x)  # noqa: B023 - runs at once
        outcomes = _outcomes(lambda _: run())  # noqa: B023
        assert outcomes.count(None) == 1
        refused = {told for told in outcomes if told is not None}
        assert all(told.startswith("Trying to backward through the graph a second time") for told in refused)
        if how == "backward":
            alone = tg.full((3,), 0.5, requires_grad=True)
            GRAPHS[name](alone).backward()
            assert x.grad.tolist() == pytest.approx(alone.grad.tolist(), rel=1e-5)


SHARED_PARTS = {
    "sin": lambda h, i: h.sin().sum() * i,
    "nothing saved behind it": lambda h, i: h.sum() * i,
    "a view": lambda h, i: h.view(3, 1).sum() * i,
    "one of two": lambda h, i: (h * i + h).sum(),
}


@pytest.mark.usefixtures("many_switches")
@pytest.mark.parametrize("name", SHARED_PARTS)
def test_of_many_passes_through_a_shared_part_one_succeeds(name):
    for _ in range(40):
        x = tg.ones(3, requires_grad=True)
        shared = (x * x).exp()
        losses = [SHARED_PARTS[name](shared, i) for i in range(1, THREADS + 1)]
        outcomes = _outcomes(lambda i: losses[i].backward())  # noqa: B023 - runs at once
        assert outcomes.count(None) == 1
        i = outcomes.index(None) + 1
        alone = tg.ones(3, requires_grad=True)
        SHARED_PARTS[name]((alone * alone).exp(), i).backward()
        assert x.grad.tolist() == pytest.approx(alone.grad.tolist(), rel=1e-5)


@pytest.mark.usefixtures("many_switches")
def test_a_graph_that_saved_nothing_may_be_gone_through_by_all():
    x = tg.ones(3, requires_grad=True)
    loss = (x + x).sum()
    assert _outcomes(lambda _: loss.backward()) == [None] * THREADS
    assert x.grad.tolist() == [16.0] * 3


WRITES = {
    "add_": (lambda t, i: t.add_(1), 1.0),
    "+=": (lambda t, i: t.__iadd__(1), 1.0),
    "sub_": (lambda t, i: t.sub_(-1), 1.0),
    "add_ of a tensor": (lambda t, i: t.add_(tg.ones(16)), 1.0),
    "a view": (lambda t, i: t[2 * i : 2 * i + 2].add_(8), 1.0),
    "one view by all": (lambda t, i: t[:].add_(1), 1.0),
    "steps": (lambda t, i: t[i % 2 :: 2].add_(2), 1.0),
    "a view of a view": (lambda t, i: t.view(4, 4).t()[i % 4].add_(4), 1.0),
    "index_put_": (lambda t, i: t.index_put_((tg.arange(16),), tg.ones(16), accumulate=True), 1.0),
    "index_add_": (lambda t, i: t.index_add_(0, tg.arange(16), tg.ones(16)), 1.0),
    "scatter_add_": (lambda t, i: t.scatter_add_(0, tg.arange(16), tg.ones(16)), 1.0),
    "addcmul_": (lambda t, i: t.addcmul_(tg.ones(16), tg.ones(16)), 1.0),
    "data": (lambda t, i: t.data.add_(1), 1.0),
    "out=": (lambda t, i: tg.add(t, 1, out=t), 1.0),
}


@pytest.mark.usefixtures("many_switches")
def test_all_make_tensors_of_one_value():
    def make(i):
        return [tg.full((n, 1 + i), 2.0).sum().item() for n in range(1, 100)]

    found = [None] * THREADS
    in_threads(lambda i: found.__setitem__(i, make(i)))
    assert found == [[2.0 * n * (1 + i) for n in range(1, 100)] for i in range(THREADS)]


@pytest.mark.usefixtures("many_switches")
@pytest.mark.parametrize("name", WRITES)
def test_no_write_is_lost(name):
    write, each = WRITES[name]
    t = tg.zeros(16)
    times = 24
    in_threads(lambda i: [write(t, i) for _ in range(times)])
    assert t.tolist() == [THREADS * times * each] * 16


@pytest.mark.usefixtures("many_switches")
@pytest.mark.parametrize("how", ["fill_", "copy_", "setitem", "uniform_", "masked"])
def test_writes_to_different_parts_all_stay(how):
    t = tg.zeros(4, 64)

    def work(i):
        for j in range(8 * i, 8 * i + 8):
            if how == "fill_":
                t[:, j].fill_(1)
            elif how == "copy_":
                t[:, j].copy_(tg.ones(4))
            elif how == "setitem":
                t[:, j] = 1.0
            elif how == "uniform_":
                t[:, j].uniform_(1, 2)
            else:
                t[:, j].masked_fill_(tg.ones(4, dtype=tg.bool), 1)

    in_threads(work)
    assert bool((t >= 1).all())
    assert t._version == 64


@pytest.mark.usefixtures("many_switches")
def test_recorded_writes_of_many_threads_count():
    t = tg.zeros(4)
    in_threads(lambda _: [t.detach().mul_(1).add_(1) for _ in range(20)])
    assert t.tolist() == [160.0] * 4
    assert t._version == 320


@pytest.mark.usefixtures("many_switches")
@pytest.mark.parametrize("hooked", [False, True])
def test_gradients_of_many_threads_add_up(hooked):
    w = tg.zeros(4, requires_grad=True)
    if hooked:
        w.register_hook(lambda g: g)
    in_threads(lambda i: [(w * float(i + 1) + w.sin() * 0).sum().backward() for _ in range(15)])
    assert w.grad.tolist() == [15.0 * 36] * 4
