"""A compiled function that checks itself does what it would do without, and says where its program went stale."""

import sys
import warnings

import pytest

import torchgrad_jax as torch
from torchgrad_jax._bridge.compile.program import entry
from torchgrad_jax._bridge.compile.program.entry import Clock, Entry
from torchgrad_jax._bridge.compile.watch.guards import PythonGuards
from torchgrad_jax._core.jax import own_kernels


@pytest.fixture
def always_due(monkeypatch):
    """A program is checked after each of its runs, from the second on, where nobody asks for a number of runs."""
    monkeypatch.setattr(entry, "TIMES", 0)


@pytest.fixture
def no_guards(monkeypatch):
    """No guard notices anything."""
    monkeypatch.setattr(Entry, "why_stale", lambda self, given: None)


def entries_of(step):
    return [kept for entries in step.entries.values() for kept in entries]


def counted(effect_at, told):
    """A function that counts in a tensor and in Python, and has an effect from one call on."""
    state, total = {"n": 0}, torch.zeros(1)

    def step(x):
        total.add_(1)
        state["n"] += 1
        if state["n"] >= effect_at:
            sys.stdout.write(f"effect {state['n']}\n")
        return x * state["n"]

    def look():
        told.append((state["n"], total.item()))

    return step, look


@pytest.mark.parametrize("verify", [None, 0, 1, 2, "warn"])
@pytest.mark.parametrize("effect_at", [1, 2, 3, 9])
@pytest.mark.filterwarnings("ignore:torch.compile")
def test_nothing_happens_twice(effect_at, verify, capsys, always_due):
    """Even where the function has an effect in the call that is only a check."""
    found = []
    for form in (lambda f: f, lambda f: torch.compile(f, verify=verify)):
        told: list[tuple[int, float]] = []
        step, look = counted(effect_at, told)
        run = form(step)
        results = []
        for _ in range(5):
            results.append(run(torch.ones(1)).item())
            look()
        found.append((results, told, capsys.readouterr().out))
    assert found[0] == found[1]


@pytest.mark.parametrize("asked", ["verify=", "environment"])
def test_a_program_that_no_guard_watches_is_found_to_be_stale(asked, monkeypatch):
    monkeypatch.setattr(PythonGuards, "describe_change", lambda self: None)
    monkeypatch.setattr(PythonGuards, "holds", property(lambda self: lambda: True))
    if asked == "environment":
        monkeypatch.setenv("TORCHGRAD_JAX_VERIFY", "1")
    scale = {"by": 2.0}
    step = torch.compile(lambda x: x * scale["by"], verify=1 if asked == "verify=" else None)
    assert [step(torch.ones(1)).item() for _ in range(2)] == [2.0, 2.0]
    scale["by"] = 3.0
    with pytest.raises(torch.compiler.StaleProgramError, match="is stale: "):
        step(torch.ones(1))


def test_another_object_that_is_returned_is_another_result(monkeypatch):
    monkeypatch.setattr(PythonGuards, "describe_change", lambda self: None)
    monkeypatch.setattr(PythonGuards, "holds", property(lambda self: lambda: True))

    class Own:
        pass

    held = {"one": Own()}
    step = torch.compile(lambda x: (x * 2, held["one"]), verify=1)
    assert step(torch.ones(1))[1] is held["one"]
    held["one"] = Own()
    with pytest.raises(torch.compiler.StaleProgramError, match="a result was one Own and is another one"):
        step(torch.ones(1))


@pytest.mark.parametrize("given", ["often", -1, "1.5"])
def test_what_is_no_number_of_runs_is_refused(given):
    with pytest.raises(ValueError, match="verify has to be a number of runs or 'warn'"):
        torch.compile(lambda x: x, verify=given)


# --- by itself ------------------------------------------------------------------------------------


