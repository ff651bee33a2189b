"""Random steps that read what Python keeps in one way or another, which changes between their calls.

Each step runs twice, eagerly and compiled, in two copies of the same module. The results of each call, its
errors, and what it leaves behind have to be equal.
"""

import contextlib
import random
from pathlib import Path

import numpy as np
import pytest

import torchgrad_jax as torch
from tests.bridge.compile.watch.random_python.lines import CHANGES, EFFECTS, READS, TENSORS
from tests.bridge.compile.watch.random_python.running import called, loaded

STATE = Path(__file__).parent / "random_python" / "state.py"
CALLS, AT_ONCE = 6, 5
"""How often a step is called, and how many steps a test runs."""
KEPT = ("G", "GL", "cfg", "dq", "st", "ctr", "dd", "od", "ns")


def step_source(rng: random.Random) -> str:
    """The text of a random step."""
    body = [f"y = {rng.choice(TENSORS)}"]
    for n in range(rng.randint(1, 3)):
        read, other = rng.choice(READS), rng.choice(READS)
        forms = (
            [f"y = y * float({read}) + {n}"],
            [f"if float({read}) > {rng.choice([0.5, 1.5, 2.5])}: y = y + float({other})", "else: y = y - 1.0"],
            ["try:", f"    y = y + float({read})", "except Exception:", "    y = y * 3.0"],
            ["for v in GL:", f"    y = y + v * float({read})"],
            ["def inner(q):", f"    return q + float({read})", "y = inner(y)"],
            [f"with ctx(float({read})) as w:", "    y = y + w"],
            [f"y = y + sum([float(e) for e in ({read}, {other})])"],
        )
        body += rng.choices(forms, [4, 1, 1, 1, 1, 1, 1])[0]
    if rng.random() < 0.35:
        body.append(rng.choice(EFFECTS))
    return "\n    ".join(["def step(x):", *body, "return y.sum()"])


def agree(one, other) -> bool:
    """Whether two calls did the same, but for rounding."""
    (x, left), (y, right) = one, other
    if isinstance(x, float) and isinstance(y, float):
        return left == right and np.allclose(x, y, rtol=1e-4, atol=1e-4, equal_nan=True)
    return one == other


def left_behind(space: dict) -> str:
    """What a step may have changed."""
    obj = space["obj"]
    tensors = [space["buf"].tolist(), space["td"]["w"].tolist(), space["arr"].tolist()]
    return repr([*(space[name] for name in KEPT), *tensors, obj.x, obj.l, obj.d])


def difference(seed: int) -> str:
    """Run a random step and its changes; what a call did otherwise than the eager step."""
    rng = random.Random(seed)
    source = step_source(rng)
    written, other = (loaded(STATE, source, f"user{n}_{seed}") for n in range(2))
    compiled, x, done = torch.compile(other["step"]), torch.tensor([1.0, 2.0]), []
    for n in range(CALLS + 1):
        changes = rng.sample(CHANGES, rng.randint(0, 3)) if n else []
        value = rng.choice(["0.5", "3.0", "4.0", "7.0"])
        for change in changes:
            for space in (written, other):
                torch.manual_seed(n)
                with contextlib.suppress(Exception):  # one that no longer fits
                    exec(f"V = {value}\n{change}", space)
        done += changes
        answers = []
        for space, step in ((written, written["step"]), (other, compiled)):
            torch.manual_seed(n)
            answers.append((called(step, x), left_behind(space)))
        if not agree(*answers):
            return (
                f"seed {seed}, after {done} (V = {value}):\n{source}\nas written {answers[0]}\ncompiled   {answers[1]}"
            )
    return ""


@pytest.mark.filterwarnings("ignore:torch.compile:UserWarning")
@pytest.mark.parametrize("first", range(0, 600, AT_ONCE))
def test_compiled_steps_do_what_they_do_as_written(first):
    found = [difference(seed) for seed in range(first, first + AT_ONCE)]
    assert not any(found), "\n\n".join(filter(None, found))
