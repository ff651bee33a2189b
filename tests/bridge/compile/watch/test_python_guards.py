"""What a compiled function is traced again for: whatever its code could tell apart, and nothing else."""

import argparse
import configparser
import contextlib
import ctypes
import functools
import gc
import multiprocessing
import threading
import types
import weakref
from collections import OrderedDict, deque
from typing import Any

import numpy as np
import pytest

import torchgrad_jax as torch
from torchgrad_jax._core.arrays import tree

nn = torch.nn
PROGRAMS = {}
FACTOR = [2.0]
PACKAGE, SETTINGS = types.ModuleType("users_package"), types.ModuleType("users_package.settings")
exec("rate, table = 1.0, {'a': [1.0]}\ndef read():\n    return rate", vars(SETTINGS))
PACKAGE.settings = SETTINGS


def program(make):
    """`make()` gives a function of one tensor and changes to make between calls."""
    PROGRAMS[make.__name__.strip("_")] = make
    return make


@program
def _numpy_in_a_closure():
    a = np.ones(4, np.float32)
    return lambda x: x + torch.from_numpy(a.copy()), [lambda: a.__setitem__(0, 5.0)]


@program
def _what_a_compiled_function_inside_reads():
    inner = torch.compile(lambda x: x * FACTOR[0])
    return lambda x: inner(x) + 1, [lambda: FACTOR.__setitem__(0, 5.0), lambda: FACTOR.__setitem__(0, 2.0)]


@program
def _what_a_scripted_function_inside_reads():
    inner = torch.jit.script(lambda x: x * FACTOR[0])
    return lambda x: inner(x) + 1, [lambda: FACTOR.__setitem__(0, 5.0), lambda: FACTOR.__setitem__(0, 2.0)]


@program
def _attribute_of_a_class_that_hides_one_of_its_base():
    base = type("Base", (), {"k": 1.0})
    cls = type("Derived", (base,), {})
    held = cls()
    return lambda x: x * held.k, [
        lambda: setattr(base, "k", 3.0),
        lambda: setattr(cls, "k", 8.0),
        lambda: delattr(cls, "k"),
    ]


@program
def _containers_that_classes_hold():
    class Config:
        scales, nested, pair = [1.0], {"a": [1.0]}, (1.0, [1.0])

    class Outer:
        config = Config()

        @classmethod
        def scale(cls):
            return cls.config.scales[0] * cls.config.nested["a"][0] * cls.config.pair[1][0]

    return lambda x: x * Outer.scale() * Outer().config.scales[0], [
        lambda: Config.scales.__setitem__(0, 3.0),
        lambda: Config.nested["a"].__setitem__(0, 5.0),
        lambda: Config.nested.update(a=[7.0]),
        lambda: Config.pair[1].__setitem__(0, 2.0),
        lambda: setattr(Config, "scales", [9.0]),
    ]


@program
def _containers_that_classes_of_modules_hold():
    class Scaled(nn.Module):
        factors = FACTOR

        def forward(self, x):
            return x * self.factors[0]

    FACTOR[0] = 2.0
    return Scaled(), [lambda: FACTOR.__setitem__(0, 5.0)]


@program
def _state_of_a_descriptor_and_methods_by_operator():
    class Described:
        def __init__(self):
            self.value = 1.0

        def __get__(self, held, cls=None):
            return self.value

    described = Described()
    cls: Any = type("Held", (), {"k": described, "__call__": lambda self, x: x * self.k})
    held = cls()
    return lambda x: held(x), [
        lambda: setattr(described, "value", 4.0),
        lambda: setattr(cls, "__call__", lambda self, x: x * 9),
    ]


SETTINGS_CHANGE = [
    lambda: setattr(SETTINGS, "rate", 3.0),
    lambda: SETTINGS.table["a"].__setitem__(0, 5.0),
    lambda: vars(SETTINGS).update(rate=1.0, table={"a": [1.0]}),
]


@program
def _settings_in_a_module_of_a_package():
    return lambda x: x * PACKAGE.settings.rate * PACKAGE.settings.table["a"][0], SETTINGS_CHANGE


@program
def _function_of_a_module_of_a_package():
    return lambda x: x * PACKAGE.settings.read(), SETTINGS_CHANGE