def test_a_program_that_has_run_for_long_is_checked_by_itself(always_due):
    total, calls = torch.zeros(1), {"n": 0}

    @torch.compile
    def step(x):
        total.add_(1)
        calls["n"] += 1
        return x * calls["n"] + torch.rand(1)

    torch.manual_seed(0)
    found = [step(torch.zeros(1)).item() for _ in range(6)]
    torch.manual_seed(0)
    assert found == [torch.rand(1).item() for _ in range(6)]
    (kept,) = entries_of(step)
    assert step.counts == {"traced": 1, "run": 6, "eager": 0}
    assert (total.item(), calls["n"], kept.clock.checks) == (6, 6, 4)


def test_what_is_found_is_told_once_and_the_function_is_traced_anew(always_due, no_guards):
    scale, told = {"by": 2.0}, []
    step = torch.compile(lambda x: x * scale["by"])
    for number in (2.0, 3.0, 4.0):
        scale["by"] = number
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            assert [step(torch.ones(1)).item() for _ in range(3)][-1] == number
        told.append([str(w.message) for w in warned])
    assert list(map(len, told)) == [0, 1, 0]
    assert "'by' was 2.0 and is 3.0, which its guard (Place) has not seen" in told[1][0]
    assert step.counts["eager"] == 0
    assert [reason.partition(" that ")[0] for reason in step.reasons] == ["a check has found"] * 2


def test_a_function_that_raises_by_now_raises(always_due, no_guards):
    held = {"by": 2.0}
    step = torch.compile(lambda x: x * held["by"])
    assert [step(torch.ones(1)).item() for _ in range(3)] == [2.0] * 3
    del held["by"]
    for _ in range(2):
        with pytest.raises(KeyError):
            step(torch.ones(1))


@pytest.mark.filterwarnings("error")
def test_what_a_handler_of_signals_raises_in_a_check_is_raised(always_due, no_guards):
    total, late = torch.zeros(()), []

    @torch.compile
    def step(x):
        total.add_(1)
        if late:
            late.pop()()
        return x * 2

    def handler():
        raise TimeoutError

    assert [step(torch.ones(1)).item() for _ in range(3)] == [2.0] * 3
    before = total.item()
    late.append(handler)
    with pytest.raises(TimeoutError):
        step(torch.ones(1))
    assert total.item() == before
    late.clear()
    assert step(torch.ones(1)).item() == 2.0
    assert total.item() == before + 1


@pytest.mark.filterwarnings("error")
def test_a_state_that_somebody_puts_there_is_no_reason(always_due):
    held = {"state": torch.zeros(2)}

    @torch.compile
    def step(x):
        held["state"] = (held["state"] + x).detach()
        return held["state"]

    for given in (torch.ones(2), torch.ones(2, requires_grad=True), torch.ones(2, 2).t()[0], None):
        if given is not None:
            held["state"] = given
        for _ in range(3):
            before = held["state"].detach().clone()
            assert step(torch.ones(2)).tolist() == (before + 1).tolist()


def test_a_program_that_was_traced_in_another_way_is_left_alone(always_due, capsys):
    """A number that a later trace follows is a constant of an earlier program, which is right again."""
    held = {"n": 2.0, "grows": False}

    @torch.compile
    def step(x):
        if held["grows"]:
            held["n"] += 1
        return x * held["n"]

    assert [step(torch.ones(1)).item() for _ in range(3)] == [2.0] * 3
    held["grows"] = True
    assert [step(torch.ones(1)).item() for _ in range(3)] == [3.0, 4.0, 5.0]
    held.update(n=2.0, grows=False)
    assert [step(torch.ones(1)).item() for _ in range(3)] == [2.0] * 3
    step.explain()
    assert "not by itself: numbers are traced in another way by now" in capsys.readouterr().out


@pytest.mark.filterwarnings("error")
def test_a_constant_that_the_first_trace_has_put_into_a_cache_is_no_reason(always_due):
    cache = {}

    @torch.compile
    def step(x):
        if "mask" not in cache:
            cache["mask"] = torch.ones(2, 2).tril()
        return x * cache["mask"]

    for _ in range(4):
        assert step(torch.ones(2, 2)).tolist() == [[1, 0], [1, 1]]
    cache["mask"] = torch.zeros(2, 2)
    assert not step(torch.ones(2, 2)).any()


