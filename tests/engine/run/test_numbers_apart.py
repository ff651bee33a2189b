"""A large kernel that was compiled for one number serves other numbers, too, and computes with them."""

import jax
import numpy as np
import pytest

import torchgrad_jax as torch

F = torch.nn.functional
COMPILED = "/jax/core/compile/backend_compile_duration"
ROWS, COLUMNS, FEW = 300, 400, 3

OPS = {
    "leaky_relu": F.leaky_relu,
    "elu": F.elu,
    "celu": F.celu,
    "hardtanh": lambda x, v: F.hardtanh(x, -v, v),
    "threshold": lambda x, v: F.threshold(x, v, -v),
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "softplus": lambda x, v: F.softplus(x, v, 3 * v),
    "logit": lambda x, v: torch.logit(x.sigmoid(), v / 10),
    "smooth_l1": lambda x, v: F.smooth_l1_loss(x, x.flip(1), beta=v, reduction="none"),
    "huber": lambda x, v: F.huber_loss(x, x.flip(1), delta=v, reduction="none"),
    "nan_to_num": lambda x, v: torch.nan_to_num(x / (x > 0), v, 3 * v, -v),
    "layer_norm": lambda x, v: F.layer_norm(x, (COLUMNS,), eps=v),
    "renorm": lambda x, v: torch.renorm(x, 2, 0, v),
    "addcmul": lambda x, v: torch.addcmul(x, x, x, value=v),
    "sub": lambda x, v: torch.sub(x, x.flip(1), alpha=v),
}


@pytest.fixture(scope="module")
def compiled():
    """The names of the kernels that were compiled since the list was cleared."""
    names = []

    def listen(event, duration_secs, **about):
        if event == COMPILED:
            names.append(about.get("fun_name"))

    jax.monitoring.register_event_duration_secs_listener(listen)
    return names


def values(op, x, v):
    """The result and its gradient, as arrays."""
    x = x.detach().requires_grad_()
    out = op(x, v)
    (grad,) = torch.autograd.grad(out, x, torch.ones_like(out))
    return np.asarray(out.detach()), np.asarray(grad)


@pytest.mark.parametrize("name", OPS)
def test_another_number_compiles_nothing(name, compiled):
    torch.manual_seed(0)
    x = torch.randn(ROWS, COLUMNS)
    values(OPS[name], x, 0.3)
    compiled.clear()
    large = values(OPS[name], x, 0.7)
    assert compiled == []
    small = values(OPS[name], x[:FEW], 0.7)  # NumPy computes small ones
    for many, few in zip(large, small):
        np.testing.assert_allclose(many[:FEW], few, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("v", [0.0, 1.0, 2.0, -1.0, 0.5, float("inf"), float("nan")])
def test_numbers_with_which_xla_has_less_to_do(v):
    x = torch.randn(ROWS, COLUMNS)
    large, small = values(F.leaky_relu, x, v), values(F.leaky_relu, x[:FEW], v)
    for many, few in zip(large, small):
        np.testing.assert_array_equal(many[:FEW], few)


def test_transforms_see_the_kernel_itself():
    x = torch.randn(ROWS, COLUMNS)
    slope = torch.func.grad(lambda x: F.elu(x, 0.3).sum())
    np.testing.assert_allclose(slope(x), values(lambda x, v: F.elu(x, v), x, 0.3)[1], rtol=1e-6)
    second = torch.func.grad(lambda x: slope(x).sum())(x)
    np.testing.assert_allclose(second, np.where(x > 0, 0, 0.3 * np.exp(x)), rtol=1e-5)


def test_a_pass_with_other_numbers_compiles_little(compiled):
    x, w = torch.randn(ROWS, COLUMNS), torch.randn(COLUMNS, COLUMNS, requires_grad=True)

    def step(v):
        F.huber_loss(F.leaky_relu(x @ w, v), x * 0, delta=v).backward()

    for v in (0.11, 0.12, 0.13):
        step(v)
    compiled.clear()
    for k in range(5):
        step(0.3 + k / 37)
    assert compiled == []


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_arrays_of_a_kernel_are_not_mistaken_for_another_one_s(mode):
    """The weights of an interpolation are arrays, which look alike in the text of the steps."""
    x = torch.randn(2, 4, 32, 32)
    for corners in (True, False):
        large, few = [
            values(lambda x, v: F.interpolate(x, scale_factor=2, mode=mode, align_corners=v), given, corners)
            for given in (x, x[:1, :1])
        ]
        for many, one in zip(large, few):
            np.testing.assert_allclose(many[:1, :1], one, rtol=1e-5, atol=1e-5)
