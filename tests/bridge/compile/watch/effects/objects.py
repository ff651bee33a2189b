"""Steps that change attributes, counters, iterators and caches."""

ROWS = r"""
an attribute counted
    class Own: n = 0
    own = Own()
    step: own.n += 1; return x * 2
    look: own.n

an attribute counted that decides the result
    class Own: n = 0
    own = Own()
    step: own.n += 1; return x * own.n

an attribute set
    class Own: n = 0
    own = Own()
    each: own.n = 0
    step: own.n = 1; return x * 2
    look: own.n

an attribute set by setattr
    class Own: n = 0
    own, name = Own(), "n"
    each: own.n = 0
    step: setattr(own, name, 1); return x * 2
    look: own.n

an attribute set through vars
    class Own: n = 0
    own = Own()
    each: own.n = 0
    step: vars(own)["n"] = 1; return x * 2
    look: own.n

an attribute set by object.__setattr__
    class Own: n = 0
    own = Own()
    each: own.n = 0
    step: object.__setattr__(own, "n", 1); return x * 2
    look: own.n

an attribute deleted
    class Own: n = 0
    own = Own()
    each: own.n = 1
    step: del own.n; return x * 2
    look: own.n

a slot counted
    class Own:
        __slots__ = ("n",)
    own = Own()
    own.n = 0
    step: own.n += 1; return x * 2
    look: own.n

a setter of a property
    class Own:
        seen = []
        n = property(lambda self: 1, lambda self, n: self.seen.append(n))
    own = Own()
    step: own.n = 2; return x * 2
    look: own.seen

__setitem__ of the user's
    class Own:
        def __init__(self): self.seen = []
        def __setitem__(self, key, value): self.seen.append((key, value))
    own = Own()
    step: own["a"] = 1; return x * 2
    look: own.seen

__getattr__ that counts
    class Own:
        seen = []
        def __getattr__(self, name):
            self.seen.append(name)
            return 2.0
    own = Own()
    step: return x * own.n
    look: own.seen

a counter of a class
    class Own: n = 0
    step: Own.n += 1; return x * 2
    look: Own.n

a counter of instances
    class Own:
        n = 0
        def __init__(self): Own.n += 1
    step: Own(); return x * 2
    look: Own.n

a list of instances
    class Own:
        made = []
        def __init__(self): self.made.append(1)
    step: Own(); return x * 2
    look: Own.made

a class registered by its metaclass
    class Meta(type):
        made = []
        def __init__(cls, name, bases, body): Meta.made.append(name)
    step:
        class Own(metaclass=Meta):
            pass
        return x * 2
    look: Meta.made

a counter of a function
    def scale(x):
        scale.n += 1
        return x * 2
    scale.n = 0
    step: return scale(x)
    look: scale.n

a counter of a module of the user's
    own = user_module("own", "n = 0")
    step:
        import own
        own.n += 1
        return x * own.n
    look: own.n

a counter in a closure
    def make():
        n = 0
        def count():
            nonlocal n
            n += 1
            return n
        return count
    count = make()
    step: return x * count()

a counter of a step's own closure
    enclosed: n = 0
    step:
        nonlocal n
        n += 1
        return x * n

a global counter
    n = 0
    step:
        global n
        n += 1
        return x * 2
    look: n

a global counter through globals()
    n = 0
    step: globals()["n"] += 1; return x * 2
    look: n

a global counter by exec
    n = 0
    step: exec("n += 1", globals()); return x * 2
    look: n

a global that a step makes
    step:
        global made
        made = 1
        return x * 2
    each: globals().pop("made", None)
    look: "made" in globals()

a global that a step deletes
    step:
        global made
        del made
        return x * 2
    each: made = 1
    look: "made" in globals()

a counter of itertools, by next
    import itertools
    source = itertools.count()
    step: next(source); return x * 2
    look: repr(source)

an iterator that a loop ends
    source = iter(range(9))
    step:
        for i in source:
            if i % 2:
                break
        return x * 2
    look: source.__length_hint__()

a generator that is sent to
    def collect():
        while True: seen.append((yield))
    seen, source = [], collect()
    next(source)
    step: source.send(1); return x * 2
    look: seen

a cached function that runs for each new argument
    import functools
    n, seen = 0, []
    @functools.cache
    def own(n): seen.append(n)
    step:
        global n
        n += 1
        own(n)
        return x * 2
    look: seen

a cache that is cleared
    import functools
    @functools.cache
    def own(n): return n
    each: own(1)
    step: own.cache_clear(); return x * 2
    look: own.cache_info().currsize
"""
