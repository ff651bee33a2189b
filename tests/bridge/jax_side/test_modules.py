"""Modules as pytrees of JAX's: arguments and results of its transforms, and copies that share nothing."""

import collections
import copy
import dataclasses
import functools
import gc
import types
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch
from tests.differential import agree

nn = torch.nn


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


def inputs():
    torch.manual_seed(1)
    return torch.randn(5, 3)


def same_state(a, b):
    assert list(a.state_dict()) == list(b.state_dict())
    for name, t in a.state_dict().items():
        agree(in_jax(t), in_jax(b.state_dict()[name]))


def in_jax(t):
    """What a tensor is as a leaf of a tree: of int64, an array of int32 where JAX has 32 bits."""
    return jnp.asarray(t.detach())


LAYERS: dict[str, Any] = {
    "Linear": lambda: (nn.Linear(3, 2), torch.randn(4, 3)),
    "Conv2d": lambda: (nn.Conv2d(2, 3, 3), torch.randn(1, 2, 5, 5)),
    "BatchNorm1d": lambda: (nn.BatchNorm1d(3), torch.randn(4, 3)),
    "LayerNorm": lambda: (nn.LayerNorm(3), torch.randn(4, 3)),
    "Embedding": lambda: (nn.Embedding(5, 3), torch.tensor([0, 4])),
    "LSTM": lambda: (nn.LSTM(3, 4, num_layers=2, bidirectional=True), torch.randn(5, 2, 3)),
    "MultiheadAttention": lambda: (
        _Called(nn.MultiheadAttention(4, 2), lambda m, x: m(x, x, x)[0]),
        torch.randn(5, 2, 4),
    ),
    "TransformerEncoderLayer": lambda: (nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), torch.randn(5, 2, 4)),
    "ParameterList": lambda: (
        _Called(nn.ParameterList([torch.ones(2), torch.ones(2)]), lambda m, x: m[0] * x + m[1]),
        torch.randn(2),
    ),
    "ParameterDict": lambda: (_Called(nn.ParameterDict({"a": torch.ones(2)}), lambda m, x: m["a"] * x), torch.randn(2)),
    "ModuleDict": lambda: (_Called(nn.ModuleDict({"a": nn.Linear(2, 2)}), lambda m, x: m["a"](x)), torch.randn(2)),
    "parametrized": lambda: (nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)), torch.randn(4, 3)),
    "spectral": lambda: (nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2)).eval(), torch.randn(4, 3)),
    "older spectral norm": lambda: (nn.utils.spectral_norm(nn.Linear(3, 2)).eval(), torch.randn(4, 3)),
    "traced": lambda: (torch.fx.symbolic_trace(nn.Sequential(nn.Linear(3, 2), nn.ReLU())), torch.randn(4, 3)),
}


class _Called(nn.Module):
    """A module that calls another in its own way."""

    def __init__(self, inner, how):
        super().__init__()
        self.inner, self.how = inner, how

    def forward(self, x):
        return self.how(self.inner, x)


def first(out):
    return out[0] if isinstance(out, tuple) else out


ROUGH = {"BatchNorm1d": 5.0, "TransformerEncoderLayer": 5.0, "older spectral norm": 5.0}
"""Normalized layers: the terms of a gradient are much larger than their sum, which may be 0 but for rounding."""


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_arguments_and_results(name):
    torch.manual_seed(0)
    net, x = LAYERS[name]()
    again = jax.tree.map(lambda a: a, net)
    assert type(again) is type(net)
    assert again is not net
    assert repr(again) == repr(net)
    assert jax.tree.structure(again) == jax.tree.structure(net)
    assert {n: type(p) for n, p in again.named_parameters()} == {n: type(p) for n, p in net.named_parameters()}
    same_state(again, net)
    want = first(copy.deepcopy(net)(x))
    factor = ROUGH.get(name, 1.0)
    agree(first(again(x)), want)
    agree(jax.jit(lambda n, x: first(n(x)))(net, x), want, factor)
    g = jax.grad(lambda n: first(n(x)).square().sum(), allow_int=True)(net)
    first(net(x)).square().sum().backward()
    for key, p in net.named_parameters():
        agree(dict(g.named_parameters())[key], p.grad, factor)


