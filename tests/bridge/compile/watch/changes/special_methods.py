"""Steps for which Python looks up what no code names: methods of classes that are missing at first."""

ROWS = r"""
a truth that a class gets a method for
    class Own: pass
    own = Own()
    step: return x * (2.0 if own else 3.0)
    then: Own.__bool__ = lambda self: False

a truth that was a length
    class Own:
        def __len__(self): return 2
    own = Own()
    step: return x * (2.0 if own else 3.0)
    then: Own.__bool__ = lambda self: False

a comparison that a class gets a method for
    class Own: pass
    own, other = Own(), Own()
    step: return x * (2.0 if own == other else 3.0)
    then: Own.__eq__ = lambda self, other: True

a comparison in a list's method
    class Own: pass
    held = [Own(), Own()]
    step: return x * (1 + held.index(held[1]))
    then: Own.__eq__ = lambda self, other: True

a comparison that was answered by the other side
    class Own: pass
    class Other:
        def __gt__(self, other): return True
    own, other = Own(), Other()
    step: return x * (2.0 if own < other else 3.0)
    then: Own.__lt__ = lambda self, other: False

a membership that was found by iterating
    class Own:
        def __iter__(self): return iter([1])
    own = Own()
    step: return x * (2.0 if 1 in own else 3.0)
    then: Own.__contains__ = lambda self, key: False

an iteration that was by index
    class Own:
        def __getitem__(self, i): return [2.0][i]
    own = Own()
    step: return x * list(own)[0]
    then: Own.__iter__ = lambda self: iter([3.0])

a text that a class gets a method for
    class Own: pass
    held = [Own()]
    step: return x * len(repr(held))
    then: Own.__repr__ = lambda self: "own"

a number that was an index
    class Own:
        def __index__(self): return 2
    own = Own()
    step: return x * float(own)
    then: Own.__float__ = lambda self: 3.0

a sum in place that was a plain sum
    class Own:
        def __add__(self, other): return 2.0
    own = Own()
    step:
        total = own
        total += 1
        return x * total
    then: Own.__iadd__ = lambda self, other: 3.0

what a class does to make an instance
    class Base: n = 2.0
    class Own(Base): pass
    step: return x * Own().n
    then: Base.__init__ = lambda self: setattr(self, "n", 3.0)

which instance a class makes
    class Own: n = 2.0
    class Other: n = 3.0
    step: return x * Own().n
    then: Own.__new__ = staticmethod(lambda cls: Other())

what answers for an attribute that is missing
    class Own: pass
    own = Own()
    step: return x * getattr(own, "n", 2.0)
    then: Own.__getattr__ = lambda self, name: 3.0

a value in a class that becomes a descriptor
    class Value: n = 2.0
    class Other: n = 3.0
    class Own: value = Value()
    own = Own()
    step: return x * own.value.n
    then: Value.__get__ = lambda self, instance, owner: Other()

a descriptor that comes before the instance from then on
    class Value:
        def __get__(self, instance, owner): return 3.0
    class Own: n = Value()
    own = Own()
    own.__dict__["n"] = 2.0
    step: return x * own.n
    then: Value.__set__ = lambda self, instance, value: None

a property in place of an attribute of an instance
    class Own: pass
    own = Own()
    own.n = 2.0
    step: return x * own.n
    then: Own.n = property(lambda self: 3.0)

a property in place of a buffer
    class Own(nn.Module): pass
    own = Own()
    own.register_buffer("n", torch.tensor(2.0))
    step: return x * own.n
    then: Own.n = property(lambda self: 3.0)

what a class gives for an index
    class Own:
        def __class_getitem__(cls, key): return 2.0
    step: return x * Own["n"]
    then: Own.__class_getitem__ = classmethod(lambda cls, key: 3.0)

an attribute of a metaclass that the class gets, too
    class Meta(type): n = 2.0
    class Own(metaclass=Meta): pass
    step: return x * Own.n
    then: Own.n = 3.0

what tells instances of a class
    class Meta(type):
        answer = False
        def __instancecheck__(cls, x): return cls.answer
    class Own(metaclass=Meta): pass
    step: return x * (2.0 if isinstance(1, Own) else 3.0)
    then: Own.answer = True
"""