@program
def _modules_in_attributes_lists_and_defaults():
    class Trainer:
        settings = SETTINGS

        def __init__(self):
            self.own, self.listed = SETTINGS, [SETTINGS]

        def rate(self, given=SETTINGS):
            return self.own.rate + self.settings.rate + self.listed[0].table["a"][0] + given.read()

    trainer = Trainer()
    return lambda x: x * trainer.rate(), [
        *SETTINGS_CHANGE,
        lambda: setattr(trainer, "own", types.SimpleNamespace(rate=9.0)),
    ]


@program
def _flags_and_classes_that_are_looked_at():
    net = nn.Sequential(nn.Linear(2, 2), nn.Identity())
    return lambda x: net[1](x) * sum(p.requires_grad for p in net.parameters()), [
        lambda: net[0].bias.requires_grad_(False),
        lambda: net[0].bias.requires_grad_(True),
        lambda: setattr(net[1], "__class__", nn.Tanh),
    ]


@program
def _memory_of_c_and_objects_of_the_standard_library():
    number, shared = ctypes.c_double(1.0), multiprocessing.Value("d", 1.0, lock=False)
    parser = configparser.ConfigParser()
    parser["training"] = {"rate": "1.0"}
    objects, context = np.array([[1.0], None], dtype=object), contextlib.nullcontext([1.0])

    def step(x):
        factor = number.value * shared.value * float(parser["training"]["rate"])
        return x * factor * objects[0][0] * context.enter_result[0]

    return step, [
        lambda: setattr(number, "value", 3.0),
        lambda: setattr(shared, "value", 5.0),
        lambda: parser["training"].__setitem__("rate", "7.0"),
        lambda: objects[0].__setitem__(0, 2.0),
        lambda: context.enter_result.__setitem__(0, 4.0),
    ]


@program
def _attributes_of_numbers_text_and_arrays():
    kinds = [type("I", (int,), {})(2), type("S", (str,), {})("a")]
    kinds.append(np.ones(2).view(type("A", (np.ndarray,), {})))
    for held in kinds:
        held.k = 1.0
    changes = [lambda held=held: setattr(held, "k", 3.0) for held in kinds]
    return lambda x: x * sum(held.k for held in kinds), changes


@program
def _weak_set():
    kept, held = types.SimpleNamespace(), weakref.WeakSet()
    kept.held = type("Item", (), {})()
    return lambda x: x * (1 + len(held)), [lambda: held.add(kept.held), lambda: held.clear()]


@program
def _function_with_methods_by_type():
    @functools.singledispatch
    def factor(_):
        return 1.0

    return lambda x: x * factor(3), [lambda: factor.register(int, lambda _: 4.0)]


@program
def _variable_without_a_value_yet():
    def step(x):
        try:
            return x * factor
        except NameError:
            return x

    def give():
        nonlocal factor
        factor = 4.0

    if FACTOR is None:
        factor = 0.0
    return step, [give]


@program
def _list_in_itself():
    held: list = [1.0]
    held.append(held)
    return lambda x: x * held[1][1][0], [lambda: held.__setitem__(0, 4.0)]


@program
def _numpy_in_a_container():
    held = {"a": [np.ones(4, np.float32), np.array([np.nan])]}
    return lambda x: x * float(held["a"][0][0]), [lambda: held["a"][0].fill(5.0)]


@program
def _bytes_that_change():
    held = bytearray(b"\x01\x02")
    return lambda x: x * held[0], [lambda: held.__setitem__(0, 9)]


@program
def _namespaces():
    a, b = types.SimpleNamespace(k=np.float32(2)), argparse.Namespace(k=3)
    return lambda x: x * a.k * b.k, [lambda: setattr(a, "k", np.float32(5)), lambda: setattr(b, "k", 7)]


@program
def _order_of_a_dict():
    held = {"a": 2.0, "b": 3.0}
    ordered = OrderedDict(held)
    return lambda x: x * next(iter(held.values())) + next(iter(ordered.values())), [
        lambda: held.update(a=held.pop("a")),
        lambda: ordered.move_to_end("a"),
    ]


@program
def _deque_and_list():
    d, nested = deque([1, 2]), [[3.0]]
    return lambda x: x * d[0] * nested[0][0], [lambda: d.appendleft(5), lambda: nested[0].__setitem__(0, 4.0)]