# --- transforms -----------------------------------------------------------------------------------


def test_jit_returns_modules_with_new_buffers():
    net, x = small(), inputs()

    @jax.jit
    def forward(net, x):
        return net(x), net

    y, after = forward(net, x)
    assert net[1].num_batches_tracked.item() == 0
    agree(y, net(x))
    same_state(after, net)
    y, after = forward(after, x)
    agree(y, net(x))
    same_state(after, net)
    assert after[1].num_batches_tracked.item() == 2
    assert forward._cache_size() == 1


def test_static_parts_compile_anew():
    net, x = small(), inputs()
    count = []

    @jax.jit
    def forward(net, x):
        count.append(net.training)
        return net(x)

    net(x)
    forward(net, x)
    net.eval()
    agree(forward(net, x), net(x))
    net[1].eps = 0.5
    agree(forward(net, x), net(x))
    net.train()
    forward(net, x)
    net.eval()
    forward(net, x)
    assert len(count) == 4


def test_gradients_are_modules():
    net, x = small().eval(), inputs()
    value, g = jax.jit(jax.value_and_grad(lambda n, x: n(x).square().sum(), allow_int=True))(net, x)
    loss = net(x).square().sum()
    loss.backward()
    agree(value, loss)
    assert type(g) is nn.Sequential
    for name, p in net.named_parameters():
        agree(g.get_parameter(name), p.grad)
        assert g.get_parameter(name).grad is None
    with pytest.raises(TypeError, match="real- or complex-valued"):
        jax.grad(lambda n: n(x).sum())(net)


def test_vmap_over_modules():
    nets = [nn.Linear(3, 2) for _ in range(4)]
    stacked = jax.tree.map(lambda *a: jnp.stack(a), *nets)
    assert stacked.weight.shape == (4, 2, 3)
    x = inputs()
    ys = jax.vmap(lambda n, x: n(x), in_axes=(0, None))(stacked, x)
    for y, net in zip(ys, nets):
        agree(y, net(x))
    doubled = jax.vmap(lambda n: jax.tree.map(lambda a: a * 2, n))(stacked)
    agree(doubled.weight, stacked.weight * 2)
    axes = jax.tree.map(lambda a: 0, stacked)
    agree(jax.vmap(lambda n, x: n(x), in_axes=(axes, None))(stacked, x), ys)


def test_modules_made_inside():
    def make(key):
        with torch.interop.rngs(key):
            return nn.Linear(3, 2)

    keys = jax.random.split(jax.random.key(0), 4)
    stacked = jax.vmap(make)(keys)
    one = jax.jit(make)(keys[1])
    assert type(one) is nn.Linear
    assert one.weight.is_leaf
    assert one.weight.requires_grad
    agree(one.weight, stacked.weight[1])
    shapes = jax.eval_shape(make, keys[0])
    assert shapes.weight.shape == (2, 3)
    shapes = jax.eval_shape(lambda n, x: n(x), nn.Linear(3, 2), inputs())
    assert shapes.shape == (5, 2)


def test_placement():
    net = small()
    device = jax.devices()[0]
    moved = jax.device_put(net, device)
    assert all(a.devices() == {device} for a in jax.tree.leaves(moved))
    shardings = jax.tree.map(lambda a: jax.sharding.SingleDeviceSharding(device), net)
    same_state(jax.device_put(net, shardings), net)
    out = jax.jit(lambda n: n, out_shardings=shardings)(net)
    same_state(out, net)


def test_loops_checkpoints_and_other_transforms():
    net, x = nn.Linear(3, 3), inputs()

    def step(net, _):
        return jax.tree.map(lambda a: a * 0.5, net), net(x).sum()

    last, sums = torch.interop.scan(step, net, None, 3)
    agree(last.weight, net.weight / 8)
    agree(sums, torch.stack([net(x).sum() / 2**k for k in range(3)]))
    g = jax.grad(lambda n: torch.interop.checkpoint(lambda n, x: n(x).sin().sum())(n, x))(net)
    net(x).sin().sum().backward()
    agree(g.weight, net.weight.grad)
    chosen = torch.interop.cond(True, lambda n: n(x), lambda n: n(x) * 0, net)
    agree(chosen, net(x))
    _, t = jax.jvp(lambda n: n(x), (net,), (net,))
    agree(t, net(x))
    _, pull = jax.vjp(lambda n: n(x).sum(), net)
    agree(pull(torch.tensor(1.0))[0].weight, x.sum(0).expand(3, 3))


