"""What random steps read: each way in which Python keeps something, in a module that is loaded again for each run."""

import collections
import contextlib
import contextvars
import copy
import dataclasses
import enum
import functools
import itertools
import math
import operator
import types
import weakref

import numpy as np

import torchgrad_jax as torch

LIBRARIES = (copy, dataclasses, functools, itertools, math, operator, np)  # which steps name
G = 1.5
GL = [1.0, 2.0, 3.0]
cfg = {"a": 2.0, "b": {"c": 3.0, "d": [4.0, 5.0]}, "t": ({"g": 1.0}, [2.0]), "name": "a", "flag": True}
arr = np.array([1.0, 2.0, 3.0])
marr = np.array([[1.0, 2.0], [3.0, 4.0]])
oarr = np.array([{"u": 1.0}, {"u": 2.0}], dtype=object)
ba = bytearray(b"abc")
dq = collections.deque([1.0, 2.0, 3.0], maxlen=4)
st = {1, 2, 3}
ctr = collections.Counter({"x": 2, "y": 1})
dd = collections.defaultdict(float, {"k": 2.0})
od = collections.OrderedDict([("p", 1.0), ("q", 2.0)])
cm = collections.ChainMap({"m": 1.0}, {"m": 2.0, "n": 3.0})


class Sub:
    z = 0.5

    def __init__(self):
        self.y = 2.0

    def meth(self, k=1.0):
        return self.y * k + self.z

    def __len__(self):
        return int(self.y)


class Obj:
    ca = 1.25
    table = {"s": 2.0}
    __slots__ = ("__dict__", "__weakref__", "_p", "d", "l", "sub", "x")

    def __init__(self):
        self.x, self.l, self.d, self.sub, self._p = 1.0, [1.0, 2.0], {"e": 2.0}, Sub(), 3.0

    @property
    def p(self):
        return self._p + self.ca

    @classmethod
    def cmeth(cls):
        return cls.ca * 2

    @staticmethod
    def smeth(v):
        return v + G

    def __getattr__(self, name):
        if name.startswith("dyn"):
            return self.d["e"] + len(name)
        raise AttributeError(name)

    def __getitem__(self, i):
        return self.l[i]

    def __iter__(self):
        return iter(self.l)

    def __call__(self, v):
        return v * self.x

    def __contains__(self, v):
        return v in self.l


class Other(Obj):
    ca = 9.0


obj = first = Obj()  # `first` keeps it alive for `wr`


@dataclasses.dataclass
class DC:
    f: float = 1.0
    g: list = dataclasses.field(default_factory=lambda: [1.0, 2.0])


@dataclasses.dataclass(frozen=True)
class FDC:
    f: float = 1.0
    g: dict = dataclasses.field(default_factory=lambda: {"w": 2.0})


dc, fdc = DC(), FDC()
NT = collections.namedtuple("NT", "a b")
nt = NT(1.0, [2.0, 3.0])


class E(enum.Enum):
    A = 1.0
    B = 2.0


choice = E.A


def helper(v, scale=[2.0], *, off={"o": 1.0}):  # noqa: B006 - defaults that are written to
    return v * scale[0] + off["o"] + G


def make():
    cell, box = 1.0, [2.0]

    def get():
        return cell + box[0]

    def put(v):
        nonlocal cell
        cell = v

    def putb(v):
        box[0] = v

    return get, put, putb


get, put, putb = make()
fns = [lambda v: v + 1.0, lambda v: v * G, helper]
part = functools.partial(helper, scale=[3.0])
bound = cfg.get
bound_item = GL.__getitem__


@functools.cache
def cached(k):
    return k * 2.0 + 1.0


wr = weakref.ref(obj)
ns = types.SimpleNamespace(i=1.0, j=[2.0])
mp = types.MappingProxyType(cfg)
buf = torch.tensor([1.0, 2.0])
tl = [torch.tensor(1.0), torch.tensor(2.0)]
td = {"w": torch.tensor([1.0, 1.0])}
lin = torch.nn.Linear(2, 2)
seq = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Dropout(0.5))


class Desc:
    def __get__(self, o, t=None):
        return GL[0] if o is None else o.l[0] + GL[1]


class WithDesc(Obj):
    de = Desc()


wd = WithDesc()


@contextlib.contextmanager
def ctx(v):
    yield v + obj.x


cv = contextvars.ContextVar("cv", default=1.0)
