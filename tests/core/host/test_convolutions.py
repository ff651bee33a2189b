"""Convolutions of moderate work, with both gradients, beside JAX's: by NumPy's patches, or by XLA."""

import jax
import numpy as np
import pytest
from jax import lax

import torchgrad_jax as torch
from torchgrad_jax._core.host import choice, code

F = torch.nn.functional

CASES = {
    "plain": ((2, 16, 32, 32), (16, 16, 3, 3), {"padding": 1}),
    "1x1": ((4, 32, 14, 14), (64, 32, 1, 1), {}),
    "strided": ((2, 16, 33, 33), (32, 16, 3, 3), {"padding": 1, "stride": 2}),
    "dilated": ((2, 16, 24, 24), (16, 16, 3, 3), {"padding": 2, "dilation": 2}),
    "groups": ((2, 16, 32, 32), (32, 4, 3, 3), {"padding": 1, "groups": 4}),
    "by channel": ((2, 32, 24, 24), (32, 1, 5, 5), {"padding": 2, "groups": 32}),
    "rows": ((4, 32, 200), (32, 32, 5), {"padding": 2}),
    "volumes": ((2, 4, 12, 12, 12), (8, 4, 3, 3, 3), {"padding": 1}),
    "too much for NumPy": ((4, 64, 32, 32), (64, 64, 3, 3), {"padding": 1}),
}


def draw(*shapes):
    rs = np.random.RandomState(0)
    return [rs.randn(*shape).astype(np.float32) for shape in shapes]


def values(t):
    return np.asarray(t.detach())


def of_jax(x, w, stride=1, padding=0, dilation=1, groups=1):
    k = x.ndim - 2
    return lax.conv_general_dilated(
        x, w, (stride,) * k, [(padding, padding)] * k, rhs_dilation=(dilation,) * k, feature_group_count=groups
    )


@pytest.mark.parametrize("name", CASES)
def test_convolutions_and_their_gradients(name):
    shape, kernel, how = CASES[name]
    x, w = draw(shape, kernel)
    want, back = jax.vjp(lambda x, w: of_jax(x, w, **how), x, w)
    (g,) = draw(want.shape)
    a, b = torch.tensor(x, requires_grad=True), torch.tensor(w, requires_grad=True)
    for _ in range(2):
        a.grad = b.grad = None
        out = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[len(shape)](a, b, **how)
        out.backward(torch.tensor(g))
        for got, expected in zip(map(values, (out, a.grad, b.grad)), (want, *back(g))):
            scale = np.abs(expected).max()
            np.testing.assert_allclose(got / scale, expected / scale, atol=3e-6)


def test_a_transposed_convolution():
    x, w = draw((2, 32, 16, 16), (32, 16, 2, 2))
    a, b = torch.tensor(x, requires_grad=True), torch.tensor(w, requires_grad=True)
    out = F.conv_transpose2d(a, b, stride=2)
    want, back = jax.vjp(lambda x, w: jax.numpy.einsum("nchw,copq->nohpwq", x, w), x, w)
    (g,) = draw(want.shape)
    np.testing.assert_allclose(out.detach(), np.asarray(want).reshape(2, 16, 32, 32), rtol=1e-4, atol=1e-4)
    out.backward(torch.tensor(g.reshape(out.shape)))
    for got, expected in zip(map(values, (a.grad, b.grad)), back(g)):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name, numpy", [("plain", True), ("1x1", True), ("too much for NumPy", False)])
def test_work_decides(name, numpy):
    shape, kernel, how = CASES[name]
    closed = jax.make_jaxpr(lambda x, w: of_jax(x, w, **how))(*draw(shape, kernel))
    assert (code.program(closed, jax.jit(of_jax), True) is not None) is numpy
    assert choice.convolves(closed.jaxpr) is (name != "1x1")


def test_a_convolution_inside_of_a_trace():
    """The options of a kernel are not those of a program that it is a part of."""
    x, w = draw(*CASES["too much for NumPy"][:2])
    conv = torch.nn.Conv2d(64, 64, 3, padding=1, bias=False)
    with torch.no_grad():
        conv.weight.copy_(torch.tensor(w))
    eager = conv(torch.tensor(x))
    np.testing.assert_allclose(torch.compile(conv)(torch.tensor(x)).detach(), eager.detach(), rtol=1e-4, atol=1e-3)
    one = torch.func.vmap(lambda x: F.conv2d(x[None], conv.weight, padding=1)[0])(torch.tensor(x))
    np.testing.assert_allclose(one.detach(), eager.detach(), rtol=1e-4, atol=1e-3)
