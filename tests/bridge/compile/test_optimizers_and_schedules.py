"""A compiled step is the eager one with every optimizer and every schedule, wherever the schedule steps."""

import random

import pytest

import torchgrad_jax as tg
from tests.bridge.trainings import OPTIMIZERS, SCHEDULES
from tests.engine.helpers import program
from tests.optim.training import parameters

STEPS = 6
PLACES = ("inside", "inside, first", "outside")


def training(m, optimizer, schedule, place, compiled):
    """The losses, rates, momenta and weights of a short training; its optimizer and its step."""
    name, options = OPTIMIZERS[optimizer]
    v, w = parameters(m, ((3, 3), (3, 2)), "float64")
    groups = [{"params": [v]}, {"params": [w], "lr": 0.03}]
    opt = getattr(m.optim, name)(groups, lr=0.02, **options)
    sched = SCHEDULES[schedule](m.optim.lr_scheduler, opt)

    def step(x):
        opt.zero_grad()
        loss = (((x @ v).tanh() @ w) ** 2).mean()
        loss.backward()
        for part in {"inside": (opt, sched), "inside, first": (sched, opt)}.get(place, (opt,)):
            part.step()
        return loss

    run = m.compile(step) if compiled else step
    x, seen = parameters(m, ((4, 3),), "float64", seed=1)[0].detach(), []
    for _ in range(STEPS):
        seen.append(run(x).detach())
        if place == "outside":
            sched.step()
        seen.append([[g.get(k) for k in ("lr", "momentum", "betas")] for g in opt.param_groups])
    return [seen, v.detach(), w.detach()], opt, run


GRID = [(o, s, p) for o in OPTIMIZERS for s in SCHEDULES for p in PLACES]
SAMPLE = random.Random(1).sample(GRID, 6)
pytestmark = pytest.mark.filterwarnings("ignore:Detected call of .lr_scheduler.step")


@pytest.mark.parametrize("row", SAMPLE, ids=", ".join)
def test_as_torch(row, same):
    same(program(", ".join(row), lambda m: training(m, *row, compiled=m is tg)[0]))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_as_eager(optimizer, place):
    for schedule in SCHEDULES:
        want, eager, _ = training(tg, optimizer, schedule, place, False)
        found, opt, step = training(tg, optimizer, schedule, place, True)
        found, want = ([x, o.state_dict()["state"]] for x, o in ((found, opt), (want, eager)))
        tg.testing.assert_close(found, want, msg=lambda text, name=schedule: f"{name}: {text}")
        assert step.counts["eager"] == 0, (schedule, step.reasons)
        assert step.counts["traced"] <= 2, (schedule, step.reasons)


OPTIMIZERS_OF_PARTS = {
    "SGD": lambda params: tg.optim.SGD(params, 0.1, momentum=0.9, nesterov=True),
    "Adam": lambda params: tg.optim.Adam(params, 0.1),
    "Adagrad": lambda params: tg.optim.Adagrad(params, 0.1, lr_decay=0.1),
    "RMSprop": lambda params: tg.optim.RMSprop(params, 0.1, centered=True),
    "RAdam": lambda params: tg.optim.RAdam(params, 0.1),
}


@pytest.mark.parametrize("start", [3, 2], ids=["apart", "overlapping"])
@pytest.mark.parametrize("make", OPTIMIZERS_OF_PARTS.values(), ids=OPTIMIZERS_OF_PARTS)
def test_parameters_that_are_parts_of_one_memory_are_updated_in_turn(make, start):
    found = []
    for form in (lambda f: f, tg.compile):
        flat = tg.arange(6.0) / 10
        w, v = tg.nn.Parameter(flat[:3]), tg.nn.Parameter(flat[start : start + 3])
        optimizer = make([w, v])

        @form
        def step(x):
            optimizer.zero_grad()  # noqa: B023 - called before the next round
            (w * x + v).square().sum().backward()  # noqa: B023
            optimizer.step()  # noqa: B023

        for _ in range(4):
            step(tg.tensor([1.0, -2.0, 3.0]))
            optimizer.param_groups[0]["lr"] *= 0.5
            found.append(tg.cat([flat, w.detach(), v.detach()]))
    tg.testing.assert_close(found[4:], found[:4])
