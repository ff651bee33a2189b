"""Weights go to flax and equinox and back, and the layers there give what those here give."""

from collections import OrderedDict
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch
from torchgrad_jax import nn
from torchgrad_jax.interop import weights
from torchgrad_jax.testing import assert_matches_jax

linen: Any = pytest.importorskip("flax.linen", reason="needs the ecosystem extra")
eqx: Any = pytest.importorskip("equinox", reason="needs the ecosystem extra")
KEY = jax.random.key(0)


def random_norm(norm):
    with torch.no_grad():
        for t in (*norm.parameters(), *(b for b in norm.buffers() if b.ndim)):
            t.uniform_(0.5, 1.5)
    return norm.eval()


def images(f):
    """Of a module whose images have their channels last: one over those with channels first."""
    return lambda x: jnp.moveaxis(f(jnp.moveaxis(x, 1, -1)), -1, 1)


def first(module):
    class First(nn.Module):
        def __init__(self):
            super().__init__()
            self.of = module

        def forward(self, x):
            out = self.of(x, x, x) if isinstance(module, nn.MultiheadAttention) else self.of(x)
            return out[0] if isinstance(out, tuple) else out

    return First()


def gru_of_equinox(cell):
    def one(xs):
        def step(state, x):
            state = cell(x, state)
            return state, state

        return jax.lax.scan(step, jnp.zeros(5, xs.dtype), xs)[1]

    return jax.vmap(one)


def lstm_of_equinox(cell):
    def run(x):
        def step(state, row):
            state = cell(row, state)
            return state, state[0]

        zeros = jnp.zeros(cell.hidden_size, x.dtype)
        return jax.vmap(lambda rows: jax.lax.scan(step, (zeros, zeros), rows)[1])(x)

    return run


def each(f):
    return jax.vmap(f)


X = np.random.default_rng(0).normal(size=(2, 4, 9, 8)).astype(np.float32)
SEQUENCES = X[:, :, :, 0]  # 2 sequences of 4 rows of 9

# The layer here, that of flax and that of equinox, how each is called, and an input.
LAYERS: dict[str, Any] = {
    "Linear": (
        lambda: nn.Linear(9, 5), linen.Dense(5), lambda f: f, lambda: eqx.nn.Linear(9, 5, key=KEY), each, X[0, :, :, 0],
    ),
    "Linear without bias": (
        lambda: nn.Linear(9, 5, bias=False), linen.Dense(5, use_bias=False), lambda f: f,
        lambda: eqx.nn.Linear(9, 5, use_bias=False, key=KEY), each, X[0, :, :, 0],
    ),
    "Conv1d": (
        lambda: nn.Conv1d(4, 6, 3, padding=1), linen.Conv(6, (3,)), images,
        lambda: eqx.nn.Conv1d(4, 6, 3, padding=1, key=KEY), each, X[..., 0],
    ),
    "Conv2d": (
        lambda: nn.Conv2d(4, 6, (3, 2), stride=2, groups=2),
        linen.Conv(6, (3, 2), strides=2, padding="VALID", feature_group_count=2), images,
        lambda: eqx.nn.Conv2d(4, 6, (3, 2), stride=2, groups=2, key=KEY), each, X,
    ),
    "ConvTranspose2d": (
        lambda: nn.ConvTranspose2d(4, 6, (3, 2), stride=2),
        linen.ConvTranspose(6, (3, 2), strides=(2, 2), padding="VALID"), images,
        lambda: eqx.nn.ConvTranspose2d(4, 6, (3, 2), stride=2, key=KEY), each, X,
    ),
    "Embedding": (
        lambda: nn.Embedding(7, 3), linen.Embed(7, 3), lambda f: f, lambda: eqx.nn.Embedding(7, 3, key=KEY), each,
        np.array([0, 6, 3]),
    ),
    "LayerNorm": (
        lambda: random_norm(nn.LayerNorm(9)), linen.LayerNorm(epsilon=1e-5), lambda f: f,
        lambda: eqx.nn.LayerNorm(9), each, X[0, :, :, 0],
    ),
    "GroupNorm": (
        lambda: random_norm(nn.GroupNorm(2, 4)), linen.GroupNorm(2, epsilon=1e-5), images,
        lambda: eqx.nn.GroupNorm(2, 4), each, X,
    ),
    "RMSNorm": (
        lambda: random_norm(nn.RMSNorm(9, eps=1e-6)), linen.RMSNorm(epsilon=1e-6), lambda f: f,
        lambda: eqx.nn.RMSNorm(9, eps=1e-6, use_bias=False), each, X[0, :, :, 0],
    ),
    "BatchNorm2d": (
        lambda: random_norm(nn.BatchNorm2d(4)), linen.BatchNorm(use_running_average=True, epsilon=1e-5), images,
        None, None, X,
    ),
    "MultiheadAttention": (
        lambda: nn.MultiheadAttention(8, 2, batch_first=True), linen.MultiHeadDotProductAttention(2),
        lambda f: lambda x: f(x, x, x),
        lambda: eqx.nn.MultiheadAttention(
            2, 8, use_query_bias=True, use_key_bias=True, use_value_bias=True, use_output_bias=True, key=KEY
        ),
        lambda f: each(lambda x: f(x, x, x)), X[0],
    ),
    "LSTM": (
        lambda: nn.LSTM(9, 5, batch_first=True), linen.RNN(linen.OptimizedLSTMCell(5)), lambda f: f,
        lambda: eqx.nn.LSTMCell(9, 5, key=KEY), lstm_of_equinox, SEQUENCES,
    ),
    "GRU": (
        lambda: nn.GRU(9, 5, batch_first=True), linen.RNN(linen.GRUCell(5)), lambda f: f,
        lambda: eqx.nn.GRUCell(9, 5, key=KEY), gru_of_equinox, SEQUENCES,
    ),
    "GRU without a bias": (
        lambda: nn.GRU(9, 5, batch_first=True, bias=False), linen.RNN(linen.GRUCell(5)), lambda f: f,
        lambda: eqx.nn.GRUCell(9, 5, use_bias=False, key=KEY), gru_of_equinox, SEQUENCES,
    ),
    "RNN": (
        lambda: nn.RNN(9, 5, batch_first=True), linen.RNN(linen.SimpleCell(5)), lambda f: f, None, None, SEQUENCES,
    ),
}  # fmt: skip
names = pytest.mark.parametrize("name", LAYERS)


