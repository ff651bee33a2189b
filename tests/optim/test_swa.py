"""torch.optim.swa_utils against torch: the functions that average, and models that are averaged."""

import importlib

import pytest

from tests.engine.helpers import Programs, attempt, by_name

PROGRAMS = Programs()


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
    return [
        attempt(lambda: u.get_ema_avg_fn(1.5)),
        attempt(lambda: u.get_ema_multi_avg_fn(-0.5)),
    ]


@PROGRAMS
def names(m):
    return sorted(utils(m).__all__)


@pytest.mark.parametrize("fn", PROGRAMS, ids=by_name)
def test_same_as_torch(fn, same):
    same(fn)


def test_missing_name():
    import torchgrad_jax as tg

    with pytest.raises(AttributeError, match="does not implement torch.optim.swa_utils.nothing"):
        tg.optim.swa_utils.nothing
