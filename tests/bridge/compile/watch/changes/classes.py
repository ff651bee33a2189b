"""Steps that depend on classes, methods and operators."""

ROWS = r"""
the bases of a class
    class One: n = 2.0
    class Two: n = 3.0
    class Own(One): pass
    own = Own()
    step: return x * own.n
    then: Own.__bases__ = (Two,)

a subclass of a class, by issubclass
    import abc
    class Base(abc.ABC): pass
    class Own: pass
    step: return x * (2.0 if issubclass(Own, Base) else 1.0)
    then: Base.register(Own)

the subclasses of a class
    class Base: pass
    step: return x * len(Base.__subclasses__())
    then:
        class Own(Base): pass

a method that another one replaces
    class Own:
        def scale(self, x): return x * 2
    own = Own()
    step: return own.scale(x)
    then: Own.scale = lambda self, x: x * 3

a method that the instance gets
    class Own:
        def scale(self, x): return x * 2
    own = Own()
    step: return own.scale(x)
    then: own.scale = lambda x: x * 3

a method of the base class, by super
    class Base:
        def scale(self, x): return x * 2
    class Own(Base):
        def scale(self, x): return super().scale(x) + 1
    own = Own()
    step: return own.scale(x)
    then: Base.scale = lambda self, x: x * 3

an attribute of the base class, by super
    class Base: n = 2.0
    class Own(Base):
        def scale(self, x): return x * super().n
    own = Own()
    step: return own.scale(x)
    then: Base.n = 3.0

a method between the class and its base, by super
    class Base:
        def scale(self, x): return x * 2
    class Middle(Base): pass
    class Own(Middle):
        def scale(self, x): return super().scale(x)
    own = Own()
    step: return own.scale(x)
    then: Middle.scale = lambda self, x: x * 3

a method of a class beside the base, by super
    class Base:
        def scale(self, x): return x * 2
    class One(Base):
        def scale(self, x): return super().scale(x)
    class Two(Base):
        def scale(self, x): return super().scale(x)
    class Own(One, Two): pass
    own = Own()
    step: return own.scale(x)
    then: Two.scale = lambda self, x: x * 3

a bound method, taken outside
    class Own:
        n = 2.0
        def scale(self, x): return x * self.n
    own = Own()
    scale = own.scale
    step: return scale(x)
    then: own.n = 3.0

the object of a bound method
    class Own:
        n = 2.0
        def scale(self, x): return x
    own = Own()
    scale = own.scale
    step: return x * scale.__self__.n
    then: own.n = 3.0

a static method
    class Own:
        @staticmethod
        def scale(x): return x * 2
    step: return Own.scale(x)
    then: Own.scale = staticmethod(lambda x: x * 3)

a class method
    class Own:
        n = 2.0
        @classmethod
        def scale(cls, x): return x * cls.n
    step: return Own.scale(x)
    then: Own.n = 3.0

what a constructor reads
    class Own:
        default = 2.0
        def __init__(self): self.n = self.default
    step: return x * Own().n
    then: Own.default = 3.0

what __new__ gives
    class Own:
        single = None
        def __new__(cls): return cls.single or object.__new__(cls)
    first = Own()
    first.n = 2.0
    second = object.__new__(Own)
    second.n = 3.0
    Own.single = first
    step: return x * Own().n
    then: Own.single = second

a singleton of a class
    class Settings:
        instance = None
        @classmethod
        def get(cls):
            if cls.instance is None: cls.instance = cls()
            return cls.instance
    Settings.get().n = 2.0
    step: return x * Settings.get().n
    then: Settings.get().n = 3.0

__init_subclass__ of a base
    class Base:
        n = 2.0
        def __init_subclass__(cls): cls.own = cls.n
    step:
        class Own(Base):
            pass
        return x * Own.own
    then: Base.n = 3.0

__call__
    class Own:
        n = 2.0
        def __call__(self, x): return x * self.n
    own = Own()
    step: return own(x)
    then: own.n = 3.0

__mul__ with a tensor
    class Own:
        n = 2.0
        def __mul__(self, x): return x * self.n
    own = Own()
    step: return own * x
    then: own.n = 3.0

__radd__ with a number
    class Own:
        n = 2.0
        def __radd__(self, other): return other + self.n
    own = Own()
    step: return x * (1 + own)
    then: own.n = 3.0

__neg__ and __invert__
    class Own:
        n = 2.0
        def __neg__(self): return self.n
        def __invert__(self): return self.n + 1
    own = Own()
    step: return x * -own + ~own
    then: own.n = 3.0

__float__
    class Own:
        n = 2.0
        def __float__(self): return self.n
    own = Own()
    step: return x * float(own)
    then: own.n = 3.0

__bool__
    class Own:
        n = True
        def __bool__(self): return self.n
    own = Own()
    step: return x * 2 if own else x
    then: own.n = False

__eq__
    class Own:
        n = 2.0
        def __eq__(self, other): return self.n == other
    own = Own()
    step: return x * 2 if own == 2.0 else x
    then: own.n = 3.0

__lt__, by sorted
    class Own:
        def __init__(self, n): self.n = n
        def __lt__(self, other): return self.n < other.n
    one, two = Own(1.0), Own(2.0)
    step: return x * sorted([one, two])[0].n
    then: one.n = 3.0

__format__ and __repr__
    class Own:
        n = 2
        def __format__(self, form): return f"<{self.n}>"
        def __repr__(self): return f"({self.n})"
    own = Own()
    step: return x, f"{own}{own!r}"
    then: own.n = 3

__len__ and __reversed__
    class Own:
        values = [1.0, 2.0]
        def __len__(self): return len(self.values)
        def __reversed__(self): return iter(self.values[::-1])
    own = Own()
    step: return x * len(own) + next(reversed(own))
    then: own.values.append(3.0)

an object that two names have, by `is`
    one, two = object(), object()
    three = one
    step: return x * 2 if one is three else x
    then: three = two

a sentinel that is replaced
    missing = object()
    default = missing
    step: return x if default is missing else x * 2
    then: missing = object()
"""