@program
def _slots():
    class Held:
        __slots__ = ("k",)

    held = Held()
    held.k = 2.0
    return lambda x: x * held.k, [lambda: setattr(held, "k", 5.0)]


@program
def _defaults_of_functions():
    def helper(x, k=2.0, *, n=3.0):
        return x * k * n * helper.m

    helper.m = 1.0
    return lambda x: helper(x), [
        lambda: setattr(helper, "__defaults__", (5.0,)),
        lambda: helper.__kwdefaults__.update(n=7.0),
        lambda: setattr(helper, "m", 2.0),
    ]


@program
def _its_own_default():
    def f(x, k=2.0):
        return x * k

    return f, [lambda: setattr(f, "__defaults__", (5.0,))]


@program
def _partial():
    held = [2.0]
    return functools.partial(lambda held, x: x * held[0], held), [lambda: held.__setitem__(0, 5.0)]


@program
def _globals_of_methods():
    class Model:
        @property
        def factor(self):
            return FACTOR[0]

        def run(self, x):
            return x * self.factor

    model = Model()
    FACTOR[0] = 2.0
    return lambda x: model.run(x), [
        lambda: FACTOR.__setitem__(0, 5.0),
        lambda: setattr(Model, "run", lambda self, x: x * 9),
    ]


@program
def _hooks_of_all_modules():
    module, handles = nn.Identity(), []

    def hook(module, args, out):
        return out * 5

    register = nn.modules.module.register_module_forward_hook
    return lambda x: module(x), [lambda: handles.append(register(hook)), lambda: handles.pop().remove()]


@program
def _default_dtype():
    return lambda x: x + torch.tensor(1.0).element_size(), [
        lambda: torch.set_default_dtype(torch.float64),
        lambda: torch.set_default_dtype(torch.float32),
    ]


@program
def _deterministic():
    return lambda x: x + float(torch.are_deterministic_algorithms_enabled()), [
        lambda: torch.use_deterministic_algorithms(True),
        lambda: torch.use_deterministic_algorithms(False),
    ]


@program
def _modules():
    net = nn.Sequential(nn.LeakyReLU(0.5), nn.Identity())
    return lambda x: net(x - 2), [
        lambda: setattr(net[0], "negative_slope", 0.1),
        lambda: net.__setitem__(1, nn.Sigmoid()),
        lambda: net.append(nn.Tanh()),
    ]


def _training(kind, changes, **options):
    w = torch.ones(4, requires_grad=True)
    opt = kind([w], lr=0.1, **options)

    def step(x):
        opt.zero_grad()
        (w * x).sum().backward()
        opt.step()
        return w.detach() * 1

    return step, [functools.partial(change, opt, w) for change in changes]


def _set(name, value):
    return lambda opt, w: opt.param_groups[0].__setitem__(name, value)


@program
def _options_of_an_optimizer():
    more = [_set("lr", 0.5), _set("momentum", 0.9), _set("lr", torch.tensor(0.3)), _set("lr", 0.2)]
    return _training(torch.optim.SGD, more)


@program
def _shapes_of_tensors_whose_values_nobody_reads():
    class Memory(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))
            self.register_buffer("slots", torch.ones(3))
            self.queue = [torch.ones(3)]

        def forward(self, x):
            wide = 2 if self.slots.dtype == torch.float64 else 1
            return x * wide + self.weight.shape[0] + 10 * len(self.slots) + 100 * self.queue[0].dim()

    memory = Memory()
    return memory, [
        lambda: setattr(memory.weight, "data", torch.ones(5)),
        lambda: memory.slots.resize_(7),
        lambda: setattr(memory.slots, "data", torch.ones(7, dtype=torch.float64)),
        lambda: memory.queue[0].unsqueeze_(0),
    ]


@program
def _state_of_an_optimizer():
    return _training(
        torch.optim.Adam,
        [
            _set("betas", (0.5, 0.5)),
            lambda opt, w: opt.state[w].update(step=torch.tensor(5.0)),
            lambda opt, w: opt.state.clear(),
            lambda opt, w: opt.load_state_dict(opt.state_dict()),
        ],
    )


