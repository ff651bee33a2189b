"""Sums and extremes of a few elements each, choices between an array and zeros, and padding by less than nothing."""

import itertools

import numpy as np
import pytest

import torchgrad_jax as torch

SHAPES = [
    (4, 8, 16, 16, 2),
    (4, 8, 16, 2, 16),
    (2, 3, 4096),
    (8192, 3),
    (3, 8192),
    (150, 64),
    (64, 1, 150),
    (1024, 16),
    (7, 1, 9, 17, 5),
]


def axes_of(shape):
    return [axes for n in range(1, len(shape)) for axes in itertools.combinations(range(len(shape)), n)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums(shape):
    for dtype in (np.float32, np.float64):
        a = np.random.RandomState(0).randn(*shape).astype(dtype)
        x = torch.tensor(a, requires_grad=True)
        for axes in axes_of(shape):
            got, want = x.sum(axes), a.sum(axes, np.float64)
            assert got.shape == want.shape
            np.testing.assert_allclose(got.detach(), want, rtol=1e-5, atol=1e-4)
            minus = torch.autograd.grad(x.sum(axes, keepdim=True).mul(-1).sum(), x)[0]
            assert (minus == -1).all()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_extremes(shape):
    a = np.random.RandomState(0).randn(*shape).astype(np.float32)
    a.reshape(-1)[7::1001] = np.nan
    a.reshape(-1)[5::997] = np.inf
    for kind in (np.float32, np.int32):
        values = a if kind is np.float32 else (np.nan_to_num(a, posinf=9) * 100).astype(kind)
        x = torch.tensor(values)
        for axes in axes_of(shape):
            np.testing.assert_array_equal(x.amax(axes), np.maximum.reduce(values, axes))
            np.testing.assert_array_equal(x.amin(axes), np.minimum.reduce(values, axes))


@pytest.mark.parametrize("shape", [(70, 600), (3, 9, 512), (2, 5, 3, 700), (1, 4096)], ids=str)
def test_running_sums_over_wide_rows(shape):
    """Both ways, since a gradient of a running sum is one from the other end."""
    for dtype in (np.float32, np.float64, np.int64):
        a = (np.random.RandomState(0).randn(*shape) * 100).astype(dtype)
        x = torch.tensor(a, requires_grad=a.dtype.kind == "f")
        for axis in range(len(shape) - 1):
            np.testing.assert_allclose(x.detach().cumsum(axis), a.cumsum(axis), rtol=1e-4, atol=1e-2)
            np.testing.assert_array_equal(x.detach().cummax(axis)[0], np.maximum.accumulate(a, axis))
            if x.requires_grad:
                g = np.random.RandomState(1).randn(*shape).astype(dtype)
                (got,) = torch.autograd.grad(x.cumsum(axis), x, torch.tensor(g))
                np.testing.assert_allclose(got, np.flip(np.flip(g, axis).cumsum(axis), axis), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "uint8", "bool", "complex64"])
def test_choices_between_an_array_and_zeros(dtype):
    rs = np.random.RandomState(0)
    a = (rs.randn(100, 90) * 100).astype(np.int64).astype(dtype)
    if a.dtype.kind in "fc":
        a[::7], a[1::9], a[2::11] = np.nan, -np.inf, -0.0
    x, c = torch.tensor(a), rs.rand(100, 90) < 0.5
    for mask in (c, c[:1], c[:, :1], c[0]):
        m = torch.tensor(mask)
        zeros = torch.zeros_like(x)
        for got, want in (
            (torch.where(m, x, zeros), np.where(mask, a, np.zeros_like(a))),
            (torch.where(m, zeros, x), np.where(mask, np.zeros_like(a), a)),
            (x.masked_fill(m, 0), np.where(mask, np.zeros_like(a), a)),
        ):
            np.testing.assert_array_equal(np.asarray(got).view(np.uint8), want.view(np.uint8))
    if a.dtype.kind == "f":
        x.requires_grad_()
        x.relu().sum().backward()
        np.testing.assert_array_equal(x.grad, np.where(a <= 0, 0, 1))


def test_gradient_of_padding():
    x = torch.ones(3, 40, 50, requires_grad=True)
    y = torch.nn.functional.pad(x, (1, 2, 3, 4))
    g = torch.arange(y.numel()).reshape(y.shape).float()
    y.backward(g)
    np.testing.assert_array_equal(x.grad, g[:, 3:43, 1:51])
    np.testing.assert_array_equal(torch.nn.functional.pad(g, (-1, -2, -3, -4)), g[:, 3:43, 1:51])


@pytest.mark.parametrize("fn", ["softmax", "log_softmax"])
def test_sums_of_what_was_negated(fn):
    """The gradient of softmax adds up negatives, in another shape than those that it is subtracted from."""
    a = np.random.RandomState(0).randn(64, 128)
    x = torch.tensor(a, requires_grad=True)
    g = torch.tensor(np.random.RandomState(1).randn(64, 128))
    getattr(torch.nn.functional, fn)(x, dim=1).backward(g)
    p = np.exp(a - a.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    g = g.numpy()
    want = p * (g - (p * g).sum(1, keepdims=True)) if fn == "softmax" else g - p * g.sum(1, keepdims=True)
    np.testing.assert_allclose(np.asarray(x.grad), want, rtol=1e-9, atol=1e-12)
