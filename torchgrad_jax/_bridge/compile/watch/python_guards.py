"""Guards: the Python values that a compiled function can reach, compared before its program is used again.

A program is right for as long as the Python code would take the same branches. So while a function is traced,
`PythonGuards` lists the places that it can look at (closures, the globals that it names, attributes of its `self`,
modules, optimizers) with the value that each of them had:

    guards = PythonGuards()
    guards.add_function(step)
    guards.describe_change()  # None, or "'scale' was 2 and is 3"
    guards.restore()          # after a trace that failed: puts the values back
"""

from __future__ import annotations

import builtins
import functools
import gc
import inspect
import logging
import operator
import os
import re
import sys
import threading
import types
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from itertools import repeat
from typing import Any

import jax
import numpy as np

from ...._core.arrays import tree
from ...._core.state import MODES, SETTINGS
from ...._engine.memory.tensor import Tensor
from .array_contents import ARRAYS, array_content, refill
from .code_names import asks_for_identity, asks_for_type, global_names, names_in, string_constants
from .hidden_state import HiddenState, has_hidden_state, keeps_results, kept_results
from .impure_calls import IMPURE_MODULES, IMPURE_NAMES
from .libraries import (
    flags_of,
    holds_state,
    is_known_library,
    is_known_package,
    is_library,
    is_of_library,
    is_users_function,
    levels_of,
    loggers_in,
)
from .number_log import (
    are_same_numbers,
    are_same_values,
    is_number,
    is_number_or_list,
    is_same_value,
    with_plain_numbers,
)
from .places import MISSING, PLAIN_VALUES, Attributes, Cell, Class, Items, OfThread, Variable, place_of, quick_places

_SWITCHES = (bool, str, type(None))
"""Plain values that are no numbers: a program that was traced for one of them sets the same one in each run."""
_ABSENT = repeat(MISSING)
_MOST_PLACES = 20_000


