"""Learning rate schedules against torch: the rates, messages, state and resuming."""

import copy
import math

import pytest

from tests.engine.helpers import Programs, attempt, program, table

PROGRAMS = Programs()


def optimizer(m, kind="SGD", **options):
    a = m.tensor([1.0], requires_grad=True)
    b = m.tensor([2.0], requires_grad=True)
    options = options or ({"lr": 0.1, "momentum": 0.9} if kind == "SGD" else {"lr": 0.1})
    return getattr(m.optim, kind)([{"params": [a]}, {"params": [b], "lr": 0.02}], **options)


def rates(o):
    return [{k: g[k] for k in ("lr", "momentum", "betas", "initial_lr") if k in g} for g in o.param_groups]


def follow(m, make, steps=25, kind="SGD", **options):
    """What a schedule does to the groups, and its own idea of it."""
    o = optimizer(m, kind, **options)
    s = make(m.optim.lr_scheduler, o)
    out = [[rates(o), s.get_last_lr()]]
    for _ in range(steps):
        o.step()
        s.step()
        out.append([rates(o), s.get_last_lr(), getattr(s, "last_epoch", None)])
    return [out, s.state_dict()]


SCHEDULES = {
    "lambda": lambda s, o: s.LambdaLR(o, lambda e: 0.9**e),
    "lambdas": lambda s, o: s.LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (1 + e)]),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda e: 0.9),
    "step": lambda s, o: s.StepLR(o, 4, gamma=0.5),
    "multi-step": lambda s, o: s.MultiStepLR(o, [3, 8, 8, 20], gamma=0.3),
    "constant": lambda s, o: s.ConstantLR(o, 0.25, 6),
    "linear": lambda s, o: s.LinearLR(o, 0.2, 0.9, 7),
    "linear-default": lambda s, o: s.LinearLR(o),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.8),
    "polynomial": lambda s, o: s.PolynomialLR(o, 9, 2.0),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 6, 0.001),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.001),
    "restarts-even": lambda s, o: s.CosineAnnealingWarmRestarts(o, 4),
    "triangular": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 4, 3),
    "triangular2": lambda s, o: s.CyclicLR(o, [0.01, 0.02], [0.1, 0.2], 3, mode="triangular2"),
    "exp-range": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 4, mode="exp_range", gamma=0.9),
    "own-scale": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 4, scale_fn=lambda x: 1 / (1 + x), scale_mode="iterations"),
    "no-momentum-cycle": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 4, cycle_momentum=False),
    "one-cycle": lambda s, o: s.OneCycleLR(o, 0.5, total_steps=25),
    "one-cycle-linear": lambda s, o: s.OneCycleLR(
        o, [0.5, 0.1], epochs=5, steps_per_epoch=6, anneal_strategy="linear", three_phase=True
    ),
    "sequential": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9), s.StepLR(o, 2)], [3, 9]
    ),
    "sequential-cosine": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, 1.0, 4), s.CosineAnnealingLR(o, 12)], milestones=[4]
    ),
    "chained": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9)], optimizer=o),
    "swa": lambda s, o: swa(s, o, 0.05),
    "swa-linear": lambda s, o: swa(s, o, [0.05, 0.5], anneal_epochs=7, anneal_strategy="linear"),
    "swa-at-once": lambda s, o: swa(s, o, 0.05, anneal_epochs=0),
}


def swa(s, o, *args, **kwargs):
    import importlib

    name = s.__name__.replace("lr_scheduler", "swa_utils")
    return importlib.import_module(name).SWALR(o, *args, **kwargs)


ROWS = {name: lambda m, make=make: follow(m, make)[0] for name, make in SCHEDULES.items()}
ROWS |= {
    f"{name}-state": lambda m, make=SCHEDULES[name]: follow(m, make, 3)[1]
    for name in SCHEDULES
    if not name.startswith(("swa", "triangular", "exp-range", "no-mom"))  # those hold functions of their own
}
ROWS |= {
    f"{name}-adam": lambda m, make=SCHEDULES[name]: follow(m, make, 12, "Adam")
    for name in ("one-cycle", "own-scale", "cosine")
}
ROWS |= {
    f"{name}-tensor": lambda m, make=SCHEDULES[name]: follow(m, make, 8, "SGD", lr=m.tensor(0.1))
    for name in ("step", "exponential", "linear", "cosine", "lambda", "restarts", "sequential")
}


