"""Calls that join or cut hundreds of tensors run in pieces and give what one kernel would."""

import numpy as np
import pytest

import torchgrad_jax as tg
from torchgrad_jax._engine.run import joining


@pytest.fixture(params=["pieces", "one kernel"])
def way(request, monkeypatch):
    """The same calls with and without pieces; plans are forgotten in between."""
    from torchgrad_jax._engine.run.trace import forget_plans

    monkeypatch.setattr(joining, "PER_KERNEL", 4 if request.param == "pieces" else 10_000)
    forget_plans()
    yield request.param
    forget_plans()


def leaf(*shape, dtype=tg.float32, start=0):
    n = int(np.prod(shape))
    return (tg.arange(start, start + n, dtype=tg.float32) / 7).reshape(shape).to(dtype)


def check(join, np_join, xs):
    weights = None
    for x in xs:
        x.requires_grad_(x.is_floating_point() or x.is_complex())
    out = join(xs)
    want = np_join([x.detach().numpy() for x in xs])
    np.testing.assert_allclose(out.detach().numpy(), want, rtol=1e-6)
    weights = tg.arange(out.numel(), dtype=tg.float32).reshape(out.shape)
    wanted = [x for x in xs if x.requires_grad]
    grads = tg.autograd.grad((out * weights).sum().real, wanted)
    one_hot = []
    at = np.zeros(0)
    marks = [np.full(tuple(x.shape), i) for i, x in enumerate(xs)]
    where = np_join(marks)
    for i, x in enumerate(xs):
        if x.requires_grad:
            at = weights.numpy()[where == i]
            one_hot.append(at.reshape(tuple(x.shape)))
    for g, w, x in zip(grads, one_hot, wanted):
        assert (g.dtype, g.shape) == (x.dtype, x.shape)
        np.testing.assert_allclose(g.numpy(), w)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cat(way, dim):
    xs = [leaf(2, 3 + i % 3, start=i) if dim else leaf(1 + i % 3, 3, start=i) for i in range(11)]
    check(lambda t: tg.cat(t, dim), lambda a: np.concatenate(a, dim), xs)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_stack(way, dim):
    xs = [leaf(2, 3, start=i) for i in range(9)]
    check(lambda t: tg.stack(t, dim), lambda a: np.stack(a, dim), xs)


def test_dtypes_are_brought_together(way):
    kinds = [tg.float32, tg.float64, tg.int64, tg.complex64, tg.float16]
    xs = [leaf(2, dtype=kinds[i % 5], start=i) for i in range(12)]
    out = tg.cat(xs)
    assert out.dtype is tg.complex128
    check(tg.cat, np.concatenate, xs)


def test_cat_skips_the_empty_vector(way):
    xs = [leaf(2, 2, start=i) for i in range(6)]
    xs.insert(0, tg.zeros(0))
    xs.insert(4, tg.zeros(0))
    for x in xs:
        x.requires_grad_()
    out = tg.cat(xs, 1)
    assert out.shape == (2, 12)
    (out * out).sum().backward()
    assert xs[0].grad.shape == (0,)
    np.testing.assert_allclose(xs[5].grad.numpy(), 2 * xs[5].detach().numpy())


def test_only_some_want_a_gradient(way):
    xs = [leaf(2, start=i).requires_grad_(i % 3 == 1) for i in range(13)]
    y = tg.stack(xs)
    (y * y).sum().backward()
    for i, x in enumerate(xs):
        if i % 3 == 1:
            np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy())
        else:
            assert x.grad is None


@pytest.mark.parametrize("cut", ["unbind", "split", "sizes"])
def test_results_that_get_no_gradient(way, cut):
    x = leaf(9, 4).requires_grad_()
    parts = {
        "unbind": lambda: x.unbind(1) + x.unbind(0),
        "split": lambda: x.split(1) + x.split(1, 1),
        "sizes": lambda: x.split([2, 0, 1, 1, 2, 3], 0) + x.split([1, 3], -1),
    }[cut]()
    want = np.zeros((9, 4), np.float32)
    y = tg.zeros(())
    for k, part in enumerate(parts):
        if k % 2:
            y = y + (k * part).sum()
    y.backward()
    a = np.arange(36).reshape(9, 4)
    pieces = {
        "unbind": [a[:, i] for i in range(4)] + [a[i] for i in range(9)],
        "split": [a[i : i + 1] for i in range(9)] + [a[:, i : i + 1] for i in range(4)],
        "sizes": np.split(a, [2, 2, 3, 4, 6]) + np.split(a, [1], 1),
    }[cut]
    for k, piece in enumerate(pieces):
        if k % 2:
            want.reshape(-1)[piece.reshape(-1)] += k
    np.testing.assert_allclose(x.grad.numpy(), want)


def test_second_gradients(way):
    xs = [leaf(2, start=i + 1).requires_grad_() for i in range(9)]
    y = (tg.cat(xs) ** 3).sum()
    grads = tg.autograd.grad(y, xs, create_graph=True)
    second = tg.autograd.grad(tg.stack([(g * g).sum() for g in grads]).sum(), xs)
    for g, x in zip(second, xs):
        v = x.detach().numpy()
        np.testing.assert_allclose(g.numpy(), 36 * v**3, rtol=1e-5)


def test_thousands():
    xs = [tg.full((2,), float(i)).requires_grad_() for i in range(3000)]
    out = tg.stack(xs)
    (out * tg.arange(3000.0)[:, None]).sum().backward()
    assert out.shape == (3000, 2)
    assert out[2999, 1].item() == 2999
    assert xs[1234].grad.tolist() == [1234.0, 1234.0]
