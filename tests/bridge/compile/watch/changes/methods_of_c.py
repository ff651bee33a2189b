"""Steps that reach a value through methods of C, partials, functions and objects made on the way."""

ROWS = r"""
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
"""