test_rates = table(ROWS).test()


def resumed(m, make, how):
    """Rates after a schedule went on from its state in a new process, as it were."""
    o = optimizer(m)
    s = make(m.optim.lr_scheduler, o)
    for _ in range(5):
        o.step()
        s.step()
    if how == "state":
        saved, options = copy.deepcopy(s.state_dict()), o.state_dict()
        o = optimizer(m)
        s = make(m.optim.lr_scheduler, o)
        s.load_state_dict(saved)
        o.load_state_dict(options)
    else:
        for g in o.param_groups:
            g["lr"] = g["initial_lr"]
        s = make(m.optim.lr_scheduler, o)
    out = []
    for _ in range(8):
        o.step()
        s.step()
        out.append(rates(o))
    return out


@pytest.mark.parametrize("name", SCHEDULES)
def test_resumed(name, same):
    same(program(f"resumed-{name}", lambda m: resumed(m, SCHEDULES[name], "state")))


CLOSED = ["step", "multi-step", "constant", "linear", "exponential", "polynomial", "cosine", "lambda", "restarts"]


@pytest.mark.parametrize("name", CLOSED)
def test_epoch_given(name, same):
    def run(m):
        o = optimizer(m)
        s = SCHEDULES[name](m.optim.lr_scheduler, o)
        out = []
        o.step()
        for epoch in (3, 7, 1):
            s.step(epoch)
            out.append([rates(o), s.last_epoch])
        return out

    same(run, f"epoch-{name}")


@pytest.mark.parametrize("name", ["step", "cosine", "linear", "one-cycle", "triangular", "lambda"])
def test_begun_later(name, same):
    makers = {
        "step": lambda s, o: s.StepLR(o, 4, last_epoch=5),
        "cosine": lambda s, o: s.CosineAnnealingLR(o, 6, last_epoch=5),
        "linear": lambda s, o: s.LinearLR(o, 0.5, 1.0, 8, last_epoch=5),
        "one-cycle": lambda s, o: s.OneCycleLR(o, 0.3, 20, last_epoch=5),
        "triangular": lambda s, o: s.CyclicLR(o, 0.1, 0.3, 4, last_epoch=5),
        "lambda": lambda s, o: s.LambdaLR(o, lambda e: 0.5**e, last_epoch=5),
    }

    def run(m):
        early = attempt(lambda: makers[name](m.optim.lr_scheduler, optimizer(m)))
        o = optimizer(m)
        SCHEDULES[name](m.optim.lr_scheduler, o)
        s = makers[name](m.optim.lr_scheduler, o)
        out = [rates(o)]
        for _ in range(4):
            o.step()
            s.step()
            out.append(rates(o))
        return [early, out]

    same(run, f"later-{name}")


MEASURED = [1.0, 0.9, 0.9, 0.9, 0.89999, 0.9, 1.5, 0.5, 0.6, 0.6, 0.6, 0.6, 0.4, 0.4, 0.4, 0.4]
PLATEAUS = {
    "default": {"patience": 2},
    "max": {"patience": 1, "mode": "max"},
    "abs": {"patience": 1, "threshold_mode": "abs", "threshold": 0.05, "cooldown": 2},
    "max-abs": {"patience": 0, "mode": "max", "threshold_mode": "abs"},
    "floor": {"patience": 0, "min_lr": [0.01, 0.015]},
    "eps": {"patience": 0, "factor": 0.5, "eps": 0.02},
}


@pytest.mark.parametrize("name", PLATEAUS)
def test_plateau(name, same):
    def run(m):
        o = optimizer(m)
        s = m.optim.lr_scheduler.ReduceLROnPlateau(o, **PLATEAUS[name])
        out = []
        for x in MEASURED:
            s.step(m.tensor(x))
            out.append([rates(o), s.get_last_lr(), s.num_bad_epochs, s.in_cooldown])
        other = m.optim.lr_scheduler.ReduceLROnPlateau(optimizer(m))
        other.load_state_dict(s.state_dict())
        return [out, s.state_dict(), other.state_dict()]

    same(run, f"plateau-{name}")


