"""`scan_layers` applies equal modules in turn, in a loop: values, gradients, checkpoints, and what it refuses."""

import copy
import functools

import jax
import numpy as np
import pytest

import torchgrad_jax as torch
from torchgrad_jax import nn


class Block(nn.Module):
    def __init__(self, size=4):
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.inner = nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size))
        self.register_buffer("scale", torch.rand(()))

    def forward(self, x, shift=0.0, *, factor=1.0):
        return x + self.inner(self.norm(x) + shift) * self.scale * factor


def made(n=5):
    torch.manual_seed(0)
    return nn.ModuleList(Block() for _ in range(n)), torch.randn(3, 4)


def in_turn(layers, *args, **kwargs):
    first, *others = args
    for layer in layers:
        first = layer(first, *others, **kwargs)
    return first


def step_of(apply, layers, compiled):
    opt = torch.optim.SGD(layers.parameters(), lr=0.1, momentum=0.9)

    def step(x, shift):
        opt.zero_grad()
        loss = (apply(x, shift, factor=0.5) ** 2).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    return torch.compile(step) if compiled else step


WAYS = {
    "plain": {},
    "checkpoint": {"checkpoint": True},
    "policy": {"policy": jax.checkpoint_policies.dots_saveable},
    "unrolled": {"unroll": 2},
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("way", WAYS)
def test_training_is_that_of_the_layers_in_turn(way, compiled):
    layers, x = made()
    others, _ = made()
    one = step_of(lambda *a, **k: in_turn(layers, *a, **k), layers, False)
    scanned = torch.scan_layers(others, **WAYS[way])
    other = step_of(scanned, others, compiled)
    shift = torch.tensor(0.25)
    for _ in range(3):
        torch.testing.assert_close(other(x, shift), one(x, shift))
    for p, q in zip(others.parameters(), layers.parameters()):
        torch.testing.assert_close(p, q)
        torch.testing.assert_close(p.grad, q.grad)


def test_gradients_of_all_arguments():
    layers, x = made()
    inputs = [x.requires_grad_(), torch.tensor(0.5, requires_grad=True)]
    want = torch.autograd.grad(in_turn(layers, *inputs).sum(), inputs)
    found = torch.autograd.grad(torch.scan_layers(layers)(*inputs).sum(), inputs)
    torch.testing.assert_close(found, want)


def test_a_program_is_that_of_one_layer():
    def products(n):
        layers, x = made(n)
        scanned = torch.scan_layers(layers)
        with torch.no_grad():
            text = torch.compile(lambda x: scanned(x)).lower(x).as_text()
        assert "stablehlo.while" in text
        return text.count("dot_general")

    assert products(2) == products(12) == 2


def test_several_tensors_go_from_layer_to_layer():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, pair):
            x, total = pair
            x = self.linear(x)
            return x, total + x.sum()

    layers = [Pair(), Pair(), Pair()]
    given = torch.ones(2), torch.zeros(())
    torch.testing.assert_close(torch.scan_layers(layers)(given), in_turn(layers, given))


def test_arguments_and_modes_may_change_from_call_to_call():
    layers, x = made()
    scanned = torch.scan_layers(layers)
    for factor in (1.0, 2.0, 1.0):
        want = in_turn(layers, x, factor=factor)
        torch.testing.assert_close(scanned(x, factor=factor), want)
    y = torch.randn(7, 4)
    torch.testing.assert_close(scanned(y), in_turn(layers, y))
    with torch.no_grad():
        layers[1].scale.fill_(9.0)
    torch.testing.assert_close(scanned(x), in_turn(layers, x))


def unequal(change):
    layers, x = made(3)
    scanned = torch.scan_layers(layers)
    change(layers)
    return lambda: scanned(x)


def hooked(layers):
    layers[2].inner[0].register_forward_hook(lambda *args: None)


def scaling(k):
    class Layer(nn.Module):
        def forward(self, x):
            return x * k

    return Layer()