def shown(module):
    return module if not isinstance(module, nn.MultiheadAttention | nn.RNNBase) else first(module)


def flax_names(module):
    return {"": "cell"} if isinstance(module, nn.RNNBase) else {}


@names
def test_flax_gives_the_same_with_the_weights_from_here(name):
    make, theirs, call, *_, x = LAYERS[name]
    torch.manual_seed(1)
    module = make()
    variables = weights.to_flax(module, names=flax_names(module))
    like = jax.eval_shape(theirs.init, KEY, *[jax.ShapeDtypeStruct(x.shape, x.dtype)]) if call is not images else None
    if like is not None:
        assert jax.tree.map(jnp.shape, variables) == jax.tree.map(jnp.shape, dict(like))
    weights.assert_outputs_agree(shown(module), call(lambda *x: theirs.apply(variables, *x)), x)
    other = make()
    weights.from_flax(other, variables, names=flax_names(module))
    weights.assert_outputs_agree(shown(other), call(lambda *x: theirs.apply(variables, *x)), x)


@pytest.mark.parametrize("name", [name for name in LAYERS if LAYERS[name][3] is not None])
def test_equinox_gives_the_same_with_the_weights_from_here(name):
    make, *_, theirs, call, x = LAYERS[name]
    torch.manual_seed(1)
    module = make()
    found = weights.to_equinox(module, theirs())
    weights.assert_outputs_agree(shown(module), call(found), x)
    other = make()
    weights.from_equinox(other, found)
    weights.assert_outputs_agree(shown(other), call(found), x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(4, 3, 3), nn.BatchNorm2d(3), nn.ReLU())
        self.head = nn.Linear(3, 2)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