@program
def _functions_of_the_package_that_a_class_holds():
    relu: Any = torch.nn.functional.relu

    class Settings:
        activation, scale = staticmethod(torch.tanh), 2.0
        norm = property(lambda self: self.scale)
        reduce = classmethod(relu)

    return lambda x: Settings.activation(x) * Settings().norm, [
        lambda: setattr(Settings, "activation", staticmethod(torch.sin)),
        lambda: setattr(Settings, "scale", 3.0),
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_changes_are_noticed(name):
    make = PROGRAMS[name]
    x = torch.arange(4.0)

    def run(wrap):
        fn, changes = make()
        fn = wrap(fn)
        found = [fn(x).tolist() for _ in range(3)]
        for change in changes:
            change()
            found += [fn(x).tolist() for _ in range(3)]
        return fn, found

    _, want = run(lambda fn: fn)
    fast, got = run(torch.compile)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
    assert fast.counts["run"] > fast.counts["traced"]


COUNTERS = {"ctypes": lambda: ctypes.c_long(0), "multiprocessing": lambda: multiprocessing.Value("l", 0, lock=False)}


def _counting(counter):
    def step(x, fails=False):
        counter.value += 1
        if fails:
            raise ValueError("no more")
        return x * counter.value

    return step


@pytest.mark.filterwarnings("ignore:torch.compile")
@pytest.mark.parametrize("name", COUNTERS)
def test_a_counter_in_memory_of_c_counts(name):
    counter = COUNTERS[name]()
    fast = torch.compile(_counting(counter))
    with pytest.raises(ValueError, match="no more"):
        fast(torch.ones(1), True)
    assert counter.value == 0
    assert [fast(torch.ones(1)).item() for _ in range(7)] == [1, 2, 3, 4, 5, 6, 7]
    assert counter.value == 7


def test_a_counter_under_a_lock_runs_as_written():
    """An error leaves what it leaves without `compile`."""
    counter = multiprocessing.Value("l", 0)
    fast = torch.compile(_counting(counter))
    with pytest.raises(ValueError, match="no more"):
        fast(torch.ones(1), True)
    assert counter.value == 1
    with pytest.warns(UserWarning, match=r"acquire\(\) of a SemLock was called at .*test_python_guards.py"):
        assert [fast(torch.ones(1)).item() for _ in range(7)] == [2, 3, 4, 5, 6, 7, 8]
    assert fast.counts == {"traced": 0, "run": 0, "eager": 8}


def test_flags_keep_no_gradient_alive():
    w = torch.ones(3, requires_grad=True)

    def step(x):
        w.grad = None
        (w * x).sum().backward()
        return w.requires_grad, w.shape

    w.grad = torch.ones(3)
    first, fast = weakref.ref(w.grad), torch.compile(step)
    fast(torch.ones(3))
    fast(torch.ones(3))
    gc.collect()
    assert first() is None


def test_equal_values_are_no_change():
    held = {"a": [1000.5, "text" * 3], "b": np.arange(3.0)}
    f = torch.compile(lambda x: x * held["a"][0] + float(held["b"][1]))
    f(torch.ones(2))
    held["a"][0] = float("1000.5")
    held["b"] = held["b"]
    held["b"][:] = np.arange(3.0)
    f(torch.ones(2))
    assert f.counts["traced"] == 1


# --- numbers that several tensors share -----------------------------------------------------------


def _adam(n):
    ps = [torch.ones(3, requires_grad=True) for _ in range(n)]
    opt = torch.optim.AdamW(ps, lr=0.1)

    def step(x):
        sum((p * x).sum() for p in ps).backward()
        opt.step()
        opt.zero_grad()
        return ps[0].detach() * 1

    return ps, opt, step


def test_step_counts_are_one_number():
    ps, opt, step = _adam(5)
    fast = torch.compile(step)
    x = torch.arange(3.0)
    got = [fast(x).tolist() for _ in range(4)]
    _, _, eager = _adam(5)
    np.testing.assert_allclose(got, [eager(x).tolist() for _ in range(4)], rtol=1e-6)
    assert fast.counts["traced"] == 1
    entries = [entry for found in fast.entries.values() for entry in found]
    assert {len({id(first) for _, first, _, _ in e.program.traced.peers}) for e in entries} == {1}
    assert [len(e.program.traced.peers) for e in entries] == [4]
    assert [opt.state[p]["step"].item() for p in ps] == [4.0] * 5
    assert [opt.state[p]["step"]._version for p in ps] == [4] * 5


def test_numbers_that_go_apart():
    ps, opt, step = _adam(3)
    fast = torch.compile(step)
    qs, eager_opt, eager = _adam(3)
    x = torch.arange(3.0)
    for _ in range(3):
        fast(x), eager(x)
    for params, o in ((ps, opt), (qs, eager_opt)):
        o.state[params[1]]["step"].add_(10)
    for _ in range(3):
        fast(x), eager(x)
    assert [opt.state[p]["step"].item() for p in ps] == [6.0, 16.0, 6.0]
    for p, q in zip(ps, qs):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-6)


