"""Steps that depend on functions that a step calls: their code, defaults, closures and wrappers."""

ROWS = r"""
a default of a helper
    def scale(x, factor=2.0): return x * factor
    step: return scale(x)
    then: scale.__defaults__ = (3.0,)

a keyword default of a helper
    def scale(x, *, factor=2.0): return x * factor
    step: return scale(x)
    then: scale.__kwdefaults__["factor"] = 3.0

keyword defaults of a helper, all replaced
    def scale(x, *, factor=2.0): return x * factor
    step: return scale(x)
    then: scale.__kwdefaults__ = {"factor": 3.0}

the code of a helper
    def scale(x): return x * 2
    step: return scale(x)
    then: scale.__code__ = (lambda x: x * 3).__code__

the code of a step's own inner method
    class Own:
        def scale(self, x): return x * 2
    own = Own()
    step: return own.scale(x)
    then: Own.scale.__code__ = (lambda self, x: x * 3).__code__

a helper that is defined again
    def scale(x): return x * 2
    step: return scale(x)
    then:
        def scale(x): return x * 3

a helper's helper that is defined again
    def inner(x): return x * 2
    def scale(x): return inner(x)
    step: return scale(x)
    then:
        def inner(x): return x * 3

a class that is defined again
    class Scale:
        def __call__(self, x): return x * 2
    step: return Scale()(x)
    then:
        class Scale:
            def __call__(self, x): return x * 3

an attribute of a function
    def scale(x): return x * scale.factor
    scale.factor = 2.0
    step: return scale(x)
    then: scale.factor = 3.0

an attribute of a function that appears
    def scale(x): return x * getattr(scale, "factor", 2.0)
    step: return scale(x)
    then: scale.factor = 3.0

the name of a function
    def scale(x): return x
    step: return x, scale.__name__
    then: scale.__name__ = "other"

the documentation of a function
    def scale(x): "a"
    step: return x, scale.__doc__
    then: scale.__doc__ = "b"

the annotations of a function
    def scale(x: int): pass
    step: return x, str(scale.__annotations__)
    then: scale.__annotations__["x"] = float

the signature of a function
    import inspect
    def scale(x, factor=2.0): pass
    step: return x * inspect.signature(scale).parameters["factor"].default
    then: scale.__defaults__ = (3.0,)

a function in a dict of functions
    held = {"scale": lambda x: x * 2}
    step: return held["scale"](x)
    then: held["scale"] = lambda x: x * 3

a function in a list of functions
    held = [lambda x: x * 2]
    step:
        for fn in held:
            x = fn(x)
        return x
    then: held.append(lambda x: x + 1)

a function that is wrapped
    import functools
    factor = 2.0
    def scaled(fn):
        @functools.wraps(fn)
        def inner(x): return fn(x) * factor
        return inner
    @scaled
    def same(x): return x
    step: return same(x)
    then: factor = 3.0

a function that wears the name of a library's
    import functools, statistics
    factor = 2.0
    @functools.wraps(statistics.mean)
    def scale(x): return x * factor
    step: return scale(x)
    then: factor = 3.0

a function that wears the name of an operator
    import functools
    factor = 2.0
    @functools.wraps(F.softmax)
    def scale(x): return x * factor
    step: return scale(x)
    then: factor = 3.0

a function whose __module__ says numpy
    factor = 2.0
    def scale(x): return x * factor
    scale.__module__ = "numpy"
    step: return scale(x)
    then: factor = 3.0

a partial
    import functools
    def scale(x, factor): return x * factor
    held = functools.partial(scale, factor=2.0)
    step: return held(x)
    then: held.keywords["factor"] = 3.0

a partial that another one replaces
    import functools
    def scale(factor, x): return x * factor
    held = functools.partial(scale, 2.0)
    step: return held(x)
    then: held = functools.partial(scale, 3.0)

a list in a partial
    import functools
    values = [2.0]
    held = functools.partial(lambda values, x: x * values[0], values)
    step: return held(x)
    then: values[0] = 3.0

a global that a partial's function reads
    import functools
    factor = 2.0
    def scale(x): return x * factor
    held = functools.partial(scale)
    step: return held(x)
    then: factor = 3.0

a partial of a partial
    import functools
    def scale(x, a, b): return x * a + b
    inner = functools.partial(scale, a=2.0)
    held = functools.partial(inner.func, **inner.keywords, b=1.0)
    step: return held(x)
    then: held.__setstate__((scale, (), {"a": 3.0, "b": 1.0}, {}))

a partialmethod
    import functools
    class Own:
        factor = 2.0
        def scale(self, x, n): return x * self.factor + n
        more = functools.partialmethod(scale, n=1)
    own = Own()
    step: return own.more(x)
    then: own.factor = 3.0

what a cache holds
    import functools
    factor = 2.0
    @functools.lru_cache
    def scale(): return factor
    step: return x * scale()
    then: factor = 3.0; scale.cache_clear()

a cache that is full
    import functools
    factor = 2.0
    @functools.lru_cache(maxsize=1)
    def scale(n): return factor * n
    step: return x * scale(1)
    then: factor = 3.0; scale(2)

a function in a cache, around it
    import functools
    factor = 2.0
    @functools.cache
    def scale(): return 1.0
    step: return x * scale.__wrapped__() * factor
    then: factor = 3.0

a function registered with singledispatch
    import functools
    @functools.singledispatch
    def scale(kind): return 2.0
    step: return x * scale("a")
    then: scale.register(str, lambda kind: 3.0)

a method registered with singledispatch
    import functools
    class Own:
        @functools.singledispatchmethod
        def scale(self, kind): return 2.0
    own = Own()
    step: return x * own.scale("a")
    then: Own.scale.register(str, lambda self, kind: 3.0)

an attrgetter's object
    import operator, types
    held, get = types.SimpleNamespace(a=types.SimpleNamespace(b=2.0)), operator.attrgetter("a.b")
    step: return x * get(held)
    then: held.a.b = 3.0

an attrgetter's name
    import operator, types
    held, get = types.SimpleNamespace(a=2.0, b=3.0), operator.attrgetter("a")
    step: return x * get(held)
    then: get = operator.attrgetter("b")

an itemgetter's list
    import operator
    held, get = [1.0, 2.0], operator.itemgetter(1, 0)
    step: return x * get(held)[0]
    then: held[1] = 3.0

a methodcaller's object
    import operator
    class Own:
        n = 2.0
        def scale(self, by): return self.n * by
    held, call = Own(), operator.methodcaller("scale", 2)
    step: return x * call(held)
    then: held.n = 3.0

an operator's function under another name
    import operator
    fn = operator.add
    step: return fn(x, 2)
    then: fn = operator.mul
"""
