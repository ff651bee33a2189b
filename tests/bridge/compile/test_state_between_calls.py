"""State that changes between calls of a compiled function: each call gives what the function as written gives."""

import types
from typing import Any

import pytest

import torchgrad_jax as torch

PROGRAMS = {}
FACTOR = [1.0]


def program(make):
    """`make()` gives a function of one tensor and changes to make between calls."""
    PROGRAMS[make.__name__.strip("_")] = make
    return make


def sign_of(number):
    return torch.copysign(torch.ones(()), torch.tensor(number))


def product(number):
    """An integer, or a float where the number is one."""
    return torch.tensor(number) * torch.ones(3, dtype=torch.int32)


@program
def _zero_and_negative_zero_in_containers():
    numbers, entries, kinds = [0.0], {"a": 0.0, "b": 1.0}, {0.0}
    held = types.SimpleNamespace(number=0.0, phase=complex(0.0, 0.0), pair=(0.0, 1))
    every = lambda: (  # noqa: E731 - read twice
        numbers[0],
        entries["a"],
        *kinds,
        held.number,
        held.phase.imag,
        held.pair[0],
    )
    return lambda x: torch.stack([sign_of(n) for n in every()]), [
        lambda: numbers.__setitem__(0, -0.0),
        lambda: entries.__setitem__("a", -0.0),
        lambda: (kinds.clear(), kinds.add(-0.0)),
        lambda: setattr(held, "number", -0.0),
        lambda: setattr(held, "phase", complex(0.0, -0.0)),
        lambda: setattr(held, "pair", (-0.0, 1)),
    ]


@program
def _equal_numbers_of_other_types_in_a_list():
    numbers: list[Any] = [1]
    return lambda x: product(numbers[0]), [lambda: numbers.__setitem__(0, 1.0), lambda: numbers.__setitem__(0, True)]


@program
def _equal_numbers_of_other_types_in_a_set():
    numbers: set[Any] = {1}
    return lambda x: product(*numbers), [
        lambda: (numbers.clear(), numbers.add(1.0)),
        lambda: (numbers.clear(), numbers.add((1, 2)), numbers.remove((1, 2)), numbers.add(True)),
    ]


@program
def _equal_keys_of_other_types():
    one: dict[Any, Any] = {1: "a"}
    two: dict[Any, Any] = {(1, 2): "a", "b": 1}
    return lambda x: product(next(iter(one))) + product(next(iter(two))[0]), [
        lambda: (one.clear(), one.update({1.0: "a"})),
        lambda: (two.clear(), two.update({(1.0, 2): "a", "b": 1})),
    ]


@program
def _slots_with_private_names():
    class Held:
        __slots__ = ("__k",)

        def __init__(self):
            self.__k = 1.0

        def change(self, k):
            self.__k = k

        def scaled(self, x):
            return x * self.__k

    held = Held()
    return held.scaled, [lambda: held.change(3.0)]


@program
def _parameters_of_distributions_and_data_sets():
    normal = torch.distributions.Normal(torch.zeros(3), torch.ones(3))
    alone = torch.distributions.Independent(normal, 1)
    scaled = torch.distributions.AffineTransform(1.0, 2.0)
    data = torch.utils.data.TensorDataset(torch.ones(3))
    return lambda x: alone.log_prob(x) + scaled(x) + data[0][0], [
        lambda: setattr(normal, "loc", torch.full((3,), 5.0)),
        lambda: setattr(scaled, "scale", 5.0),
        lambda: setattr(data, "tensors", (torch.full((3,), 7.0),)),
    ]


@program
def _attributes_of_a_class_of_tensors():
    class Scaled(torch.Tensor):
        scale = 2.0

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            args = [a.as_subclass(torch.Tensor) if type(a) is cls else a for a in args]
            return func(*args) * cls.scale

    t = torch.ones(3).as_subclass(Scaled)
    return lambda x: torch.mul(t, x), [lambda: setattr(Scaled, "scale", 5.0)]


