"""Templates: new shapes are traced no more, and nothing about a call is lost by that."""

import logging
import weakref

import jax
import numpy as np
import pytest

import torchgrad_jax as torch
from torchgrad_jax._core.host import code as host
from torchgrad_jax._core.jax import own_kernels
from torchgrad_jax._core.jax.caches import POOLS
from torchgrad_jax._engine.run import templates, trace_files

F = torch.nn.functional


@pytest.fixture(autouse=True)
def _empty_caches(monkeypatch):
    monkeypatch.setattr(trace_files, "folder_of_kernels", lambda: None)  # what is in files is not traced
    torch.clear_caches()


def traced(monkeypatch):
    """How often something is traced from now on."""
    times = []
    make = own_kernels.jax.make_jaxpr

    def counted(*args, **kwargs):
        times.append(args[0].__name__)
        return make(*args, **kwargs)

    monkeypatch.setattr(own_kernels.jax, "make_jaxpr", counted)
    return times


CALLS = {
    "elementwise": lambda x: x * 2 + x.exp(),
    "broadcast": lambda x: x + x[0],
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean(),
    "std": lambda x: x.std(0),
    "softmax": lambda x: x.softmax(-1),
    "product": lambda x: x @ x.t(),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[1:]),
    "view": lambda x: x.view(-1).view(x.shape[1], x.shape[0]) * 1,
    "expand": lambda x: x[:, None].expand(-1, 3, -1) * 1,
    "slice": lambda x: x[1:, : x.shape[1] - 1] * 1,
    "narrow": lambda x: x.narrow(1, 1, x.shape[1] - 2) * 1,
    "cat": lambda x: torch.cat([x, x], 1),
    "stack": lambda x: torch.stack([x, x * 2]),
    "split": lambda x: torch.cat(x.split([2, x.shape[0] - 2])[::-1]),
    "pad": lambda x: F.pad(x, (1, 2)),
    "sort": lambda x: x.sort(1)[0],
    "index": lambda x: x[torch.arange(x.shape[0]).flip(0)],
    "conv": lambda x: F.conv1d(x[None, None].flatten(2), torch.ones(1, 1, 3, dtype=x.dtype), stride=2),
    "pooling": lambda x: F.max_pool2d(x[None, None], 2),
    "nearest": lambda x: F.interpolate(x[None, None], scale_factor=2),
    "loss": lambda x: F.cross_entropy(x, torch.zeros(x.shape[0], dtype=torch.long)),
    "in place": lambda x: x.clone().mul_(3),
}


def gradient(fn, shape, dtype=torch.float64):
    x = torch.linspace(-1, 1, int(np.prod(shape)), dtype=dtype).reshape(shape).requires_grad_()
    out = fn(x)
    out.backward(torch.ones_like(out))
    return out.detach().numpy(), x.grad.numpy()


@pytest.mark.parametrize("name", CALLS)
def test_another_shape_is_not_traced_and_gives_the_same_bits(name, monkeypatch):
    for _ in range(3):
        torch.clear_caches()
        gradient(CALLS[name], (4, 6))
        with monkeypatch.context() as patched:
            times = traced(patched)
            found = [gradient(CALLS[name], shape) for shape in ((8, 10), (6, 4), (4, 14))]
        if (
            not times
        ):  # JAX's tables compare keys of which seven bits of the hashes agree: once in a while that is a guard
            break
    assert times == []
    monkeypatch.setattr(templates, "families", lambda *args: iter(()))
    torch.clear_caches()
    by_shape = [gradient(CALLS[name], shape) for shape in ((8, 10), (6, 4), (4, 14))]
    for mine, theirs in zip(found, by_shape):
        assert [a.tobytes() for a in mine] == [a.tobytes() for a in theirs]


