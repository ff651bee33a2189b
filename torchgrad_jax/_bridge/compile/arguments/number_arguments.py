"""Python numbers and arrays of JAX among the arguments of a compiled function, which are inputs of its program.

In `step(x, 0.1)` the program reads 0.1 again in each call. While the function is traced a `Number` stands in the place
of each such argument. A number whose value the function asks for (a branch, a size, text) is a constant of that program
instead, and the line that asked is remembered. An array is a traced one meanwhile.
"""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from operator import is_
from typing import Any

from ...._core.arrays.python_numbers import Number, looked_at
from ...._core.errors.messages import NeedsPlainNumbers
from ...._core.python_values import same
from ...._engine.memory.tensor import Tensor
from .array_arguments import array_of, is_array_input
from .object_trees import parts_of

_LARGEST = 1 << 63


def is_input(x: Any) -> bool:
    """Return whether an argument is a number that a program can read: a bool is not, which code asks for with `is`."""
    kind = type(x)
    return kind is float or kind is complex or (kind is int and -_LARGEST <= x < _LARGEST)


class NumberArguments:
    """The arguments of the call that is traced, and where the numbers are among them.

    Args:
        arguments: positional and named ones.
        flat: their leaves.
        tensors: the tensors among these, and those that stand for arrays.
        plain: all numbers are constants.
        is_object: whether an argument is a dataclass that is a container.
    """

    def __init__(
        self,
        arguments: Any,
        flat: Sequence[Any],
        tensors: Sequence[Tensor],
        plain: bool,
        is_object: Callable[[Any], bool],
    ) -> None:
        self._arguments, self._is_object = arguments, is_object
        given = [x for x in flat if isinstance(x, Tensor) or is_array_input(x)]
        as_tensors = len(given) == len(tensors)
        self._arrays = [t for x, t in zip(given, tensors) if x is not t] if as_tensors else []
        """What stands for each array."""
        self.constants_of_key = [
            x for x in flat if not isinstance(x, Tensor) and not (as_tensors and is_array_input(x))
        ]
        """The leaves whose identities or values tell kinds of calls apart."""
        self.leaf_positions = [i for i, x in enumerate(flat) if is_input(x)]
        """The leaves that are numbers."""
        self.values = [flat[i] for i in self.leaf_positions]
        self.constants: dict[int, str] = {}
        """By its position among the numbers: where the value of one was asked for."""
        self._containers: dict[int, Any] = {}
        self._replaced_items: list[tuple[Any, Any, Any, Any]] = []
        self._n = 0
        self._next_array: Iterator[Tensor] = iter(())
        if plain or not self._each_once(arguments):
            if self._arrays:
                raise NeedsPlainNumbers
            self.constants = dict.fromkeys(range(len(self.leaf_positions)), "")

    def _each_once(self, x: Any) -> bool:
        """Return whether no list or dict is reached in two ways, so that a number in it is that of one argument."""
        parts = parts_of(x, self._is_object)
        if parts is None:
            return True
        if isinstance(x, list | dict | deque):
            if id(x) in self._containers:
                return False
            self._containers[id(x)] = x
        return all(map(self._each_once, parts[0]))

    def with_numbers(self, number: Callable[[int], Any]) -> Any:
        """The arguments with `number(i)` in the place of each number that is an input, and traced arrays."""
        self._n, self._next_array = 0, iter(self._arrays)
        return self._with_numbers(self._arguments, number, True)

    def _with_numbers(self, x: Any, number: Callable[[int], Any], can: bool) -> Any:
        parts = parts_of(x, self._is_object)
        if parts is None:
            return self._leaf(x, number, can)
        can = can and (isinstance(x, dict | deque) or type(x) is list or _is_tuple(x))
        before = parts[0]
        now = [self._with_numbers(c, number, can) for c in before]
        if all(map(is_, before, now)):
            return x
        if _is_tuple(x):
            return x._make(now) if hasattr(x, "_make") else tuple(now)
        for key, old, new in zip(x if isinstance(x, dict) else range(len(x)), before, now):
            if new is not old:
                self._replaced_items.append((x, key, old, new))
                x[key] = new
        return x

    def _leaf(self, x: Any, number: Callable[[int], Any], can: bool) -> Any:
        if self._arrays and is_array_input(x):
            if not can:
                raise NeedsPlainNumbers
            return array_of(next(self._next_array), x)
        if not is_input(x):
            return x
        i, self._n = self._n, self._n + 1
        if not can:
            self.constants[i] = ""
        return x if i in self.constants else number(i)

    def has_arrays(self) -> bool:
        """Return whether arrays are inputs."""
        return bool(self._arrays)

    def put_plain_numbers(self) -> bool:
        """Put plain numbers back into lists and dicts; whether the function wrote to none of them."""
        kept = True
        put, self._replaced_items = self._replaced_items, []
        for holder, key, before, number in reversed(put):
            there = holder.get(key) if isinstance(holder, dict) else _item(holder, key)
            if there is number:
                holder[key] = before
            else:
                kept = False
        return kept


def _is_tuple(x: Any) -> bool:
    return type(x) is tuple or (isinstance(x, tuple) and hasattr(x, "_make"))


def _item(held: Any, i: int) -> Any:
    return held[i] if i < len(held) else None


class Constant:
    """A number among the arguments that is part of a program."""

    __slots__ = ("at", "leaf", "name", "place", "value")

    def __init__(self, at: int, leaf: int, value: Any, name: str, place: str) -> None:
        self.at, self.leaf, self.value, self.name, self.place = at, leaf, value, name, place

    def describe_change(self, args: Sequence[Any]) -> str | None:
        """Why a program that holds this number is not the one for these arguments, or None."""
        now = args[self.at]
        if same(now, self.value):
            return None
        needed = f"; its value is needed at {self.place}" if self.place else ""
        return f"{self.name} was {self.value!r} and is {now!r}{needed}"


def use_plain_numbers_in_closure(fn: Any) -> None:
    """Put plain numbers in the closure of a function that runs when the trace is over; they are constants then."""
    for cell in getattr(fn, "__closure__", None) or ():
        held = cell.cell_contents
        if type(held) is Number or isinstance(held, tuple):
            cell.cell_contents = looked_at(held)
        elif isinstance(held, types.FunctionType) and held is not fn:
            use_plain_numbers_in_closure(held)
        elif isinstance(held, functools.partial):
            use_plain_numbers_in_closure(held.func)
            cell.cell_contents = functools.partial(
                held.func,
                *map(looked_at, held.args),
                **{name: looked_at(value) for name, value in held.keywords.items()},
            )