class FlaxNet(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = linen.Conv(3, (3, 3), padding="VALID")(jnp.moveaxis(x, 1, -1))
        x = linen.relu(linen.BatchNorm(use_running_average=True, epsilon=1e-5)(x))
        return linen.Dense(2)(x.mean((1, 2)))


NAMES = {"features.0": "Conv_0", "features.1": "BatchNorm_0", "head": "Dense_0"}


def test_a_network_is_compared_with_its_gradients():
    net = Net()
    random_norm(net)
    weights.assert_outputs_agree(net, lambda x: FlaxNet().apply(weights.to_flax(net, names=NAMES), x), X)
    assert_matches_jax(
        net, FlaxNet().apply, [X], order=1, dtypes=["float64"],
        params=lambda state: weights.to_flax(net, state, names=NAMES),
    )  # fmt: skip


def test_a_network_of_equinox():
    net = nn.Sequential(nn.Linear(9, 4), nn.Tanh(), nn.Linear(4, 2))
    like = eqx.nn.Sequential([eqx.nn.Linear(9, 4, key=KEY), eqx.nn.Lambda(jnp.tanh), eqx.nn.Linear(4, 2, key=KEY)])
    found = weights.to_equinox(net, like)
    weights.assert_outputs_agree(net, jax.vmap(found), X[0, :, :, 0])
    mlp = eqx.nn.MLP(9, 2, 4, 1, jnp.tanh, dtype=jnp.float32, key=KEY)
    named = {"0": "layers[0]", "2": "layers[1]"}
    weights.from_equinox(net, mlp, names=named)
    weights.assert_outputs_agree(net, jax.vmap(mlp), X[0, :, :, 0])


def batch_norms(mode):
    """A network here, and one of equinox with its state."""

    class Network(eqx.Module):
        conv: Any
        norm: Any

        def __init__(self):
            self.conv = eqx.nn.Conv2d(4, 3, 3, dtype=jnp.float32, key=KEY)
            self.norm = eqx.nn.BatchNorm(3, "batch", dtype=jnp.float32, momentum=0.9, mode=mode)

        def __call__(self, x, state):
            return self.norm(self.conv(x), state)

    net = nn.Sequential(OrderedDict(conv=nn.Conv2d(4, 3, 3), norm=nn.BatchNorm2d(3)))
    return net, *eqx.nn.make_with_state(Network)()


def call(model, state, x):
    return jax.vmap(model, axis_name="batch", in_axes=(0, None), out_axes=(0, None))(x, state)


@pytest.mark.parametrize("mode", ["batch", "ema"])
@pytest.mark.parametrize("batches", [0, 3])
def test_batch_norms_of_equinox_have_their_statistics_in_a_state(mode, batches):
    net, like, state = batch_norms(mode)
    for k in range(batches):
        net(torch.as_tensor(X) * (k + 1))
    model, state = weights.to_equinox(net.eval(), like, state)
    fixed = eqx.nn.inference_mode(model)
    weights.assert_outputs_agree(net, lambda x: call(fixed, state, x)[0], X)
    other = batch_norms(mode)[0].eval()
    weights.from_equinox(other, model, state)
    for name, value in net.state_dict().items():
        if mode == "batch" or value.ndim:  # the other mode does not count batches
            torch.testing.assert_close(other.state_dict()[name], value)
    if mode == "batch":  # then equinox and torch train alike
        _, after = call(model, state, jnp.asarray(X))
        net.train()(torch.as_tensor(X))
        weights.from_equinox(other, model, after)
        assert other.norm.num_batches_tracked == batches + 1


REFUSED = {
    "a batch norm of equinox without its state": (
        lambda: weights.to_equinox(nn.BatchNorm1d(3), None), ValueError, "give its state=",
    ),
    "a missing array": (
        lambda: weights.from_flax(nn.Linear(3, 2), {"params": {"kernel": np.ones((3, 2))}}), ValueError,
        "bias is missing",
    ),
    "an array too many": (
        lambda: weights.from_flax(
            nn.Linear(3, 2, bias=False), {"params": {"kernel": np.ones((3, 2)), "bias": np.ones(2)}}
        ), ValueError, "no layer takes params.bias",
    ),
    "another shape": (
        lambda: weights.from_flax(nn.Linear(3, 2, bias=False), {"params": {"kernel": np.ones((2, 3))}}), ValueError,
        "has shape",
    ),
    "another kind of layer": (
        lambda: weights.to_flax(nn.PReLU()), NotImplementedError, "no layout for the module, a PReLU",
    ),
    "groups": (lambda: weights.to_flax(nn.ConvTranspose2d(4, 4, 3, groups=2)), NotImplementedError, "groups=2"),
    "another shape of equinox": (
        lambda: weights.to_equinox(nn.Linear(3, 2), eqx.nn.Linear(4, 2, key=KEY)), ValueError, "has shape",
    ),
    "an array too many of equinox": (
        lambda: weights.to_equinox(nn.Linear(3, 2, bias=False), eqx.nn.Linear(3, 2, key=KEY)), ValueError,
        "no layer here has",
    ),
    "other outputs": (
        lambda: weights.assert_outputs_agree(nn.Identity(), lambda x: x.at[1].set(7.0), np.zeros(3)), AssertionError,
        r"result 0 is 0.0 here and 7.0 there, at \(1,\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused(name):
    run, error, text = REFUSED[name]
    with pytest.raises(error, match=text):
        run()


@pytest.mark.parametrize("cls", [nn.LSTM, nn.GRU, nn.RNN])
def test_several_layers_with_one_bias_of_two(cls):
    layers = cls(3, 2, num_layers=2, bidirectional=True)
    variables = weights.to_flax(layers)
    assert sorted(variables["params"]) == ["l0", "l0_reverse", "l1", "l1_reverse"]
    other = cls(3, 2, num_layers=2, bidirectional=True)
    weights.from_flax(other, variables)
    x = torch.randn(4, 1, 3)
    torch.testing.assert_close(other(x)[0], layers(x)[0])


@pytest.mark.parametrize("cls", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_bias_for_layers_without_one_is_refused(cls):
    variables = weights.to_flax(cls(3, 2))
    with pytest.raises(ValueError, match="has bias=False and is given a bias"):
        weights.from_flax(cls(3, 2, bias=False), variables)