@pytest.mark.filterwarnings("ignore:torch.compile")
@pytest.mark.parametrize("off", ["verify=0", "environment", "profiler", "debugger", "processes"])
@pytest.mark.filterwarnings("ignore:torch.compile")
def test_what_is_not_checked_by_itself(off, always_due, no_guards, monkeypatch):
    if off == "environment":
        monkeypatch.setenv("TORCHGRAD_JAX_VERIFY", "0")
    if off == "processes":
        monkeypatch.setattr(own_kernels.jax, "process_count", lambda: 2)
    scale = {"by": 2.0}
    step = torch.compile(lambda x: x * scale["by"], verify=0 if off == "verify=0" else None)
    first = [step(torch.ones(1)).item() for _ in range(2)]
    scale["by"] = 3.0
    hooks = {"profiler": (sys.setprofile, sys.getprofile()), "debugger": (sys.settrace, sys.gettrace())}
    switch, before = hooks.get(off, (lambda hook: None, None))
    switch(lambda *event: None)
    try:
        later = [step(torch.ones(1)).item() for _ in range(3)]
    finally:
        switch(before)
    assert first + later == [2.0] * 5
    assert step(torch.ones(1)).item() == (3.0 if off in hooks else 2.0)


def test_explain_says_what_is_checked(always_due, capsys, monkeypatch):
    step = torch.compile(lambda x: x * 2)
    for _ in range(4):
        step(torch.ones(1))
    step.explain()
    assert "checked by a trace      2 times\n" in capsys.readouterr().out
    monkeypatch.setattr(own_kernels.jax, "process_count", lambda: 2)
    step(torch.ones(2))
    step.explain()
    assert "checked by a trace      not by itself: several processes run it" in capsys.readouterr().out


@pytest.mark.parametrize("slow", [1, 10])
@pytest.mark.parametrize("of_a_run", [1e-6, 1e-4, 1e-2, 10.0])
def test_a_clock_looks_seldom_and_lets_a_hundred_traces_pass(of_a_run, slow):
    """Also where the runs that it measures are slower than the others."""
    of_a_trace, now = 0.1, 0.0
    one, runs, looks = Clock(of_a_trace), 1, 0
    while not one.is_due and looks < 200:
        between = one.has_run(now, now + slow * of_a_run)
        now += slow * of_a_run + between * of_a_run
        runs, looks = runs + 1 + between, looks + 1
    assert one.is_due
    wanted = 100 * of_a_trace / of_a_run
    assert now >= 0.99 * 100 * of_a_trace
    assert runs <= 1.01 * wanted + 3
    one.was_traced(now, now + of_a_trace)
    assert not one.is_due


def test_a_pause_in_one_run_does_not_make_a_program_due():
    one, now = Clock(0.1), 1000.0
    for seconds in (0.001, 30.0, 0.001, 30.0):
        one.has_run(now, now + seconds)
        now += seconds
        assert not one.is_due


def test_a_call_in_which_an_argument_is_reached_in_another_way_is_no_reason(always_due):
    held = {"last": torch.ones(2)}

    def step(x):
        change = x - held["last"]
        held["last"] = x
        return change.sum()

    fast, x = torch.compile(step), torch.zeros(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for given in (x, x, torch.ones(2), x, x, x):
            want = (given - held["last"]).sum().item()
            assert fast(given).item() == want
    assert fast.counts["traced"] <= 2


@pytest.mark.filterwarnings("error")
def test_gradients_that_are_parts_of_one_memory_are_no_reason(always_due):
    """A backward pass writes to the parts one by one, and in one function once it is known."""
    p, q = (torch.nn.Parameter(torch.full((3,), float(k))) for k in (1, 2))
    flat = torch.arange(6.0)
    p.grad, q.grad = flat[:3], flat[3:]

    @torch.compile
    def step(x):
        (p * x + q * x * 2).sum().backward()
        return p.grad * 1

    found = [step(torch.tensor([1.0, -2.0, 3.0])).tolist() for _ in range(4)]
    assert found == [[k, 1 - 2 * k, 2 + 3 * k] for k in range(1, 5)]
    assert step.counts == {"traced": 1, "run": 4, "eager": 0}
