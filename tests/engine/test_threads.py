"""Modes belong to a thread; graphs and leaves may be shared by several."""

import threading

import pytest

import torchgrad_jax as tg
from torchgrad_jax._core.state import MODES as STATE
from torchgrad_jax._engine.saved import Packed

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
    "packing": (
        lambda: tg.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
        lambda: _packs(),
    ),
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
    """Plans and kernels are built on first use, whoever comes first."""
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
