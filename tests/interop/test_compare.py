"""`interop.compare`: the first layer of a port that gives something else."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch
from torchgrad_jax import nn
from torchgrad_jax.interop import compare, weights

linen: Any = pytest.importorskip("flax.linen", reason="needs the ecosystem extra")
nnx: Any = pytest.importorskip("flax.nnx", reason="needs the ecosystem extra")
eqx: Any = pytest.importorskip("equinox", reason="needs the ecosystem extra")
X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
IMAGES = np.random.default_rng(0).normal(size=(2, 1, 8, 8)).astype(np.float32)


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3)
        self.norm = nn.GroupNorm(2, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.norm(self.first(x)).relu().mean((2, 3)))


class InLinen(linen.Module):
    epsilon: float = 1e-5

    @linen.compact
    def __call__(self, x):
        x = linen.Conv(4, (3, 3), padding="VALID")(jnp.moveaxis(x, 1, -1))
        x = linen.relu(linen.GroupNorm(2, epsilon=self.epsilon)(x))
        return linen.Dense(2)(x.mean((1, 2)))


class InNnx(nnx.Module):
    def __init__(self, net):
        self.steps = nnx.List([nnx.Linear(3, 4, rngs=nnx.Rngs(0)), nnx.Linear(4, 2, rngs=nnx.Rngs(1))])
        for mine, layer in zip(self.steps, (net[0], net[2])):
            mine.kernel = nnx.Param(jnp.asarray(layer.weight.detach()).T)
            mine.bias = nnx.Param(jnp.asarray(layer.bias.detach()))

    def __call__(self, x):
        return self.steps[1](jnp.tanh(self.steps[0](x)))


class Residual(eqx.Module):
    inner: Any

    def __call__(self, x):
        return x + self.inner(x) + self.inner(x)


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def in_equinox(net, activation=jnp.tanh):
    keys = jax.random.split(jax.random.key(0))
    layers = [eqx.nn.Linear(3, 4, key=keys[0]), eqx.nn.Lambda(activation), eqx.nn.Linear(4, 2, key=keys[1])]
    return weights.to_equinox(net, eqx.nn.Sequential(layers))


PLACES = {str(i): f"layers[{i}]" for i in range(3)}


def test_linen():
    net = Pictures()
    names = {"first": "Conv_0", "norm": "GroupNorm_0", "head": "Dense_0"}
    variables = weights.to_flax(net, names=names)
    same = compare(net, InLinen().bind(variables), IMAGES, names=names)
    assert same.first is None
    assert [layer.name for layer in same.layers] == ["first", "norm", "head", ""]
    assert str(same).endswith("all 4 layers agree")
    other = compare(net, InLinen(epsilon=0.1).bind(variables), IMAGES, names=names)
    assert other.first is not None
    assert (other.first.name, other.first.there) == ("norm", "GroupNorm_0")
    assert [layer.agrees for layer in other.layers] == [True, False, False, False]
    assert "3 of 4 layers part; the first is norm" in str(other)


def test_nnx():
    net = mlp()
    port = InNnx(net)
    names = {"0": "steps[0]", "2": "steps[1]"}
    called = nnx.Linear.__call__
    found = compare(net, port, X, names=names).first
    assert found is None
    assert nnx.Linear.__call__ is called
    port.steps[1].bias = nnx.Param(jnp.asarray(net[2].bias.detach()) + 1)
    found = compare(net, port, X, names=names).first
    assert found is not None
    assert found.name == "2"
    assert abs(found.apart - 1) < 1e-5


@pytest.mark.parametrize("shape", [(5, 3), (2, 5, 3)], ids=["once", "twice"])
def test_equinox_under_vmap(shape):
    net, x = mlp(), np.random.default_rng(0).normal(size=shape).astype(np.float32)

    def found(activation):
        port = in_equinox(net, activation)
        call = jax.vmap(port) if len(shape) == 2 else jax.vmap(jax.vmap(port))
        return compare(net, port, x, call=call, names=PLACES).first

    assert found(jnp.tanh) is None
    assert found(jax.nn.sigmoid).name == "1"


def test_a_layer_that_is_called_twice():
    inner = nn.Linear(3, 3)

    class Here(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return x + self.inner(x) + self.inner(x)

    port = Residual(eqx.nn.Linear(3, 3, key=jax.random.key(0)))
    port = weights.to_equinox(Here(), port)
    assert compare(Here(), port, X, call=jax.vmap(port)).first is None
    once = nn.Sequential(inner)
    found = compare(once, port, X, call=jax.vmap(port), names={"0": "inner"}).first
    assert found is not None
    assert "called 1 times here and 2 times there" in found.where


def test_what_is_different_in_shape_or_not_a_number():
    net = mlp()
    port = in_equinox(net, lambda x: x * jnp.nan)
    found = compare(net, port, X, call=jax.vmap(port), names=PLACES).first
    assert found is not None
    assert found.name == "1"
    assert found.apart == np.inf
    wide = in_equinox(net, lambda x: jnp.concatenate([x, x])[:4][None])
    with pytest.raises((TypeError, ValueError)):  # the error of the port itself
        compare(net, wide, X, call=jax.vmap(wide), names=PLACES)
    assert "noted" not in eqx.nn.Linear.__call__.__qualname__


def test_no_layer_in_common():
    net = mlp()
    port = in_equinox(net)
    with pytest.raises(ValueError, match=r"no layer here \(0, 1, 2\) has the name of one there \(layers.0, "):
        compare(net, port, X, call=jax.vmap(port))
    assert not net[0]._forward_hooks
