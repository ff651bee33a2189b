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

a dict's get, taken outside
    held = {"gain": 2.0}
    get = held.get
    step: return x * get("gain")
    then: held["gain"] = 7.0

a dict's __getitem__, taken outside
    held = {"gain": 2.0}
    get = held.__getitem__
    step: return x * get("gain")
    then: held["gain"] = 7.0

a dict's __contains__, taken outside
    held = {"gain": 2.0}
    has = held.__contains__
    step: return x * (2.0 if has("shift") else 3.0)
    then: held["shift"] = 7.0

a dict's items, as a method taken outside
    held = {"gain": 2.0}
    items = held.items
    step:
        for name, gain in items():
            x = x * gain
        return x
    then: held["gain"] = 7.0

a dict's get in a dict of functions
    held = {"gain": 2.0}
    functions = {"get": held.get}
    step: return x * functions["get"]("gain")
    then: held["gain"] = 7.0

a dict's get that an object keeps
    class Config:
        pass
    held, config = {"gain": 2.0}, Config()
    config.get = held.get
    step: return x * config.get("gain")
    then: held["gain"] = 7.0

a dict's get, of a default argument
    held = {"gain": 2.0}
    def inner_one(x, get=held.get):
        return x * get("gain")
    step: return inner_one(x)
    then: held["gain"] = 7.0

a dict's get, of a closure
    held = {"gain": 2.0}
    def make(get):
        return lambda x: x * get("gain")
    inner = make(held.get)
    step: return inner(x)
    then: held["gain"] = 7.0

a dict's get, mapped
    held = {"a": 2.0, "b": 1.0}
    get = held.get
    step: return x * sum(map(get, ["a", "b"]))
    then: held["a"] = 7.0

a dict's get, the largest by it
    held = {"a": 2.0, "b": 1.0}
    step: return x * ord(max(held, key=held.get))
    then: held["b"] = 7.0

a list's index, taken outside
    held = [2.0, 3.0]
    index = held.index
    step: return x * index(3.0)
    then: held.insert(0, 7.0)

a set's __contains__, taken outside
    held = {"a"}
    has = held.__contains__
    step: return x * (2.0 if has("b") else 3.0)
    then: held.add("b")

an array's item, taken outside
    import numpy as np
    held = np.ones(2)
    item = held.item
    step: return x * item(0)
    then: held[0] = 7.0

an array's sum, taken outside
    import numpy as np
    held = np.ones(2)
    total = held.sum
    step: return x * float(total())
    then: held[0] = 7.0

a bytearray's find, taken outside
    held = bytearray(b"ab")
    find = held.find
    step: return x * find(b"b")
    then: held[0] = ord("b")

a partial of a dict's get
    from functools import partial
    held = {"gain": 2.0}
    get = partial(held.get, "gain")
    step: return x * get()
    then: held["gain"] = 7.0

a partial with a dict in a tuple
    from functools import partial
    def inner_one(stages, x):
        return x * stages[0]["gain"]
    stages = ({"gain": 2.0},)
    inner = partial(inner_one, stages)
    step: return inner(x)
    then: stages[0]["gain"] = 7.0

a partial with a dict
    from functools import partial
    def inner_one(held, x):
        return x * held["gain"]
    held = {"gain": 2.0}
    inner = partial(inner_one, held)
    step: return inner(x)
    then: held["gain"] = 7.0

a partial with a named dict
    from functools import partial
    def inner_one(x, held):
        return x * held["gain"]
    held = {"gain": 2.0}
    inner = partial(inner_one, held=held)
    step: return inner(x)
    then: held["gain"] = 7.0

a partialmethod with a dict
    from functools import partialmethod
    held = {"gain": 2.0}
    class Scaler:
        def scaled(self, held, x):
            return x * held["gain"]
        inner = partialmethod(scaled, held)
    scaler = Scaler()
    step: return scaler.inner(x)
    then: held["gain"] = 7.0

a method's __self__ in a tuple
    class Scaler:
        def __init__(self):
            self.gains = {"gain": 2.0}
        def scaled(self, x):
            return x * self.gains["gain"]
    scaler = Scaler()
    methods = (scaler.scaled,)
    step: return methods[0](x)
    then: scaler.gains["gain"] = 7.0

a function in a tuple, with a dict in its closure
    def make(held):
        return lambda x: x * held["gain"]
    held = {"gain": 2.0}
    functions = (make(held),)
    step: return functions[0](x)
    then: held["gain"] = 7.0

a dict behind a proxy in a tuple
    import types
    held = {"gain": 2.0}
    proxies = (types.MappingProxyType(held),)
    step: return x * proxies[0]["gain"]
    then: held["gain"] = 7.0

a memoryview of a bytearray in a tuple
    held = bytearray(b"ab")
    views = (memoryview(held),)
    step: return x * views[0][0]
    then: held[0] = 7

a view of a dict in a tuple
    held = {"gain": 2.0}
    views = (held.values(),)
    step: return x * sum(views[0])
    then: held["gain"] = 7.0