class Doubled(nn.Module):
    def forward(self, x):
        return torch.cat([x, x])


def sharing(layers):
    layers[1].norm.weight = layers[0].norm.weight
    return layers


def frozen(layers):
    layers[3].requires_grad_(False)
    return layers


def pair(tied):
    layers = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    if tied:
        layers[1].weight = layers[0].weight
    return layers


class Scaled(nn.Module):
    """What it multiplies by comes from an attribute, which may be anything."""

    def __init__(self, held, factor):
        super().__init__()
        self.linear, self.held, self.factor = nn.Linear(2, 2), held, factor

    def forward(self, x):
        return self.linear(x) * self.factor(self.held)


def by(k):
    return lambda _: k


HELD = {
    "a tuple": lambda k: ((k,), lambda held: held[0]),
    "a dict": lambda k: ({"k": [k]}, lambda held: held["k"][0]),
    "an array": lambda k: (np.array([k]), lambda held: float(held[0])),
    "a closure": lambda k: (None, by(k)),
    "a partial function": lambda k: (None, functools.partial(lambda k, _: k, k)),
}


@pytest.mark.parametrize("name", HELD)
def test_attributes_of_equal_modules_are_equal(name):
    one, two, other = (Scaled(*HELD[name](k)) for k in (2, 2, 3))
    x = torch.randn(3, 2)
    torch.testing.assert_close(torch.scan_layers([one, two])(x), in_turn([one, two], x))
    with pytest.raises(ValueError, match="takes equal modules"):
        torch.scan_layers([one, other])


@pytest.mark.parametrize("held", [torch.ones(()), nn.Linear(2, 2), object()], ids=lambda x: type(x).__name__)
def test_what_nobody_can_compare_must_be_one_object(held):
    one, two = Scaled([held], by(2)), Scaled([held], by(2))
    x = torch.randn(3, 2)
    torch.testing.assert_close(torch.scan_layers([one, two])(x), in_turn([one, two], x))
    with pytest.raises(ValueError, match="takes equal modules"):
        torch.scan_layers([one, Scaled([copy.copy(held)], by(2))])


def test_a_parameter_with_two_names():
    def tied():
        layer = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        layer[1].weight = layer[0].weight
        return layer

    layers, x = [tied(), tied()], torch.randn(3, 2)
    found = []
    for f in (torch.scan_layers(layers), lambda x: in_turn(layers, x)):
        out = f(x)
        grads = torch.autograd.grad(out.square().sum(), [layer[0].weight for layer in layers])
        found.append([out.detach(), *grads])
    torch.testing.assert_close(*found)


def test_layers_without_parameters():
    layers, x = [nn.Tanh(), nn.Tanh(), nn.Tanh()], torch.randn(3, 2)
    torch.testing.assert_close(torch.scan_layers(layers)(x), in_turn(layers, x))


def test_a_layer_that_was_checkpointed_alone():
    layers, x = [nn.Linear(2, 2), nn.Linear(2, 2)], torch.randn(3, 2)
    torch.interop.checkpoint(layers[0])(x)
    torch.testing.assert_close(torch.scan_layers(layers)(x), in_turn(layers, x))


