"""Steps that depend on what operators and statements call."""

ROWS = r"""
__matmul__
    class Own:
        n = 2.0
        def __matmul__(self, x): return x * self.n
    own = Own()
    step: return own @ x
    then: own.n = 3.0

__imul__
    class Own:
        n = 2.0
        def __imul__(self, k): return self.n * k
    own = Own()
    step:
        value = own
        value *= 2
        return x * value
    then: own.n = 3.0

__pow__ and __rpow__
    class Own:
        n = 2.0
        def __pow__(self, k): return self.n
        def __rpow__(self, k): return self.n + k
    own = Own()
    step: return x * own**2 + 2**own
    then: own.n = 3.0

__divmod__, __abs__ and __round__
    class Own:
        n = 2.0
        def __divmod__(self, k): return self.n, k
        def __abs__(self): return self.n
        def __round__(self): return self.n
    own = Own()
    step: return x * divmod(own, 2)[0] + abs(own) + round(own)
    then: own.n = 3.0

__gt__ by the other side of a comparison
    class Own:
        n = 2.0
        def __gt__(self, other): return self.n > other
    own = Own()
    step: return x * 2 if 2.5 < own else x
    then: own.n = 3.0

__ne__
    class Own:
        n = 2.0
        def __ne__(self, other): return self.n != other
    own = Own()
    step: return x * 2 if own != 2.0 else x
    then: own.n = 3.0

__hash__
    class Own:
        n = 2
        def __hash__(self): return self.n
    own = Own()
    step: return x * hash(own)
    then: own.n = 3

__str__ by format and by print's end
    class Own:
        n = 2
        def __str__(self): return f"<{self.n}>"
    own = Own()
    step: return x, "{} {!s}".format(own, own)
    then: own.n = 3

__dir__
    class Own:
        names = ["a"]
        def __dir__(self): return self.names
    own = Own()
    step: return x * len(dir(own))
    then: own.names.append("b")

__sizeof__
    import sys
    class Own:
        n = 200
        def __sizeof__(self): return self.n
    own = Own()
    step: return x * own.__sizeof__()
    then: own.n = 300

__class_getitem__
    class Own:
        table = {"a": 2.0}
        def __class_getitem__(cls, key): return cls.table[key]
    step: return x * Own["a"]
    then: Own.table["a"] = 3.0

__getitem__ with a slice
    class Own:
        n = 2.0
        def __getitem__(self, part): return self.n * part.start
    own = Own()
    step: return x * own[1:2]
    then: own.n = 3.0

__contains__ of a class by its metaclass
    class Meta(type):
        names = {"a"}
        def __contains__(cls, name): return name in cls.names
    class Own(metaclass=Meta): pass
    step: return x * 2 if "b" in Own else x
    then: Meta.names.add("b")

__iter__ of a class by its metaclass
    class Meta(type):
        values = [1.0]
        def __iter__(cls): return iter(cls.values)
    class Own(metaclass=Meta): pass
    step: return x * sum(Own)
    then: Meta.values.append(2.0)

__getitem__ as an iterator
    class Own:
        values = [1.0, 2.0]
        def __getitem__(self, i): return self.values[i]
    own = Own()
    step:
        for value in own:
            x = x * value
        return x
    then: own.values.append(3.0)

__next__ of the user's
    kind: input
    class Own:
        n = 1
        def __iter__(self): return self
        def __next__(self):
            self.n += 1
            return self.n
    own = Own()
    step:
        for value in own:
            return x * value
    then: own.n = 7

keys and __getitem__ as keyword arguments
    class Own:
        n = 2.0
        def keys(self): return ["scale"]
        def __getitem__(self, key): return self.n
    own = Own()
    step: return (lambda x, scale: x * scale)(x, **own)
    then: own.n = 3.0

an iterator unpacked as arguments
    values = [1.0, 2.0]
    def source():
        yield from values
    step: return max(*source()) * x
    then: values.append(3.0)

__length_hint__
    import operator
    class Own:
        n = 2
        def __length_hint__(self): return self.n
    own = Own()
    step: return x * operator.length_hint(own)
    then: own.n = 3

__mro_entries__ and __prepare__
    class Meta(type):
        @classmethod
        def __prepare__(meta, name, bases): return {"n": start}
    start = 2.0
    class Base(metaclass=Meta): pass
    class Entry:
        def __mro_entries__(self, bases): return (Base,)
    entry = Entry()
    step:
        class Own(entry):
            m = n
        return x * Own.m
    then: start = 3.0

__set_name__
    class Field:
        start = 2.0
        def __set_name__(self, cls, name): cls.n = self.start
    step:
        class Own:
            field = Field()
        return x * Own.n
    then: Field.start = 3.0

__build_class__ patched
    import builtins
    make_class = builtins.__build_class__
    def other(body, name, *bases):
        cls = make_class(body, name, *bases)
        cls.n = 7.0
        return cls
    step:
        class Own:
            n = 2.0
        return x * Own.n
    then: patch.setattr(builtins, "__build_class__", other)

__import__ patched
    import builtins, types
    find = builtins.__import__
    def other(name, *args): return types.SimpleNamespace(tau=7.0) if name == "math" else find(name, *args)
    step:
        import math
        return x * math.tau
    then: patch.setattr(builtins, "__import__", other)

a closure that a class body reads
    enclosed: factor = 2.0
    step:
        class Own:
            n = factor
        return x * Own.n
    then: nonlocal factor; factor = 3.0

a group of exceptions
    kinds = [KeyError]
    step:
        n = 0
        try:
            raise ExceptionGroup("all", [kind() for kind in kinds])
        except* KeyError:
            n += 1
        except* ValueError:
            n += 2
        return x * n
    then: kinds.append(ValueError)

finally after an error
    fails = True
    step:
        try:
            if fails:
                raise ValueError
            return x
        except ValueError:
            x = x * 2
        finally:
            x = x * 3
        return x
    then: fails = False

an asynchronous loop and context
    n = 2
    class Own:
        async def __aenter__(self): return n
        async def __aexit__(self, *error): return None
        async def values(self):
            for i in range(n):
                yield i
    async def total():
        async with Own() as own:
            async for i in Own().values():
                own += i
            return own
    step:
        try:
            total().send(None)
        except StopIteration as e:
            return x * e.value
    then: n = 3

a set spliced into another
    held = {1.0}
    step: return x * sum({4.0, *held})
    then: held.add(2.0)

a walrus in a condition
    held = {"n": 2.0}
    step: return x * n if (n := held.get("n")) else x
    then: held["n"] = 0.0

a conditional import
    n = 2
    step:
        if n > 2:
            from math import floor as bound
        else:
            from math import ceil as bound
        return x * bound(2.5)
    then: n = 3

and, or, not
    a, b = 0.0, 2.0
    step: return x * (a or b) + (not a)
    then: a = 3.0

a deletion by a name that is a global
    name = "a"
    step:
        held = {"a": 1.0, "b": 2.0}
        del held[name]
        return x * sum(held.values())
    then: name = "b"

a keyword argument whose name is a global
    name = "scale"
    step: return (lambda x, scale=1.0, shift=0.0: x * scale + shift)(x, **{name: 2.0})
    then: name = "shift"

an index of a tensor
    i = 0
    step: return x[i]
    then: i = 1

an ellipsis, a slice and None as an index
    part = (..., slice(0, 1))
    step: return x[part]
    then: part = (..., None)

a shape that is matched
    w = torch.ones(2)
    step:
        match w.shape:
            case (2,):
                return x
            case (n, m):
                return x * m
    then: w = torch.ones(2, 3)

a device as text
    name = "cpu"
    step: return str(torch.zeros(1, device=name).device)
    then: name = "meta"

a string method on a name
    name = "a_b"
    step: return x * len(name.split("_"))
    then: name = "a_b_c"

a type alias in isinstance
    kinds = int | str
    step: return x * 2 if isinstance(3, kinds) else x
    then: kinds = str | float

a function chosen by a type in a dict
    held = {int: lambda n: n * 2, float: lambda n: n * 3}
    value = 1
    step: return x * held[type(value)](value)
    then: value = 1.0

a member of a module's __all__
    own = user_module("own", "n = 2.0\n__all__ = ['n']")
    step:
        found = {}
        exec("from own import *", found)
        return x * found["n"]
    then: own.n = 3.0
"""