class PythonGuards:
    """Places in Python objects, and the value that each had when the function was traced."""

    __slots__ = (
        "arrays", "caches", "codes", "before_optimizer_state", "class_containers", "may_be_impure",
        "quick_places", "dicts", "hidden", "instances", "kept_alive", "kept_places", "lists", "looked_up",
        "looked_up_by", "met_again", "modules", "names", "number_places", "optimizers", "orders", "places",
        "reached_tensors", "replaced_numbers", "_settings", "schedules", "state_holders", "visited_ids",
    )  # fmt: skip

    def __init__(self) -> None:
        self.places: list[tuple[Any, Any, Any]] = []
        """(holder, key, value): a dict, or something that is looked at like one."""
        self.dicts: list[tuple[Any, int]] = []
        """Dicts, and how many entries they had."""
        self.lists: list[tuple[Any, list[Any]]] = []
        """Lists, sets and deques, and copies of them."""
        self.quick_places: Any = None
        """`places` and `dicts` by column, so that C code compares them; None until it is needed."""
        self.orders: list[tuple[dict[Any, Any], list[Any]]] = []
        """Dicts of several entries, and their keys in order."""
        self.number_places: list[tuple[Any, Any]] = []
        """Places that are not watched, since their numbers are read anew in each run."""
        self.arrays: list[tuple[Any, Any]] = []
        """Arrays of NumPy, of Python and of C, bytearrays, and what was in them."""
        self.caches: list[Any] = []
        """Functions of the user's whose results are kept (`functools.lru_cache`)."""
        self.hidden: list[HiddenState] = []
        """Iterators, generators of random numbers, files."""
        self.may_be_impure = False
        """Whether a function names something that may ask for the time, or read or write outside of the program."""
        self.codes: list[types.CodeType] = []
        """The code of the functions."""
        self.kept_places: set[Any] = set()
        """Places that are not watched, since the program puts tensors there."""
        self.replaced_numbers: list[tuple[Any, Any]] = []
        """Places where the function put a number that differs from call to call; a plain one is there now."""
        self.before_optimizer_state: list[tuple[Any, Any, Any]] = []
        """`places`, `dicts` and `orders` as they were before the optimizer made its state."""
        self.optimizers: list[Any] = []
        self.schedules: list[Any] = []
        self.state_holders: dict[int, set[int]] = {}
        """Identities of what is watched in the state of an optimizer and nowhere else, by that of the optimizer.

        Those whose steps nobody would tell of are left out.
        """
        self.modules: list[types.ModuleType] = []
        """Modules that are reached otherwise than as a global; code looks up attributes of them by name."""
        self.names: set[str] = set()
        """All names and texts in the functions."""
        self.looked_up_by: set[str] = set()
        """Names that objects of the standard library look up (`operator.attrgetter`)."""
        self.looked_up: set[tuple[int, str]] = set()
        """Names that were looked up in modules, and identities of these."""
        self.visited_ids: set[int] = set()
        self.kept_alive: list[Any] = []
        """The objects of `visited_ids`, so that no other object gets one of these ids."""
        self.instances: list[dict[str, Any]] = []
        """The attributes of plain objects of the user's, such as a trainer whose method is compiled."""
        self.class_containers: list[tuple[str, Any]] = []
        """Lists, dicts, sets and deques that classes of the user's hold, and the names of these attributes."""
        self.met_again: set[int] = set()
        """Identities of what is reached in several ways."""
        self.reached_tensors: dict[int, Tensor] = {}
        """Tensors that are reached otherwise than as arguments, by identity; empty after the trace."""
        for setting in AMBIENT:
            self._add_dict(setting)
        self.places += [(Attributes(MODES), key, getattr(MODES, key)) for key in _MODES]
        self._settings = len(self.places), len(self.dicts)
        """How many of the places and dicts are settings."""

    def describe_change(self) -> str | None:
        """What is no longer as it was, in words; None if everything is."""
        if self.quick_places is None:
            self.quick_places = quick_places(self.places, self.dicts)
        looks, dicts, sizes = self.quick_places
        # No loop in Python where everything is the very object that it was.
        try:
            for look, owners, keys, values in looks:
                if not all(map(operator.is_, map(look, owners, keys, _ABSENT), values)):
                    break
            else:
                if list(map(len, dicts)) == sizes:
                    return self._describe_list_change()
        except ValueError:  # of a cell that is empty now
            pass
        for at, (holder, key, before) in enumerate(self.places):
            now = holder.get(key, MISSING)
            if now is before:
                continue
            if isinstance(now, PLAIN_VALUES) and is_same_value(now, before):
                self.places[at] = (holder, key, now)
                self.quick_places = None
                continue
            name = repr(key) if isinstance(key, PLAIN_VALUES) else f"what a {type(key).__name__} has in a dict"
            return f"{name} was {_describe_value(before)} and is {_describe_value(now)}"
        for holder, n in self.dicts:
            if len(holder) != n:
                return f"a dict had {n} entries and has {len(holder)}"
        return self._describe_list_change()

    def keeps_traced_array(self) -> bool:
        """Whether a place, a dict or a list holds an array that JAX traces, which is of no use after the trace."""
        held: list[Any] = [holder.get(key, None) for holder, key, _ in self.places]
        held += [list(holder) for holder, _ in self.lists]
        for holder, _ in self.dicts:
            held += [holder[key] for key in list(holder)]
        return any(isinstance(x, jax.core.Tracer) for x in tree.flatten(held)[0])

    def watches_nothing(self) -> bool:
        """Whether the function reads settings alone, unless somebody changes the function itself or a library."""
        if self.lists or self.arrays or self.hidden or self.orders or self.reached_tensors:
            return False
        n_places, n_dicts = self._settings
        return not any(n for _, n in self.dicts[n_dicts:]) and all(
            key in _OF_FUNCTIONS or isinstance(value, types.ModuleType) or is_of_library(value)
            for _, key, value in self.places[n_places:]
        )

    def restore(self) -> None:
        """Put back the values of all places, after a trace that failed or was undone."""
        if self.before_optimizer_state:
            self.places, self.dicts, self.orders = self.before_optimizer_state[0]
            self.quick_places = None
            self.before_optimizer_state.clear()
        there = self.kept_places.union(place_of(*place) for place in self.number_places)
        for holder, key, before in self.places:
            there.add(place_of(holder, key))
            if before is not MISSING and holder.get(key, MISSING) is not before:
                holder[key] = before
        for holder, n in self.dicts:
            if len(holder) != n:
                for key in [k for k in holder if place_of(holder, k) not in there]:
                    del holder[key]
        for hidden in self.hidden:
            hidden.restore()
        for holder, keys in self.orders:
            if list(holder) != keys and holder.keys() == set(keys):
                entries = {key: holder[key] for key in keys}
                holder.clear()
                holder.update(entries)
        for i, (holder, before) in enumerate(self.lists):
            if len(holder) == len(before) and all(map(operator.is_, holder, before)):
                continue
            holder.clear()
            holder.update(before) if isinstance(holder, set) else holder.extend(before)
            # A set that is filled anew may have another order.
            self.lists[i] = (holder, list(holder))
        for holder, before in self.arrays:
            if array_content(holder) != before:
                refill(holder, before)
        self.replaced_numbers.clear()

    def optimizer_state_began(self, optimizer: Any) -> None:
        """The state that an optimizer made on its first step is what is watched from here on.

        So are the tensors that a gradient scaler made of its first scale.
        """
        if not any(optimizer is known for known in self.optimizers):
            self._scaler_tensors_began(vars(optimizer))
            return
        self.before_optimizer_state.append((list(self.places), list(self.dicts), list(self.orders)))
        state_dicts = [optimizer.state, *[v for v in optimizer.state.values() if isinstance(v, dict)]]
        ids = {id(held) for held in state_dicts}
        self.dicts, self.places, self.orders = (
            [row for row in rows if id(row[0]) not in ids] for rows in (self.dicts, self.places, self.orders)
        )
        for held in state_dicts:
            self._visit(held)
            self._add_dict(held)
            if len(held) > 1:
                self.orders.append((held, list(held)))
        self.quick_places = None

    def _scaler_tensors_began(self, held: dict[str, Any]) -> None:
        """Attributes that were None and are tensors now."""
        if not any(holder is held for holder, _, _ in self.places):
            return
        self.before_optimizer_state.append((self.places, list(self.dicts), list(self.orders)))
        self.places = [
            (h, k, h[k]) if h is held and v is None and isinstance(h.get(k), Tensor) else (h, k, v)
            for h, k, v in self.places
        ]
        self.quick_places = None

    def _describe_list_change(self) -> str | None:
        for holder, before in self.lists:
            if len(holder) != len(before) or not are_same_values(holder, before):
                return "the entries of a list changed"
        for holder, keys in self.orders:
            if len(holder) != len(keys) or not are_same_values(holder, keys):
                return "the entries of a dict have another order"
        for holder, before in self.arrays:
            if array_content(holder) != before:
                return "the values of an array changed"
        return None

    def describe_unknowable_state(self) -> str | None:
        """What nothing tells the state of, in words; None if there is no such thing."""
        unknown = next((h.of for h in self.hidden if h.is_unknown()), None)
        if unknown is None:
            return None
        return f"it can reach what does not tell how far it is (a {type(unknown).__name__})"

    def describe_advanced_state(self) -> str | None:
        """What was done to state that objects keep to themselves, in words; None if nothing."""
        if self.replaced_numbers:
            return f"a number that is another one in each call was put under {self.replaced_numbers[0][1]!r}"
        return next((change for h in self.hidden if (change := h.describe_change()) is not None), None)

    def watch_caches(self) -> None:
        """After a trace, which may have filled caches: a result that one of them loses is computed anew."""
        for held in map(kept_results, self.caches):
            self.places += [(held, key, value) for key, value in held.items()]
        self.quick_places = None

    # -- numbers that are carried
    def put_plain_numbers(self, watched: frozenset[int]) -> None:
        """Put plain numbers where the function has put those that were carried while it was traced.

        Args:
            watched: identities of containers, each of which has its turn: a number in it is a number at a place.
        """
        for holder, key, _ in self.places:
            value = holder.get(key, MISSING)
            if (plain_value := with_plain_numbers(value, watched)) is not value:
                holder[key] = plain_value
                self.replaced_numbers.append((holder, key))
        for holder, _ in self.dicts:
            if isinstance(holder, dict):
                for key, value in list(holder.items()):
                    if (plain_value := with_plain_numbers(value, watched)) is not value:
                        holder[key] = plain_value
                        self.replaced_numbers.append((holder, key))
        for holder, before in self.lists:
            if len(holder) != len(before) or not all(map(operator.is_, holder, before)):
                plain_value = [with_plain_numbers(v, watched) for v in holder]
                if not all(map(operator.is_, holder, plain_value)):
                    self.replaced_numbers += [(holder, i) for i, v in enumerate(holder) if plain_value[i] is not v]
                    holder.clear()
                    holder.update(plain_value) if isinstance(holder, set) else holder.extend(plain_value)

    def take_number_places(self, more: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """The places of numbers that are read anew in each run: (holder, key). They are no longer watched.

        These are learning rates (and momenta, where a schedule of cycles has left its bounds in the group), what
        schedules count, and the places `more`.
        """
        number_places: dict[Any, tuple[Any, Any]] = {}
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                cycled = ("momentum", "betas") if "max_momentum" in group else ()
                for key in ("lr", *cycled):
                    if is_number_or_list(group.get(key)):
                        number_places[id(group), key] = (group, key)
        for schedule in self.schedules:
            held = vars(schedule)
            for key, value in held.items():
                if is_number(value) or key == "_last_lr":  # tensors in it are read by nobody else
                    number_places[id(held), key] = (held, key)
        watched = {place_of(holder, key) for holder, key, _ in self.places}
        lists = {id(held): held for held, _ in self.lists if type(held) is list}
        for holder, key in more:
            place = place_of(holder, key)
            items = Items(lists[place[0]]) if place[0] in lists else None
            if items is not None and key < len(items):
                number_places[place] = (items, key)
            elif place in watched:
                number_places[place] = (holder, key)
        self.places = [p for p in self.places if place_of(p[0], p[1]) not in number_places]
        for i, (held, before) in enumerate(self.lists):
            if type(held) is list and any((id(held), j) in number_places for j in range(len(before))):
                items = Items(held)
                self.dicts.append((items, len(held)))
                self.places += [(items, j, v) for j, v in enumerate(before) if (id(held), j) not in number_places]
                self.lists[i] = ([], [])
        self.quick_places, self.number_places = None, list(number_places.values())
        return self.number_places

    def optimizer_tensors(self) -> list[Tensor]:
        """Options of optimizers that are tensors, which schedules may write to."""
        groups = [group for optimizer in self.optimizers for group in optimizer.param_groups]
        if not self.schedules:
            return []
        return list({id(t): t for group in groups for t in _tensors_in(group)}.values())

    def drifted_numbers(self) -> list[tuple[Any, Any]]:
        """The places where a number has become another one: (holder, key)."""
        drifted: list[tuple[Any, Any]] = list(self.replaced_numbers)
        for holder, key, before in self.places:
            now = holder.get(key, MISSING)
            numbers = is_number_or_list(now) and is_number_or_list(before)
            if numbers and not are_same_numbers(now, before):
                drifted.append((holder, key))
        for held, before in self.lists:
            if type(held) is list and len(held) == len(before):
                pairs = zip(held, before)
                drifted += [
                    (held, i)
                    for i, (a, b) in enumerate(pairs)
                    if is_number(a) and is_number(b) and not is_same_value(a, b)
                ]
        return drifted

    def switches(self) -> list[tuple[Any, Any, Any]]:
        """Where a bool, a text or None has become another one: (holder, key, the new one).

        What was there is put back.
        """
        found = []
        for holder, key, before in self.places:
            now = holder.get(key, MISSING)
            if now is not before and isinstance(now, _SWITCHES) and isinstance(before, _SWITCHES):
                found.append((holder, key, now))
                holder[key] = before
        return found

    # -- collecting
    def add_function(self, fn: Any) -> None:
        """A function: its closure, the globals that it names, its `self`."""
        if isinstance(fn, types.MethodType):
            self.add_value(fn.__self__)
            fn = fn.__func__
        while _has_attribute(fn, "__wrapped__") and not is_users_function(fn):
            if isinstance(fn, types.FunctionType):  # such as one of `functools.singledispatch`
                self._add_dict(vars(fn))
            else:
                self._add_instance(fn)
            fn = fn.__wrapped__
        if not isinstance(fn, types.FunctionType) or id(fn) in self.visited_ids:
            if not isinstance(fn, type | types.BuiltinFunctionType | types.FunctionType):
                self.add_value(fn)
            return
        self._visit(fn)
        self.places += [(Attributes(fn), key, getattr(fn, key)) for key in _OF_FUNCTIONS]
        self._add_dict(vars(fn))
        names = list(dict.fromkeys(names_in(fn.__code__)))
        strings = list(dict.fromkeys(string_constants(fn.__code__)))
        self.names.update(names, strings)
        for module in self.modules:
            self._add_module(module, names + strings)
        self.may_be_impure = self.may_be_impure or not IMPURE_NAMES.isdisjoint(names)
        self.codes.append(fn.__code__)
        for cell in fn.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:  # still empty
                self.places.append((Cell(cell), "cell_contents", MISSING))
                continue
            self.places.append((Cell(cell), "cell_contents", content))
            if isinstance(content, types.ModuleType):
                self._add_module(content, names + strings)
            else:
                self.add_value(content)
        loaded = list(global_names(fn.__code__))
        if "globals" in names:
            loaded = names + strings
        if not _EVALUATING.isdisjoint(names):
            loaded += [name for text in strings for name in _IDENTIFIER.findall(text)]
        for name in loaded:
            value = fn.__globals__.get(name, sys.modules.get(name))
            if isinstance(value, types.ModuleType):
                self._add_module(value, names + strings)
            elif name in fn.__globals__:
                self._add_place(fn.__globals__, name)
            elif name not in vars(builtins):
                self.places.append((fn.__globals__, name, MISSING))
        if not _ENVIRONMENT_NAMES.isdisjoint(names):
            self._add_dict(os.environ._data)  # type: ignore[attr-defined]
        if not _NAMES_OF_IMPORTS.isdisjoint(names):
            for name in strings:
                if isinstance(sys.modules.get(name), types.ModuleType):
                    self._add_module(sys.modules[name], names + strings)
        if "getLogger" in names:
            for logger in loggers_in(strings, fn.__globals__.get("__name__")):
                self.add_value(logger)
        for value in (fn.__defaults__, fn.__kwdefaults__):
            self.add_value(value)

    def _add_module(self, module: types.ModuleType, names: list[str]) -> None:
        """What a function may look up in a module of the user's: attributes that it names."""
        if (flags := flags_of(module, self.names)) is not None:
            self.add_value(flags)
        if is_library(module.__name__):
            return
        for name in names:
            if (id(module), name) not in self.looked_up:
                if name in vars(module):
                    self._add_place(vars(module), name)
                elif _MAY_BE_MISSING.isdisjoint(self.names):
                    continue
                else:
                    self.places.append((vars(module), name, MISSING))
                self.looked_up.add((id(module), name))

    def _add_class(self, cls: type) -> None:
        """Attributes of a class of the user's, which instances fall back on; and of its class, on which it does."""
        if type(cls) is not type:
            self._add_class(type(cls))
        for base in cls.__mro__:
            if base is not object and not is_known_library(base) and self._visit(base):
                held = vars(base)
                own = Class(base)
                self.dicts.append((own, len(own)))
                self.places += [(own, key, held[key]) for key in own]
                for key, value in list(held.items()):
                    code = getattr(value, "fget", None) or getattr(value, "__func__", value)
                    if isinstance(code, types.FunctionType):
                        self.add_value(code)
                    elif key not in _UNWATCHED_OF_CLASSES and key in own:
                        self.add_value(value)
                        if isinstance(value, _GROWING):
                            self.class_containers.append((key, value))

    def _add_logger(self, x: logging.Logger) -> None:
        self.places += [(held, key, held[key]) for held, key in levels_of(x)]

    def _visit(self, x: Any) -> bool:
        if id(x) in self.visited_ids:
            return False
        self.visited_ids.add(id(x))
        self.kept_alive.append(x)
        return True

    def _add_place(self, holder: dict[Any, Any], key: Any) -> None:
        if len(self.places) < _MOST_PLACES:
            value = holder[key]
            self.places.append((holder, key, value))
            self.add_value(value)

    def add_value(self, x: Any) -> None:
        """Something reachable."""
        if isinstance(x, type):
            self._add_class(x)
            return
        if isinstance(x, types.BuiltinFunctionType | types.MethodWrapperType):
            owner = getattr(x, "__self__", None)
            self.may_be_impure = self.may_be_impure or getattr(x, "__module__", None) in IMPURE_MODULES
            if not isinstance(owner, type):
                self.add_value(owner)
            return
        if isinstance(x, Tensor):
            self._add_tensor(x)
            return
        if isinstance(x, types.ModuleType):
            if self._visit(x):
                self.modules.append(x)
                self._add_module(x, list(self.names))
            return
        if isinstance(x, PLAIN_VALUES) and not hasattr(x, "__dict__"):
            return
        if isinstance(x, types.FunctionType | types.MethodType):
            if not is_known_library(x):
                self.add_function(x)
            elif isinstance(x, types.MethodType):
                self.add_value(x.__self__)
            return
        if _has_attribute(x, "__wrapped__"):  # a function that was compiled or scripted
            if keeps_results(x) and is_users_function(getattr(x, "__wrapped__", None)):
                self.caches.append(x)
            self.add_function(x)
        if not self._visit(x):
            self.met_again.add(id(x))
            return
        if isinstance(x, logging.Logger):
            self._add_logger(x)
        elif has_hidden_state(x):
            self.hidden.append(HiddenState(x))
        elif isinstance(x, ARRAYS):
            self.arrays.append((x, array_content(x)))
            self._add_instance(x)
            for v in x.flat if isinstance(x, np.ndarray) and x.dtype == object else ():
                self.add_value(v)
        elif isinstance(x, ContextVar):
            self.places.append((Variable(x), "value", x.get(MISSING)))
            self.add_value(x.get(None))
        elif isinstance(x, weakref.ref):
            self.add_value(x())
        elif type(x) in weakref.ProxyTypes:
            self.add_value(x.__repr__.__self__)
        elif isinstance(x, operator.attrgetter | operator.methodcaller):
            called = x.__reduce__()[1]
            self.looked_up_by.update(n for text in called if isinstance(text, str) for n in text.split("."))
            for part in called:
                self.add_value(part)
        elif isinstance(x, functools.partial):
            for part in (x.func, x.args, x.keywords, vars(x)):
                self.add_value(part)
        elif isinstance(x, dict):
            self._add_dict(x)
            if len(x) > 1 or any(map(is_number, x)):  # 1, 1.0 and True are one key
                self.orders.append((x, list(x)))
            self._add_instance(x)
        elif isinstance(x, list | tuple | set | frozenset | deque):
            self._add_instance(x)
            if not isinstance(x, tuple | frozenset):
                self.lists.append((x, list(x)))
            for v in x:
                self.add_value(v)
        elif _has_attribute(x, "param_groups") and _has_attribute(x, "state"):  # an optimizer
            self._add_optimizer(x)
        elif _has_attribute(x, "optimizer") and _has_attribute(x, "get_last_lr"):  # a schedule
            self.schedules.append(x)
            self._add_class(type(x))
            self._add_dict(vars(x))
        else:
            self._add_instance(x)
            if not hasattr(x, "__dict__") and not is_known_package(type(x).__module__):
                for part in gc.get_referents(x):  # what an object written in C holds
                    self.add_value(part)

    def _add_tensor(self, x: Tensor) -> None:
        """A tensor that the function knows itself."""
        if id(x) in self.reached_tensors:
            self.met_again.add(id(x))
        self.reached_tensors[id(x)] = x
        if x._g is not None:
            self.reached_tensors[id(x._g)] = x._g
        self.add_attributes_of_tensor(x)

    def add_attributes_of_tensor(self, x: Tensor) -> None:
        """Attributes that the user gave a tensor, and its hooks."""
        if self._visit(x):
            self._add_class(type(x))
            self._add_dict(vars(x))
            self.places.append((Attributes(x), "_x", x._x))
            for hooks in (x._x.hooks, x._x.post_acc) if x._x is not None else ():
                self.add_value(hooks)

    def _add_optimizer(self, x: Any) -> None:
        """Options, which parameters there are, and attributes of the user's; `add_optimizer_states` adds the state."""
        self.optimizers.append(x)
        self.add_value(x.param_groups)
        self._visit(x.state)
        self._add_instance(x)

    def add_optimizer_states(self) -> None:
        """What optimizers keep for their parameters, once all is added that is reached in other ways."""
        for x in self.optimizers:
            rows = (self.places, self.dicts, self.orders, self.lists)
            sizes = [len(found) for found in rows]
            self.visited_ids.discard(id(x.state))
            self.add_value(x.state)
            if getattr(getattr(type(x), "step", None), "hooked", False):  # it tells when it steps
                new = [found[n:] for found, n in zip(rows, sizes)]
                self.state_holders[id(x)] = {id(row[0]) for found in new for row in found}

    @property
    def calls_type(self) -> bool:
        """Whether some function calls `type`."""
        return any(map(asks_for_type, self.codes))

    @property
    def compares_identity(self) -> bool:
        """Whether some function may ask whether two tensors are one object."""
        return any(map(asks_for_identity, self.codes))

    def lasting_tensors(self) -> list[Tensor]:
        """The tensors that are reached, without gradients, which nobody but their leaves keep alive."""
        tensors = self.reached_tensors.values()
        gradients = {id(x._g) for x in tensors}
        return [x for x in tensors if id(x) not in gradients]

    def add_flags_of_tensors(self) -> None:
        """Whether tensors require gradients, where the code may look at it, once all is added that is reached."""
        if "requires_grad" in self.names:
            self.places += [(Attributes(x), "requires_grad", x.requires_grad) for x in self.lasting_tensors()]

    def forget_unused_states(self, used: set[int]) -> None:
        """Watch no state of an optimizer that the function neither looked at nor stepped with.

        Such a function sets gradients to None or reads options. What other code does to the state is nothing to it.
        """
        unused = [held for of, held in self.state_holders.items() if of not in used]
        ids = set().union(*unused)
        if ids:
            self.dicts, self.places, self.orders, self.lists = (
                [row for row in rows if id(row[0]) not in ids]
                for rows in (self.dicts, self.places, self.orders, self.lists)
            )
            self.quick_places = None

    def forget_unread(self, names: frozenset[str]) -> None:
        """Watch no attribute of a plain object whose name is none of these, and no list that only such a one holds.

        A list that an attribute of a class holds is left out likewise.

        Attributes that are not there are watched by their names instead of by how many there are.
        """
        names = names | self.looked_up_by
        unread = {(id(held), key) for held in self.instances for key in held if key not in names}
        held_there = [held[key] for held in self.instances for key in held if key not in names]
        held_there += [held for key, held in self.class_containers if key not in names]
        gone = {id(x) for x in held_there if isinstance(x, _GROWING) and id(x) not in self.met_again}
        numbers = {(id(h), k) for h, k in self.number_places}
        self.places = [row for row in self.places if (id(row[0]), row[1]) not in unread and id(row[0]) not in gone]
        plain = {id(held) for held in self.instances}
        self.dicts = [row for row in self.dicts if id(row[0]) not in plain and id(row[0]) not in gone]
        self.orders = [row for row in self.orders if id(row[0]) not in gone]
        self.lists = [row for row in self.lists if id(row[0]) not in gone]
        for held in self.instances:
            self.places += [
                (held, name, MISSING) for name in names if name not in held and (id(held), name) not in numbers
            ]
        self.quick_places = None

    def _add_instance(self, x: Any) -> None:
        """Attributes of an object of the user's, and of its class."""
        cls = type(x)
        known = any(_has_attribute(x, name) for name in _ATTRIBUTES_LOOKED_INTO) or hasattr(cls, "__next__")
        if is_known_library(cls) and not known and not holds_state(cls):
            return
        self._add_class(cls)
        if hasattr(x, "__dict__"):
            if not isinstance(x, _GROWING):
                self.places.append((Attributes(x), "__class__", cls))
            held = OfThread(x) if isinstance(x, threading.local) else vars(x)
            self._add_dict(held)
            if type(held) is dict and not known and not is_known_library(cls):
                self.instances.append(held)
        for base in cls.__mro__:
            if is_known_library(base) and not holds_state(base):
                continue
            for name, slot in list(vars(base).items()):
                # The slot of `__k` has the name of the class in its name.
                if isinstance(slot, types.MemberDescriptorType):
                    value = getattr(x, name, MISSING)
                    self.places.append((Attributes(x), name, value))
                    self.add_value(value)

    def _add_dict(self, x: Any) -> None:
        self.dicts.append((x, len(x)))
        for key in list(x):
            if key not in UNWATCHED:
                self._add_place(x, key)


def _has_attribute(x: Any, name: str) -> bool:
    """Whether an object has an attribute, without asking a `__getattr__`, which may do anything."""
    return inspect.getattr_static(x, name, MISSING) is not MISSING


_MODES = ("default_device", "device_stack", "grad_layout")
"""Modes that are no bits, and that code can tell apart."""
_OF_FUNCTIONS = ("__code__", "__defaults__", "__kwdefaults__")
_ATTRIBUTES_LOOKED_INTO = ("_parameters", "param_groups", "_per_optimizer_states", "layers", "_init_fn")
"""Attributes of modules, optimizers, gradient scalers, layers that are scanned, and custom operators."""
_GROWING = (list, dict, set, deque)
_UNWATCHED_OF_CLASSES = ("_abc_impl",)
"""Attributes of classes that change whenever somebody asks whether an object is an instance."""
_EVALUATING = frozenset(["eval", "exec"])
"""Names by which functions run code that is text."""
_MAY_BE_MISSING = frozenset(["hasattr", "getattr"])
"""Names by which functions ask for attributes that may not be there."""
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_NAMES_OF_IMPORTS = frozenset(["modules", "import_module", "__import__"])
"""Names by which functions get modules whose names are texts."""
_ENVIRONMENT_NAMES = frozenset(["environ", "environb", "getenv"])
"""Names by which functions look at the environment."""
KEPT_UNDER = "_torchgrad_jax_operators"
"""The attribute of functions, and of objects that are called, under which operators made of them are kept."""
UNWATCHED = ("_opt_called", KEPT_UNDER)
"""Attributes that a step sets in each call, to the same, or that are no business of the user's."""
AMBIENT: list[dict[str, Any]] = [vars(SETTINGS)]
"""What every function may look at: settings, and hooks of all modules, which `nn` adds."""


def _tensors_in(group: dict[str, Any]) -> Iterator[Tensor]:
    for key, value in group.items():
        if isinstance(value, Tensor):
            yield value
        elif key != "params" and isinstance(value, list | tuple):
            yield from (v for v in value if isinstance(v, Tensor))


def _describe_value(x: Any) -> str:
    text = repr(x) if isinstance(x, PLAIN_VALUES) else f"a {type(x).__name__}"
    return "missing" if x is MISSING else text
