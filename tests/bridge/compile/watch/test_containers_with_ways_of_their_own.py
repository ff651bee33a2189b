"""Containers whose class iterates, counts or looks up in a way of its own, which a compiled step reads and changes.

Guards compare what a container holds. They ask Python's own class for it, and never the user's methods, which may give
something else, count how often they are called, or raise.
"""

import contextlib
import io
from collections import OrderedDict, defaultdict, deque
from types import SimpleNamespace

import pytest

import torchgrad_jax as torch


def raising(kind, *names):
    """A class of containers that lets nobody look into them but by the methods of `kind` itself."""

    def refuse(name):
        def method(self, *args, **kwargs):
            raise NotImplementedError(f"{kind.__name__}.{name}")

        return method

    every = ("__len__", "__iter__", "__contains__", "__eq__", "__ne__", "__bool__", "__getitem__", "__repr__", *names)
    return type(f"Closed{kind.__name__}", (kind,), {name: refuse(name) for name in every})


W = torch.ones(2)
OF_DICTS = ("keys", "values", "items", "get")
CLOSED = {
    "tuple": (raising(tuple, "__hash__", "count", "index")((2.0, W)), lambda c: tuple.__getitem__(c, 0)),
    "list": (raising(list, "count", "index", "__reversed__")([2.0, W]), lambda c: list.__getitem__(c, 0)),
    "deque": (raising(deque, "count", "index")([2.0, W]), lambda c: deque.__getitem__(c, 0)),
    "set": (raising(set, "__and__", "union")([2.0]), lambda c: set.__len__(c) + 1),
    "frozenset": (raising(frozenset, "__hash__", "__or__")([2.0]), lambda c: frozenset.__len__(c) + 1),
    "dict": (raising(dict, *OF_DICTS)(a=2.0, b=W), lambda c: dict.__getitem__(c, "a")),
    "OrderedDict": (raising(OrderedDict, *OF_DICTS)(a=2.0, b=W), lambda c: dict.__getitem__(c, "a")),
    "defaultdict": (raising(defaultdict, *OF_DICTS)(None, a=2.0, b=W), lambda c: dict.__getitem__(c, "a")),
}


def _in_a_closure(c, read):
    return lambda x: x * read(c), ()


def _as_an_attribute(c, read):
    holder = SimpleNamespace(c=c)
    return lambda x: x * read(holder.c), ()


def _in_a_list(c, read):
    held = [c]
    return lambda x: x * read(held[0]), ()


def _in_a_tuple(c, read):
    held = (c,)
    return lambda x: x * read(held[0]), ()


def _as_an_argument(c, read):
    return lambda x, c: x * read(c), (c,)


def _in_an_argument(c, read):
    return lambda x, given: x * read(given[0]), ((c,),)


def _put_by_the_step(c, read):
    holder = SimpleNamespace(c=None)

    def step(x):
        holder.c = c
        return x * read(holder.c)

    return step, ()


REACHED = (
    _in_a_closure, _as_an_attribute, _in_a_list, _in_a_tuple, _as_an_argument, _in_an_argument, _put_by_the_step,
)  # fmt: skip


@pytest.mark.parametrize("kind", CLOSED)
@pytest.mark.parametrize("reached", REACHED, ids=lambda way: way.__name__.strip("_"))
def test_a_compiled_step_asks_no_method_of_a_users_container(kind, reached):
    step, given = reached(*CLOSED[kind])
    compiled = torch.compile(step)
    for _ in range(3):
        assert compiled(torch.ones(3), *given).tolist() == [2.0] * 3
    with contextlib.redirect_stdout(io.StringIO()):
        compiled.explain()


def telling_other_things(kind):
    """A class of containers whose methods give other numbers than the container holds."""

    class Told(kind):
        def __iter__(self):
            return (v * 10 for v in kind.__iter__(self))

        def __len__(self):
            return 7

        def __getitem__(self, i):
            return kind.__getitem__(self, i) + 100

        def __eq__(self, other):
            return True

        __hash__ = None

    return Told


def _reads_each(x, c):
    for v in c:
        x = x + v
    return x


def _appends(x, c):
    c.append(5.0)
    return x + c[0]


def _replaces(x, c):
    c[0] = 7.0
    return x + c[0]


def _takes_one(x, c):
    return x + c.pop()


STEPS = {
    "iterates": _reads_each,
    "counts": lambda x, c: x + len(c),
    "looks up": lambda x, c: x + c[0],
    "compares": lambda x, c: x + (1 if c == 3 else 0),
    "appends": _appends,
    "replaces": _replaces,
    "takes one": _takes_one,
}


CHANGED = [(kind, step) for kind in (list, deque) for step in STEPS]
CHANGED += [(tuple, step) for step in ("iterates", "counts", "looks up", "compares")]


@pytest.mark.filterwarnings("ignore:torch.compile.*runs eagerly")
@pytest.mark.parametrize("kind, step", CHANGED)
@pytest.mark.parametrize("given", [False, True], ids=["reached", "given"])
def test_changes_behind_a_containers_own_methods_are_noticed(kind, step, given):
    read, told = STEPS[step], telling_other_things(kind)

    def results(wrap):
        holder = SimpleNamespace(c=told([1.0, 2.0, 3.0]))
        fn = wrap(read if given else lambda x: read(x, holder.c))
        found = []
        for i in range(6):
            if i == 1 and kind is not tuple:
                kind.__setitem__(holder.c, 0, 9.0)
            if i == 3 and kind is not tuple:
                kind.append(holder.c, 4.0)
            if i in (2, 5):
                holder.c = told([1.0 + i, 2.0, 3.0])
            found.append(fn(torch.arange(3.0), *([holder.c] if given else [])).tolist())
            found.append(list(kind.__iter__(holder.c)))
        return found

    assert results(torch.compile) == results(lambda fn: fn)
