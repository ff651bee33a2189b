"""Steps that depend on attributes, wherever they come from."""

ROWS = r"""
a number in an attribute
    class Own: pass
    own = Own()
    own.n = 2.0
    step: return x * own.n
    then: own.n = 3.0

an attribute of an attribute
    import types
    own = types.SimpleNamespace(a=types.SimpleNamespace(b=2.0))
    step: return x * own.a.b
    then: own.a.b = 3.0

an inner object that another one replaces
    import types
    own = types.SimpleNamespace(a=types.SimpleNamespace(b=2.0))
    step: return x * own.a.b
    then: own.a = types.SimpleNamespace(b=3.0)

a number in a slot
    class Own:
        __slots__ = ("n",)
    own = Own()
    own.n = 2.0
    step: return x * own.n
    then: own.n = 3.0

a slot that gets a value
    class Own:
        __slots__ = ("n",)
    own = Own()
    step: return x * getattr(own, "n", 2.0)
    then: own.n = 3.0

what a property reads
    class Own:
        inner = 2.0
        @property
        def n(self): return self.inner
    own = Own()
    step: return x * own.n
    then: own.inner = 3.0

a global that a property reads
    factor = 2.0
    class Own:
        @property
        def n(self): return factor
    own = Own()
    step: return x * own.n
    then: factor = 3.0

a property that another one replaces
    class Own: n = property(lambda self: 2.0)
    own = Own()
    step: return x * own.n
    then: Own.n = property(lambda self: 3.0)

a cached property
    import functools
    class Own:
        inner = 2.0
        @functools.cached_property
        def n(self): return self.inner
    own = Own()
    step: return x * own.n
    then: own.inner = 3.0; del own.n

a class attribute
    class Own: n = 2.0
    own = Own()
    step: return x * own.n
    then: Own.n = 3.0

a class attribute by the class
    class Own: n = 2.0
    step: return x * Own.n
    then: Own.n = 3.0

a class attribute that an instance hides
    class Own: n = 2.0
    own = Own()
    step: return x * own.n
    then: own.n = 3.0

an instance attribute that is deleted, so that the class's shows
    class Own: n = 2.0
    own = Own()
    own.n = 3.0
    step: return x * own.n
    then: del own.n

an attribute of a base class
    class Base: n = 2.0
    class Own(Base): pass
    own = Own()
    step: return x * own.n
    then: Base.n = 3.0

an attribute of a base class that the class hides
    class Base: n = 2.0
    class Own(Base): pass
    own = Own()
    step: return x * own.n
    then: Own.n = 3.0

an attribute of a metaclass
    class Meta(type): n = 2.0
    class Own(metaclass=Meta): pass
    step: return x * Own.n
    then: Meta.n = 3.0

a property of a metaclass
    class Meta(type):
        inner = 2.0
        @property
        def n(cls): return cls.inner
    class Own(metaclass=Meta): pass
    step: return x * Own.n
    then: Meta.inner = 3.0

a metaclass with __getitem__
    class Meta(type):
        table = {"a": 2.0}
        def __getitem__(cls, key): return cls.table[key]
    class Own(metaclass=Meta): pass
    step: return x * Own["a"]
    then: Meta.table["a"] = 3.0

a metaclass with __instancecheck__
    class Meta(type):
        answer = True
        def __instancecheck__(cls, other): return cls.answer
    class Own(metaclass=Meta): pass
    step: return x * (2.0 if isinstance(3, Own) else 1.0)
    then: Meta.answer = False

a descriptor
    class Number:
        n = 2.0
        def __get__(self, own, cls): return self.n
    class Own: number = Number()
    own = Own()
    step: return x * own.number
    then: vars(Own)["number"].n = 3.0

a descriptor with names per instance
    class Number:
        def __set_name__(self, cls, name): self.name = "_" + name
        def __get__(self, own, cls): return getattr(own, self.name)
        def __set__(self, own, value): setattr(own, self.name, value)
    class Own: number = Number()
    own = Own()
    own.number = 2.0
    step: return x * own.number
    then: own.number = 3.0

__getattr__ from a dict
    class Own:
        def __init__(self): self.table = {"n": 2.0}
        def __getattr__(self, name): return self.table[name]
    own = Own()
    step: return x * own.n
    then: own.table["n"] = 3.0

__getattr__ that an attribute takes the place of
    class Own:
        def __getattr__(self, name): return 2.0
    own = Own()
    step: return x * own.n
    then: own.n = 3.0

__getattribute__
    class Own:
        def __getattribute__(self, name): return table[name]
    table, own = {"n": 2.0}, Own()
    step: return x * own.n
    then: table["n"] = 3.0

a proxy of another object
    class Proxy:
        def __init__(self, inner): object.__setattr__(self, "inner", inner)
        def __getattr__(self, name): return getattr(self.inner, name)
    class Own: n = 2.0
    own = Proxy(Own())
    step: return x * own.n
    then: own.inner.n = 3.0

an attribute that appears, by hasattr
    class Own: pass
    own = Own()
    step: return x * (2.0 if hasattr(own, "n") else 1.0)
    then: own.n = None

an attribute that disappears, by hasattr
    class Own: pass
    own = Own()
    own.n = None
    step: return x * (2.0 if hasattr(own, "n") else 1.0)
    then: del own.n

an attribute that appears, by AttributeError
    class Own: pass
    own = Own()
    step:
        try:
            return x * own.n
        except AttributeError:
            return x
    then: own.n = 3.0

an attribute that appears in the class, by getattr with a default
    class Own: pass
    own = Own()
    step: return x * getattr(own, "n", 1.0)
    then: Own.n = 3.0

an attribute that appears in a base class, by hasattr
    class Base: pass
    class Own(Base): pass
    step: return x * (2.0 if hasattr(Own, "n") else 1.0)
    then: Base.n = None

getattr with a name that is a global
    import types
    own, name = types.SimpleNamespace(a=2.0, b=3.0), "a"
    step: return x * getattr(own, name)
    then: name = "b"

getattr with a name that is computed
    import types
    own, kind = types.SimpleNamespace(full_n=2.0), "full"
    step: return x * getattr(own, f"{kind}_n")
    then: own.full_n = 3.0

an attribute through vars
    import types
    own, name = types.SimpleNamespace(n=2.0), "n"
    step: return x * vars(own)[name]
    then: own.n = 3.0

an attribute through __dict__
    import types
    own = types.SimpleNamespace(n=2.0)
    step: return x * own.__dict__["n"]
    then: own.n = 3.0

an attribute written through __dict__
    class Own: n = 2.0
    own = Own()
    step: return x * own.n
    then: own.__dict__["n"] = 3.0

a whole __dict__ that another one replaces
    class Own: n = 2.0
    own = Own()
    step: return x * own.n
    then: own.__dict__ = {"n": 3.0}

an attribute by object.__getattribute__
    class Own: pass
    own = Own()
    own.n = 2.0
    step: return x * object.__getattribute__(own, "n")
    then: own.n = 3.0

the names of all attributes
    class Own: pass
    own = Own()
    step: return x * sum(not name.startswith("_") for name in dir(own))
    then: own.n = 1

a loop over the attributes of an object
    import types
    own = types.SimpleNamespace(a=2.0)
    step:
        for name in vars(own):
            x = x * getattr(own, name)
        return x
    then: own.b = 3.0

an object's class
    class One: n = 2.0
    class Two: n = 3.0
    own = One()
    step: return x * own.n
    then: own.__class__ = Two

an object's class, by isinstance
    class One: pass
    class Two: pass
    own = One()
    step: return x * (2.0 if isinstance(own, One) else 1.0)
    then: own.__class__ = Two

an object's class, by its name
    class One: pass
    class Two: pass
    own = One()
    step: return x, type(own).__name__
    then: own = Two()

one of many class attributes, which an instance hides
    class Own: a, b, c, d, e, f = 1.0, 2.0, 3.0, 4.0, 5.0, 6.0
    own = Own()
    own.other = 1.0
    step: return x * (own.a + own.b + own.c + own.d + own.e + own.f)
    then: own.c = 30.0

one of many class attributes, which an instance with many attributes of its own hides
    class Own: a, b, c, d, e, f = 1.0, 2.0, 3.0, 4.0, 5.0, 6.0
    own = Own()
    for i in range(10): setattr(own, f"other_{i}", 1.0)
    step: return x * (own.a + own.b + own.c + own.d + own.e + own.f)
    then: own.c = 30.0
"""