REFUSED = {
    "nothing": (lambda: torch.scan_layers([]), "at least one"),
    "no modules": (lambda: torch.scan_layers([1]), "takes modules"),  # type: ignore[arg-type]
    "shapes": (lambda: torch.scan_layers([Block(4), Block(8)]), "is .* in module 0 and .* in module 1"),
    "classes": (lambda: torch.scan_layers([nn.Linear(2, 2), nn.Identity()]), "the class of the module is Linear"),
    "modes": (unequal(lambda layers: layers[1].eval()), "'training' of the module is True in module 0"),
    "settings": (unequal(lambda layers: setattr(layers[2].norm, "eps", 0.5)), "'eps' of norm is 1e-05 in module 0"),
    "hooks": (unequal(hooked), "module 2 has a hook"),
    "classes of one name": (lambda: torch.scan_layers([scaling(2), scaling(3)]), "is another scaling.<locals>.Layer"),
    "a number of turns": (lambda: torch.scan_layers([Block()], unroll=0), "positive number as unroll, but got 0"),
    "other results": (
        lambda: torch.scan_layers([Doubled(), Doubled()])(torch.ones(2)),
        r"got \(torch.float32, \(2,\)\) and returned \(torch.float32, \(4,\)\)",
    ),
    "a shared module": (lambda: torch.scan_layers([Block()] * 2, stacked=True), "modules 0 and 1 share norm.weight"),
    "a shared parameter": (lambda: torch.scan_layers(sharing(made()[0]), stacked=True), "share norm.weight"),
    "some are frozen": (
        lambda: torch.scan_layers(frozen(made()[0]), stacked=True),
        "norm.weight requires a gradient in module 0, but not so in module 3",
    ),
    "other ties": (lambda: torch.scan_layers([pair(True), pair(False)], stacked=True), "otherwise than in module 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_equal_is_refused(name):
    act, text = REFUSED[name]
    with pytest.raises(ValueError, match=text):
        act()


def test_statistics_that_are_written_in_the_loop_are_refused():
    layers = [nn.BatchNorm1d(2), nn.BatchNorm1d(2)]
    before = layers[0].running_mean.tolist()
    with pytest.raises(RuntimeError, match="the layers write to '"):
        torch.scan_layers(layers)(torch.randn(3, 2))
    assert layers[0].running_mean.tolist() == before
    assert layers[0].num_batches_tracked.item() == 0


class Adjusted(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.factor, self.options = 1.0, {"shift": [0.0]}

    def forward(self, x):
        return self.linear(x) * self.factor + self.options["shift"][0]


CHANGES = {
    "a number": lambda layer: setattr(layer, "factor", 2.0),
    "inside of a dict": lambda layer: layer.options["shift"].__setitem__(0, 3.0),
}


@pytest.mark.parametrize("stacked", [False, True], ids=["layers", "stacked"])
@pytest.mark.parametrize("change", CHANGES)
def test_attributes_that_change_in_all_layers_are_seen(change, stacked):
    layers, x = [Adjusted() for _ in range(3)], torch.randn(1, 2)
    scanned = torch.scan_layers(layers, stacked=stacked)
    torch.testing.assert_close(scanned(x), in_turn(layers, x))
    for layer in layers:
        CHANGES[change](layer)
    if stacked:
        CHANGES[change](scanned.layer)
    torch.testing.assert_close(scanned(x), in_turn(layers, x))


class Net(nn.Module):
    def __init__(self, way):
        super().__init__()
        layers = nn.ModuleList(Block() for _ in range(4))
        self.layers = layers if way is None else torch.scan_layers(layers, stacked=True, **way)
        self.head = nn.Linear(4, 1)

    def forward(self, x, **given):
        h = in_turn(self.layers, x, **given) if isinstance(self.layers, nn.ModuleList) else self.layers(x, **given)
        return self.head(h)


def both(way):
    nets = []
    for each in (None, way):
        torch.manual_seed(0)
        nets.append(Net(each))
    return nets


def named(net):
    return {name: t.detach().clone() for name, t in net.state_dict().items()}


@pytest.mark.parametrize(("way", "compiled"), [("plain", True), ("checkpoint", True), ("policy", False)], ids=str)
def test_stacked_layers_train_as_their_list_does(way, compiled):
    plain, stacked = both(WAYS[way])
    assert list(stacked.state_dict()) == list(plain.state_dict())
    x = torch.randn(3, 4)

    def step_of(net):
        opt = torch.optim.AdamW(net.parameters(), lr=0.01)

        def step(x):
            opt.zero_grad()
            loss = net(x, factor=0.5).square().mean()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
            opt.step()
            return loss.detach(), norm

        return step

    one, other = step_of(plain), step_of(stacked)
    other = torch.compile(other) if compiled else other
    for _ in range(3):
        torch.testing.assert_close(other(x), one(x))
    torch.testing.assert_close(named(stacked), named(plain))
    assert len(list(stacked.layers.parameters())) * 4 == len(list(plain.layers.parameters()))


def test_state_of_stacked_layers_goes_both_ways():
    plain, stacked = both({})
    x = torch.randn(2, 4)
    with torch.no_grad():
        for p in plain.parameters():
            p.add_(0.5)
    stacked.load_state_dict(plain.state_dict())
    torch.testing.assert_close(stacked(x), plain(x))
    with torch.no_grad():
        for p in stacked.parameters():
            p.mul_(0.5)
    plain.load_state_dict(stacked.state_dict())
    torch.testing.assert_close(stacked(x), plain(x))
    torch.testing.assert_close(in_turn(stacked.layers.unstacked(), x), stacked.layers(x))


def test_stacked_layers_keep_ties_modes_and_dtypes():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.drop = (nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False), nn.Dropout(0.5))
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.drop(self.b(self.a(x)))

    layers = [Tied() for _ in range(3)]
    stacked = torch.scan_layers(layers, stacked=True)
    assert len(list(stacked.parameters())) == 1
    assert len(stacked) == 3
    stacked.eval()
    for layer in layers:
        layer.eval()
    x = torch.randn(1, 2)
    torch.testing.assert_close(stacked(x), in_turn(layers, x))
    assert stacked.double()(x.double()).dtype == torch.float64


def test_stacked_layers_refuse_hooks():
    stacked = torch.scan_layers([nn.Linear(2, 2), nn.Linear(2, 2)], stacked=True)
    stacked.layer.register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match="the layer has a hook"):
        stacked(torch.ones(1, 2))


def test_a_container_may_get_other_layers():
    layers, x = made(3)
    scanned = torch.scan_layers(layers)
    compiled = torch.compile(lambda x: scanned(x))
    for change in (
        lambda: None,
        lambda: layers.__setitem__(1, Block()),
        lambda: layers.append(Block()),
        lambda: layers.pop(0),
    ):
        change()
        for f in (scanned, compiled):
            torch.testing.assert_close(f(x), in_turn(layers, x))


def test_parametrized_layers_are_equal():
    torch.manual_seed(0)
    layers = [nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)) for _ in range(3)]
    x = torch.randn(2, 3)
    for stacked in (False, True):
        torch.testing.assert_close(torch.scan_layers(layers, stacked=stacked)(x), in_turn(layers, x))


