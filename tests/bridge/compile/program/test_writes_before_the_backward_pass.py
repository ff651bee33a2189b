"""Writes between a compiled function and the backward pass from its results: eager's gradients, or an error."""

from __future__ import annotations

import re

import pytest

import torchgrad_jax as torch
from torchgrad_jax import nn
from torchgrad_jax.utils.checkpoint import checkpoint


class Product(torch.autograd.Function):
    """A product whose backward reads a tensor that it keeps by itself."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.w = w
        return x * w

    @staticmethod
    def backward(ctx, g):
        return g * ctx.w, None


def _operator(x, w):
    return (x * w).sum()


def _checkpoint(x, w):
    return checkpoint(lambda x: (x * w).sin(), x, use_reentrant=False).sum()


def _function(x, w):
    return Product.apply(x, w.detach()).sum()


def _view(x, w):
    return (x.reshape(2, 2) * w.reshape(2, 2).t()).sum()


def _add(w):
    with torch.no_grad():
        w.add_(1)


def _add_to_data(w):
    w.data.add_(1)


def _replace_data(w):
    w.data = w.data + 1


def _write_by_numpy(w):
    w.detach().numpy()[:] += 1


def _nothing(w):
    w.detach().sum()


_READERS = (_operator, _checkpoint, _function, _view)
_WRITES = (_nothing, _add, _add_to_data, _replace_data, _write_by_numpy)


def _gradient(f, reads, write, is_argument):
    x = torch.tensor([0.5, 1.0, 1.5, 2.0], requires_grad=True)
    w = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    g = f((lambda x, w: reads(x, w)) if is_argument else (lambda x: reads(x, w)))
    found = []
    for _ in range(2):
        out = g(x, w) if is_argument else g(x)
        write(w)
        found += torch.autograd.grad(out, x)
    return found


@pytest.mark.parametrize("is_argument", [True, False], ids=["argument", "captured"])
@pytest.mark.parametrize("write", _WRITES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("reads", _READERS, ids=lambda f: f.__name__)
def test_eager_gradients_or_an_error(reads, write, is_argument):
    expected = _gradient_or_error(lambda f: f, reads, write, is_argument)
    found = _gradient_or_error(torch.compile, reads, write, is_argument)
    if isinstance(found, str):
        assert write is not _nothing
        assert re.search("modified by an inplace|written to after a compiled function", found)
    else:
        assert not isinstance(expected, str)
        for a, b in zip(found, expected):
            assert torch.allclose(a, b)


def _gradient_or_error(*case):
    try:
        return _gradient(*case)
    except RuntimeError as e:
        return str(e)


def test_only_the_pass_that_reads_it_is_refused():
    x = torch.ones(2, requires_grad=True)
    a, b = torch.ones(2), torch.ones(2)
    first, second = torch.compile(lambda x: ((x * a).sum(), (x * b).sum()))(x)
    a.data.add_(1)
    assert torch.equal(torch.autograd.grad(second, x)[0], b)
    with pytest.raises(RuntimeError, match="shape \\[2\\] was written to after a compiled function"):
        first.backward()
    a.data.sub_(1)
    assert x.grad is None


def test_steps_of_the_optimizer_between_calls_are_no_such_writes():
    net = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))
    opt = torch.optim.SGD(net.parameters(), 0.1)
    forward = torch.compile(lambda x: checkpoint(net, x, use_reentrant=False).square().sum())
    losses = []
    for _ in range(3):
        opt.zero_grad()
        loss = forward(torch.ones(3, 2))
        loss.backward()
        opt.step()
        losses.append(loss.item())
    assert losses[0] > losses[1] > losses[2]


class Counted(nn.Module):
    """A layer with a buffer that it writes to and multiplies by."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 4)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count += 1
        return self.inner(x) * self.count.clone()


LAYERS = {
    "batch norm": lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)),
    "batch norm that averages all": lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, momentum=None)),
    "instance norm": lambda: nn.Sequential(
        nn.Linear(3, 4), nn.Unflatten(1, (2, 2)), nn.InstanceNorm1d(2, track_running_stats=True)
    ),
    "spectral norm": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)),
    "a counter": Counted,
}


@pytest.mark.parametrize("layer", LAYERS)
def test_buffers_that_no_gradient_reads_may_be_written_to_by_the_next_call(layer):
    found = []
    for form in (lambda f: f, torch.compile):
        torch.manual_seed(0)
        net = LAYERS[layer]().double()
        step = form(net)
        xs = torch.randn(4, 5, 3, dtype=torch.float64)
        for a, b in (xs[:2], xs[2:]):
            (step(a).sum() + step(b).square().sum()).backward()
        found.append([p.grad for p in net.parameters()])
    for a, b in zip(*found):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)