@PROGRAMS
def plateau_and_a_new_group(m):
    o = optimizer(m)
    fixed = m.optim.lr_scheduler.ReduceLROnPlateau(o, patience=0, min_lr=[0.0, 0.0])
    free = m.optim.lr_scheduler.ReduceLROnPlateau(o, patience=0)
    o.add_param_group({"params": [m.tensor([1.0], requires_grad=True)], "lr": 0.7})
    for x in (1.0, 1.0):
        free.step(x)
    fixed.step(1.0)
    free.step(1.0, epoch=9)
    return [rates(o), attempt(lambda: fixed.step(1.0)), free.last_epoch]


REFUSED = {
    "no-optimizer": lambda s, o: s.StepLR(3, 1),
    "no-optimizer-plateau": lambda s, o: s.ReduceLROnPlateau(3),
    "no-optimizer-cyclic": lambda s, o: s.CyclicLR(3, 0.1, 0.2),
    "no-optimizer-one-cycle": lambda s, o: s.OneCycleLR(3, 0.1),
    "base": lambda s, o: s.LRScheduler(o),
    "lambdas": lambda s, o: s.LambdaLR(o, [lambda e: 1.0]),
    "multiplicative-number": lambda s, o: s.MultiplicativeLR(o, [1.0, 2.0]),
    "constant": lambda s, o: s.ConstantLR(o, 2.0),
    "linear-start": lambda s, o: s.LinearLR(o, 0.0),
    "linear-end": lambda s, o: s.LinearLR(o, 0.5, 1.5),
    "restarts-first": lambda s, o: s.CosineAnnealingWarmRestarts(o, 0),
    "restarts-times": lambda s, o: s.CosineAnnealingWarmRestarts(o, 2, 1.5),
    "restarts-low": lambda s, o: s.CosineAnnealingWarmRestarts(o, 2, eta_min="x"),
    "restarts-negative": lambda s, o: s.CosineAnnealingWarmRestarts(o, 2).step(-1),
    "cyclic-mode": lambda s, o: s.CyclicLR(o, 0.1, 0.2, mode="x"),
    "cyclic-lengths": lambda s, o: s.CyclicLR(o, [0.1], 0.2),
    "one-cycle-nothing": lambda s, o: s.OneCycleLR(o, 0.1),
    "one-cycle-steps": lambda s, o: s.OneCycleLR(o, 0.1, total_steps=-1),
    "one-cycle-epochs": lambda s, o: s.OneCycleLR(o, 0.1, epochs=0, steps_per_epoch=3),
    "one-cycle-per-epoch": lambda s, o: s.OneCycleLR(o, 0.1, epochs=2, steps_per_epoch=1.5),
    "one-cycle-share": lambda s, o: s.OneCycleLR(o, 0.1, 10, pct_start=2.0),
    "one-cycle-strategy": lambda s, o: s.OneCycleLR(o, 0.1, 10, anneal_strategy="x"),
    "one-cycle-too-far": lambda s, o: follow_all(s.OneCycleLR(o, 0.1, 3), 5),
    "plateau-factor": lambda s, o: s.ReduceLROnPlateau(o, factor=1.0),
    "plateau-mode": lambda s, o: s.ReduceLROnPlateau(o, mode="x"),
    "plateau-threshold": lambda s, o: s.ReduceLROnPlateau(o, threshold_mode="x"),
    "plateau-floors": lambda s, o: s.ReduceLROnPlateau(o, min_lr=[0.1]),
    "sequential-none": lambda s, o: s.SequentialLR(o, [], []),
    "sequential-milestones": lambda s, o: s.SequentialLR(o, [s.StepLR(o, 1)], [3]),
    "sequential-plateau": lambda s, o: s.SequentialLR(o, [s.ReduceLROnPlateau(o)], []),
    "sequential-number": lambda s, o: s.SequentialLR(o, [3], []),
    "chained-none": lambda s, o: s.ChainedScheduler([]),
    "chained-plateau": lambda s, o: s.ChainedScheduler([s.ReduceLROnPlateau(o)]),
    "swa-strategy": lambda s, o: swa(s, o, 0.1, anneal_strategy="x"),
    "swa-epochs": lambda s, o: swa(s, o, 0.1, anneal_epochs=-1),
    "swa-lengths": lambda s, o: swa(s, o, [0.1]),
}


