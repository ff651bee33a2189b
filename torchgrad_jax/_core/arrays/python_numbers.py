"""Python numbers that a program carries: read again in each run, and computed with again in Python.

While a function is traced, a `Number` stands for a Python number that may be another one in the next run. Arithmetic on
it is written down in a `Log`, tensor code takes it as an input of the program, and code that asks for its value (a
branch, a size, text) gets the value of this run, which the log remembers as something to be compared.
"""

from __future__ import annotations

import math
import operator
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..errors.messages import users_place
from ..signals import contextmanager

_SIMPLE = (int, float, complex, bool)


class Values(threading.local):
    """What the numbers of a program are in the run that is going on; each thread has a run of its own."""

    def __init__(self, first: list[Any]) -> None:
        self.first = first
        """What they were in the run that was traced, and constants."""
        self.own = list(first)

    def __getitem__(self, slot: int) -> Any:
        return self.own[slot]

    def __len__(self) -> int:
        return len(self.own)

    def append(self, value: Any) -> None:
        """One more number, while the function is traced."""
        self.first.append(value)
        self.own.append(value)


_CARRIED = frozenset([int, float, complex])


class Recording:
    """Records what is done to numbers: the steps, and the values of this run."""

    def __init__(self) -> None:
        self.values = Values([])
        """By slot: what the numbers are in the run that is going on, and constants."""
        self.steps: list[tuple[Any, ...]] = []
        self.checked: set[int] = set()
        self.made: list[weakref.ref[Number]] = []
        """The numbers that stood for Python's while the function was traced."""
        self.open = True
        self._thread = threading.get_ident()

    def slot_of(self, value: Any) -> int:
        """The slot of a number; a constant gets a new slot."""
        if type(value) is Number and value._log is self:
            return value._slot
        self.values.append(plain(value))
        return len(self.values) - 1

    def records(self) -> bool:
        """Return whether what happens now belongs to the function being traced."""
        return self.open and threading.get_ident() == self._thread

    def op(self, fn: Callable[..., Any], args: Sequence[Any]) -> Any:
        """The result of a function of numbers. If it is a number, the program carries it as well."""
        value = fn(*[plain(a) for a in args])
        if not self.records():
            return value
        slots = [self.slot_of(a) for a in args]
        slot = self.slot_of(value)
        self.steps.append((OP, slot, fn, slots))
        if type(value) in _CARRIED:
            return Number(self, slot, value)
        self.check(slot)
        return value

    def exactly(self, fn: Callable[..., Any], args: Sequence[Any]) -> Any:
        """The result of a function of numbers as a plain value, which must be the same in the next run."""
        return self.look(self.op(fn, args))

    def look(self, value: Any) -> Any:
        """The value of a number, which the next run has to have, too."""
        if type(value) is not Number:
            return value
        if self.records():
            self.check(value._slot)
        return value._value

    def check(self, slot: int) -> None:
        """Compare what is in a slot in each run."""
        if slot not in self.checked:
            self.checked.add(slot)
            self.steps.append((CHECK, slot, self.values[slot], users_place()))

    def input(self, slot: int) -> Any:
        """An array of the program that stands for a number."""
        raise NotImplementedError


OP, CHECK, READ, WRITE, EVENT, ARRAY, GIVEN = range(7)
"""Kinds of steps of a log."""


def plain(value: Any) -> Any:
    """The value in this run."""
    return value._value if type(value) is Number else value


def form_of(x: Any) -> Any:
    """Of what type a number is that can be followed: for a list or tuple of them its type and theirs. None for others.

    A bool is none: code asks for it with `is`.
    """
    kind = type(x)
    if kind is int or kind is float:
        return kind
    if kind is not list and kind is not tuple:
        return None
    kinds = tuple(map(type, x))
    return (kind, kinds) if kinds and all(k is int or k is float for k in kinds) else None


def with_plain_numbers(value: Any, around: frozenset[int] = frozenset()) -> Any:
    """A value without carried numbers in it: itself, or a new tuple; lists and dicts are changed in place.

    `around` are the identities of the containers that it is in, one of which it may be itself.
    """
    if type(value) not in (tuple, list, dict):
        return plain(value)
    if id(value) in around:
        return value
    around |= {id(value)}
    if type(value) is dict:
        value.update([(k, with_plain_numbers(v, around)) for k, v in value.items()])
        return value
    plain_items = [with_plain_numbers(v, around) for v in value]
    if type(value) is list:
        value[:] = plain_items
    elif not all(map(operator.is_, value, plain_items)):
        return tuple(plain_items)
    return value


def looked_at(value: Any) -> Any:
    """A value, or a tuple of values, that is needed now: numbers of this run become plain, and the next checks them."""
    if isinstance(value, tuple) and any(type(v) is Number for v in value):
        return tuple(map(looked_at, value))
    return value._log.look(value) if type(value) is Number else value


