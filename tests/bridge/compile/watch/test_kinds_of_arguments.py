"""An argument that differs in what its class or its attributes say is another argument, though it is equal.

A row makes two arguments of one expression, with 2.0 and with 7.0, and a step of `x` and `given`; the second call must
give what the step gives eagerly, and so must a third one after the first argument itself has changed.
"""

import collections
import dataclasses
import enum
import types
from typing import Any, NamedTuple

import numpy as np
import pytest

import torchgrad_jax as torch


class Text(str):
    gain: Any


class Whole(int):
    gain: Any


class Real(float):
    gain: Any


class Bytes(bytes):
    gain: Any


class Several(tuple):
    gain: Any


class Many(list):
    gain: Any


class Named(dict):
    gain: Any


class Ordered(collections.OrderedDict):
    gain: Any


class Unique(frozenset):
    gain: Any


class Array(np.ndarray):
    gain: Any


class Doubled(np.ndarray):
    def __mul__(self, other):
        return 2 * np.multiply(self, other)


class Pair(NamedTuple):
    first: Any
    second: Any


class LongPair(Pair):
    gain: Any


class Slots(str):
    __slots__ = ("gain",)
    gain: Any


class Shade(enum.IntEnum):
    LIGHT = 1
    DARK = 2


@dataclasses.dataclass(frozen=True)
class Frozen:
    gain: Any


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenSlots:
    gain: Any


def with_gain(x: Any, gain: Any) -> Any:
    x.gain = gain
    return x


def attribute(x, given):
    return x * given.gain


ROWS = {
    "an attribute of a text": (lambda gain: with_gain(Text("a"), gain), attribute),
    "an attribute of an integer": (lambda gain: with_gain(Whole(1), gain), attribute),
    "an attribute of a float": (lambda gain: with_gain(Real(1.5), gain), attribute),
    "an attribute of bytes": (lambda gain: with_gain(Bytes(b"a"), gain), attribute),
    "an attribute of a tuple": (lambda gain: with_gain(Several([1.0]), gain), attribute),
    "an attribute of a list": (lambda gain: with_gain(Many([1.0]), gain), attribute),
    "an attribute of a dict": (lambda gain: with_gain(Named(a=1.0), gain), attribute),
    "an attribute of an OrderedDict": (lambda gain: with_gain(Ordered(a=1.0), gain), attribute),
    "an attribute of a frozenset": (lambda gain: with_gain(Unique("a"), gain), attribute),
    "an attribute of an array": (lambda gain: with_gain(np.ones(2).view(Array), gain), attribute),
    "an attribute of a named tuple": (lambda gain: with_gain(LongPair(1.0, 2.0), gain), attribute),
    "a slot of a text": (lambda gain: with_gain(Slots("a"), gain), attribute),
    "an attribute of a namespace": (lambda gain: types.SimpleNamespace(gain=gain), attribute),
    "a field of a frozen dataclass": (Frozen, attribute),
    "a slot of a frozen dataclass": (FrozenSlots, attribute),
    "an attribute of a text in a list": (lambda gain: [with_gain(Text("a"), gain)], lambda x, g: x * g[0].gain),
    "an attribute of a text in a dict": (lambda gain: {"a": with_gain(Text("a"), gain)}, lambda x, g: x * g["a"].gain),
    "an attribute of a key": (lambda gain: {with_gain(Text("a"), gain): 1.0}, lambda x, g: x * next(iter(g)).gain),
    "a dict in a named tuple": (lambda gain: Pair({"gain": gain}, 1.0), lambda x, g: x * g.first["gain"]),
    "a dict in a tuple": (lambda gain: ({"gain": gain}, 1.0), lambda x, g: x * g[0]["gain"]),
    "a bytearray": (lambda gain: bytearray([int(gain)]), lambda x, g: x * g[0]),
    "a set": (lambda gain: {gain}, lambda x, g: x * sum(g)),
    "a slice": (lambda gain: slice({"gain": gain}, None), lambda x, g: x * g.start["gain"]),
    "a range": (lambda gain: range(int(gain)), lambda x, g: x * len(g)),
    "a member of an enum": (lambda gain: Shade(1 + (gain > 2)), lambda x, g: x * g.value),
    "whether it is a member of an enum": (
        lambda gain: 1 if gain > 2 else Shade(1),
        lambda x, g: x * (2.0 if isinstance(g, Shade) else 3.0),
    ),
    "whether it is an array of a class": (
        lambda gain: np.ones((2, 2)).view(Doubled if gain > 2 else np.ndarray),
        lambda x, g: x * float((g * g).sum()),
    ),
    "whether it is a text of a class": (
        lambda gain: (Text if gain > 2 else str)("a"),
        lambda x, g: x * (2.0 if isinstance(g, Text) else 3.0),
    ),
    "whether it is a float of NumPy": (
        lambda gain: (np.float64 if gain > 2 else float)(1.5),
        lambda x, g: x * (2.0 if isinstance(g, np.float64) else 3.0),
    ),
    "whether it is a text of NumPy": (
        lambda gain: (np.str_ if gain > 2 else str)("a"),
        lambda x, g: x * (2.0 if isinstance(g, np.str_) else 3.0),
    ),
    "a dict whose keys are tensors": (lambda gain: {torch.full((2,), gain): 1.0}, lambda x, g: x * next(iter(g))),
    "a number under a tensor": (lambda gain: {KEY: gain}, lambda x, g: x * g[KEY]),
    "an array of objects": (lambda gain: np.array([{"gain": gain}, None], dtype=object), lambda x, g: x * g[0]["gain"]),
    "a dict's get": (lambda gain: {"gain": gain}.get, lambda x, g: x * g("gain")),
    "an array's item": (lambda gain: np.full(2, gain).item, lambda x, g: x * g(0)),
    "a proxy of a dict": (lambda gain: types.MappingProxyType({"gain": gain}), lambda x, g: x * g["gain"]),
    "a deque": (lambda gain: collections.deque([gain]), lambda x, g: x * g[0]),
    "a counter": (lambda gain: collections.Counter(a=int(gain)), lambda x, g: x * g["a"]),
    "a chain of dicts": (lambda gain: collections.ChainMap({}, {"a": gain}), lambda x, g: x * g["a"]),
    "a defaultdict's factory": (
        lambda gain: collections.defaultdict(lambda: gain),
        lambda x, g: x * g.default_factory(),
    ),
}
KEY = torch.ones(2)


