"""Steps that depend on dataclasses, enums, context variables, futures, weak references and tensors as objects."""

ROWS = r"""
a dataclass
    from dataclasses import dataclass
    @dataclass
    class Own: n: float = 2.0
    own = Own()
    step: return x * own.n
    then: own.n = 3.0

a frozen dataclass that is replaced
    import dataclasses
    @dataclasses.dataclass(frozen=True)
    class Own: n: float = 2.0
    own = Own()
    step: return x * own.n
    then: own = dataclasses.replace(own, n=3.0)

a frozen dataclass that is written to
    import dataclasses
    @dataclasses.dataclass(frozen=True)
    class Own: n: float = 2.0
    own = Own()
    step: return x * own.n
    then: object.__setattr__(own, "n", 3.0)

a dataclass as a dict
    import dataclasses
    @dataclasses.dataclass
    class Own: n: float = 2.0
    own = Own()
    step: return x * dataclasses.asdict(own)["n"]
    then: own.n = 3.0

dataclasses compared
    import dataclasses
    @dataclasses.dataclass
    class Own: n: float = 2.0
    one, two = Own(), Own()
    step: return x * 2 if one == two else x
    then: two.n = 3.0

a replaced copy of a dataclass
    import dataclasses
    @dataclasses.dataclass
    class Own:
        n: float = 2.0
        m: float = 1.0
    own = Own()
    step: return x * dataclasses.replace(own, m=5.0).n
    then: own.n = 3.0

a match on a dataclass
    from dataclasses import dataclass
    @dataclass
    class Own:
        kind: str = "a"
        n: float = 2.0
    own = Own()
    step:
        match own:
            case Own("a", n):
                return x * n
        return x
    then: own.n = 3.0

a match on an attribute
    import types
    own = types.SimpleNamespace(kind="a")
    step:
        match own:
            case types.SimpleNamespace(kind="a"):
                return x * 2
            case types.SimpleNamespace(other=_):
                return x * 3
        return x
    then: own.kind = "b"; own.other = 1

what __match_args__ says
    class Own:
        __match_args__ = ("a",)
        a, b = 2.0, 3.0
    own = Own()
    step:
        match own:
            case Own(n):
                return x * n
    then: Own.__match_args__ = ("b",)

a match on a value
    class Kinds: first = "a"
    kind = "a"
    step:
        match kind:
            case Kinds.first:
                return x * 2
        return x
    then: Kinds.first = "b"

a namedtuple that is replaced
    from collections import namedtuple
    Own = namedtuple("Own", "n m")
    own = Own(2.0, 1.0)
    step: return x * own.n
    then: own = own._replace(n=3.0)

a list in a namedtuple
    from typing import NamedTuple
    class Own(NamedTuple): values: list
    own = Own([2.0])
    step: return x * own.values[0]
    then: own.values[0] = 3.0

an enum's member in a global
    from enum import Enum
    class Kind(Enum):
        A = 2.0
        B = 3.0
    kind = Kind.A
    step: return x * kind.value
    then: kind = Kind.B

an enum's member by a name
    from enum import Enum
    class Kind(Enum):
        A = 2.0
        B = 3.0
    name = "A"
    step: return x * Kind[name].value
    then: name = "B"

an attribute of an enum's member
    from enum import Enum
    class Kind(Enum):
        A = "a"
    Kind.A.n = 2.0
    step: return x * Kind.A.n
    then: Kind.A.n = 3.0

a flag of an enum
    from enum import Flag
    class Kind(Flag):
        A = 1
        B = 2
    kinds = Kind.A
    step: return x * (2.0 if Kind.B in kinds else 1.0)
    then: kinds |= Kind.B

a SimpleNamespace
    import types
    own = types.SimpleNamespace(n=2.0)
    step: return x * own.n
    then: own.n = 3.0

SimpleNamespaces compared
    import types
    one, two = types.SimpleNamespace(n=2), types.SimpleNamespace(n=2)
    step: return x * 2 if one == two else x
    then: two.n = 3

arguments of argparse
    import argparse
    own = argparse.Namespace(n=2.0)
    step: return x * own.n
    then: own.n = 3.0

a Mock's return value
    from unittest import mock
    own = mock.Mock(return_value=2.0)
    step: return x * own()
    then: own.return_value = 3.0

a context variable
    import contextvars
    variable = contextvars.ContextVar("variable", default=2.0)
    step: return x * variable.get()
    then: afterwards(variable.reset, variable.set(3.0))

a list in a context variable
    import contextvars
    variable = contextvars.ContextVar("variable")
    afterwards(variable.reset, variable.set([2.0]))
    step: return x * variable.get()[0]
    then: variable.get()[0] = 3.0

state of a thread
    import threading
    local = threading.local()
    local.n = 2.0
    step: return x * local.n
    then: local.n = 3.0

state of a thread that appears
    import threading
    local = threading.local()
    step: return x * getattr(local, "n", 2.0)
    then: local.n = 3.0

the name of a thread
    import threading
    thread = threading.current_thread()
    step: return x, threading.current_thread().name
    then: patch.setattr(thread, "name", "other")

what a weak reference leads to
    import weakref
    class Own: n = 2.0
    own = Own()
    ref = weakref.ref(own)
    step: return x * ref().n
    then: own.n = 3.0

a weak reference that dies
    import gc, weakref
    class Own: pass
    own = Own()
    ref = weakref.ref(own)
    step: return x if ref() is None else x * 2
    then: del own; gc.collect(1)

an object behind a weak proxy that dies
    import gc, weakref
    class Own: n = 2.0
    own = Own()
    proxy = weakref.proxy(own)
    step:
        try:
            return x * proxy.n
        except ReferenceError:
            return x
    then: del own; gc.collect(1)

a weak proxy
    import weakref
    class Own: n = 2.0
    own = Own()
    proxy = weakref.proxy(own)
    step: return x * proxy.n
    then: own.n = 3.0

the state of a Future
    from concurrent.futures import Future
    future = Future()
    step: return x * 2 if future.done() else x
    then: future.set_result(1)

the result of a Future
    from concurrent.futures import Future
    futures = [Future(), Future()]
    futures[0].set_result(2.0); futures[1].set_result(3.0)
    future = futures[0]
    step: return x * future.result()
    then: future = futures[1]

an Event
    import threading
    event = threading.Event()
    step: return x * 2 if event.is_set() else x
    then: event.set()

whether a lock is held
    import threading
    lock = threading.Lock()
    step: return x * 2 if lock.locked() else x
    then: lock.acquire()

an attribute of a tensor
    w = torch.ones(2)
    w.scale = 2.0
    step: return x * w.scale
    then: w.scale = 3.0

whether a tensor has a gradient
    w = torch.ones(2, requires_grad=True)
    step: return x if w.grad is None else x * 2
    then: w.grad = torch.ones(2)

a tensor's gradient
    kind: input
    w = torch.ones(2, requires_grad=True)
    w.grad = torch.ones(2)
    step: return x * w.grad
    then: w.grad = torch.zeros(2)

how often a tensor was written
    w = torch.ones(2)
    step: return x * w._version
    then: w.add_(1)

the shape of a tensor
    w = torch.ones(2)
    step: return x * w.shape[0]
    then: w.resize_(3)

the dtype of a tensor
    w = torch.ones(2)
    step: return str((x * w).dtype)
    then: w.data = torch.ones(2, dtype=torch.float64)

the values of a tensor that Python looks at
    w = torch.ones(())
    step: return x * 2 if w.item() > 0 else x
    then: w.fill_(-1.0)

a tensor as a list
    w = torch.ones(2)
    step: return x * w.tolist()[0]
    then: w.fill_(3.0)

a tensor in place
    w = torch.ones(2)
    step: return x * w
    then: w.mul_(3.0)
    kind: input

the data of a tensor
    w = torch.ones(2)
    step: return x * w
    then: w.data = torch.zeros(2)
    kind: input

a tensor of a subclass
    class Own(torch.Tensor): n = 2.0
    w = torch.ones(2).as_subclass(Own)
    step: return x * w.n
    then: Own.n = 3.0

__torch_function__ of a subclass
    class Own(torch.Tensor):
        n = 2.0
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs or {}) * cls.n
    w = torch.ones(2).as_subclass(Own)
    step: return w + x
    then: Own.n = 3.0
"""
