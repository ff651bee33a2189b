"""Products of float32 are exact unless a program says that less will do; halves add up in float32."""

import re

import numpy as np
import pytest

import torchgrad_jax as torch

F = torch.nn.functional
RS = np.random.RandomState(0)


def of(*shape, dtype=None, dev=None):
    return torch.tensor(RS.randn(*shape).astype(np.float32), device=dev).to(dtype or torch.float32)


PRODUCTS = {
    "matmul": (lambda x, w: x @ w, [(64, 96), (96, 32)]),
    "linear": (lambda x, w: F.linear(x, w, w[:, 0]), [(8, 5, 48), (16, 48)]),
    "bmm": (torch.bmm, [(3, 16, 24), (3, 24, 8)]),
    "einsum": (lambda x, w: torch.einsum("bij,kj->bik", x, w), [(3, 8, 40), (7, 40)]),
    "conv2d": (lambda x, w: F.conv2d(x, w, padding=1), [(2, 16, 9, 9), (8, 16, 3, 3)]),
    "conv2d-groups": (lambda x, w: F.conv2d(x, w, groups=4), [(2, 16, 9, 9), (8, 4, 3, 3)]),
    "conv-transpose": (lambda x, w: F.conv_transpose2d(x, w, stride=2), [(2, 16, 5, 5), (16, 4, 3, 3)]),
    "attention": (
        lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True),
        [(1, 2, 16, 32), (1, 2, 16, 32)],
    ),
}


@pytest.fixture
def precision():
    yield torch.set_float32_matmul_precision
    torch.set_float32_matmul_precision("highest")


def with_gradients(f, tensors):
    tensors = [t.detach().requires_grad_() for t in tensors]
    out = f(*tensors)
    return [out, *torch.autograd.grad((out.float() ** 2).sum(), tensors)]


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("dtype, error", [("float32", 2e-5), ("bfloat16", 3e-2), ("float16", 4e-3)])
def test_products(dev, name, dtype, error):
    """Against float64 on the host: a coarser format for float32 would be off by a thousandth."""
    f, shapes = PRODUCTS[name]
    given = [of(*s, dtype=getattr(torch, dtype), dev=dev) for s in shapes]
    if dtype == "float16":
        given = [g / 4 for g in given]
    want = with_gradients(f, [g.cpu().double() for g in given])
    for got, w in zip(with_gradients(f, given), want, strict=True):
        off = (got.detach().cpu().double() - w.detach()).abs().max() / w.detach().abs().max()
        assert off.item() < error


def told(f, tensors):
    text = torch.compile(f).lower(*tensors).as_text()
    return set(re.findall(r"precision[ a-z_<=\[#]*(HIGHEST|HIGH|DEFAULT)\b", text))


@pytest.mark.parametrize("name", PRODUCTS)
def test_what_xla_is_told(dev, name, precision):
    f, shapes = PRODUCTS[name]
    tensors = [of(*s, dev=dev) for s in shapes]
    found = [told(f, tensors)]
    for setting in ("high", "medium", "highest"):
        precision(setting)
        found.append(told(f, tensors))
    if name == "conv2d-groups" or "conv" in name:  # JAX writes no default
        found[2] = found[2] or {"DEFAULT"}
    assert found == [{"HIGHEST"}, {"HIGH"}, {"DEFAULT"}, {"HIGHEST"}]


@pytest.mark.parametrize("name", ["matmul", "attention"])
def test_halves_need_no_more_than_they_hold(dev, name):
    """In float32 of full precision they would be computed ten times slower, to the same numbers."""
    f, shapes = PRODUCTS[name]
    assert "HIGHEST" not in told(f, [of(*s, dtype=torch.bfloat16, dev=dev) for s in shapes])


def test_kernels_and_programs_follow_the_setting(dev, precision):
    x = of(8, 8, dev=dev)
    step = torch.compile(lambda x: x @ x)
    exact, eager = step(x), x @ x
    precision("high")
    step(x)
    assert step.counts["traced"] == 2
    torch.testing.assert_close(x @ x, eager, rtol=1e-2, atol=1e-2)
    precision("highest")
    assert torch.equal(step(x), exact)
    assert torch.equal(x @ x, eager)


def test_flags_of_cuda_are_that_setting(precision):
    flags = torch.backends.cuda.matmul
    flags.allow_tf32 = True
    assert (torch.get_float32_matmul_precision(), flags.fp32_precision) == ("high", "tf32")
    flags.fp32_precision = "ieee"
    assert (torch.get_float32_matmul_precision(), flags.allow_tf32) == ("highest", False)
    precision("medium")
    assert flags.allow_tf32
    with pytest.raises(RuntimeError, match="Unknown precision"):
        flags.fp32_precision = "coarse"


def test_autocast(dev):
    x, w = of(16, 32, dev=dev), of(32, 8, dev=dev).requires_grad_()
    with torch.autocast(dev.type, dtype=torch.bfloat16):
        y = x @ w
        loss = (y.float() ** 2).sum()
    loss.backward()
    assert (y.dtype, w.grad.dtype) == (torch.bfloat16, torch.float32)
    want = x.cpu().double().t() @ (2 * (x.cpu().double() @ w.detach().cpu().double()))
    assert ((w.grad.cpu().double() - want).abs().max() / want.abs().max()).item() < 2e-2
