"""A compiled step is the eager one with every optimizer and every schedule, wherever the schedule steps."""

import random

import pytest

import torchgrad_jax as tg
from tests.engine.helpers import program
from tests.optim.training import parameters

STEPS = 6
OPTIMIZERS = {
    "momentum": ("SGD", {"momentum": 0.9}),
    "nesterov": ("SGD", {"momentum": 0.9, "nesterov": True, "foreach": True}),
    "dampening": ("SGD", {"momentum": 0.9, "dampening": 0.1}),
    "amsgrad": ("AdamW", {"amsgrad": True}),
    "fused": ("Adam", {"fused": True}),
    "centered": ("RMSprop", {"momentum": 0.1, "eps": 0.01, "centered": True}),
    **{
        name: (name, {})
        for name in ("SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "Adamax", "ASGD", "Muon", "NAdam", "RAdam",
                     "RMSprop", "Rprop")
    },
}  # fmt: skip


def cycled(o):
    """Whether the optimizer has a momentum that a schedule can change."""
    return {"cycle_momentum": "momentum" in o.defaults or "betas" in o.defaults}


class ByHand:
    """No `LRScheduler`: the numbers of the groups are changed in place."""

    def __init__(self, o):
        self.optimizer = o

    def step(self):
        for group in self.optimizer.param_groups:
            group["lr"] *= 0.5


class Plateau:
    """`ReduceLROnPlateau` with a measure that gets no better."""

    def __init__(self, inner):
        self.inner = inner

    def step(self):
        self.inner.step(1.0)


SCHEDULES = {
    "lambda": lambda s, o: s.LambdaLR(o, [lambda n: 1 / (n + 1), lambda n: 0.9**n]),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda n: 0.8 if n % 2 else 1.1),
    "step": lambda s, o: s.StepLR(o, 2, 0.5),
    "multistep": lambda s, o: s.MultiStepLR(o, [2, 3, 3], 0.5),
    "constant": lambda s, o: s.ConstantLR(o, 0.3, 3),
    "linear": lambda s, o: s.LinearLR(o, 0.3, total_iters=4),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.9),
    "polynomial": lambda s, o: s.PolynomialLR(o, 5, 2.0),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 5),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 2, 2),
    "cyclic": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 2, mode="exp_range", **cycled(o)),
    "one cycle": lambda s, o: s.OneCycleLR(o, 0.3, total_steps=9, **cycled(o)),
    "chained": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9)]),
    "sequential": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=2), s.ExponentialLR(o, 0.9), s.StepLR(o, 1)], [2, 4]
    ),
    "plateau": lambda s, o: Plateau(s.ReduceLROnPlateau(o, patience=0)),
    "by hand": lambda s, o: ByHand(o),
}
PLACES = ("inside", "inside, first", "outside")


def training(m, optimizer, schedule, place, compiled):
    """The losses, rates, momenta and weights of a short training; and its step."""
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
    return [seen, v.detach(), w.detach()], run


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
        want, _ = training(tg, optimizer, schedule, place, False)
        found, step = training(tg, optimizer, schedule, place, True)
        tg.testing.assert_close(found, want, msg=lambda text, name=schedule: f"{name}: {text}")
        assert step.counts["eager"] == 0, (schedule, step.reasons)
        assert step.counts["traced"] <= 2, (schedule, step.reasons)