def test_equal_numbers_that_are_written_apart():
    a, b = torch.zeros(()), torch.zeros(())

    def f(x):
        a.add_(x.sum())
        return a + b

    fast = torch.compile(f)
    assert [fast(torch.ones(2)).item() for _ in range(3)] == [2.0, 4.0, 6.0]
    assert (a.item(), b.item()) == (6.0, 0.0)


def test_old_gradients_stay_with_who_holds_them():
    w = torch.ones(2, requires_grad=True)

    def step(x):
        w.grad = None
        (w * x).sum().backward()

    fast = torch.compile(step)
    fast(torch.ones(2))
    kept = w.grad
    fast(torch.full((2,), 3.0))
    assert kept.tolist() == [1.0, 1.0]
    assert w.grad.tolist() == [3.0, 3.0]


# --- trees ----------------------------------------------------------------------------------------


def test_trees_keep_nothing():
    class Leaf:
        pass

    gc.disable()
    try:
        leaves, spec = tree.flatten({"a": [Leaf()]})
        alive = tree.unflatten(leaves, spec)
        ref = weakref.ref(alive["a"][0])
        del leaves, alive
        assert ref() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("name", ["ASGD", "Rprop"])
def test_state_that_begins_with_the_learning_rate(name):
    def run(wrap):
        w = torch.ones(3, requires_grad=True)
        opt = getattr(torch.optim, name)([w], lr=0.1)

        def step(x):
            opt.zero_grad()
            (w * x).pow(2).sum().backward()
            opt.step()
            return w.detach() * 1

        step = wrap(step)
        return [step(torch.arange(3.0)).tolist() for _ in range(3)]

    np.testing.assert_allclose(run(torch.compile), run(lambda f: f), rtol=1e-6)


def test_a_run_that_changes_what_it_looks_at_is_not_kept():
    held = types.SimpleNamespace(n=0)

    def f(x):
        held.n += 1
        return x * held.n

    fast = torch.compile(f)
    assert [fast(torch.ones(())).item() for _ in range(3)] == [1.0, 2.0, 3.0]
    held.n = 0
    assert fast(torch.ones(())).item() == 1.0
    assert held.n == 1


def test_a_list_of_a_class_that_nobody_reads_may_grow():
    class Trainer:
        history: list = []
        factors = [2.0]

        def step(self, x):
            return x * self.factors[0]

    step = torch.compile(Trainer().step)
    for i in range(5):
        assert step(torch.ones(1)).item() == 2.0
        Trainer.history.append(i)
    assert (step.counts["traced"], step.counts["run"]) == (1, 5)


class Answers:
    """An object that is asked for nothing: what it does not have, it complains of in its own way."""

    def __getattr__(self, name):
        raise KeyError(name)


def test_an_error_leaves_attributes_of_classes_and_threads_as_they_were():
    held, local = type("Held", (), {"k": 1.0}), threading.local()
    local.k = 1.0

    def f(x):
        held.k, held.more = 2.0, 3.0
        local.k, local.more = 2.0, 3.0
        raise ValueError(held.k * local.k)

    with pytest.raises(ValueError, match=r"4\.0"):
        torch.compile(f)(torch.ones(1))
    assert (held.k, hasattr(held, "more"), vars(local)) == (1.0, False, {"k": 1.0})


def test_objects_are_not_asked_for_attributes():
    strange = Answers()

    @torch.compile
    def step(x):
        return x * (2 if strange else 3)

    assert step(torch.ones(2)).tolist() == [2, 2]
    assert step(torch.ones(2)).tolist() == [2, 2]
    assert step.counts["traced"] == 1