a dict in a UserDict
    from collections import UserDict
    held = UserDict(first=({"gain": 2.0},))
    step: return x * held["first"][0]["gain"]
    then: held["first"][0]["gain"] = 7.0

a dict in a ChainMap's tuple
    from collections import ChainMap
    held = ChainMap({}, {"first": ({"gain": 2.0},)})
    step: return x * held["first"][0]["gain"]
    then: held["first"][0]["gain"] = 7.0

a dict that a factory of a defaultdict gives
    from collections import defaultdict
    shared = {"gain": 2.0}
    held = defaultdict(lambda: shared, a=shared)
    step: return x * held["a"]["gain"]
    then: shared["gain"] = 7.0

a dict in a tuple of a context variable
    from contextvars import ContextVar
    variable = ContextVar("variable", default=({"gain": 2.0},))
    step: return x * variable.get()[0]["gain"]
    then: variable.get()[0]["gain"] = 7.0

a dict in a tuple of a module
    import sys
    import types
    module = types.ModuleType("a_settings_file")
    module.stages = ({"gain": 2.0},)
    step: return x * module.stages[0]["gain"]
    then: module.stages[0]["gain"] = 7.0

a dict in a tuple of a function's attribute
    def inner_one(x):
        return x * inner_one.stages[0]["gain"]
    inner_one.stages = ({"gain": 2.0},)
    step: return inner_one(x)
    then: inner_one.stages[0]["gain"] = 7.0

a dict in a tuple of an exception's arguments
    error = ValueError({"gain": 2.0})
    step:
        try:
            raise error
        except ValueError as caught:
            return x * caught.args[0]["gain"]
    then: error.args[0]["gain"] = 7.0

a dict in the attributes of an exception
    class Found(Exception):
        def __init__(self, held):
            self.held = held
    held = {"gain": 2.0}
    def search():
        raise Found(held)
    step:
        try:
            search()
        except Found as found:
            return x * found.held["gain"]
    then: held["gain"] = 7.0

a dict that a generator yields
    stages = ({"gain": 2.0}, {"gain": 1.0})
    def each():
        for stage in stages:
            yield stage
    step:
        for stage in each():
            x = x * stage["gain"]
        return x
    then: stages[0]["gain"] = 7.0

a dict that a context manager gives
    import contextlib
    stages = ({"gain": 2.0},)
    @contextlib.contextmanager
    def entered():
        yield stages[0]
    step:
        with entered() as held:
            return x * held["gain"]
    then: stages[0]["gain"] = 7.0

a dict in a new tuple
    held = {"gain": 2.0}
    step:
        stages = (held,)
        return x * stages[0]["gain"]
    then: held["gain"] = 7.0

a dict in a new object
    held = {"gain": 2.0}
    class Holder:
        def __init__(self, held):
            self.held = held
        def gain(self):
            return self.held["gain"]
    step: return x * Holder(held).gain()
    then: held["gain"] = 7.0

a dict in a copy of a dict
    held = {"first": {"gain": 2.0}}
    step: return x * dict(held)["first"]["gain"]
    then: held["first"]["gain"] = 7.0

a dict handed to a callback of sorted
    stages = ({"gain": 2.0}, {"gain": 1.0})
    def by(stage):
        return stage["gain"]
    step: return x * stages.index(sorted(stages, key=by)[0])
    then: stages[0]["gain"] = 0.5

a dict behind getattr with a computed name
    class Config:
        pass
    config = Config()
    config.stage_0 = ({"gain": 2.0},)
    step: return x * getattr(config, f"stage_{0}")[0]["gain"]
    then: config.stage_0[0]["gain"] = 7.0

a dict in a tuple of a generic alias's arguments
    from typing import Annotated
    Held = Annotated[int, {"gain": 2.0}]
    step: return x * Held.__metadata__[0]["gain"]
    then: Held.__metadata__[0]["gain"] = 7.0

a dict in a slice
    held = slice({"gain": 2.0}, None)
    step: return x * held.start["gain"]
    then: held.start["gain"] = 7.0

an integer's subclass with an attribute
    class Size(int):
        pass
    size = Size(2)
    size.gain = 2.0
    step: return x * size.gain
    then: size.gain = 7.0

a text's subclass with an attribute
    class Name(str):
        pass
    name = Name("a")
    name.gain = 2.0
    step: return x * name.gain
    then: name.gain = 7.0

a tuple's subclass with an attribute
    class Stages(tuple):
        pass
    stages = Stages([1.0])
    stages.gain = 2.0
    step: return x * stages.gain
    then: stages.gain = 7.0

a dict's subclass with an attribute
    class Config(dict):
        pass
    config = Config(a=1.0)
    config.gain = 2.0
    step: return x * config.gain
    then: config.gain = 7.0

a float's subclass with an attribute that holds a dict
    class Rate(float):
        pass
    rate = Rate(2.0)
    rate.held = ({"gain": 2.0},)
    step: return x * rate.held[0]["gain"]
    then: rate.held[0]["gain"] = 7.0

a text's subclass as a key, with an attribute
    class Name(str):
        pass
    name = Name("a")
    name.gain = 2.0
    held = {name: 1.0}
    step:
        for key in held:
            x = x * key.gain
        return x
    then: name.gain = 7.0

