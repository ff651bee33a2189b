"""Random training steps, between whose calls the network, its optimizer and its settings change.

Each step runs twice, eagerly and compiled, in two copies of the same module. Losses, errors, parameters,
gradients, buffers and the state of the optimizer have to be equal after each call. They have 64 bits, so that rounding
stays small whatever a training does.
"""

import contextlib
import random
from pathlib import Path

import numpy as np
import pytest

import torchgrad_jax as torch
from tests.bridge.compile.watch.random_python.running import called, loaded
from tests.bridge.compile.watch.random_python.training_lines import AFTER, CHANGES, LOSSES, UPDATES

STATE = Path(__file__).parent / "random_python" / "training_state.py"
CALLS, AT_ONCE = 7, 1
"""How often a step is called, and how many steps a test runs."""


@pytest.fixture(autouse=True)
def _64_bits():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def step_source(rng: random.Random) -> str:
    """The text of a random training step."""
    body = ["global count", "count += 1"]
    if rng.random() < 0.2:
        body.append("opt.zero_grad()")
    body.append(f"loss = {rng.choice(LOSSES)}")
    if rng.random() < 0.5:
        body.append(f"loss = loss + 0.5 * {rng.choice(LOSSES)}")
    if rng.random() < 0.2:
        body += ["with torch.no_grad():", "    stats.mul_(cfg['decay'])"]
    if rng.random() < 0.15:
        body += ["if cfg['aux']:", "    loss = loss * 2"]
    body += ["loss.backward()", *rng.choices(AFTER, k=rng.choice([0, 0, 1, 2])), *rng.choice(UPDATES).split("; ")]
    return "\n    ".join(["def step(x, y):", *body, "return loss.detach()"])


def left_behind(space: dict) -> dict:
    """What a training changes, by name."""
    left = {"extra": space["extra"], "extra.grad": space["extra"].grad, "stats": space["stats"]}
    for name in ("net", "ema"):
        module = space[name]
        left |= {f"{name}.{k}": v for k, v in module.state_dict().items()}
        left |= {f"{name}.{k}.grad": p.grad for k, p in module.named_parameters()}
        left |= {f"{name}.{k}.calls": m.calls for k, m in module.named_modules() if hasattr(m, "calls")}
    saved = space["opt"].state_dict()
    for i, group in enumerate(saved["param_groups"]):
        left |= {f"group {i}, {k}": v for k, v in group.items() if isinstance(v, int | float)}
    for i, state in saved["state"].items():
        left |= {f"state {i}, {k}": v for k, v in state.items()}
    left |= {"count": space["count"], "history": space["history"], "rates": space["sched"].get_last_lr()}
    read = {k: v.detach() if isinstance(v, torch.Tensor) else v for k, v in left.items()}
    return {k: None if v is None else np.array(v, float) for k, v in read.items()}


def parted(one, other) -> str:
    """What two calls did otherwise; after an error the module may be anything."""
    (left, as_left), (right, as_right) = one, other
    if isinstance(left, str) or isinstance(right, str) or not np.allclose(left, right, rtol=1e-6, equal_nan=True):
        return "" if left == right else f"the results {left} and {right}"
    if as_left.keys() != as_right.keys():
        return f"the names {sorted(as_left.keys() ^ as_right.keys())}"
    for name, x in as_left.items():
        y = as_right[name]
        if (x is None) != (y is None) or (
            x is not None and (x.shape != y.shape or not np.allclose(x, y, rtol=1e-6, atol=1e-6, equal_nan=True))
        ):
            return f"{name}: {x} and {y}"
    return ""


def difference(seed: int) -> str:
    """Run a random step and its changes; what a call did otherwise than the eager step."""
    rng = random.Random(seed)
    source = step_source(rng)
    written, other = (loaded(STATE, source, f"trainer{n}_{seed}") for n in range(2))
    compiled, done = torch.compile(other["step"]), []
    batches = [torch.tensor(np.random.RandomState(n).randn(4, 3)) for n in range(2)]
    labels = torch.tensor([0, 1, 1, 0])
    for n in range(CALLS):
        changes = rng.sample(CHANGES, rng.randint(0, 2)) if n else []
        value = rng.choice(["0.5", "3.0", "4.0", "1.0"])
        for change in changes:
            for space in (written, other):
                torch.manual_seed(n)
                with contextlib.suppress(Exception):  # one that no longer fits
                    exec(f"V = {value}\n{change}", space)
        done += changes
        answers, x = [], rng.choice(batches)
        for space, step in ((written, written["step"]), (other, compiled)):
            torch.manual_seed(n)
            answers.append((called(step, x, labels), left_behind(space)))
        found = parted(*answers)
        if found:
            return f"seed {seed}, call {n}, after {done} (V = {value}):\n{source}\neager and compiled: {found}"
        if isinstance(answers[0][0], str):
            break
    return ""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", range(0, 60, AT_ONCE))
def test_compiled_trainings_do_what_they_do_as_written(first):
    found = [difference(seed) for seed in range(first, first + AT_ONCE)]
    assert not any(found), "\n\n".join(filter(None, found))
