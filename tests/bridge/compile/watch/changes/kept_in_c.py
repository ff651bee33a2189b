"""Steps that read what objects written in C keep, and what such objects lead to."""

ROWS = r"""
the cause of an error
    error = ValueError(2.0)
    error.__cause__ = KeyError(2.0)
    step: return x * error.__cause__.args[0]
    then: error.__cause__ = KeyError(3.0)

an error in a group
    errors = ExceptionGroup("errors", [ValueError([2.0])])
    step: return x * errors.exceptions[0].args[0][0]
    then: errors.exceptions[0].args[0][0] = 3.0

the name of a class
    class Own: pass
    own = Own()
    step: return x * len(type(own).__name__)
    then: Own.__name__ = "Another"

the types of a class's fields
    import typing
    class Own: n: float
    step: return x * len(typing.get_type_hints(Own))
    then: Own.__annotations__["k"] = int

a constant of a function's code
    def source(): return 2.0
    step: return x * source.__code__.co_consts[1]
    then: source.__code__ = source.__code__.replace(co_consts=(None, 3.0))

the globals that a function was made with
    import types
    held = {"n": 2.0}
    source = types.FunctionType((lambda: n).__code__, held)
    step: return x * source()
    then: held["n"] = 3.0

an attribute of a function that keeps results
    import functools
    @functools.lru_cache
    def source(): return 2.0
    source.n = 2.0
    step: return x * source.n
    then: source.n = 3.0

an attribute of a weak reference
    import weakref
    class Reference(weakref.ref): pass
    class Own: pass
    own = Own()
    reference = Reference(own)
    reference.n = 2.0
    step: return x * reference.n
    then: reference.n = 3.0

an attribute of a property
    class Property(property): pass
    class Own: k = Property(lambda self: Own.__dict__["k"].n)
    own = Own()
    Own.__dict__["k"].n = 2.0
    step: return x * own.k
    then: Own.__dict__["k"].n = 3.0

what is in a dict that a cache keeps from the first call on
    import functools
    @functools.cache
    def source(): return {"n": 2.0}
    step: return x * source()["n"]
    then: source()["n"] = 3.0

an attribute of an object that a cache keeps from the first call on
    import functools
    class Own: pass
    @functools.lru_cache(4)
    def source():
        own = Own()
        own.n = [2.0]
        return own
    step: return x * source().n[0]
    then: source().n[0] = 3.0

an array that a cache keeps from the first call on
    import functools
    import numpy as np
    @functools.cache
    def source(): return np.array([2.0])
    step: return x * float(source()[0])
    then: source()[0] = 3.0

a class that a cache keeps
    import functools
    class Own: n = 2.0
    @functools.lru_cache
    def source(): return Own
    source()
    step: return x * source().n
    then: Own.n = 3.0

a variable in a context
    import contextvars
    variable = contextvars.ContextVar("variable")
    context = contextvars.copy_context()
    context.run(variable.set, 2.0)
    step: return x * context[variable]
    then: context.run(variable.set, 3.0)

how many variables a context has
    import contextvars
    variable = contextvars.ContextVar("variable")
    count = len(contextvars.copy_context())
    step: return x * (1 + len(contextvars.copy_context()) - count)
    then: variable.set(3.0)

an element of a structured array, by itself
    import numpy as np
    array = np.array([(2.0, 1)], dtype=[("n", "f8"), ("k", "i4")])
    element = array[0]
    step: return x * float(element["n"])
    then: array["n"][0] = 3.0

an object in a structured array
    import numpy as np
    array = np.array([([2.0], 1)], dtype=[("n", "O"), ("k", "i4")])
    step: return x * array["n"][0][0]
    then: array["n"][0][0] = 3.0

the names of an array's fields
    import numpy as np
    array = np.array([(2.0, 3.0)], dtype=[("n", "f8"), ("k", "f8")])
    step: return x * float(array["n"][0])
    then: array.dtype.names = ("k", "n")

the array of which another one is a view
    import numpy as np
    whole = np.array([2.0, 5.0])
    view = whole[1:]
    step: return x * float(view.base[0])
    then: whole[0] = 3.0

whether an array may be written to
    import numpy as np
    array = np.array([2.0])
    step: return x * (2.0 if array.flags.writeable else 3.0)
    then: array.flags.writeable = False

a key of a dict that an equal one replaces
    class Text(str): pass
    key, other = Text("a"), Text("a")
    key.n, other.n = 2.0, 3.0
    held = {key: 1.0}
    step: return x * next(iter(held)).n
    then:
        held.clear()
        held[other] = 1.0

a flag of a class of this package
    step: return x * (2.0 if nn.Module.call_super_init else 3.0)
    then: patch.setattr(nn.Module, "call_super_init", True)

what a user keeps in a class of this package
    patch.setattr(nn.Linear, "own", [2.0], raising=False)
    step: return x * nn.Linear.own[0]
    then: nn.Linear.own[0] = 3.0

the arguments of a partial that gets others
    import functools
    def source(n): return n
    given = functools.partial(source, 2.0)
    step: return x * given()
    then: given.__setstate__((source, (3.0,), {}, {}))

a number for which C wants a plain one
    import datetime
    class Own: n = 2
    own = Own()
    step: return x * datetime.timedelta(days=own.n).days
    then: own.n = 3

a number that a special method has to return
    class Own:
        n = 0
        def __index__(self): return self.n
    own, held = Own(), [2.0, 3.0]
    own.n = 0
    step: return x * held[own]
    then: own.n = 1
"""
