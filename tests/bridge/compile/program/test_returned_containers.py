"""Lists, dicts and objects that a compiled function returns: from outside these very objects, others are new ones."""

import collections
import dataclasses
import enum
import functools
import types
import warnings

import numpy as np
import pytest

import torchgrad_jax as torch


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    parts: list


def _with_entry(container, x):
    container["h"] = x * 2
    return container


def _longer(container, x):
    container.append(x * 2)
    return container


def _counted(container, x):
    container["n"] += 1
    return container, x * container["n"]


def _doubled(container, x):
    for part in container:
        part.mul_(2)
    return container, x


FUNCTIONS = {
    "a list": (lambda c, x: c, lambda: [torch.ones(1), 3, {"a": torch.ones(1)}]),
    "a list beside a tensor": (lambda c, x: (x * c[0], c), lambda: [torch.ones(1)]),
    "a list with a number": (lambda c, x: (c, x * c[0]), lambda: [2.5, torch.ones(1)]),
    "a dict": (lambda c, x: c, lambda: {"a": torch.ones(1)}),
    "an OrderedDict": (lambda c, x: (c, x), lambda: collections.OrderedDict(a=torch.ones(1))),
    "a defaultdict": (lambda c, x: (c, x), lambda: collections.defaultdict(list, a=torch.ones(1))),
    "an inner list": (lambda c, x: (c["a"][1], x), lambda: {"a": (torch.ones(1), [torch.ones(1)])}),
    "one in a new list": (lambda c, x: [c, [*c], x], lambda: [torch.ones(1)]),
    "one that gets an entry": (_with_entry, lambda: {"a": torch.ones(1)}),
    "one that gets longer": (_longer, lambda: [torch.ones(1)]),
    "one that counts": (_counted, lambda: {"n": 1}),
    "one whose tensors are written to": (_doubled, lambda: [torch.ones(1), torch.ones(2)]),
    "a list of a dataclass": (lambda c, x: (c.parts, x), lambda: Batch(torch.ones(1), [torch.ones(1)])),
}


def _parts(x):
    """All lists, dicts and tensors in something, the outer ones first."""
    if isinstance(x, torch.Tensor):
        return [x]
    if isinstance(x, Batch):
        return _parts([x.x, x.parts])[1:]
    if isinstance(x, list | tuple | dict):
        values = x.values() if isinstance(x, dict) else x
        return ([] if isinstance(x, tuple) else [x]) + [p for v in values for p in _parts(v)]
    return []


def _plain(x):
    if isinstance(x, list | tuple):
        return [_plain(v) for v in x]
    if isinstance(x, dict):
        return {k: _plain(v) for k, v in x.items()}
    return x.tolist() if isinstance(x, torch.Tensor) else x


def _results(form, name, from_outside):
    """For each of six calls what comes back, and which parts of it are parts of what was there before."""
    function, make = FUNCTIONS[name]
    container = make()
    step = form((lambda x: function(container, x)) if from_outside else function)
    found = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.compile: .* is not compiled from now on")
        warnings.filterwarnings("ignore", "torch.compile: .* runs eagerly")
        for k in range(6):
            if not from_outside and k != 3:
                container = make()
            before = {id(part): i for i, part in enumerate(_parts(container))}
            x = torch.tensor([float(k)])
            out = step(x) if from_outside else step(container, x)
            found.append((_plain(out), [before.get(id(part)) for part in _parts(out)]))
    return found


@pytest.mark.parametrize("from_outside", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_returned_is_what_was_there(name, from_outside):
    eager = _results(lambda f: f, name, from_outside)
    assert any(position is not None for _, positions in eager for position in positions)
    assert _results(torch.compile, name, from_outside) == eager


def test_one_program_serves_all_lists():
    step = torch.compile(lambda parts, x: (parts, x * parts[0]))
    for k in range(4):
        parts = [torch.tensor([float(k)])]
        out, y = step(parts, torch.ones(1))
        assert out is parts
        assert y.item() == k
    assert step.counts == {"traced": 1, "run": 4, "eager": 0}


def test_an_argument_that_is_reached_in_another_way_too():
    held = [torch.ones(1)]
    step = torch.compile(lambda parts, x: (held, parts, x))
    for parts in (held, [torch.ones(1)], held, [torch.ones(1)]):
        first, second, _ = step(parts, torch.ones(1))
        assert first is held
        assert second is parts


def test_many_steps_that_return_an_argument():
    step = torch.compile(lambda parts, x: (parts, x * 2))
    parts = [torch.arange(3.0)]
    rows, doubled = step.many(parts, torch.arange(3.0))
    assert rows[0].tolist() == [0, 1, 2]
    assert doubled.tolist() == [0, 2, 4]


class Held:
    """An object of the user's."""

    def __init__(self, value):
        self.value = value


NEW_OBJECTS = {
    "an object": (Held, lambda r: r.value),
    "an object in a list": (lambda x: [Held({"x": x})], lambda r: r[0].value["x"]),
    "a view in an object": (lambda x: Held(x[:1]), lambda r: r.value),
    "a namespace": (lambda x: types.SimpleNamespace(x=x), lambda r: r.x),
    "a closure": (lambda x: lambda: x, lambda r: r()),
    "a partial function": (lambda x: functools.partial(torch.add, x), lambda r: r(0)),
    "a method": (lambda x: x.add, lambda r: r(0)),
    "an iterator": (lambda x: iter([x]), next),
    "a generator": (lambda x: (y for y in [x]), next),
    "a set": (lambda x: {x}, lambda r: next(iter(r))),
}


@pytest.mark.parametrize("name", NEW_OBJECTS)
def test_an_object_that_is_made_holds_the_argument_of_its_call(name):
    make, value_of = NEW_OBJECTS[name]
    step = torch.compile(lambda x: make(x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = [step(torch.full((2,), float(k))) for k in range(3)]
    assert [value_of(r)[0].item() for r in results] == [0, 1, 2]


NEW_CONTAINERS = {
    "an object": lambda: Held([]),
    "a namespace": lambda: types.SimpleNamespace(value=[]),
    "a set": lambda: {1},
    "counts": lambda: collections.Counter(a=1),
    "bytes": lambda: bytearray(b"a"),
    "an array": lambda: np.zeros(2),
    "an array in a list": lambda: [np.zeros(2)[:1]][0],
}


@pytest.mark.parametrize("name", NEW_CONTAINERS)
def test_an_object_that_is_made_is_another_one_in_each_call(name):
    step = torch.compile(lambda x: (NEW_CONTAINERS[name](), x * 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = [step(torch.ones(1))[0] for _ in range(3)]
    assert len(set(map(id, results))) == 3


@pytest.mark.parametrize("part", [lambda a: a, lambda a: a[:1]])
def test_an_array_of_numpy_that_is_given_is_the_one_of_its_call(part):
    """Arrays with equal values are one kind of argument."""
    step = torch.compile(lambda x, a: (part(a), x * 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            a = np.ones(2)
            result, _ = step(torch.ones(1), a)
            assert np.shares_memory(result, a)


class Kind(enum.Enum):
    FIRST = 1


HELD = Held(1)


@pytest.mark.parametrize("get", [lambda: Kind.FIRST, lambda: HELD, lambda: torch.relu, lambda: Held, lambda: types])
def test_an_object_that_was_there_is_part_of_a_program(get):
    step = torch.compile(lambda x: (get(), x * 2))
    assert all(step(torch.ones(1))[0] is get() for _ in range(3))
    assert step.counts == {"traced": 1, "run": 3, "eager": 0}
