"""Compiled functions that several threads call: each is traced by one of them, and no write is lost."""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import torchgrad_jax as torch

THREADS, TIMES = 8, 6
pytestmark = pytest.mark.usefixtures("many_switches")


def in_threads(work, count=THREADS):
    """What `work(i)` gives in that many threads that begin at once."""
    barrier = threading.Barrier(count)
    results: list[Any] = [None] * count

    def run(i):
        try:
            barrier.wait()
            results[i] = work(i)
        except Exception as error:
            results[i] = error

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not any(t.is_alive() for t in threads)
    assert [r for r in results if isinstance(r, Exception)] == []
    return results


def training(scheduled):
    model = torch.nn.Linear(3, 2)
    opt = torch.optim.Adam(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(opt, 1, 0.9) if scheduled else None

    def step(x):
        opt.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        opt.step()
        if schedule is not None:
            schedule.step()
        return loss

    return step, model, opt


@pytest.mark.parametrize("scheduled", [False, True], ids=["plain", "with a schedule"])
def test_training_steps_of_many_threads_come_one_after_the_other(scheduled):
    torch.manual_seed(0)
    step, model, opt = training(scheduled)
    torch.manual_seed(0)
    alone, beside, _ = training(scheduled)
    fast = torch.compile(step)
    x = torch.ones(4, 3)
    losses = in_threads(lambda _: [fast(x).item() for _ in range(TIMES)])
    expected = [alone(x).item() for _ in range(THREADS * TIMES)]
    assert sorted(x for each in losses for x in each) == pytest.approx(sorted(expected), rel=1e-3, abs=1e-6)
    assert opt.state[model.weight]["step"].item() == THREADS * TIMES
    torch.testing.assert_close(model.weight, beside.weight, rtol=1e-3, atol=1e-5)
    if scheduled:
        assert opt.param_groups[0]["lr"] == pytest.approx(0.1 * 0.9 ** (THREADS * TIMES))
    assert fast.counts == {"traced": 1, "run": THREADS * TIMES, "eager": 0}


def counted():
    """A function that changes a tensor among its arguments."""
    t = torch.zeros(4)
    run = torch.compile(lambda t: t.add_(1))
    return (lambda: run(t)), t


def of_outside():
    t = torch.zeros(4)
    return torch.compile(lambda: t.mul_(1).add_(1)), t


def one_of_two():
    """Two compiled functions and eager code that change one tensor."""
    t = torch.zeros(4)
    ways = [torch.compile(lambda: t.add_(1)), torch.compile(lambda: t.sub_(-1)), lambda: t.add_(1)]
    return (lambda: ways[threading.get_ident() % 3]()), t


@pytest.mark.parametrize("make", [counted, of_outside, one_of_two])
def test_no_write_of_a_compiled_function_is_lost(make):
    write, t = make()
    in_threads(lambda _: [write() for _ in range(20)] and None)
    assert t.tolist() == [20.0 * THREADS] * 4


@pytest.mark.parametrize("recorded", [False, True], ids=["no_grad", "grad"])
def test_a_model_is_compiled_once_for_all_threads(recorded):
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.ReLU())
    model.eval()
    run = torch.compile(model.forward)
    want = model(torch.ones(2, 3)).flatten().tolist()

    def work(_):
        with torch.set_grad_enabled(recorded):
            return [run(torch.ones(2, 3)).flatten().tolist() for _ in range(3)]

    assert [x for found in in_threads(work) for x in found] == [pytest.approx(want)] * 3 * THREADS
    assert run.counts["traced"] == 1


def test_a_program_waits_for_the_trace_of_what_writes_to_its_tensors():
    w = torch.ones(3)
    read = torch.compile(lambda x: x * w)
    read(torch.ones(3)), read(torch.ones(3))
    begun, done = threading.Event(), threading.Event()

    def slow(x):
        w.add_(x)
        begun.set()
        done.wait(0.2)
        return w.sum()

    def work(i):
        if i == 0:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return torch.compile(slow)(torch.ones(3)).item()
        begun.wait(10)
        found = read(torch.ones(3)).tolist()
        done.set()
        return found

    assert in_threads(work, 2) == [6.0, [2.0] * 3]


def traced_beside(w, work, *, given=False, kind=lambda w, x: w.add_(x)):
    """What `work` gives in another thread while a function that does something with `w` is traced."""
    begun, done = threading.Event(), threading.Event()

    def slow(w, x):
        out = kind(w, x)
        begun.set()
        done.wait(0.1)
        return None if out is None else out.sum()

    fast = torch.compile(slow if given else lambda x: slow(w, x))

    def run(i):
        if i == 0:
            fast(*((w,) if given else ()), torch.ones(3))
            return None
        assert begun.wait(10)
        found = work()
        done.set()
        return found

    return in_threads(run, 2)[1]


BESIDE = {
    "a write, to what it writes to": (lambda w: w.add_(1), lambda w, x: w.add_(x), [3.0] * 3),
    "a write, to what it reads": (lambda w: w.add_(1), lambda w, x: w * x, [2.0] * 3),
    "a write by out=": (lambda w: torch.add(w, 1, out=w), lambda w, x: w.add_(x), [3.0] * 3),
    "a write to a view": (lambda w: w[:2].add_(1), lambda w, x: w.add_(x), [3.0, 3.0, 2.0]),
    "a read of what it writes to": (lambda w: w * 1, lambda w, x: w.add_(x), [2.0] * 3),
    "a read of a view": (lambda w: w[1:] * 1, lambda w, x: w.add_(x), [2.0] * 3),
}


@pytest.mark.parametrize("given", [False, True], ids=["from outside", "an argument"])
@pytest.mark.parametrize("name", BESIDE)
def test_eager_code_of_another_thread_waits_for_a_trace(name, given):
    work, kind, want = BESIDE[name]
    w = torch.ones(3)
    found = traced_beside(w, lambda: work(w).tolist(), given=given, kind=kind)
    assert w.tolist() == want
    assert found in (want, want[:2])


def test_a_pass_of_another_thread_waits_for_a_trace():
    p = torch.ones(3, requires_grad=True)
    kind = lambda p, x: (p * x).sum().backward()  # noqa: E731
    traced_beside(p, lambda: (p * 2).sum().backward(), kind=kind)
    assert p.grad.tolist() == [3.0] * 3


@pytest.mark.parametrize("way", ["thread", "pool"])
def test_a_function_that_starts_threads_runs_as_it_is_written(way):
    total = torch.zeros(())

    def threaded(x):
        if way == "thread":
            worker = threading.Thread(target=lambda: total.add_(1))
            worker.start()
            worker.join(10)
        else:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(lambda: total.add_(1)).result(10)
        return x * 2

    fast = torch.compile(threaded)
    with pytest.warns(UserWarning, match="is passed on|it reaches") as told:  # by what numbers threads
        assert [fast(torch.ones(())).item() for _ in range(6)] == [2] * 6
    assert len(told) == 1
    assert fast.counts == {"traced": 0, "run": 0, "eager": 6}
    assert total.item() == 6


def test_what_runs_as_it_is_written_keeps_nobody_waiting():
    other = torch.compile(lambda x: x + 1)

    def asks(x):
        if x.sum() > 0:  # which no program can know
            return in_threads(lambda _: other(x).item(), 2)
        return None

    with torch._dynamo.config.patch(suppress_errors=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.compile(asks)(torch.ones(())) == [2.0, 2.0]