LOADED = {
    "a layer is missing": (
        lambda state: state.pop("2.norm.weight"),
        r'Missing key\(s\) in state_dict: "2.norm.weight"',
    ),
    "a layer too much": (
        lambda state: state.update({"5.norm.weight": torch.ones(4)}),
        r'Unexpected key\(s\) in state_dict: "5.norm.weight"',
    ),
    "another shape": (lambda state: state.update({"2.norm.weight": torch.ones(3)}), "size mismatch for 2.norm.weight"),
    "no tensor": (lambda state: state.update({"2.norm.weight": 1.0}), "expected torch.Tensor"),
}


@pytest.mark.parametrize("name", LOADED)
def test_a_state_that_does_not_fit_is_loaded_as_far_as_it_fits(name):
    stacked = torch.scan_layers(made()[0], stacked=True)
    layers = nn.ModuleList(Block() for _ in range(5))
    others = nn.ModuleList(Block() for _ in range(5))
    layers.load_state_dict(stacked.state_dict())
    state = {name: t + 1 for name, t in others.state_dict().items()}
    change, text = LOADED[name]
    change(state)
    for module in (stacked, layers):
        with pytest.raises(RuntimeError, match=text):
            module.load_state_dict(state)
    torch.testing.assert_close(named(stacked), named(layers))
    if name != "another shape" and name != "no tensor":
        kinds = [sorted(map(sorted, module.load_state_dict(state, strict=False))) for module in (stacked, layers)]
        assert kinds[0] == kinds[1]


