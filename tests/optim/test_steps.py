"""Every optimizer against torch: parameters, state and versions after 22 steps."""

import pytest

import torchgrad_jax as tg
from tests.engine.helpers import Programs, program

from .training import train

OPTIONS = {
    "SGD": [
        {"lr": 0.1},
        {"lr": 0.1, "momentum": 0.9},
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1, "maximize": True},
        {"lr": 0.1, "momentum": 0.5, "dampening": 0.3, "foreach": True},
    ],
    "Adam": [
        {},
        {"lr": 0.1, "betas": (0.4, 0.9), "weight_decay": 0.1, "amsgrad": True},
        {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True, "foreach": True},
        {"lr": 0.1, "maximize": True, "eps": 1e-3},
    ],
    "AdamW": [{"lr": 0.1}, {"lr": 0.1, "weight_decay": 0.3, "amsgrad": True, "maximize": True}],
    "Adamax": [{}, {"lr": 0.1, "weight_decay": 0.1, "maximize": True}],
    "NAdam": [
        {},
        {"lr": 0.1, "weight_decay": 0.1, "momentum_decay": 0.1},
        {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
    ],
    "RAdam": [
        {"lr": 0.1},
        {"lr": 0.1, "betas": (0.9, 0.7), "weight_decay": 0.1},
        {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
    ],
    "Adagrad": [
        {},
        {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5},
        {"lr": 0.1, "maximize": True, "eps": 1e-2},
    ],
    "Adadelta": [{}, {"lr": 0.5, "rho": 0.6, "weight_decay": 0.1, "maximize": True}],
    "RMSprop": [
        {},
        {"lr": 0.1, "momentum": 0.5},  # much more multiplies what processors round differently
        {"lr": 0.1, "momentum": 0.5, "centered": True, "weight_decay": 0.1, "maximize": True},
        {"lr": 0.1, "alpha": 0.5, "centered": True},
    ],
    "Rprop": [{}, {"lr": 0.1, "etas": (0.3, 1.5), "step_sizes": (1e-2, 0.4), "maximize": True}],
    "ASGD": [{}, {"lr": 0.1, "lambd": 0.1, "t0": 3, "weight_decay": 0.1, "maximize": True}],
    "Adafactor": [{}, {"lr": 0.1, "eps": (1e-4, 0.1), "d": 2.0, "weight_decay": 0.1, "maximize": True}],
}


def case(name, options, kind=None, run="", **how):
    label = "-".join([name, *[f"{k}={v}" for k, v in options.items()], *([run] if run else [])])
    return program(label, lambda m: train(m, lambda ps: getattr(m.optim, name)(ps, **options), **how, **(kind or {})))


CASES = Programs(case(name, options) for name, rows in OPTIONS.items() for options in rows)
CASES += [
    case(name, OPTIONS[name][-1], run="skipping", skipping=True, steps=6)
    for name in ("SGD", "Adam", "NAdam", "RAdam", "ASGD", "Adafactor")
]
CASES += [
    case(name, rows[0], {"dtype": dtype}, run=dtype, steps=6)
    for name, rows in OPTIONS.items()
    for dtype in ("float64", "complex64")
    if not (name == "Adafactor" and dtype == "complex64")
]
# Whole vectors: torch rounds a number that is added differently in the last few elements of a half-type tensor.
CASES += [
    case(name, OPTIONS[name][0], {"dtype": dtype, "shapes": ((64,),)}, run=dtype, steps=6)
    for name in ("SGD", "Adam", "RMSprop", "Adagrad", "Adamax", "Rprop")
    for dtype in ("bfloat16", "float16")
]


test_same_numbers_state_and_versions = CASES.test()


MUON = {"plain": {}, "options": {"nesterov": False, "adjust_lr_fn": "match_rms_adamw"}}


@pytest.mark.parametrize("name", MUON)
def test_muon(name, same):
    def run(m):
        def make(params):
            return m.optim.Muon(params, lr=0.1, **MUON[name])

        return train(m, make, steps=8, shapes=((4, 6), (6, 3)))

    same(run, f"muon-{name}")


@pytest.mark.parametrize("shape", [(6, 3), (3, 6), (4, 4)])
def test_muon_by_the_ratio_of_the_sides(shape):
    """torch 2.14: the "original" step without its lower bound of 1."""

    def step(kind):
        tg.manual_seed(0)
        p = tg.randn(*shape, requires_grad=True)
        before = p.detach().clone()
        (p * p).sum().backward()
        tg.optim.Muon([p], lr=0.1, weight_decay=0.0, adjust_lr_fn=kind).step()
        return p.detach() - before

    rows, columns = shape
    factor = (rows / columns) ** 0.5 / max(1, rows / columns) ** 0.5
    assert tg.allclose(step("spectral_unclamped"), step("original") * factor, atol=1e-6)


SCHEDULES = {
    "exponential": lambda m, o: m.optim.lr_scheduler.ExponentialLR(o, 0.8),
    "one-cycle": lambda m, o: m.optim.lr_scheduler.OneCycleLR(o, 0.3, total_steps=30),
}


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_with_a_schedule(name, kind, same):
    options = {"lr": 0.1, "momentum": 0.9} if kind == "SGD" else {"lr": 0.1}

    def run(m):
        return train(m, lambda ps: getattr(m.optim, kind)(ps, **options), schedule=lambda o: SCHEDULES[name](m, o))

    same(run, f"{kind}-{name}")


@pytest.mark.parametrize("kind", ["SGD", "Adam", "NAdam", "Rprop", "ASGD", "Adafactor"])
def test_learning_rate_as_tensor(kind, same):
    def run(m):
        return train(m, lambda ps: getattr(m.optim, kind)(ps, lr=m.tensor(0.1)), steps=6)

    same(run, f"{kind}-tensor-lr")


def test_betas_as_tensors(same):
    def run(m):
        betas = (m.tensor(0.8), m.tensor([0.9]))
        return train(m, lambda ps: m.optim.Adam(ps, lr=0.1, betas=betas), steps=6)

    same(run, "tensor-betas")


def fused_step(m):
    """torch's fused kernels leave versions alone; here the writes are counted as ever."""
    out = train(m, lambda ps: m.optim.Adam(ps, lr=0.1, fused=True), steps=6)
    return {k: out[k] for k in ("params", "state")}


def test_fused(same):
    same(fused_step)