def layers(k):
    class Layer(torch.nn.Module):
        shift = 0.0

        def __init__(self):
            super().__init__()
            self.inner, self.scale = torch.nn.Linear(3, 3), 1.0
            self.inner.weight.data.fill_(k)
            self.inner.bias.data.fill_(1.0)

        def forward(self, x):
            return self.inner(x) * self.scale * FACTOR[0] + self.shift

    return Layer, torch.nn.ModuleList(Layer() for _ in range(2))


@program
def _layers_that_are_scanned():
    cls, several = layers(0.5)
    apply = torch.scan_layers(several)
    return lambda x: apply(x).detach(), [
        lambda: [setattr(layer, "scale", 2.0) for layer in several],
        lambda: setattr(several[1].inner, "bias", torch.nn.Parameter(torch.zeros(3))),
        lambda: setattr(several[0], "inner", several[1].inner),
        lambda: FACTOR.__setitem__(0, 3.0),
        lambda: setattr(cls, "shift", 5.0),
        lambda: setattr(cls, "forward", lambda self, x: self.inner(x)),
        lambda: FACTOR.__setitem__(0, 1.0),
    ]


@program
def _layers_that_are_stacked():
    cls, several = layers(0.25)
    apply = torch.scan_layers(several, stacked=True)
    return lambda x: apply(x).detach(), [
        lambda: setattr(apply.layer, "scale", 2.0),
        lambda: apply.load_state_dict(several.state_dict()),
        lambda: setattr(cls, "shift", 5.0),
        lambda: FACTOR.__setitem__(0, 3.0),
        lambda: FACTOR.__setitem__(0, 1.0),
    ]


@program
def _custom_operators():
    held = types.SimpleNamespace(k=2.0)

    @torch.library.custom_op("tests_of_state::scaled", mutates_args=())
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * held.k

    return scaled, [lambda: setattr(held, "k", 3.0)]


def results(make, compiled):
    fn, changes = make()
    called = torch.compile(fn) if compiled else fn
    x = torch.tensor([1.0, -2.0, 3.0])
    found = []
    for change in (None, None, *changes, None):
        if change is not None:
            change()
        found.append(called(x))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_call_sees_what_changed_before_it(name):
    for expected, got in zip(results(PROGRAMS[name], False), results(PROGRAMS[name], True)):
        assert type(got) is type(expected)
        torch.testing.assert_close(got, expected)


def test_a_function_that_turns_the_sign_of_zero_is_followed():
    held = [0.0]

    @torch.compile
    def turn(x):
        held[0] = -held[0]
        return x * sign_of(held[0])

    assert [turn(torch.ones(())).item() for _ in range(5)] == [-1.0, 1.0, -1.0, 1.0, -1.0]


@pytest.mark.parametrize("stacked", [False, True])
def test_scanned_layers_see_what_their_class_and_globals_hold(stacked):
    cls, several = layers(0.5)
    apply = torch.scan_layers(several, stacked=stacked)
    x = torch.tensor([1.0, -2.0, 3.0])
    changes = (
        lambda: setattr(cls, "shift", 5.0),
        lambda: FACTOR.__setitem__(0, 3.0),
        lambda: setattr(cls, "forward", lambda self, x: self.inner(x)),
        lambda: FACTOR.__setitem__(0, 1.0),
    )
    for change in (lambda: None, *changes):
        change()
        torch.testing.assert_close(apply(x), several[1](several[0](x)))


def test_hooks_of_all_optimizers_are_seen():
    """Those that are registered, changed or removed after a step was compiled."""
    found, factor = [], [3.0]
    for form in (lambda f: f, torch.compile):
        w = torch.nn.Parameter(torch.ones(3))
        optimizer = torch.optim.SGD([w], 0.1)

        @form
        def step(x):
            optimizer.zero_grad()  # noqa: B023 - called before the next round
            (w * x).sum().backward()  # noqa: B023
            optimizer.step()  # noqa: B023

        def scale(*_):
            w.grad.mul_(factor[0])  # noqa: B023

        factor[0] = 3.0
        for register in (None, torch.optim.optimizer.register_optimizer_step_pre_hook, None):
            handle = None if register is None else register(scale)
            for factor[0] in (3.0, 5.0):
                step(torch.tensor([1.0, -2.0, 3.0]))
                found.append(w.detach().clone())
            if handle is not None:
                handle.remove()
    torch.testing.assert_close(found[6:], found[:6])
