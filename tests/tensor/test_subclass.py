"""Tensors of classes of one's own: how they are made and what they share; compared with torch."""

from typing import Any

import pytest

import torchgrad_jax as tg
from tests.programs import Programs, attempt, plain_subclass

program = Programs()
test_same_as_torch = program.test()


@program
def called_with_data_or_sizes(m):
    mine = plain_subclass(m)
    made = [mine([1.0, 2.0]), mine(2, 0), mine(), mine([[1, 2]]), m.Tensor.__new__(mine, [1.0])]
    return made, [type(x).__name__ for x in made], [repr(x) for x in made]


@program
def called_with_a_tensor(m):
    mine = plain_subclass(m)
    x = m.ones(2)
    y = mine(x)
    x.add_(1)
    return y, y._is_view(), y._base is x, y._version, mine(m.tensor([1]))


@program
def called_with_a_tensor_that_requires_grad(m):
    mine = plain_subclass(m)
    leaf = m.ones(2, requires_grad=True)
    y = mine(leaf)
    (y * 3).sum().backward()
    return y.grad_fn, leaf.grad, mine(leaf * 2).grad_fn


@program.raises
def new_of_something_else(m):
    return m.Tensor.__new__(int)


@program
def a_constructor_of_its_own(m):
    class Named(m.Tensor):
        def __new__(cls, data, name="none"):
            return super().__new__(cls, data)

        def __init__(self, data, name="none"):
            super().__init__()
            self.label = name

    a, b = Named([1.0]), Named([1.0], name="b")
    return a.label, b.label, b, type(b + 1).__name__


@program
def make_subclass(m):
    mine, x = plain_subclass(m), m.ones(2)
    make = m.Tensor._make_subclass
    made = [make(mine, x), make(mine, x, True), make(mine, x, require_grad=True), make(m.Tensor, x)]
    return made, [type(y).__name__ for y in made], [y._is_view() for y in made]


@program
def make_subclass_shares_storage_and_counter(m):
    x = m.ones(2)
    y = m.Tensor._make_subclass(plain_subclass(m), x)
    x.add_(1)
    y.mul_(3)
    return x, y, x._version, y._version


@program
def make_subclass_drops_history(m):
    x = m.ones(2, requires_grad=True) * 2
    y = m.Tensor._make_subclass(plain_subclass(m), x, True)
    (y * 2).sum().backward()
    return y, y.is_leaf, y.grad


@program
def make_subclass_refuses(m):
    mine, x, make = plain_subclass(m), m.ones(2), m.Tensor._make_subclass
    return [
        attempt(lambda: make(mine, m.tensor([1]), True)),
        attempt(lambda: make(int, x)),
        attempt(lambda: make(3, x)),
        attempt(lambda: make(mine, [1.0])),
        attempt(lambda: make(mine, x, requires_grad=True)),
    ]


@program
def as_subclass(m):
    mine, x = plain_subclass(m), m.ones(2)
    y = x.as_subclass(mine)
    x.add_(1)
    return y, type(y).__name__, y._is_view(), y._base is x, type(y.as_subclass(m.Tensor)).__name__


@program
def as_subclass_is_recorded(m):
    x = m.ones(2, requires_grad=True)
    y = x.as_subclass(plain_subclass(m))
    (y * 3).sum().backward()
    with m.no_grad():
        z = x.as_subclass(plain_subclass(m))
    return y, x.grad, z.requires_grad, z._is_view()


@program
def as_subclass_refuses(m):
    x = m.ones(2)
    return attempt(lambda: x.as_subclass(int)), attempt(lambda: x.as_subclass(3))


@program
def written_to_in_place(m):
    base = m.ones(3, requires_grad=True) * 1
    view = base.as_subclass(plain_subclass(m))
    view.mul_(2)
    view[0] = 7.0
    base.sum().backward()
    return base, type(view).__name__, view


@program.raises
def wrapper_subclasses_need_a_dispatch(m):
    return m.Tensor._make_wrapper_subclass(plain_subclass(m), (2,))


@program
def class_assigned(m):
    x = m.ones(2)
    x.__class__ = plain_subclass(m)
    first = type(x + 1).__name__
    x.__class__ = m.Tensor
    return first, type(x + 1).__name__, x


@program
def attributes_and_slots(m):
    class Slotted(m.Tensor):
        __slots__ = ("extra",)

    x = Slotted([1.0])
    x.extra, x.free = 1, 2
    return x.extra, x.free, x


@program
def texts(m):
    x = plain_subclass(m)([1.5, 2.0])
    return repr(x), str(x), f"{x}", repr(x.requires_grad_()), repr(x * 2), repr(x[0])


@program
def in_an_optimizer_loop(m):
    w = m.ones(2).as_subclass(plain_subclass(m)).requires_grad_()
    for _ in range(3):
        (w * w).sum().backward()
        with m.no_grad():
            w.sub_(w.grad, alpha=0.1)
        w.grad = None
    return w, type(w).__name__


@program
def mixed_with_a_second_base(m):
    class Extra:
        def twice(self: Any):
            return self * 2

    class Mixed(Extra, m.Tensor):
        pass

    make: Any = Mixed
    x = make([1.0])
    return x.twice(), type(x.twice()).__name__


class Dispatching(tg.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Dispatching([1.0]),
        lambda: tg.ones(1).as_subclass(Dispatching),
        lambda: tg.Tensor._make_subclass(Dispatching, tg.ones(1)),
        lambda: tg.Tensor._make_wrapper_subclass(Dispatching, (2,)),
    ],
    ids=["call", "as_subclass", "make_subclass", "make_wrapper_subclass"],
)
def test_torch_dispatch_is_refused(make):
    with pytest.raises(NotImplementedError, match="__torch_dispatch__"):
        make()


def test_options_of_wrapper_subclasses_are_refused():
    with pytest.raises(NotImplementedError, match="dispatch_device"):
        tg.Tensor._make_subclass(plain_subclass(tg), tg.ones(1), dispatch_device=True)
