"""A compiled function that checks itself does what it would do without, and says where its program went stale."""

import sys

import pytest

import torchgrad_jax as torch
from torchgrad_jax._bridge.compile.watch.guards import PythonGuards


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


@pytest.mark.parametrize("verify", [None, 1, 2, "warn"])
@pytest.mark.parametrize("effect_at", [1, 2, 3, 9])
@pytest.mark.filterwarnings("ignore:torch.compile")
def test_nothing_happens_twice(effect_at, verify, capsys):
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
