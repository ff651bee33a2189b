"""torch.optim.swa_utils against torch: the functions that average, and models that are averaged."""

import importlib
import sys
import types
from typing import Any

import pytest

import torchgrad_jax
from tests.engine.helpers import Programs, attempt, program

PROGRAMS = Programs()
tg: Any = torchgrad_jax


def utils(m):
    return importlib.import_module(m.__name__ + ".optim.swa_utils")


@PROGRAMS
def one_at_a_time(m):
    a, b = m.tensor([1.0, 2.0]), m.tensor([3.0, -1.0])
    u = utils(m)
    return [
        u.get_ema_avg_fn()(a, b, 3),
        u.get_ema_avg_fn(0.5)(a, b, m.tensor(3)),
        u.get_swa_avg_fn()(a, b, 3),
        u.get_swa_avg_fn()(a, b, m.tensor(3)),
    ]


@PROGRAMS
def many_at_a_time(m):
    u = utils(m)
    out = []
    for f in (u.get_ema_multi_avg_fn(0.75), u.get_swa_multi_avg_fn()):
        for n in (3, m.tensor(3)):
            a, b = [m.tensor([1.0, 2.0]), m.zeros(1)], [m.tensor([3.0, -1.0]), m.ones(1)]
            out.append([f(a, b, n), a, b])
    whole = [m.tensor([4, 8])]
    u.get_ema_multi_avg_fn(0.5)(whole, [m.tensor([2, 2])], 1)
    return [out, whole]


@PROGRAMS
def wrong_decay(m):
    u = utils(m)
    return [attempt(lambda: u.get_ema_avg_fn(1.5)), attempt(lambda: u.get_ema_multi_avg_fn(-0.5))]


def model(m, *values):
    """A module with a parameter and a buffer; it multiplies and adds."""
    base = importlib.import_module(m.__name__ + ".nn.modules.module").Module
    parameter = importlib.import_module(m.__name__ + ".nn.parameter").Parameter

    class Affine(base):
        def __init__(self):
            super().__init__()
            self.weight = parameter(m.tensor(list(values)))
            self.register_buffer("shift", m.tensor([float(len(values))]))

        def forward(self, x):
            return x * self.weight + self.shift

    return Affine()


def averaged(m, **options):
    source = model(m, 1.0, 2.0)
    average = utils(m).AveragedModel(source, **options)
    out = []
    for i in range(4):
        with m.no_grad():
            source.weight.mul_(2).add_(i)
            source.shift.add_(1)
        average.update_parameters(source)
        out.append([average.n_averaged.clone(), average.module.weight.detach().clone()])
        out.append([average.module.shift.clone(), average(m.ones(2)).detach()])
    saved = average.state_dict()
    again = utils(m).AveragedModel(source, **options)
    again.load_state_dict(saved)
    return [out, list(saved), again.n_averaged, again.module.weight]


AVERAGES = {
    "mean": lambda u: {},
    "buffers": lambda u: {"use_buffers": True},
    "ema": lambda u: {"avg_fn": u.get_ema_avg_fn(0.5)},
    "ema-multi": lambda u: {"multi_avg_fn": u.get_ema_multi_avg_fn(0.5), "use_buffers": True},
    "swa-multi": lambda u: {"multi_avg_fn": u.get_swa_multi_avg_fn()},
    "device": lambda u: {"device": "cpu"},
}


@pytest.mark.parametrize("name", AVERAGES)
def test_averaged_model(name, same):
    same(program(f"model-{name}", lambda m: averaged(m, **AVERAGES[name](utils(m)))))


@PROGRAMS.raises
def two_ways_at_once(m):
    u = utils(m)
    return u.AveragedModel(model(m, 1.0), avg_fn=print, multi_avg_fn=print)


@PROGRAMS
def names(m):
    return sorted(utils(m).__all__)


test_same_as_torch = PROGRAMS.test()


def test_update_bn(monkeypatch):
    """Statistics start again and are plain means over the batches; everything else is as before."""
    base = importlib.import_module("torchgrad_jax.nn.modules.module").Module

    class Norm(base):
        momentum = 0.1

        def __init__(self):
            super().__init__()
            self.seen: list[Any] = ["old"]

        def reset_running_stats(self):
            self.seen = []

        def forward(self, x):
            self.seen.append((x.tolist(), self.momentum, self.training, tg.is_grad_enabled()))

    stub: Any = types.ModuleType("batchnorm")
    stub._BatchNorm = Norm
    monkeypatch.setitem(sys.modules, "torchgrad_jax.nn.modules.batchnorm", stub)
    norm = Norm().eval()
    batches = [tg.tensor([1.0]), (tg.tensor([2.0]), "label")]
    utils(tg).update_bn(batches, norm, device="cpu")
    assert norm.seen == [([1.0], None, True, False), ([2.0], None, True, False)]
    assert (norm.momentum, norm.training) == (0.1, False)
    utils(tg).update_bn(None, model(tg, 1.0))  # nothing to do, so that no batch is asked for


def test_missing_name():
    with pytest.raises(AttributeError, match=r"does not implement torch\.optim\.swa_utils\.nothing"):
        tg.optim.swa_utils.nothing