a frozenset's subclass with an attribute
    class Names(frozenset):
        pass
    names = Names(["a"])
    names.gain = 2.0
    step: return x * names.gain
    then: names.gain = 7.0

an array's subclass with an attribute
    import numpy as np
    class Named(np.ndarray):
        pass
    held = np.ones(2).view(Named)
    held.gain = 2.0
    step: return x * held.gain
    then: held.gain = 7.0

a dict whose keys are tensors
    key = torch.ones(2)
    held = {key: 2.0}
    step: return x * held[key]
    then: held[key] = 7.0

a dict whose keys are tensors, in a loop
    first, second = torch.ones(2), torch.zeros(2)
    held = {first: 2.0}
    step:
        for key, gain in held.items():
            x = x * gain
        return x
    then: held[second] = 7.0

the values of a tensor that is a key
    key = torch.ones(2)
    held = {key: 2.0}
    step:
        for key in held:
            x = x * key
        return x
    then: key.mul_(3.0)
    kind: input

a set of tensors
    held = {torch.ones(2)}
    more = torch.full((2,), 5.0)
    step: return x * len(held)
    then: held.add(more)

a tuple of a tensor as a key
    key = (torch.ones(2), 1)
    held = {key: 2.0}
    step: return x * held[key]
    then: held[key] = 7.0

a matrix where an array was
    import numpy as np
    held = {"m": np.ones((2, 2))}
    step: return x * float((held["m"] * held["m"]).sum())
    then: held["m"] = np.ones((2, 2)).view(np.matrix)

an array whose class is changed
    import numpy as np
    class Doubled(np.ndarray):
        def __getitem__(self, i):
            return 2 * super().__getitem__(i)
    held = [np.ones(2)]
    step: return x * float(held[0][0])
    then: held[0] = held[0].view(Doubled)

the level of a logger
    import logging
    logger = logging.getLogger("a.logger.of.paths")
    afterwards(logger.setLevel, logging.NOTSET)
    step: return x * (2.0 if logger.isEnabledFor(logging.INFO) else 3.0)
    then: logger.setLevel(logging.INFO)

the level of a logger above
    import logging
    above, logger = logging.getLogger("a.logger"), logging.getLogger("a.logger.of.paths")
    afterwards(above.setLevel, logging.NOTSET)
    step: return x * logger.getEffectiveLevel()
    then: above.setLevel(logging.ERROR)

the level of a handler
    import logging
    handler = logging.NullHandler()
    step: return x * (handler.level + 1)
    then: handler.setLevel(logging.INFO)

whether logging is disabled
    import logging
    logger = logging.getLogger("a.logger.of.paths")
    afterwards(logger.setLevel, logging.NOTSET)
    afterwards(logging.disable, logging.NOTSET)
    logger.setLevel(logging.INFO)
    step: return x * (2.0 if logger.isEnabledFor(logging.INFO) else 3.0)
    then: logging.disable(logging.CRITICAL)

the level of a logger that a helper asks
    import logging
    logger = logging.getLogger("a.logger.of.paths")
    afterwards(logger.setLevel, logging.NOTSET)
    def inner_one():
        return logger.isEnabledFor(logging.DEBUG)
    step: return x * (2.0 if inner_one() else 3.0)
    then: logger.setLevel(logging.DEBUG)

a line that a logger writes from now on
    import io
    import logging
    stream = io.StringIO()
    logger = logging.getLogger("a.logger.of.paths")
    afterwards(logger.setLevel, logging.NOTSET)
    handler = logging.StreamHandler(stream)
    logger.addHandler(handler)
    afterwards(logger.removeHandler, handler)
    step:
        logger.debug("a line")
        return x * 2
    then: logger.setLevel(logging.DEBUG)
    look: stream.getvalue()
    whole: len(results)

a line that a handler writes from now on
    import io
    import logging
    stream = io.StringIO()
    logger = logging.getLogger("a.logger.of.paths")
    afterwards(logger.setLevel, logging.NOTSET)
    logger.setLevel(logging.INFO)
    handler = logging.StreamHandler(stream)
    handler.setLevel(logging.ERROR)
    logger.addHandler(handler)
    afterwards(logger.removeHandler, handler)
    step:
        logger.warning("a line")
        return x * 2
    then: handler.setLevel(logging.INFO)
    look: stream.getvalue()
    whole: len(results)

whether distributions check their arguments
    from torchgrad_jax.distributions import Distribution, Normal
    afterwards(Distribution.set_default_validate_args, True)
    step: return x * (2.0 if Normal(0.0, 1.0)._validate_args else 3.0)
    then: Distribution.set_default_validate_args(False)

whether distributions check the values of their arguments
    from torchgrad_jax.distributions import Distribution, Normal
    afterwards(Distribution.set_default_validate_args, True)
    Distribution.set_default_validate_args(False)
    step: return Normal(0.0, -x.detach()).scale * 1.0
    then: Distribution.set_default_validate_args(True)
    whole: [str(result)[0] for result in results]
"""