class Number:
    """A Python number of this run, and how the next run computes it."""

    __slots__ = ("__weakref__", "_log", "_slot", "_value")

    def __init__(self, log: Recording, slot: int, value: Any) -> None:
        self._log, self._slot, self._value = log, slot, value
        log.made.append(weakref.ref(self))

    @property
    def __class__(self) -> Any:  # for `isinstance`
        return type(self._value)

    def array(self) -> Any:
        """The number as an array of the program."""
        return self._log.input(self._slot) if self._log.records() else self._value

    __jax_array__ = array

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return np.asarray(self._log.look(self), *args, **kwargs)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "__call__" and not kwargs and all(map(_is_number, inputs)):
            return self._log.op(ufunc, inputs)
        return getattr(ufunc, method)(*[self._log.look(x) for x in inputs], **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log.look(self), name)

    def __hash__(self) -> int:
        return hash(self._log.look(self))

    def __deepcopy__(self, memo: Any) -> Number:
        return self

    def __copy__(self) -> Number:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        return (type(self._value), (self._log.look(self),))

    def __repr__(self) -> str:
        return repr(self._log.look(self))

    def __str__(self) -> str:
        return str(self._log.look(self))

    def __format__(self, spec: str) -> str:
        return format(self._log.look(self), spec)

    def __divmod__(self, other: Any) -> Any:
        return (self // other, self % other) if _is_number(other) else NotImplemented

    def __rdivmod__(self, other: Any) -> Any:
        return (other // self, other % self) if _is_number(other) else NotImplemented

    def __round__(self, digits: int | None = None) -> Any:
        return self._log.op(round, (self,) if digits is None else (self, digits))


def _is_number(x: Any) -> bool:
    return type(x) is Number or type(x) in _SIMPLE


def _binary(fn: Callable[..., Any], turned: bool) -> Callable[..., Any]:
    def method(self: Number, other: Any) -> Any:
        if not _is_number(other):
            return NotImplemented
        return self._log.op(fn, (other, self) if turned else (self, other))

    return method


def _comparison(fn: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Number, other: Any) -> Any:
        if not _is_number(other):
            return NotImplemented
        return self._log.op(fn, (self, other))

    return method


def _unary(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self: self._log.op(fn, (self,))


def _exact(fn: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Number) -> Any:
        same_value = type(self._value) is (int if fn is operator.index else fn)
        return self._log.look(self) if same_value else self._log.exactly(fn, (self,))

    return method


_TWO = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift")
for _name in _TWO:
    _fn = getattr(operator, f"__{_name}__")
    setattr(Number, f"__{_name}__", _binary(_fn, False))
    setattr(Number, f"__r{_name}__", _binary(_fn, True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Number, f"__{_name}__", _comparison(getattr(operator, _name)))
for _name, _fn in {
    "neg": operator.neg,
    "pos": operator.pos,
    "abs": abs,
    "invert": operator.invert,
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
}.items():
    setattr(Number, f"__{_name}__", _unary(_fn))
for _name, _fn in {"bool": bool, "int": int, "float": float, "complex": complex, "index": operator.index}.items():
    setattr(Number, f"__{_name}__", _exact(_fn))


MATH = tuple(
    n
    for n, f in vars(math).items()
    if not n.startswith("_") and callable(f) and n not in ("fsum", "prod", "dist", "sumprod")
)
"""Functions of the math module that take numbers, one by one."""


def tracked(name: str, before: Any) -> Any:
    """A function of numbers that writes down what is done to those that are carried."""

    def function(*args: Any, **kwargs: Any) -> Any:
        for x in args:
            if type(x) is Number and not kwargs and all(map(_is_number, args)):
                return x._log.op(before, args)
        return before(*args, **kwargs)

    return function


class _Replaced:
    """The functions of `math`, replaced while some thread traces: once, however many do."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._put: list[tuple[str, Any, Any]] = []

    def enter(self) -> None:
        with self._lock:
            self._count += 1
            if self._count == 1:
                for name in MATH:
                    before = getattr(math, name)
                    ours = tracked(name, before)
                    ours.replaces = before
                    self._put.append((name, before, ours))
                    setattr(math, name, ours)

    def leave(self) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0:
                for name, before, ours in self._put:
                    # Otherwise it is somebody else's function, which may call ours.
                    if getattr(math, name) is ours:
                        setattr(math, name, before)
                self._put.clear()


_replaced = _Replaced()


@contextmanager
def following_math() -> Iterator[None]:
    """Within it functions of `math` write down what they compute of such numbers."""
    _replaced.enter()
    try:
        yield
    finally:
        _replaced.leave()
