"""Traced values that code under a transform of JAX's leaves in optimizers, schedules, scalers and modules."""

from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

import jax
import pytest

import torchgrad_jax as torch

nn = torch.nn


class Remembers(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.seen: list[Any] = []
        self.by_name = {"last": None}

    def forward(self, x, keep=True):
        if keep:
            self.seen.append(x * 2)
            self.by_name["last"] = x * 3
        return self.linear(x)


def _world():
    p = nn.Parameter(torch.ones(3))
    opt = torch.optim.Adam([p], lr=0.1)
    p.grad = torch.ones(3)
    opt.step()
    schedule = torch.optim.lr_scheduler.StepLR(opt, 1)
    opt.step()
    scaler = torch.amp.GradScaler("cpu")
    return SimpleNamespace(p=p, opt=opt, schedule=schedule, scaler=scaler, net=Remembers())


def _put(holder, key, value):
    holder[key] = value


def _load(w, x):
    state = w.opt.state_dict()
    state["state"][0]["exp_avg"] = x * 2
    w.opt.load_state_dict(state)


WRITES = {
    "entry of the state": lambda w, x: _put(w.opt.state[w.p], "exp_avg", x * 2),
    "new entry of the state": lambda w, x: _put(w.opt.state[w.p], "mine", (x * 2, 1)),
    "new state": lambda w, x: _put(w.opt.state, w.p, {"exp_avg": x * 2}),
    "learning rate": lambda w, x: _put(w.opt.param_groups[0], "lr", x.sum()),
    "betas": lambda w, x: _put(w.opt.param_groups[0], "betas", (x.sum(), 0.9)),
    "attribute of an optimizer": lambda w, x: setattr(w.opt, "last", x * 2),
    "load_state_dict": _load,
    "parameters": lambda w, x: w.opt.add_param_group({"params": [nn.Parameter(x * 2)]}),
    "schedule": lambda w, x: setattr(w.schedule, "gamma", x.sum()),
    "list of a schedule": lambda w, x: _put(w.schedule.base_lrs, 0, x.sum()),
    "scaler": lambda w, x: setattr(w.scaler, "_growth_factor", x.sum()),
    "attribute of a module": lambda w, x: setattr(w.net, "last", x * 2),
    "list and dict of a module": lambda w, x: w.net(x),
}
TRANSFORMS = {
    "jit": jax.jit,
    "grad": jax.grad,
    "vmap": lambda f: lambda x: jax.vmap(f)(x[None]),
    "jit of grad": lambda f: jax.jit(jax.grad(f)),
    "jacfwd": jax.jacfwd,
    "eval_shape": lambda f: lambda x: jax.eval_shape(f, x),
}


def _shown(value):
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {k if isinstance(k, str) else id(k): _shown(v) for k, v in value.items()}
    return [_shown(v) for v in value] if isinstance(value, list | tuple) else value


def _held(w):
    kept = [dict(w.opt.state), w.opt.param_groups, w.opt.__dict__.get("last")]
    kept += [w.schedule.base_lrs, w.schedule.gamma, w.scaler._growth_factor]
    return _shown([*kept, w.net.seen, w.net.by_name, getattr(w.net, "last", None)])


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_what_is_traced_is_not_kept(write, transform):
    w = _world()
    before = _held(w)

    def f(x):
        write(w, x)
        return x.sum()

    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"left a traced value in an object[\s\S]*test_kept_traces"):
            transform(f)(torch.ones(3))
        assert _held(w) == before
    w.opt.step()
    w.schedule.step()


def test_an_error_of_the_function_leaves_nothing_behind():
    w = _world()
    before = _held(w)

    def f(x):
        w.opt.param_groups[0]["lr"] = x.sum()
        raise ValueError("it went wrong")

    for transform in TRANSFORMS.values():
        with pytest.raises(ValueError, match="went wrong"):
            transform(f)(torch.ones(3))
        assert _held(w) == before


def _swapped_for_a_while(w, x):
    group = w.opt.param_groups[0]
    held, group["lr"] = group["lr"], x.sum()
    out = x * group["lr"] * jax.numpy.sin(2.0)
    group["lr"] = held
    return out


def _called_and_called_with_others(w, x):
    out = w.net(x, keep=False)
    others = OrderedDict((k, v * x.sum()) for k, v in w.net.named_parameters())
    return out + torch.func.functional_call(w.net, dict(others), (x,), {"keep": False})


def _made_inside(w, x):
    net = nn.Tanh()
    net.last = x
    opt = torch.optim.SGD([nn.Parameter(x * 1)], lr=0.1)
    opt.param_groups[0]["lr"] = x.sum()
    return net(x) * opt.param_groups[0]["lr"]


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize("f", [_swapped_for_a_while, _called_and_called_with_others, _made_inside])
def test_what_does_not_stay_is_allowed(f, transform):
    w = _world()
    transform(lambda x: f(w, x).sum())(torch.ones(3))


def test_a_module_that_jax_takes_may_keep_what_is_traced():
    net = Remembers()
    out = jax.jit(lambda net, x: net(x).sum())(net, torch.ones(3))
    assert out.shape == ()
    assert net.seen == []