def follow_all(s, n):
    for _ in range(n):
        s.optimizer.step()
        s.step()


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, same):
    same(program(f"refused-{name}", lambda m: REFUSED[name](m.optim.lr_scheduler, optimizer(m))))


@PROGRAMS
def momentum_cycle_without_momentum(m):
    s = m.optim.lr_scheduler
    p = [m.tensor([1.0], requires_grad=True)]
    return [
        attempt(lambda: s.CyclicLR(m.optim.Adagrad(p), 0.1, 0.2)),
        attempt(lambda: s.OneCycleLR(m.optim.Adagrad(p), 0.1, 5)),
    ]


@PROGRAMS
def schedules_of_two_optimizers(m):
    s, a, b = m.optim.lr_scheduler, optimizer(m), optimizer(m)
    pair = [s.StepLR(a, 1), s.StepLR(b, 1)]
    return [attempt(lambda: s.SequentialLR(a, pair, [1])), attempt(lambda: s.ChainedScheduler(pair))]


@PROGRAMS
def scheduler_before_optimizer_warns(m):
    o = optimizer(m)
    s = m.optim.lr_scheduler.StepLR(o, 2)
    s.step()
    o.step()
    s.step()


@PROGRAMS
def overridden_step_warns(m):
    o = optimizer(m)
    s = m.optim.lr_scheduler.StepLR(o, 2)
    o.step = lambda: None
    s.step()
    s.step()


@PROGRAMS
def get_lr_outside_of_a_step_warns(m):
    o = optimizer(m)
    s = m.optim.lr_scheduler.StepLR(o, 2)
    return [s.get_lr(), swa(m.optim.lr_scheduler, o, 0.1).get_lr()]


@PROGRAMS
def callable_object_is_saved(m):
    class Decay:
        def __init__(self, rate):
            self.rate = rate

        def __call__(self, epoch):
            return self.rate**epoch

    o = optimizer(m)
    s = m.optim.lr_scheduler.LambdaLR(o, Decay(0.5))
    other = m.optim.lr_scheduler.LambdaLR(o, Decay(0.9))
    other.load_state_dict(s.state_dict())
    c = m.optim.lr_scheduler.CyclicLR(o, 0.1, 0.2, scale_fn=Decay(0.5))
    state = c.state_dict()
    return [s.state_dict(), other.lr_lambdas[0].rate, state["_scale_fn_custom"]]


@PROGRAMS
def own_scheduler(m):
    class Shrink(m.optim.lr_scheduler.LRScheduler):
        def get_lr(self):
            return [b / (1 + self.last_epoch) for b in self.base_lrs]

    o = optimizer(m)
    s = Shrink(o)
    out = []
    for _ in range(3):
        o.step()
        s.step()
        out.append(s.get_last_lr())
    return [out, s.state_dict(), isinstance(s, m.optim.lr_scheduler._LRScheduler)]


@PROGRAMS
def restarts_between_epochs(m):
    o = optimizer(m)
    s = m.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 2, 3)
    out = []
    for e in (0.25, 1.5, 2.0, 3.75, 9.0, 40.0):
        s.step(e)
        out.append([rates(o), s.T_cur, s.T_i, s.last_epoch])
    return out


@PROGRAMS
def names(m):
    return sorted(m.optim.lr_scheduler.__all__)


test_same_as_torch = PROGRAMS.test()


def test_a_new_rate_compiles_nothing():
    import torchgrad_jax as tg
    from torchgrad_jax.optim import _rules

    p = tg.tensor([1.0, 2.0, 3.0, 4.0, 5.0], requires_grad=True)
    o = tg.optim.Adam([p], lr=0.1)
    s = tg.optim.lr_scheduler.ExponentialLR(o, 0.9)
    sizes = []
    for _ in range(6):
        p.grad = tg.ones(5)
        o.step()
        s.step()
        compiled = [k.step.traced._cache_size() for k in _rules._KERNELS.young.values()]
        sizes.append((len(compiled), sum(compiled)))
    assert len(set(sizes)) == 1
    assert math.isclose(o.param_groups[0]["lr"], 0.1 * 0.9**6)