def recorded(fn, shape):
    x = torch.linspace(-1, 1, int(np.prod(shape)), dtype=torch.float64).reshape(shape).requires_grad_()
    (slope,) = torch.autograd.grad(fn(x * x).square().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(slope.square().sum(), x)
    return slope.detach().numpy(), second.numpy()


def tangents(fn, shape):
    x = torch.linspace(-1, 1, int(np.prod(shape)), dtype=torch.float64).reshape(shape)
    return [t.numpy() for t in torch.func.jvp(fn, (x,), (x + 1,))]


def batched(fn, shape):
    n = sum(shape)  # which is equal to no other size
    x = torch.linspace(-1, 1, n * 24, dtype=torch.float64).reshape(n, 4, 6)
    both = torch.func.vmap(torch.func.grad_and_value(lambda x: fn(x).square().sum()))(x)
    return [t.numpy() for t in both]


WAYS = {
    recorded: (
        "elementwise",
        "mean",
        "softmax",
        "product",
        "layer_norm",
        "view",
        "slice",
        "cat",
        "pad",
        "conv",
        "loss",
    ),
    tangents: ("elementwise", "std", "softmax", "product", "layer_norm", "expand", "split", "stack", "sort", "nearest"),
    batched: ("elementwise", "softmax", "product", "layer_norm"),
}


@pytest.mark.parametrize("way, name", [(way, name) for way, names in WAYS.items() for name in names])
def test_derivatives_for_another_shape_are_not_traced_and_have_the_same_bits(way, name, monkeypatch):
    shapes = ((8, 10), (6, 4), (4, 14))

    def runs():
        return [way(CALLS[name], shape) for shape in shapes]

    for _ in range(3):  # a cache of JAX's may compare a size with a number that has the same hash, which is a guard
        torch.clear_caches()
        for _ in range(3):  # `vmap` runs a function in another way when it comes again
            way(CALLS[name], (5, 6))
        with monkeypatch.context() as patched:
            times = traced(patched)
            found = runs()
        if not times:
            break
    assert times == []
    monkeypatch.setattr(templates, "families", lambda *args: iter(()))
    torch.clear_caches()
    by_shape = [runs() for _ in range(4)][-1]
    for mine, theirs in zip(found, by_shape):
        assert [a.tobytes() for a in mine] == [a.tobytes() for a in theirs]


def test_examples_of_another_shape_are_not_those_of_the_first_batch():
    for shape in ((4, 6), (7, 6), (4, 8), (9, 8)):
        x = torch.arange(float(np.prod(shape))).reshape(shape)
        assert torch.func.vmap(lambda x: x / len(x) + x.mean())(x).equal(x / shape[1] + x.mean(1, keepdim=True))


def test_another_shape_has_the_same_text(monkeypatch):
    made = []
    compiled = host.compiled
    monkeypatch.setattr(host, "compiled", lambda text: made.append(text) or compiled(text))
    for shape in ((4, 6), (8, 10), (6, 3)):
        made.clear()
        gradient(lambda x: F.layer_norm(x.exp() + x[0], x.shape[1:]).softmax(0).mean(1), shape)
    assert made == []


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_sentences_of_other_lengths_are_not_traced(kind, monkeypatch):
    torch.manual_seed(0)
    layer = getattr(torch.nn, kind)(3, 4)
    gradient(lambda x: layer(x)[0], (5, 2, 3), torch.float32)
    times = traced(monkeypatch)
    found = [gradient(lambda x: layer(x)[0], (n, 2, 3), torch.float32) for n in (7, 3, 11)]
    assert times == []
    monkeypatch.setattr(templates, "families", lambda *args: iter(()))
    torch.clear_caches()
    for n, mine in zip((7, 3, 11), found):
        theirs = gradient(lambda x: layer(x)[0], (n, 2, 3), torch.float32)
        assert [a.tobytes() for a in mine] == [a.tobytes() for a in theirs]


def test_a_product_is_cut_for_its_own_sizes():
    for n in (3, 150):  # the second is cut into pieces, so that BLAS starts no threads
        x = torch.linspace(0, 1, n * n, dtype=torch.float64).reshape(n, n)
        found = (x @ x.t()).numpy()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(templates, "families", lambda *args: iter(()))
            torch.clear_caches()
            assert (x @ x.t()).numpy().tobytes() == found.tobytes()


def test_a_new_size_beyond_numpy_is_not_traced(monkeypatch):
    gradient(lambda x: x.relu() * x.sum(), (4, 6))
    times = traced(monkeypatch)
    out, grad = gradient(lambda x: x.relu() * x.sum(), (1 << 10, 1 << 7))
    assert times == []
    x = np.linspace(-1, 1, out.size).reshape(out.shape)
    assert np.allclose(out, np.maximum(x, 0) * x.sum())
    assert np.allclose(grad, (x > 0) * x.sum() + np.maximum(x, 0).sum())


def test_a_kernel_that_jax_differentiates_keeps_the_rules_of_its_operators():
    def slope(x):
        return torch.interop.to_jax(lambda t: (t.abs() + t.clamp(min=0)).sum())(x)

    for n in (4, 6, 1 << 19):
        x = torch.zeros(n, requires_grad=True)
        (x.abs() + x.clamp(min=0)).sum().backward()
        assert x.grad.unique().tolist() == [1.0]  # 0 of the one, 1 of the other
        assert np.unique(jax.grad(slope)(jax.numpy.zeros(n))).tolist() == [1.0]


def test_dimensions_of_one_and_empty_ones_are_calls_of_their_own():
    for shape in ((4, 3), (1, 3), (4, 1), (0, 3), (7, 5), (1, 1)):
        out, grad = gradient(lambda x: x.softmax(1) * x.sum(0), shape)
        assert out.shape == grad.shape == shape


def test_more_decisions_than_templates_are_traced_by_shape(caplog):
    with caplog.at_level(logging.DEBUG, logger=templates.__name__):
        for n in range(2, 4 + templates.MOST):
            rows = torch.arange(3.0 * n).reshape(n, 3).requires_grad_().unbind()
            assert [r.tolist() for r in rows] == [[3.0 * k, 3.0 * k + 1, 3.0 * k + 2] for k in range(n)]
    assert [r.getMessage() for r in caplog.records if "by its shape" in r.getMessage()] == [
        f"unbind is traced by its shape: {templates.MOST} templates hold for other sizes"
    ]


def test_an_error_is_that_of_the_shapes_at_hand():
    a = torch.ones(4, 3)
    assert (a @ torch.ones(3, 5)).shape == (4, 5)
    with pytest.raises(RuntimeError, match=r"mat1 and mat2 shapes cannot be multiplied \(4x3 and 5x4\)"):
        a @ torch.ones(5, 4)
    with pytest.raises(RuntimeError, match=r"shape '\[5, 2\]' is invalid for input of size 12"):
        a.view(5, 2)


def test_a_call_that_was_wrong_first_gets_a_template_later(monkeypatch):
    with pytest.raises(RuntimeError):
        torch.ones(4, 3) @ torch.ones(5, 4)
    torch.ones(4, 3) @ torch.ones(3, 5)
    times = traced(monkeypatch)
    assert (torch.ones(7, 2) @ torch.ones(2, 9)).shape == (7, 9)
    assert times == []


def test_what_has_no_template_is_traced_by_its_shape():
    for n in (3, 4, 5):  # JAX has no derivative of this for a symbol
        x = torch.full((n,), 2.0, requires_grad=True)
        x.cumprod(0).sum().backward()
        assert x.grad.tolist() == [sum(2.0**k for k in range(i, n)) for i in range(n)]


def test_second_derivatives_of_another_shape():
    for n in (4, 6, 10):
        x = torch.arange(float(n * n)).reshape(1, 1, n, n).requires_grad_()
        (g,) = torch.autograd.grad((F.max_pool2d(x, 2) ** 2).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(g.sum(), x)
        assert second.sum().item() == 2 * (n // 2) ** 2


def test_settings_that_a_trace_depends_on_are_part_of_the_key(monkeypatch):
    torch.ones(3, 2) @ torch.ones(2, 3)
    times = traced(monkeypatch)
    with jax.default_matmul_precision("bfloat16"):
        torch.ones(5, 2) @ torch.ones(2, 5)
    assert times


def test_another_default_dtype_drops_templates():
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        try:
            assert (torch.arange(4).reshape(2, 2) / 2).dtype is dtype
            assert (torch.arange(6).reshape(2, 3) / 2).dtype is dtype
        finally:
            torch.set_default_dtype(torch.float32)


def test_templates_keep_to_their_limit():
    before = POOLS["templates"].limit
    torch.set_cache_limits(templates=16)
    try:
        for k in range(100):
            F.leaky_relu(torch.ones(3, 2), 0.01 * k)
        assert torch.cache_info()["templates"].size <= 16
    finally:
        torch.set_cache_limits(templates=before)


def test_a_trace_that_failed_holds_nothing():
    x = torch.full((3,), 2.0, requires_grad=True)
    out = x.cumprod(0)
    ref = weakref.ref(out)
    del out
    assert ref() is None