def test_operators_of_jax_take_modules():
    net, x = nn.Linear(3, 2), inputs()
    double = torch.from_jax(lambda n, a: n(torch.as_tensor(a)) * 2)
    out = double(net, x)
    agree(out, net(x) * 2)
    out.sum().backward()
    agree(net.weight.grad, 2 * x.sum(0).expand(2, 3))
    with torch.no_grad():
        net.weight.zero_()
    agree(double(net, x), net(x) * 2)


def test_tensor_code_as_a_function_of_modules():
    net, x = small().eval(), inputs()
    f = torch.to_jax(lambda n, x: n(x).square().sum())
    g = jax.jit(jax.grad(f, allow_int=True))(net, jnp.asarray(x))
    net(x).square().sum().backward()
    agree(g[0].weight, net[0].weight.grad)


# --- trees ----------------------------------------------------------------------------------------


def test_paths_are_names():
    net = small()
    names = [jax.tree_util.keystr(p, simple=True) for p, _ in jax.tree.leaves_with_path(net)]
    assert names == [n for n, _ in [*net.named_parameters(), *net.named_buffers()]]
    paths = [jax.tree_util.keystr(p) for p, _ in jax.tree.leaves_with_path({"a": net[0]})]
    assert paths == ["['a'].weight", "['a'].bias"]


def test_tied_parameters_stay_tied():
    net = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Linear(3, 3)})
    net["b"].weight = net["a"].weight
    net["c"] = net["a"]
    assert len(jax.tree.leaves(net)) == 3
    again = jax.tree.map(lambda a: a + 1, net)
    assert again["a"].weight is again["b"].weight
    assert again["c"] is again["a"]
    x = inputs()
    g = jax.grad(lambda n: n["b"](n["a"](x)).sum())(net)
    net["b"](net["a"](x)).sum().backward()
    agree(g["a"].weight, net["a"].weight.grad)


def test_modules_that_differ_in_what_is_static_match():
    """As for an average of parameters: what comes back is as the first tree is."""
    net = small()
    average = copy.deepcopy(net).eval()
    new = jax.tree.map(lambda a, b: a + (b - a) // 2, average, net)
    assert not new.training
    same_state(new, net)
    with pytest.raises(ValueError, match="Sequential"):
        jax.tree.map(lambda a, b: a, net, nn.Sequential(nn.Linear(3, 4)))


def test_leaves_that_are_no_arrays():
    net = nn.Linear(3, 2)
    empty = jax.tree.map(lambda a: None, net)
    assert jax.tree.leaves(empty) == []
    described = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), net)
    assert described.weight.shape == (2, 3)
    assert jax.tree.leaves(jax.tree.map(lambda a: a.ndim, net)) == [2, 1]
    meta = jax.tree.leaves(nn.Linear(3, 2, device="meta"))
    assert [a.shape for a in meta] == [(2, 3), (2,)]
    with pytest.raises(ValueError, match="weight has no shape yet"):
        jax.tree.leaves(nn.LazyLinear(2))


def test_tensors_that_a_mapped_function_returns_stay_in_the_graph():
    net, x = nn.Linear(3, 2), inputs()
    scale = torch.tensor(2.0, requires_grad=True)
    scaled = jax.tree.map(lambda p: p * scale, net, is_leaf=lambda v: isinstance(v, torch.Tensor))
    scaled(x).sum().backward()
    assert scale.grad is not None
    assert net.weight.grad is not None


def test_requires_grad_and_attributes_of_parameters_stay():
    net = nn.Linear(3, 2)
    net.bias.requires_grad_(False)
    net.weight.group = "matrices"
    net.register_buffer("seen", torch.zeros(2), persistent=False)
    net.kind = nn.Buffer(torch.zeros(1))
    net.missing = None
    net.register_parameter("none", None)
    again = jax.tree.map(lambda a: a + 1, net)
    assert again.weight.requires_grad
    assert not again.bias.requires_grad
    assert again.weight.group == "matrices"
    assert isinstance(again.kind, nn.Buffer)
    assert list(again.state_dict()) == list(net.state_dict())
    assert again.none is None
    assert "none" in again._parameters


