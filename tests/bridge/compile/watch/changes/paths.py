"""Steps that reach a value by other ways than lists, dicts and attributes."""

ROWS = r"""
a dict in a tuple
    stages = ({"gain": 2.0}, {"gain": 1.0})
    step: return x * stages[0]["gain"]
    then: stages[0]["gain"] = 7.0

a dict in a tuple in a tuple
    stages = (({"gain": 2.0},),)
    step: return x * stages[0][0]["gain"]
    then: stages[0][0]["gain"] = 7.0

a dict in a tuple in a dict
    held = {"stages": ({"gain": 2.0},)}
    step: return x * held["stages"][0]["gain"]
    then: held["stages"][0]["gain"] = 7.0

a dict in a tuple that a module has
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.stages = ({"gain": 2.0},)
        def forward(self, x):
            return x * self.stages[0]["gain"]
    inner = Inner()
    step: return inner(x)
    then: inner.stages[0]["gain"] = 7.0

a dict in a named tuple
    from collections import namedtuple
    Pair = namedtuple("Pair", "first second")
    held = Pair({"gain": 2.0}, 1)
    step: return x * held.first["gain"]
    then: held.first["gain"] = 7.0

a dict in a typed named tuple, unpacked
    from typing import NamedTuple
    class Pair(NamedTuple):
        first: dict
        second: int
    held = Pair({"gain": 2.0}, 1)
    step:
        first, second = held
        return x * first["gain"]
    then: held.first["gain"] = 7.0

a dict in a frozen dataclass
    from dataclasses import dataclass
    @dataclass(frozen=True)
    class Held:
        first: dict
    held = Held({"gain": 2.0})
    step: return x * held.first["gain"]
    then: held.first["gain"] = 7.0

a dict in a frozen dataclass with slots
    from dataclasses import dataclass
    @dataclass(frozen=True, slots=True)
    class Held:
        first: dict
    held = Held({"gain": 2.0})
    step: return x * held.first["gain"]
    then: held.first["gain"] = 7.0

a dict in a tuple of a frozen dataclass
    from dataclasses import dataclass
    @dataclass(frozen=True)
    class Held:
        stages: tuple
    held = Held(({"gain": 2.0},))
    step: return x * held.stages[0]["gain"]
    then: held.stages[0]["gain"] = 7.0

a dict in a tuple that a default argument holds
    stages = ({"gain": 2.0},)
    def inner_one(x, stages=stages):
        return x * stages[0]["gain"]
    step: return inner_one(x)
    then: stages[0]["gain"] = 7.0

a dict that a default argument holds
    held = {"gain": 2.0}
    def inner_one(x, held=held):
        return x * held["gain"]
    step: return inner_one(x)
    then: held["gain"] = 7.0

a dict that a keyword default holds
    held = {"gain": 2.0}
    def inner_one(x, *, held=held):
        return x * held["gain"]
    step: return inner_one(x)
    then: held["gain"] = 7.0

a dict in a tuple of a closure
    def make(stages):
        def inner(x):
            return x * stages[0]["gain"]
        return inner
    stages = ({"gain": 2.0},)
    inner = make(stages)
    step: return inner(x)
    then: stages[0]["gain"] = 7.0

a dict of a closure
    def make(held):
        def inner(x):
            return x * held["gain"]
        return inner
    held = {"gain": 2.0}
    inner = make(held)
    step: return inner(x)
    then: held["gain"] = 7.0

a dict of a closure, of a sort key
    def make(held):
        def key(name):
            return held[name]
        return key
    held = {"a": 2.0, "b": 3.0}
    key = make(held)
    step: return x * len(max(["aa", "b"], key=lambda name: key(name[0])))
    then: held["a"] = 7.0

a dict of a closure, of a method of C
    def make(held):
        return lambda name: held[name]
    held = {"a": 2.0, "b": 3.0}
    key = make(held)
    step: return x * len(sorted(["aa", "b"], key=lambda name: key(name[0]))[0])
    then: held["a"] = 7.0

a dict of the enclosing function, in a tuple
    enclosed: stages = ({"gain": 2.0},)
    step: return x * stages[0]["gain"]
    then: stages[0]["gain"] = 7.0

a dict in arguments that are gathered
    stages = ({"gain": 2.0}, {"gain": 1.0})
    def inner_one(x, *stages):
        return x * stages[0]["gain"]
    step: return inner_one(x, *stages)
    then: stages[0]["gain"] = 7.0

a dict in named arguments that are gathered
    stages = ({"gain": 2.0},)
    def inner_one(x, **named):
        return x * named["held"]["gain"]
    step: return inner_one(x, held=stages[0])
    then: stages[0]["gain"] = 7.0

a dict in a tuple, by a match
    stages = ({"gain": 2.0}, {"gain": 1.0})
    step:
        match stages:
            case ({"gain": gain}, _):
                return x * gain
        return x
    then: stages[0]["gain"] = 7.0

a dict in a tuple, by a match with a star
    stages = ({"gain": 2.0}, {"gain": 1.0})
    step:
        match stages:
            case [first, *rest]:
                return x * first["gain"]
        return x
    then: stages[0]["gain"] = 7.0

a dict in a named tuple, by a match on its class
    from collections import namedtuple
    Pair = namedtuple("Pair", "first second")
    held = Pair({"gain": 2.0}, 1)
    step:
        match held:
            case Pair(first={"gain": gain}):
                return x * gain
        return x
    then: held.first["gain"] = 7.0

a tuple of dicts, unpacked
    stages = ({"gain": 2.0}, {"gain": 1.0})
    step:
        first, second = stages
        return x * first["gain"]
    then: stages[0]["gain"] = 7.0

a tuple of dicts, unpacked with a star
    stages = ({"gain": 2.0}, {"gain": 1.0})
    step:
        *_, last = stages
        return x * last["gain"]
    then: stages[1]["gain"] = 7.0

a tuple of dicts, in a loop
    stages = ({"gain": 2.0}, {"gain": 1.0})
    step:
        for stage in stages:
            x = x * stage["gain"]
        return x
    then: stages[1]["gain"] = 7.0

a tuple of dicts, in a comprehension
    stages = ({"gain": 2.0}, {"gain": 1.0})
    step: return x * sum([stage["gain"] for stage in stages])
    then: stages[1]["gain"] = 7.0

a tuple of dicts, in a generator
    stages = ({"gain": 2.0}, {"gain": 1.0})
    step: return x * sum(stage["gain"] for stage in stages)
    then: stages[1]["gain"] = 7.0

tuples of dicts, zipped
    stages = ({"gain": 2.0}, {"gain": 1.0})
    step:
        for stage, power in zip(stages, (1, 2)):
            x = x * stage["gain"] ** power
        return x
    then: stages[0]["gain"] = 7.0

a tuple of dicts, enumerated
    stages = ({"gain": 2.0}, {"gain": 1.0})
    step:
        for i, stage in enumerate(stages):
            x = x * stage["gain"] + i
        return x
    then: stages[0]["gain"] = 7.0

a tuple of dicts, reversed
    stages = ({"gain": 2.0}, {"gain": 1.0})
    step: return x * next(reversed(stages))["gain"]
    then: stages[1]["gain"] = 7.0

a tuple of dicts, mapped
    stages = ({"gain": 2.0}, {"gain": 1.0})
    def gain(stage):
        return stage["gain"]
    step: return x * sum(map(gain, stages))
    then: stages[0]["gain"] = 7.0

a tuple of dicts, mapped by an itemgetter
    from operator import itemgetter
    stages = ({"gain": 2.0}, {"gain": 1.0})
    step: return x * sum(map(itemgetter("gain"), stages))
    then: stages[0]["gain"] = 7.0

a tuple of dicts, filtered
    stages = ({"gain": 2.0}, {"gain": 1.0})
    step: return x * len(list(filter(lambda stage: stage["gain"] > 1.5, stages)))
    then: stages[1]["gain"] = 7.0

a tuple of dicts, the largest by a key
    stages = ({"gain": 2.0}, {"gain": 1.0})
    step: return x * stages.index(max(stages, key=lambda stage: stage["gain"]))
    then: stages[1]["gain"] = 7.0

a tuple of dicts, sorted by a key
    stages = ({"gain": 2.0, "power": 5.0}, {"gain": 3.0, "power": 1.0})
    step: return x * sorted(stages, key=lambda stage: stage["gain"])[0]["power"]
    then: stages[1]["gain"] = 1.0

tuples of dicts, chained
    import itertools
    stages = ({"gain": 2.0}, {"gain": 1.0})
    step: return x * sum(stage["gain"] for stage in itertools.chain(stages, stages))
    then: stages[0]["gain"] = 7.0

tuples of dicts, chained from one
    import itertools
    stages = (({"gain": 2.0},), ({"gain": 1.0},))
    step: return x * sum(stage["gain"] for stage in itertools.chain.from_iterable(stages))
    then: stages[0][0]["gain"] = 7.0

a tuple of dicts, reduced
    import functools
    stages = ({"gain": 2.0}, {"gain": 1.0})
    step: return functools.reduce(lambda x, stage: x * stage["gain"], stages, x)
    then: stages[0]["gain"] = 7.0

a tuple of dicts, sliced
    stages = ({"gain": 2.0}, {"gain": 1.0})
    step: return x * stages[1:][0]["gain"]
    then: stages[1]["gain"] = 7.0

a tuple of dicts, added to another
    stages = ({"gain": 2.0}, {"gain": 1.0})
    step: return x * (stages + stages)[0]["gain"]
    then: stages[0]["gain"] = 7.0

a tuple of dicts, made into a list
    stages = ({"gain": 2.0}, {"gain": 1.0})
    step: return x * list(stages)[0]["gain"]
    then: stages[0]["gain"] = 7.0

a tuple of dicts, compared
    stages, other = ({"gain": 2.0},), ({"gain": 7.0},)
    step: return x * (2.0 if stages == other else 3.0)
    then: stages[0]["gain"] = 7.0

a tuple of dicts, as text
    stages = ({"gain": 2.0},)
    step: return x * len(str(stages))
    then: stages[0]["gain"] = 7.25

a bytearray in a tuple
    held = (bytearray(b"ab"),)
    step: return x * held[0][0]
    then: held[0][0] = 7

a NumPy array in a tuple
    import numpy as np
    held = (np.ones(2), 3)
    step: return x * float(held[0][0])
    then: held[0][0] = 7.0

a NumPy array in a named tuple
    import numpy as np
    from collections import namedtuple
    held = namedtuple("Held", "first")(np.ones(2))
    step: return x * float(held.first.sum())
    then: held.first[0] = 7.0

an array.array in a tuple
    import array
    held = (array.array("d", [2.0]),)
    step: return x * held[0][0]
    then: held[0][0] = 7.0

a dict in an object array
    import numpy as np
    held = np.array([{"gain": 2.0}, {"gain": 1.0}], dtype=object)
    step: return x * held[0]["gain"]
    then: held[0]["gain"] = 7.0

a dict in an object array, in a loop
    import numpy as np
    held = np.array([{"gain": 2.0}, {"gain": 1.0}], dtype=object)
    step:
        for stage in held:
            x = x * stage["gain"]
        return x
    then: held[0]["gain"] = 7.0

a dict in an object array of no dimensions
    import numpy as np
    held = np.array({"gain": 2.0}, dtype=object)
    step: return x * held.item()["gain"]
    then: held.item()["gain"] = 7.0

an array in an object array
    import numpy as np
    held = np.array([None, None], dtype=object)
    held[0] = np.ones(2)
    step: return x * float(held[0][0])
    then: held[0][0] = 7.0

a dict in a tuple's subclass
    class Stages(tuple):
        pass
    held = Stages([{"gain": 2.0}])
    step: return x * held[0]["gain"]
    then: held[0]["gain"] = 7.0

a dict in a list's subclass
    class Stages(list):
        pass
    held = Stages([{"gain": 2.0}])
    step: return x * held[0]["gain"]
    then: held[0]["gain"] = 7.0

a dict in a tuple in a frozenset
    held = frozenset([("a", range(3))])
    key = {"a": {"gain": 2.0}}
    step: return x * sum(key[name]["gain"] for name, _ in held)
    then: key["a"]["gain"] = 7.0

a dict in a deque
    from collections import deque
    held = deque([({"gain": 2.0},)])
    step: return x * held[0][0]["gain"]
    then: held[0][0]["gain"] = 7.0

a dict in a tuple in a list
    held = [({"gain": 2.0},)]
    step: return x * held[0][0]["gain"]
    then: held[0][0]["gain"] = 7.0

a dict in a tuple that is a class's
    class Config:
        stages = ({"gain": 2.0},)
    step: return x * Config.stages[0]["gain"]
    then: Config.stages[0]["gain"] = 7.0

a dict in a tuple that a slot holds
    class Config:
        __slots__ = ("stages",)
    config = Config()
    config.stages = ({"gain": 2.0},)
    step: return x * config.stages[0]["gain"]
    then: config.stages[0]["gain"] = 7.0

a dict in a tuple that a property gives
    class Config:
        def __init__(self):
            self._stages = ({"gain": 2.0},)
        @property
        def first(self):
            return self._stages[0]
    config = Config()
    step: return x * config.first["gain"]
    then: config._stages[0]["gain"] = 7.0

a dict in a tuple that a method gives
    class Config:
        def __init__(self):
            self._stages = ({"gain": 2.0},)
        def first(self):
            return self._stages[0]
    config = Config()
    step: return x * config.first()["gain"]
    then: config._stages[0]["gain"] = 7.0

a dict in a tuple that a cached property gave
    import functools
    class Config:
        @functools.cached_property
        def stages(self):
            return ({"gain": 2.0},)
    config = Config()
    config.stages
    step: return x * config.stages[0]["gain"]
    then: config.stages[0]["gain"] = 7.0

a dict that a cached function gives
    import functools
    @functools.lru_cache
    def settings(name):
        return {"gain": 2.0}
    settings("a")
    step: return x * settings("a")["gain"]
    then: settings("a")["gain"] = 7.0

a dict in a tuple that a cached function gives
    import functools
    @functools.lru_cache
    def settings(name):
        return ({"gain": 2.0}, name)
    settings("a")
    step: return x * settings("a")[0]["gain"]
    then: settings("a")[0]["gain"] = 7.0

a dict that a weak reference's object holds
    import weakref
    class Config:
        pass
    config = Config()
    config.stages = ({"gain": 2.0},)
    held = weakref.ref(config)
    step: return x * held().stages[0]["gain"]
    then: config.stages[0]["gain"] = 7.0

a dict of an enum's member
    import enum
    class Mode(enum.Enum):
        FAST = ({"gain": 2.0},)
    step: return x * Mode.FAST.value[0]["gain"]
    then: Mode.FAST.value[0]["gain"] = 7.0
"""
