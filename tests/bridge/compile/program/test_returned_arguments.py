"""Objects that are new in each call, such as a cache of keys: a compiled function that returns one returns that one."""

import dataclasses

import pytest

import torchgrad_jax as torch


class Cache:
    """What a model is given and gives back, with tensors that it writes to."""

    def __init__(self, value):
        self.keys, self.length = torch.full((2,), float(value)), torch.zeros(())


@dataclasses.dataclass
class Batch:
    keys: torch.Tensor
    length: torch.Tensor


class Layers:
    def __init__(self, value):
        self.layers = [Cache(value), Cache(value + 1)]
        self.keys, self.length = self.layers[0].keys, self.layers[0].length


@dataclasses.dataclass
class Out:
    y: torch.Tensor
    cache: object


def _written(x, cache):
    cache.length.add_(1)
    cache.keys.mul_(2)
    return x * cache.keys


ARGUMENTS = {
    "object": Cache,
    "dataclass": lambda value: Batch(torch.full((2,), float(value)), torch.zeros(())),
    "object of objects": Layers,
}
RESULTS = {
    "alone": lambda x, cache: cache,
    "tuple": lambda x, cache: (x * cache.keys, cache),
    "list": lambda x, cache: [cache, x * cache.keys],
    "dict": lambda x, cache: {"y": x * cache.keys, "cache": cache},
    "dataclass": lambda x, cache: Out(x * cache.keys, cache),
    "twice": lambda x, cache: (cache, cache),
    "written to": lambda x, cache: Out(_written(x, cache), cache),
    "deep": lambda x, cache: [{"deep": (cache,)}, x + 1],
}


def objects_in(x):
    """All caches that a result leads to, in order."""
    if isinstance(x, Cache | Batch | Layers):
        return [x]
    parts = x.values() if isinstance(x, dict) else vars(x).values() if isinstance(x, Out) else x
    return [found for part in parts if not isinstance(part, torch.Tensor) for found in objects_in(part)]


@pytest.mark.parametrize("named", [False, True], ids=["by position", "by name"])
@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("argument", ARGUMENTS)
def test_the_argument_of_this_very_call(argument, result, named):
    function, x = RESULTS[result], torch.ones(2)
    compiled = torch.compile(function)
    for value in range(5):
        cache, other = ARGUMENTS[argument](value), ARGUMENTS[argument](value)
        found = compiled(x, cache=cache) if named else compiled(x, cache)
        expected = function(x, other)
        assert [each is cache for each in objects_in(found)] == [each is other for each in objects_in(expected)]
        assert (cache.keys.tolist(), cache.length.item()) == (other.keys.tolist(), other.length.item())
    assert compiled.counts["run"] >= 3, compiled.reasons


def test_of_two_objects_the_one_that_was_returned():
    compiled = torch.compile(lambda x, a, b: (b, x * a.keys, a))
    for value in range(4):
        a, b = Cache(value), Cache(value)
        found = compiled(torch.ones(2), a, b)
        assert found[0] is b
        assert found[2] is a


def test_one_that_is_kept_outside_is_returned_as_it_is():
    kept, x = Cache(3), torch.ones(2)
    compiled = torch.compile(lambda x, cache: (kept, x * cache.keys * kept.keys))
    for value in range(4):
        found = compiled(x, Cache(value))
        assert found[0] is kept
        assert found[1].tolist() == [3.0 * value] * 2
    assert compiled.counts == {"traced": 2, "run": 4, "eager": 0}, compiled.reasons