# --- copies ---------------------------------------------------------------------------------------


@dataclasses.dataclass
class Config:
    size: int = 3
    names: list = dataclasses.field(default_factory=list)


class Slots:
    __slots__ = ("net", "number")


class Held(nn.Module):
    """A module with all kinds of attributes."""

    runs = 0

    def __init__(self):
        super().__init__()
        type(self).runs += 1
        self.layer = nn.Linear(3, 3)
        self.items = [1, [2.5, "a"], {"k": (self.layer, self.layer.weight)}]
        self.shared = self.items
        self.config = Config(names=["x"])
        self.ordered = collections.OrderedDict(a=1)
        self.default = collections.defaultdict(list, {"a": [1]})
        self.queue = collections.deque([1, 2], maxlen=2)
        self.numbers = {1, 2}
        self.array = np.arange(3.0)
        self.constant = torch.ones(3)
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.act = lambda x: x * self.scale
        self.method = self.layer.forward
        self.part = functools.partial(self.double, k=2)
        self.weak: Any = weakref.ref(self.layer)
        self.slots = Slots()
        self.slots.net = self.layer
        self.space = types.SimpleNamespace(parent=self)
        self.outside = [nn.Linear(3, 3)]
        self.dtype, self.device = torch.float32, torch.device("cpu")
        self.jax = jnp.ones(3)

    def double(self, x, k):
        return x * k * self.scale

    def forward(self, x):
        x = self.part(self.act(self.method(x))) * self.constant + torch.as_tensor(self.array)
        return self.outside[0](x.float()) + self.slots.net(x.float()) + self.weak()(x.float())


def test_copies_share_nothing_that_changes():
    net, x = Held(), inputs()
    before = Held.runs
    again = jax.tree.map(lambda a: a, net)
    assert Held.runs == before
    agree(again(x), net(x))
    assert again.shared is again.items
    assert again.items is not net.items
    assert again.items[2]["k"][0] is again.layer
    assert again.items[2]["k"][1] is again.layer.weight
    assert again.config == net.config
    assert again.config is not net.config
    assert again.config.names is not net.config.names
    assert again.default["new"] == []
    assert again.queue.maxlen == 2
    assert again.method.__self__ is again.layer
    assert again.part.func.__self__ is again
    assert again.weak() is again.layer
    assert again.slots.net is again.layer
    assert again.space.parent is again
    assert again.outside[0] is not net.outside[0]
    assert again._modules is not net._modules
    net.items.append(9)
    net.array[0] = 100
    net.constant.fill_(7)
    net.training = False
    assert len(again.items) == 3
    assert again.array[0] == 0
    assert again.constant.tolist() == [1.0] * 3
    assert again.training


def test_functions_that_hold_the_module_are_not_cut_off():
    """The gradient of a parameter that is reached through a closure of the module."""
    net, x = Held(), inputs()
    g = jax.jit(jax.grad(lambda n: n(x).sum()))(net)
    net(x).sum().backward()
    agree(g.scale, net.scale.grad)
    agree(g.layer.weight, net.layer.weight.grad)