@pytest.mark.parametrize("label", ROWS)
def test_another_argument_is_noticed(label):
    make, step = ROWS[label]
    compiled = torch.compile(step)
    for gain in (2.0, 7.0, 2.0, 7.0):
        given, x = make(gain), torch.ones(2)
        assert compiled(x, given).tolist() == step(x, given).tolist()


ATTRIBUTES = [
    label for label in ROWS if label.startswith("an attribute") and " in " not in label and "key" not in label
]


@pytest.mark.parametrize("label", ATTRIBUTES)
def test_an_argument_that_changes_is_noticed(label):
    make, step = ROWS[label]
    compiled, given, x = torch.compile(step), make(2.0), torch.ones(2)
    for gain in (2.0, 7.0, 3.0):
        given.gain = gain
        assert compiled(x, given).tolist() == step(x, given).tolist()


def _sets(given, key, value):
    given[key] = value


PUT_THERE = {
    "a flag": (lambda: {"done": False}, lambda g: _sets(g, "done", True)),
    "a text": (lambda: {"name": "before"}, lambda g: _sets(g, "name", "after")),
    "nothing": (lambda: {"name": "before"}, lambda g: _sets(g, "name", None)),
    "a number": (lambda: {"n": 1}, lambda g: _sets(g, "n", g["n"] + 1)),
    "a flag in an inner dict": (lambda: [{"done": False}], lambda g: _sets(g[0], "done", True)),
    "a flag in a list": (lambda: [False], lambda g: _sets(g, 0, True)),
    "a new entry": (dict, lambda g: _sets(g, "done", True)),
}


@pytest.mark.filterwarnings("ignore:torch.compile")
@pytest.mark.parametrize("label", PUT_THERE)
def test_what_a_step_puts_into_an_argument_is_in_that_argument(label):
    make, put = PUT_THERE[label]

    @torch.compile
    def step(x, given):
        put(given)
        return x * 2

    for _ in range(3):
        given, as_written = make(), make()
        put(as_written)
        assert step(torch.ones(1), given).item() == 2
        assert given == as_written