def test_extra_state_is_that_of_each_layer():
    class Counted(nn.Linear):
        factor = 1.0

        def get_extra_state(self):
            return {"factor": self.factor}

        def set_extra_state(self, state):
            self.factor = state["factor"]

        def forward(self, x):
            return super().forward(x) * self.factor

    layers = nn.ModuleList(Counted(2, 2) for _ in range(3))
    stacked = torch.scan_layers(layers, stacked=True)
    assert list(stacked.state_dict()) == list(layers.state_dict())
    for layer in layers:
        layer.factor = 3.0
    stacked.load_state_dict(layers.state_dict())
    x = torch.randn(1, 2)
    torch.testing.assert_close(stacked(x), in_turn(layers, x))
    layers[1].factor = 2.0
    with pytest.raises(RuntimeError, match="differs from layer to layer"):
        stacked.load_state_dict(layers.state_dict())


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.drop = nn.Parameter(torch.ones(64)), nn.Dropout(0.5)

    def forward(self, x):
        return x + self.drop(self.weight)


@pytest.mark.parametrize("options", [{}, {"checkpoint": True}, {"stacked": True}], ids=str)
def test_random_numbers_come_from_a_key_around_the_call(options):
    layers, x = nn.ModuleList(Noisy() for _ in range(4)), torch.zeros(64)
    scanned = torch.scan_layers(layers, **options)

    def drawn(key):
        with torch.interop.rngs(key):
            out = scanned(x)
            return out, scanned(x)

    one, other = drawn(jax.random.key(0))
    assert set(one.tolist()) == {0.0, 2.0, 4.0, 6.0, 8.0}  # each layer has a mask of its own
    assert not torch.equal(one, other)
    for found in (drawn, torch.compile(drawn)):
        torch.testing.assert_close(found(jax.random.key(0)), (one, other))
    one.sum().backward()
    weights = scanned.parameters() if options.get("stacked") else layers.parameters()
    grads = [p.grad.reshape(-1, 64).sum(0) for p in weights]
    torch.testing.assert_close(sum(grads), one.detach())  # the same masks
    with pytest.raises(RuntimeError, match="random operation") as raised:
        scanned(x)
    assert "scan_layers: or call the layers in a block" in raised.value.__notes__[-1]


class Cached(nn.Module):
    """Writes to what all layers are given."""

    def __init__(self, write):
        super().__init__()
        self.write = write

    def forward(self, x, cache):
        self.write(cache, x)
        return x * 2


def add_to_tensor(cache, x):
    with torch.no_grad():
        cache["sum"].add_(x)


WRITES = {
    "a tensor": add_to_tensor,
    "a dict": lambda cache, x: cache.__setitem__("last", x),
    "a list": lambda cache, x: cache["all"].append(x),
}


@pytest.mark.parametrize("stacked", [False, True], ids=["layers", "stacked"])
@pytest.mark.parametrize("what", WRITES)
def test_writes_to_an_argument_of_all_layers_are_refused(what, stacked):
    scanned = torch.scan_layers([Cached(WRITES[what]) for _ in range(3)], stacked=stacked)
    cache = {"sum": torch.zeros(2), "all": []}
    with pytest.raises(RuntimeError, match="write to an argument that all of them are given"):
        scanned(torch.ones(2), cache)
    assert (list(cache), cache["sum"].tolist(), cache["all"]) == (["sum", "all"], [0.0, 0.0], [])


def test_stacked_layers_are_not_parametrized_as_a_whole():
    """A norm over the rows of all layers is none of one layer's."""
    stacked = torch.scan_layers([nn.Linear(2, 2), nn.Linear(2, 2)], stacked=True)
    nn.utils.parametrizations.weight_norm(stacked.layer)
    with pytest.raises(ValueError, match="parametrize, prune"):
        stacked(torch.ones(1, 2))
