"""Modules of flax and equinox as modules of `nn`: trained by an unchanged loop, and the same as in JAX."""

import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch
from torchgrad_jax import interop, nn

linen: Any = pytest.importorskip("flax.linen", reason="needs the ecosystem extra")
nnx: Any = pytest.importorskip("flax.nnx", reason="needs the ecosystem extra")
eqx: Any = pytest.importorskip("equinox", reason="needs the ecosystem extra")

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))


class LinenNet(linen.Module):
    rate: float = 0.0

    @linen.compact
    def __call__(self, x, train: bool):
        x = linen.Dense(5)(x)
        x = linen.BatchNorm(use_running_average=not train)(x)
        x = linen.Dropout(self.rate, deterministic=not train)(linen.relu(x))
        return linen.Dense(2, name="head")(x)


class NnxNet(nnx.Module):
    def __init__(self, rate=0.0):
        rngs = nnx.Rngs(0)
        self.layers = nnx.List([nnx.Linear(4, 5, rngs=rngs), nnx.BatchNorm(5, rngs=rngs)])
        self.dropout = nnx.Dropout(rate, rngs=rngs)
        self.head = nnx.Linear(5, 2, rngs=rngs)

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(self.dropout(nnx.relu(x)))


class EquinoxNet(eqx.Module):
    layers: list
    dropout: Any

    def __init__(self, rate=0.0):
        first, last = jax.random.split(jax.random.key(0))
        kinds = {"dtype": jnp.float32}
        self.layers = [eqx.nn.Linear(4, 5, key=first, **kinds), jnp.tanh, eqx.nn.Linear(5, 2, key=last, **kinds)]
        self.dropout = eqx.nn.Dropout(rate)

    def __call__(self, x, key=None):
        keys, along = (None, None) if key is None else (jax.random.split(key, len(x)), 0)
        for layer in self.layers[:-1]:
            x = jax.vmap(layer)(x) if isinstance(layer, eqx.Module) else layer(x)
        x = jax.vmap(lambda row, key: self.dropout(row, key=key), (0, along))(x, keys)
        return jax.vmap(self.layers[-1])(x)


def of_linen(rate=0.0):
    torch.manual_seed(0)
    return interop.module(LinenNet(rate), X)


MAKERS = {
    "linen": of_linen,
    "nnx": lambda r=0.0: interop.module(NnxNet(r)),
    "equinox": lambda r=0.0: interop.module(EquinoxNet(r)),
}
PARAMETERS = {
    "linen": {"Dense_0.kernel", "Dense_0.bias", "BatchNorm_0.scale", "BatchNorm_0.bias", "head.kernel", "head.bias"},
    "nnx": {f"layers.{n}" for n in ("0.kernel", "0.bias", "1.scale", "1.bias")} | {"head.kernel", "head.bias"},
    "equinox": {f"layers.{n}" for n in ("0.weight", "0.bias", "2.weight", "2.bias")},
}
BUFFERS = {
    "linen": {"batch_stats.BatchNorm_0.mean", "batch_stats.BatchNorm_0.var"},
    "nnx": {"layers.1.mean", "layers.1.var"},
    "equinox": set[str](),
}
names = pytest.mark.parametrize("name", MAKERS)


def in_jax(name, net, x):
    """What the library itself gives with the weights of a module, outside of training."""
    found = net.original()
    if name == "linen":
        return LinenNet().apply(found, x, train=False)
    if name == "nnx":
        found.eval()
        return found(x)
    return eqx.nn.inference_mode(found)(x)


@names
def test_arrays_are_parameters_and_buffers_by_their_names(name):
    net = MAKERS[name]()
    assert {n for n, _ in net.named_parameters()} == PARAMETERS[name]
    assert {n for n, _ in net.named_buffers()} == BUFFERS[name]
    assert all(type(p) is nn.Parameter for p in net.parameters())


@names
def test_an_unchanged_loop_trains_it(name):
    net = MAKERS[name](0.1)
    before = {k: v.clone() for k, v in net.state_dict().items()}
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    y = torch.stack([X.sum(1), X[:, 0]], 1)

    @torch.compile
    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(X, y).item() for _ in range(30)]
    assert losses[-1] < losses[0] / 2
    assert all(not torch.equal(v, before[k]) for k, v in net.state_dict().items())
    net.eval()
    np.testing.assert_allclose(net(X).detach(), in_jax(name, net, jnp.asarray(X)), rtol=1e-5, atol=1e-6)
    other = MAKERS[name](0.1)
    other.load_state_dict(net.state_dict())
    torch.testing.assert_close(other.eval()(X), net(X))
    torch.testing.assert_close(copy.deepcopy(net)(X), net(X))


@names
def test_gradients_are_those_of_jax(name):
    net = MAKERS[name]().eval()
    x = X.clone().requires_grad_()
    net(x).square().sum().backward()

    def loss(arrays, x):
        again = MAKERS[name]().eval()
        return torch.to_jax(again)(arrays, x)

    arrays = {k: jnp.asarray(v.detach()) for k, v in net.state_dict().items()}
    g, of_x = jax.grad(lambda a, x: (loss(a, x) ** 2).sum(), (0, 1))(arrays, jnp.asarray(X))
    for own, want in ((x, of_x), *((p, g[k]) for k, p in net.named_parameters())):
        assert own.grad is not None
        np.testing.assert_allclose(own.grad, want, rtol=1e-4, atol=1e-6)


@names
def test_random_numbers_are_those_of_this_package(name):
    net = MAKERS[name](0.5)
    torch.manual_seed(3)
    first, second = net(X), net(X)
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    if name == "equinox":  # the others have other statistics, but not in what they give while they train
        assert net.state_dict().keys() == PARAMETERS[name]
    torch.testing.assert_close(net(X), first)
    assert torch.equal(net.eval()(X), net(X))


def test_one_that_takes_one_example_at_a_time():
    layer = eqx.nn.Linear(4, 2, dtype=jnp.float32, key=jax.random.key(0))
    net = interop.module(layer, call=lambda m, x: jax.vmap(m)(x))
    np.testing.assert_allclose(net(X).detach(), jax.vmap(layer)(jnp.asarray(X)), rtol=1e-6)
    net(X).sum().backward()
    np.testing.assert_allclose(net.weight.grad, X.sum(0).expand(2, 4), rtol=1e-5)


def test_variables_that_are_there_already():
    dense = linen.Dense(3)
    variables = dense.init(jax.random.key(1), jnp.ones((1, 4), jnp.float32))
    net = interop.module(dense, variables=variables)
    np.testing.assert_allclose(net(X).detach(), dense.apply(variables, jnp.asarray(X)), rtol=1e-6)


REFUSED = {
    "a module of nn": (lambda: interop.module(nn.Linear(2, 2)), "is a module of nn already"),
    "no example": (lambda: interop.module(linen.Dense(3)), "from an example"),
    "something else": (lambda: interop.module(lambda x: x), "not function"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_module_is_refused(name):
    run, text = REFUSED[name]
    with pytest.raises(TypeError, match=text):
        run()
