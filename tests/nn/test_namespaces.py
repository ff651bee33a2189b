"""The smaller namespaces of `nn`; compared with torch."""

import pytest

import torchgrad_jax as tg
from tests.programs import Programs

from .programs import attempt, numbers

program = Programs()
test_same_as_torch = program.test()


@program
def gradients_of_convolutions(m):
    seen = []
    for n in (1, 2, 3):
        x, w = numbers(m, 1, 2, *[4] * n), numbers(m, 2, 1, *[2] * n)
        options = {"stride": 2, "padding": 1, "groups": 2}
        out = getattr(m.nn.functional, f"conv{n}d")(x, w, **options)
        g = numbers(m, *out.shape)
        seen.append(getattr(m.nn.grad, f"conv{n}d_input")(x.shape, w, g, **options))
        seen.append(getattr(m.nn.grad, f"conv{n}d_weight")(x, w.shape, g, **options))
    return seen


@program
def gradients_of_gradients_of_convolutions(m):
    w, g = numbers(m, 2, 2, 2, requires_grad=True), numbers(m, 1, 2, 3, requires_grad=True)
    out = m.nn.grad.conv1d_input((1, 2, 4), w, g)
    out.pow(2).sum().backward()
    return out.detach(), w.grad, g.grad


@program
def kernels_of_attention(m):
    a = m.nn.attention
    x = numbers(m, 1, 1, 3, 2)

    def run(backends):
        with a.sdpa_kernel(backends):
            return m.nn.functional.scaled_dot_product_attention(x, x, x)

    return (run(a.SDPBackend.MATH), run([a.SDPBackend.MATH]), attempt(lambda: run(3)), a.SDPBackend.MATH.name)


@program
def arguments_of_factories(m):
    f = m.nn.factory_kwargs
    return (
        f(None),
        f({"dtype": 1, "factory_kwargs": {"device": 2}}),
        attempt(lambda: f({"bias": 1})),
        attempt(lambda: f({"dtype": 1, "factory_kwargs": {"dtype": 2}})),
    )


@pytest.mark.parametrize("name", ["DataParallel", "data_parallel"])
def test_copies_on_several_devices_are_refused(name, monkeypatch):
    monkeypatch.setattr(tg.cuda, "is_available", lambda: True)
    monkeypatch.setattr(tg.cuda, "device_count", lambda: 2)
    with pytest.raises(NotImplementedError, match=r"jax\.sharding"):
        getattr(tg.nn.parallel, name)(tg.nn.Identity(), None)
    assert not isinstance(tg.nn.Identity(), tg.nn.DataParallel)


def test_everything_of_torch_nn_is_there():
    torch = pytest.importorskip("torch")
    lacking = {n for n in dir(torch.nn) if not n.startswith("_") and not hasattr(tg.nn, n)}
    assert lacking == {"intrinsic", "qat", "quantizable", "quantized"}
    for file in ("activation", "batchnorm", "conv", "container", "module", "rnn", "loss", "utils"):
        ours, theirs = (getattr(m.nn.modules, file) for m in (tg, torch))
        assert not {n for n in getattr(theirs, "__all__", ()) if not hasattr(ours, n)}
    for name in ("batchnorm._BatchNorm", "conv._ConvNd", "utils._pair", "dropout._DropoutNd", "loss._Loss"):
        file, _, attribute = name.partition(".")
        assert hasattr(getattr(tg.nn.modules, file), attribute)
