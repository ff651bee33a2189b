"""Facts as they are noted while a function is traced: the first look at a place counts.

    notes = Notes(ages)
    notes.note(vars(model), vars(model), "scale", 2.0)
    notes.facts     # [Place(vars(model), "scale", 2.0)]
    notes.leads_to  # `vars(model)` has led to 2.0 from the beginning

`kinds.py` says what there is to note of an object, and `guards.py` takes over what was there before.
"""

from __future__ import annotations

import gc
import types
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from ...._core.arrays.python_numbers import Number
from .ages import Ages
from .code_that_reads import Code
from .facts import Absent, Class, Content, Fact, Items, Order, Place, Size
from .places import MISSING, Attributes, Cell, holder_of

KEPT_UNDER = "_torchgrad_jax_operators"
"""The attribute of functions, and of objects that are called, under which operators made of them are kept."""
UNWATCHED = ("_opt_called", KEPT_UNDER, "unraisablehook")
"""Attributes that a step sets in each call, to the same, or that are no business of the user's."""


class Notes:
    """What was noted of objects, each fact once."""

    def __init__(self, ages: Ages) -> None:
        self.ages = ages
        self.facts: list[Fact] = []
        """What was noted since the last `settle`."""
        self.known: set[tuple[int, Any]] = set()
        """Places that were noted, by the identity of the object and the key."""
        self.contained: set[int] = set()
        """Identities of containers of which all was noted."""
        self.absent: dict[int, Absent] = {}
        """Names that are not there, by the identity of the dict or class."""
        self.leads_to: dict[int, tuple[Any, dict[int, Any]]] = {}
        """Objects, and what they led to before the function changed anything, by the identity of each."""
        self.only_state: dict[int, int] = {}
        """Containers in the state of an optimizer that are reached by it alone: its identity, by theirs."""
        self.behind_weak: set[int] = set()
        self.once: set[tuple[str, int]] = set()
        """What is done once for an object or a class."""
        self._functions: dict[int, list[types.FunctionType]] = {}
        """Functions by the identity of their code."""
        self._parts: dict[int, list[Place]] = {}
        """What functions are made of, by their identity."""
        self._count = 0

    def lead(self, of: Any, value: Any) -> None:
        """An object has led to another one from the beginning: if it is from outside, so is that one."""
        row = self.leads_to.get(id(of))
        if row is None:
            row = self.leads_to[id(of)] = (of, {})
        row[1][id(value)] = value

    def fact(self, fact: Fact) -> None:
        """Note a fact."""
        self.facts.append(fact)
        self._count += 1

    def note(self, holder: Any, of: Any, key: Any, value: Any) -> None:
        """A place with the value that it has; `of` is the object that it is a place of."""
        at = (id(of), key)
        if at in self.known:
            return
        missing = self.absent.get(id(of))
        if missing is None or not isinstance(key, str) or key not in missing.was:
            self.known.add(at)
            self.fact(Place(holder, key, value))
            if not (type(value) is list and any(type(v) is Number for v in value)):  # else the log put it there
                self.lead(of, value)

    def note_absent(self, of: Any, names: Iterable[str]) -> None:
        """Names that a dict, or a class of itself, does not have."""
        fact = self.absent.get(id(of))
        if fact is None:
            fact = self.absent[id(of)] = Absent(of, set())
        known = len(fact.was)
        fact.was |= {n for n in names if (id(of), n) not in self.known}
        self._count += len(fact.was) - known

    def note_class(self, x: Any) -> None:
        """Of what class an object is."""
        if ("class", id(x)) not in self.once and id(x) not in self.behind_weak:
            self.once.add(("class", id(x)))
            self.fact(Class(x, type(x)))

    def note_container(self, x: Any, owner: int | None = None) -> None:
        """All that is in a dict, list, set or deque; `owner` if it belongs to the state of an optimizer."""
        if owner is None:
            self.only_state.pop(id(x), None)
        if id(x) in self.contained:
            return
        self.contained.add(id(x))
        if owner is not None:
            self.only_state[id(x)] = owner
        if not isinstance(x, dict):
            self.fact(Items(x, copy := list(x)))
            self._count += len(copy)
            for item in copy:
                self.lead(x, item)
            return
        holder, entries = holder_of(x), entries_of(x)
        self.fact(Size(holder, len(entries)))
        for key, value in entries.items():
            self.lead(x, key)
            if not (isinstance(key, str) and key in UNWATCHED):
                self.note(holder, x, key, value)
        if len(entries) > 1 or any(type(key) is not str for key in entries):  # 1, 1.0 and True are one key
            self.fact(Order(holder, list(entries)))

    def note_content(self, x: Any, content: Any) -> bool:
        """What is in an array; whether that is new."""
        if ("content", id(x)) in self.once:
            return False
        self.once.add(("content", id(x)))
        self.fact(Content(x, content))
        return True

    def function_met(self, fn: types.FunctionType) -> list[Place]:
        """What a function was made of when it was met first: its code and defaults, its variables from outside."""
        parts = self._parts.get(id(fn))
        if parts is None:
            self._functions.setdefault(id(fn.__code__), []).append(fn)
            names = ("__code__", "__defaults__", "__kwdefaults__")
            parts = [Place(Attributes(fn), key, getattr(fn, key)) for key in names]
            parts += [
                Place(Cell(c), "cell_contents", Cell(c).get("cell_contents", MISSING)) for c in fn.__closure__ or ()
            ]
            self._parts[id(fn)] = parts
            for part in parts:
                self.lead(fn, part.object)
                self.lead(fn, part.was)
        return parts

    def functions_ran(self, ran: Iterable[Code]) -> None:
        """Note what the functions that ran are made of, which are found by what the collector of garbage knows, too."""
        found: list[types.FunctionType] = []
        rest, inner = [], set[int]()
        for of in filter(None, [code.of() for code in ran]):
            inner.update(id(part) for part in of.co_consts if isinstance(part, types.CodeType))
            known = self._functions.get(id(of))
            if known is not None:
                found += known
            elif of.co_freevars:
                rest.append(of)
        rest = [of for of in rest if id(of) not in inner]
        if rest:
            referrers = [fn for fn in gc.get_referrers(*rest) if isinstance(fn, types.FunctionType)]
            found += [fn for fn in referrers if fn.__code__ in rest]
        for fn in {id(fn): fn for fn in found}.values():
            for place in self.function_met(fn):
                if place.at not in self.known:
                    self.known.add(place.at)
                    self.fact(place)


def entries_of(x: dict[Any, Any]) -> dict[Any, Any]:
    """The entries of a dict in its order, without asking its class."""
    return dict(OrderedDict.items(x) if isinstance(x, OrderedDict) else dict.items(x))
