"""A signal at any point of a compiled step leaves all that the step changes as before the step, or as after it."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import pytest

import torchgrad_jax as torch
from tests.interrupts import interrupted, length, signalled
from torchgrad_jax import nn
from torchgrad_jax._engine.memory.shared_values import LIVE

pytestmark = pytest.mark.usefixtures("_no_collection")


@pytest.fixture
def _no_collection():
    gc.disable()  # what a collector runs on the way is no part of a step
    gc.freeze()
    yield
    gc.unfreeze()
    gc.enable()


class Program:
    """A compiled function, and the tensors that it changes."""

    def __init__(self, fn: Callable[..., Any], *args: Any, model: Any = None, opt: Any = None) -> None:
        self.call = torch.compile(fn)
        self.args, self.model, self.opt = args, model, opt
        self.numbers: Callable[[], Any] = list
        """What it changes besides tensors."""

    def run(self) -> None:
        self.call(*self.args)

    def state(self) -> tuple[Any, ...]:
        """All that can be seen of it from outside."""
        tensors = list(self.args)
        if self.model is not None:
            tensors += [*self.model.parameters(), *self.model.buffers()]
        seen = [(_bits(t), t._version, None if t.grad is None else _bits(t.grad)) for t in tensors]
        held = {} if self.opt is None else self.opt.state
        states = [[(k, _bits(v)) for k, v in held.get(t, {}).items()] for t in tensors]
        return tuple(seen), repr(states), _bits(torch.get_rng_state()), repr(self.numbers())


def _bits(t: Any) -> bytes:
    return t.detach().numpy().tobytes()


def _training(make: Callable[..., Any], model: Any, *, zero: bool = True) -> Program:
    opt = make(model.parameters())

    def step(x: Any) -> Any:
        if zero:
            opt.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        opt.step()
        return loss.detach()

    return Program(step, torch.randn(4, 3), model=model, opt=opt)


def _momentum(params: Any) -> Any:
    return torch.optim.SGD(params, lr=0.01, momentum=0.9)


def _adam(params: Any) -> Any:
    return torch.optim.Adam(params, lr=0.01)


def momentum():
    return _training(_momentum, nn.Linear(3, 2))


def adam():
    return _training(_adam, nn.Linear(3, 2))


def gradients_that_add_up():
    return _training(_momentum, nn.Linear(3, 2), zero=False)


def running_statistics():
    return _training(_momentum, nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)))


def random_numbers():
    return _training(_momentum, nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5)))


def large_gradients():
    return _training(_momentum, nn.Linear(3, 20_000, bias=False))


def gradients_only():
    model = nn.Linear(3, 2)
    return Program(lambda x: model(x).square().mean().backward(), torch.ones(4, 3), model=model)


def no_gradient_any_more():
    model = nn.Linear(3, 2)

    def step(x: Any) -> None:
        model(x).square().mean().backward()
        with torch.no_grad():
            for p in model.parameters():
                p.sub_(p.grad, alpha=0.1)  # type: ignore[arg-type]
        model.zero_grad()

    return Program(step, torch.ones(4, 3), model=model)


def differentiated_from_outside():
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Dropout(0.5))
    return Program(model, torch.randn(4, 3), model=model)


def writes_to_arguments():
    total = torch.zeros(3)

    def step(x: Any, part: Any) -> Any:
        x.mul_(0.5)
        part += x
        total.add_(part)
        return x + 1

    return Program(step, torch.randn(3), torch.zeros(6)[::2], total)


def writes_outside():
    a, b = torch.zeros(4), torch.zeros(2, 3)

    def step(x: Any) -> Any:
        a[1:3] += 1
        b.copy_(torch.rand(3))
        return a.sum() + x

    program = Program(step, torch.ones(()))
    program.args = (torch.ones(()),)
    program.model = nn.ParameterList()
    program.model.register_buffer("a", a)
    program.model.register_buffer("b", b)
    return program


def schedules_and_counters():
    model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5))
    opt = _momentum(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(opt, 0.1, total_steps=100_000)
    calls = {"n": 0}

    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        opt.step()
        schedule.step()
        calls["n"] += 1
        return loss.detach(), {"calls": calls["n"], "rate": schedule.get_last_lr()}

    program = Program(step, torch.randn(4, 3), model=model, opt=opt)
    group = opt.param_groups[0]
    program.numbers = lambda: [group["lr"], group["momentum"], schedule.last_epoch, calls["n"]]
    return program


def many_steps_with_schedules():
    program = schedules_and_counters()
    batches = torch.randn(3, 4, 3)
    program.run = lambda: program.call.many(batches)
    return program


def many_steps():
    program = random_numbers()
    batches = torch.randn(3, 4, 3)
    program.run = lambda: program.call.many(batches)
    return program


PROGRAMS = [
    momentum,
    adam,
    many_steps,
    gradients_that_add_up,
    running_statistics,
    random_numbers,
    large_gradients,
    gradients_only,
    no_gradient_any_more,
    differentiated_from_outside,
    writes_to_arguments,
    writes_outside,
    schedules_and_counters,
    many_steps_with_schedules,
]


def _args_of(program: Program) -> None:
    if len(program.args) == 3:  # the last is only looked at
        program.run = lambda: program.call(*program.args[:2])


def _made(make: Callable[[], Program]) -> Program:
    torch.manual_seed(0)
    program = make()
    _args_of(program)
    return program


def _reference(make: Callable[[], Program], n: int) -> tuple[list[Any], list[int]]:
    """The states before and after each of `n` calls, and how many instructions the first calls took."""
    program = _made(make)
    states, lengths = [program.state()], []
    for i in range(n):
        if i <= WARM:
            lengths.append(length(program.run))
        else:
            program.run()
        states.append(program.state())
    return states, lengths


WARM = 3
"""Calls after which JAX knows the program."""
POINTS = int(os.environ.get("INTERRUPTS", "25"))
"""At about how many points a step is interrupted; a very large number means at all of them."""


def _points(points: int, outcomes: set[tuple[bool, bool]]) -> Iterator[int]:
    """Points all over a call; then from its end on downwards, until one lies behind the last write. Calls differ a
    little in length."""
    yield from range(0, points, max(points // POINTS, 1))
    end = points
    for end in range(points, 2 * points, max(points // 20, 1)):
        yield end
        if (False, True) in outcomes:
            break
    for at in range(end, 0, -max(points // 200, 1)):
        if (True, True) in outcomes:
            break
        yield at


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda f: f.__name__)
def test_any_later_call(make):
    states, lengths = _reference(make, WARM + min(POINTS, 20_000) + 60)
    program = _made(make)
    for _ in range(WARM):
        program.run()
    done, outcomes = WARM, set()
    for at in _points(lengths[WARM], outcomes):
        fired = interrupted(program.run, at)
        gc.collect()  # the frames of an interrupted call, which hold its tensors: looking at these takes steps, too
        now = program.state()
        outcomes.add((fired, now == states[done + 1]))
        done += now == states[done + 1]
        assert now == states[done], at
    program.run()
    assert program.state() == states[done + 1]
    assert outcomes >= {(True, False), (True, True)}


def test_no_program_is_lost():
    """A call with arguments of another kind than the last puts its program behind the others.

    No program is checked: where a signal ends a check, the next call traces.
    """
    f = torch.compile(lambda x: x * 2, verify=0)
    first, second = (lambda: f(torch.ones(2))), (lambda: f(torch.ones(3)))
    for call in (first, second, first, second):
        call()
    within = str(Path(torch.__file__).parent / "_bridge" / "compile" / "compiled.py")
    points = length(first, within)
    second()
    fired = []
    for at in range(points):
        fired.append(bool(signalled(first, at, within)))
        second()
    assert sum(fired) > 10
    assert not all(fired)
    assert f.counts["traced"] == 2


FIRST = [momentum, running_statistics, random_numbers, writes_to_arguments, schedules_and_counters]


@pytest.mark.parametrize("make", FIRST, ids=lambda f: f.__name__)
def test_the_first_call(make):
    states, _ = _reference(make, 2)
    points = length(_made(make).run)
    fired = []
    # The more the package has cached, the shorter is the call that these parts are of.
    for part in (0.1, 0.3, 0.5, 0.8, 0.9, 0.95):
        program = _made(make)
        fired.append(interrupted(program.run, int(points * part)))
        now = program.state()
        done = int(now == states[1])
        assert now == states[done], part
        assert fired[-1] or done, part
        program.run()
        assert program.state() == states[done + 1], part
    assert sum(fired) >= 2
    assert print.__module__ == "builtins"
    assert time.time.__module__ == "time"


def test_while_jax_compiles_and_runs_a_program_for_the_first_time():
    states, _ = _reference(momentum, 3)
    within = str(Path(jax.__file__).parent / "_src" / "interpreters" / "pxla.py")
    _made(momentum).run()  # compiles what makes the state of the optimizer
    points = length(_made(momentum).run, within)
    outcomes = set()
    for part in (0.2, 0.6, 0.9, 0.95, 0.99):
        program = _made(momentum)
        outcomes.add(interrupted(program.run, int(points * part), within))
        assert program.state() in states[:2], part
        done = states.index(program.state())
        program.run()
        assert program.state() == states[done + 1], part
    assert outcomes == {True}


def test_a_signal_that_comes_from_outside():
    """Ctrl-C at times that nobody knows, over and over."""
    code = """
        import os, random, signal, sys, threading, time
        signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
        import torchgrad_jax as torch
        from torchgrad_jax import nn
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
        opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        counted = torch.zeros(())

        @torch.compile
        def step(x):
            opt.zero_grad()
            model(x).square().mean().backward()
            opt.step()
            counted.add_(1)

        x = torch.randn(4, 3)
        for _ in range(3):
            step(x)
        ready, over = threading.Event(), False

        def disturb():
            while True:
                ready.wait()
                ready.clear()
                if over:
                    return
                time.sleep(random.uniform(0.0, 0.004))
                os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=disturb)
        thread.start()
        for _ in range(60):
            try:
                ready.set()
                end = time.monotonic() + 5  # Python forgets a signal that comes while it frees an object
                while time.monotonic() < end:
                    step(x)
            except KeyboardInterrupt:
                pass
        over = True
        ready.set()
        thread.join()
        step(x)
        steps = int(counted)
        assert steps > 4
        assert model[1].num_batches_tracked == steps, (model[1].num_batches_tracked, steps)
        assert [p._version for p in model.parameters()] == [steps + 1] * 6, [p._version for p in model.parameters()]
        assert all(torch.isfinite(p).all() for p in model.parameters())
        print("whole")
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.stdout == "whole\n", ran.stderr


def _run_for_ever(program: Program) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    while True:
        program.run()


def test_an_exception_of_a_handler_is_an_interrupt_too():
    def late(number: int, frame: Any) -> None:
        raise TimeoutError("too late")

    program = _made(adam)
    for _ in range(WARM):
        program.run()
    before = signal.signal(signal.SIGALRM, late)
    try:
        with pytest.raises(TimeoutError):
            _run_for_ever(program)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len({p._version for p in program.model.parameters()}) == 1
    program.run()


def test_memory_that_numpy_has_is_freed_without_a_point_for_signals():
    gc.collect()
    before = len(LIVE)
    held: list = [torch.ones(3)]
    held.append(held[0].numpy())
    assert len(LIVE) == before + 1
    assert length(held.clear) == 0
    assert len(LIVE) == before