CHANGES: dict[str, Any] = {
    "number": lambda n: setattr(n, "number", 2),
    "kind of a number": lambda n: setattr(n, "number", 1.0),
    "negative zero": lambda n: setattr(n, "zero", -0.0),
    "item": lambda n: n.items.append(1),
    "inner item": lambda n: n.items[1].append(1),
    "config": lambda n: setattr(n.config, "size", 9),
    "array": lambda n: n.array.__setitem__(0, 5.0),
    "constant": lambda n: n.constant.add_(1),
    "hidden module": lambda n: n.outside[0].weight.data.add_(1),
    "flag": lambda n: n.layer.eval(),
    "hook": lambda n: n.layer.register_forward_hook(lambda m, i, o: o * 2),
    "set": lambda n: n.numbers.add(3),
    "requires_grad": lambda n: n.layer.requires_grad_(False),
    "dtype": lambda n: setattr(n, "dtype", torch.float64),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_change_is_seen(name):
    net = Held()
    net.number, net.zero = 1, 0.0
    before = jax.tree.structure(net)
    assert jax.tree.structure(net) == before
    assert hash(jax.tree.structure(net)) == hash(before)
    CHANGES[name](net)
    assert jax.tree.structure(net) != before


def test_hooks_come_along():
    net, x = nn.Linear(3, 2), inputs()
    seen = []

    def hook(module, args, out):
        seen.append(module)
        return out * 2

    handle = net.register_forward_hook(hook)
    again = jax.tree.map(lambda a: a, net)
    agree(again(x), net(x))
    assert seen == [again, net]
    agree(jax.jit(lambda n: n(x))(net), net(x))
    handle.remove()
    agree(jax.jit(lambda n: n(x))(net), net(x))
    assert len(again._forward_hooks) == 1


def test_hooks_on_gradients_need_to_jax():
    net, x = nn.Linear(3, 2), inputs()
    net.register_full_backward_hook(lambda m, grads, _: (grads[0] * 5,))
    f = lambda n, x: n(x).sum()  # noqa: E731
    with pytest.raises(RuntimeError, match=r"hooks on its gradients.*to_jax"):
        jax.grad(f, argnums=1)(net, x)
    leaf = x.clone().requires_grad_()
    net(leaf).sum().backward()
    agree(jax.grad(torch.to_jax(f), argnums=1)(net, x), leaf.grad)


def of_a_result(net, x):
    h = net.weight * 2
    h.register_hook(lambda g: g * 5)
    return (x @ h.T).sum()


def of_a_parameter_inside(net, x):
    net.weight.register_hook(lambda g: g * 5)
    return net(x).sum()


def of_a_parameter_of_examples(net, x):
    return jax.vmap(lambda row: of_a_result(net, row))(x).sum()


@pytest.mark.parametrize("f", [of_a_result, of_a_parameter_inside, of_a_parameter_of_examples])
def test_hooks_on_tensors_need_to_jax(f):
    """JAX's derivative would be that without the hook."""
    with pytest.raises(RuntimeError, match=r"a hook on its gradient.*to_jax"):
        jax.grad(f)(nn.Linear(3, 2), inputs())


@pytest.mark.parametrize("name", ["register_hook", "register_post_accumulate_grad_hook"])
@pytest.mark.parametrize("transform", [jax.grad, lambda f: jax.grad(jax.jit(f)), lambda f: jax.jit(jax.grad(f))])
def test_hooks_on_parameters_need_to_jax(name, transform):
    net, x = nn.Linear(3, 2), inputs()
    handle = getattr(net.weight, name)(lambda g: g * 5)
    f = lambda n: n(x).sum()  # noqa: E731
    with pytest.raises(RuntimeError, match=r"a hook on its gradient.*to_jax"):
        transform(f)(net)
    handle.remove()
    transform(f)(net)


def test_hooks_on_parameters_do_not_matter_without_a_derivative():
    net, x = nn.Linear(3, 2), inputs()
    plain = copy.deepcopy(net)
    net.weight.register_hook(lambda g: g * 5)
    agree(jax.jit(lambda n: n(x))(net), net(x))
    moved = jax.tree.map(lambda a, b: a + b, net, plain)  # one with hooks and one without
    agree(moved.weight, net.weight * 2)
    assert not moved.weight._backward_hooks


def test_hooks_on_parameters_run_in_passes_of_their_own_inside_of_jit():
    net, x = nn.Linear(3, 2), inputs()
    net.weight.register_hook(lambda g: g * 5)
    slope = lambda n: torch.autograd.grad(n(x).sum(), n.weight)[0]  # noqa: E731
    agree(jax.jit(slope)(net), slope(net))


def test_hooks_run_in_passes_of_their_own_inside_of_jit():
    def slope(net, x):
        h = net.weight * 2
        h.register_hook(lambda g: g * 5)
        return torch.autograd.grad((x @ h.T).sum(), net.weight)[0]

    net, x = nn.Linear(3, 2), inputs()
    agree(jax.jit(slope)(net, x), slope(net, x))


def test_what_cannot_be_copied_says_so():
    net = nn.Linear(3, 2)
    net.view = net.weight[0]
    with pytest.raises(TypeError, match=r"view is a view of a parameter .* of shape \(2, 3\)"):
        jax.tree.leaves(net)
    net.view = net.weight.data[0]
    again = jax.tree.map(lambda a: a + 1, net)
    agree(again.view, again.weight[0])
    del net.view
    net.fast = jax.jit(lambda x: net(x))
    with pytest.raises(TypeError, match=r"fast .* holds the module itself"):
        jax.tree.leaves(net)
    del net.fast

    @jax.jit
    def keeps(net, x):
        net.last = net(x)
        return net

    with pytest.raises(TypeError, match=r"last holds a value that JAX traces.*register it as a buffer"):
        keeps(net, inputs())


def test_writes_inside_stay_inside():
    net = nn.Linear(3, 2)
    before = net.weight.detach().clone()

    @jax.jit
    def step(net):
        with torch.no_grad():
            net.weight.add_(1)
        net.count = 3
        return net

    new = step(net)
    agree(net.weight, before)
    agree(new.weight, before + 1)
    assert new.count == 3
    assert not hasattr(net, "count")


def test_compiled_methods_are_those_of_the_copy():
    net, x = nn.Linear(3, 2), inputs()
    net.fast = torch.compile(net.forward)
    net.fast(x)
    again = jax.tree.map(lambda a: a * 2, net)
    agree(again.fast(x), 2 * net(x))
    assert again.fast.counts["run"] == 1
    agree(jax.jit(lambda n: n.fast(x))(net), net(x))


def test_modules_of_other_libraries_and_plain_objects_are_attributes():
    eqx = pytest.importorskip("equinox", reason="needs the ecosystem extra")
    net = nn.Linear(3, 3)
    net.theirs = eqx.nn.Linear(3, 2, key=jax.random.key(0))
    net.opt = torch.optim.Adam(net.parameters())
    again = jax.tree.map(lambda a: a + 1, net)
    assert again.opt.param_groups[0]["params"][0] is again.weight
    assert again.theirs.weight is net.theirs.weight
    assert jax.tree.structure(again) == jax.tree.structure(net)


def test_compiled_modules_are_copied_uncompiled():
    net, x = nn.Linear(3, 2), inputs()
    net.compile()
    again = jax.tree.map(lambda a: a * 2, net)
    assert again._compiled_call_impl is None
    agree(again(x), 2 * net(x))


def test_modules_are_not_kept_alive_by_trees():
    net = nn.Linear(3, 2)
    jax.jit(lambda n: n.weight.sum())(net)
    kept = weakref.ref(net)
    del net
    gc.collect()
    assert kept() is None


def test_training_loop():
    """A step over modules beside the same step of an optimizer of torch's."""
    net, x = small(), inputs()
    mine = copy.deepcopy(net)
    y = torch.randn(5, 2)

    @jax.jit
    def step(net, x, y):
        def loss(params, net):
            net = torch.interop.combine(params, net)
            return nn.functional.mse_loss(net(x), y), net

        params, rest = torch.interop.partition(net)
        (value, net), g = jax.value_and_grad(loss, has_aux=True)(params, rest)
        params, rest = torch.interop.partition(net)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, g)
        return torch.interop.combine(params, rest), value

    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        mine, value = step(mine, x, y)
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        opt.step()
        agree(value, loss)
    assert step._cache_size() == 1
    for name, t in net.state_dict().items():
        agree(in_jax(mine.state_dict()[name]), in_jax(t))


def test_a_tree_comes_apart_into_what_is_trained_and_the_rest_and_is_whole_again():
    tree = {"trained": nn.Parameter(torch.ones(2)), "frozen": torch.zeros(2), "absent": None}
    params, rest = torch.interop.partition(tree)
    assert [len(jax.tree.leaves(half)) for half in (params, rest)] == [1, 1]
    again = torch.interop.combine(jax.tree.map(lambda a: a * 3, params), rest)
    assert [again["trained"].tolist(), again["frozen"].tolist(), again["absent"]] == [[3.0, 3.0], [0.0, 0.0], None]


def test_parameters_come_first():
    f = torch.to_jax(torch.nn.Linear(2, 1))
    with pytest.raises(TypeError, match=r"takes a dict of parameters first.*f\(f.params, x\)"):
        jax.jit(f)(jnp.ones((1, 2), jnp.float32))
    assert f(f.params, jnp.ones((1, 2), jnp.float32)).shape == (1, 1)
