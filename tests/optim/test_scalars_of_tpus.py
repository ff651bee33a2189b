"""Scalars of optimizers in programs for TPUs: float32, and as good as float64."""

import re

import numpy as np
import pytest

import torchgrad_jax as torch
from torchgrad_jax import nn
from torchgrad_jax._core.jax.target import traced_for

OPTIMIZERS = {
    "adam": lambda w: torch.optim.Adam(w, lr=1e-3, weight_decay=0.01),
    "adamw": lambda w: torch.optim.AdamW(w, betas=(0.95, 0.9999)),
    "amsgrad": lambda w: torch.optim.AdamW(w, amsgrad=True, maximize=True),
    "rate in a tensor": lambda w: torch.optim.AdamW(w, lr=torch.tensor(1e-3)),
    "no memory": lambda w: torch.optim.Adam(w, betas=(0.0, 0.999)),
    "adamax": torch.optim.Adamax,
    "adadelta": torch.optim.Adadelta,
    "rmsprop": lambda w: torch.optim.RMSprop(w, centered=True, momentum=0.9),
    "sgd": lambda w: torch.optim.SGD(w, lr=0.1, momentum=0.9, dampening=0.1),
    "adagrad": lambda w: torch.optim.Adagrad(w, lr_decay=0.01),
}


def changes(name, steps, first, compiled):
    """What the last step changed each parameter by, and the state after it."""
    torch.manual_seed(0)
    w = [torch.zeros(5, 3, requires_grad=True), torch.zeros(7, requires_grad=True)]
    gs = [torch.randn(5, 3), torch.randn(7)]
    optimizer = OPTIMIZERS[name](w)
    step = torch.compile(optimizer.step) if compiled else optimizer.step
    for i in range(steps):
        for p, g in zip(w, gs):
            p.grad = g * (1 + 0.3 * np.sin(i))
            with torch.no_grad():
                p.zero_()
        step()
        if i == 0 and first:
            for p in w:
                if "step" in optimizer.state[p]:
                    optimizer.state[p]["step"].fill_(first)
    state = [{k: v.numpy() for k, v in s.items() if isinstance(v, torch.Tensor)} for s in optimizer.state.values()]
    return [p.detach().numpy() for p in w], state


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_float32_scalars_are_as_good(name, compiled):
    compare(name, 30, 0, compiled)


@pytest.mark.parametrize("name", ["adamw", "adamax"])
def test_float32_scalars_are_as_good_after_many_steps(name):
    compare(name, 3, 5000, compiled=False)


def compare(name, steps, first, compiled):
    want, state = changes(name, steps, first, compiled)
    with traced_for("tpu"):
        found, narrow = changes(name, steps, first, compiled)
    for a, b in zip(want, found):
        np.testing.assert_allclose(b, a, rtol=5e-7)
    for a, b in zip(state, narrow):
        for k in a:
            np.testing.assert_allclose(b[k], a[k], rtol=2e-7, err_msg=k)


def program(name, dtype, platform):
    with traced_for(platform):
        net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to(dtype)
        optimizer = OPTIMIZERS[name](net.parameters())

        @torch.compile
        def step(x):
            optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()

        return step.lower(torch.ones(3, 4, dtype=dtype)).as_text()


ARITHMETIC = re.compile(r"stablehlo\.(?!convert|reshape)\w+.*f64")


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_no_scalar_is_computed_in_float64(name):
    assert ARITHMETIC.findall(program(name, torch.float32, "cpu"))
    assert not ARITHMETIC.findall(program(name, torch.float32, "tpu"))


def test_by_the_dtype_of_parameters():
    assert not ARITHMETIC.findall(program("adamw", torch.bfloat16, "tpu"))
    assert ARITHMETIC.findall(program("adamw", torch.float64, "tpu"))
