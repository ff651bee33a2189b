"""Facts as they are noted while a function is traced: the first look at a place counts.

    notes = Notes(ages)
    notes.note(vars(model), vars(model), "scale", 2.0)
    notes.facts     # [Place(vars(model), "scale", 2.0)]
    notes.leads_to  # `vars(model)` has led to 2.0 from the beginning

`kinds.py` says what there is to note of an object, and `guards.py` takes over what was there before.
"""

from __future__ import annotations

import gc
import math
import types
from collections import Counter
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

from ...._core.arrays.python_numbers import Number
from ...._core.errors.messages import AsWritten, NeedsPlainNumbers
from ...._core.python_objects import items_of
from ...._engine.memory.tensor import Tensor
from .ages import Ages
from .code_that_reads import LOOKERS, Code
from .facts import Absent, Class, Fact, Items, Keys, Place
from .places import MISSING, Attributes, State, Variable, holder_of

KEPT_UNDER = "_torchgrad_jax_operators"
"""The attribute of functions, and of objects that are called, under which operators made of them are kept."""
UNWATCHED = ("_opt_called", KEPT_UNDER, "unraisablehook")
"""Attributes that a step sets in each call, to the same, or that are no business of the user's."""


ATOMS = frozenset(
    [int, float, complex, bool, str, bytes, type(None), type(Ellipsis), type(NotImplemented), range, object, Number]
)
"""Classes of values that are nothing but what they are."""
_MOST = 500_000
"""How many values may be compared before each run; one that can read more runs eagerly."""
_MATH = vars(math)


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
        self.once: set[tuple[Any, ...]] = set()
        """What is done once for an object or a class."""
        self._functions: dict[int, list[types.FunctionType]] = {}
        """Functions by the identity of their code."""
        self._parts: dict[int, list[Place]] = {}
        """What functions are made of, by their identity."""
        self._count = 0
        self.outside: dict[int, Any] = {}
        """Where paths begin, by identity: what is called, and its arguments."""
        self.owners: dict[int, Any] = {}
        """Objects by the identity of the dicts of their attributes."""
        self.gradients: dict[int, Tensor | None] = {}
        """The gradients of tensors that are reached by a place, by the identity of the tensor."""
        self.forms: dict[int, Tensor] = {}
        """Those whose shape or dtype the code may look at."""
        self.flags: dict[int, Tensor] = {}
        """Those of which it may ask whether they require a gradient."""
        self.caches: dict[int, Any] = {}
        """Functions that keep their results, by the identity of the code that computes one."""
        self.results: dict[int, list[Any]] = {}
        """What each of them had kept at first, by its identity."""
        self.optimizers: dict[int, Any] = {}
        self.schedules: dict[int, Any] = {}
        self.pending: list[Any] = []
        self.found_optimizer: Callable[[Any], Any] = lambda x: None
        """What is told of an optimizer or schedule before code that names it goes on."""
        self.absorbed: dict[int, Any] = {}
        """Guards of operators that were made of functions of JAX, which ran before, by identity: they are read, too."""
        self.handlers = 0
        """How many functions that wait for one which runs now may go on after an attribute was missing."""
        self.names_in_tensors: dict[int, Iterable[str]] = {}
        """By the identity of a code: the names of attributes that it notices in a tensor that has none."""
        self._names: dict[int, frozenset[str]] = {}
        self._seen: dict[tuple[int, bool], dict[int, Any]] = {}
        """Objects passed on, by the identity of the code, whether there are handlers, and the object."""
        self._stack: list[tuple[Any, Code, bool, bool]] = []
        self._visited: Any = None
        """What is visited just now, which leads to the objects passed on."""
        self._kept: list[Any] = []

    def forget(self) -> None:
        """Keep nothing of the function's alive."""
        self._visited = None  # after an error it may be a dict of the user's, which is not to be cleared
        for rows in vars(self).values():
            if isinstance(rows, dict | list | set):
                rows.clear()

    def settle(self) -> None:
        """What was noted up to here has been taken over: keep nothing alive that the function made."""
        old = self.ages.was_there
        owner = {key: self.owners.get(key, fact.of) for key, fact in self.absent.items()}
        self.absent = {key: row for key, row in self.absent.items() if type(owner[key]) is dict or old(owner[key])}
        self.owners = {key: x for key, x in self.owners.items() if old(x)}
        self.forms = {key: x for key, x in self.forms.items() if old(x)}
        self.flags = {key: x for key, x in self.flags.items() if old(x)}
        self.gradients = {key: g for key, g in self.gradients.items() if g is not None and old(g)}
        self._functions = {key: kept for key, fns in self._functions.items() if (kept := [f for f in fns if old(f)])}
        here = {id(fn) for fns in self._functions.values() for fn in fns}
        self._parts = {key: parts for key, parts in self._parts.items() if key in here}
        for rows in (self.facts, self.leads_to, self._kept, self._seen, self.absorbed):
            rows.clear()
        self.ages.forget()

    def lead(self, of: Any, value: Any) -> None:
        """An object has led to another one from the beginning: if it is from outside, so is that one."""
        row = self.leads_to.get(id(of))
        if row is None:
            row = self.leads_to[id(of)] = (of, {})
        row[1][id(value)] = value

    def is_first(self, what: str, of: Any, *more: Any) -> bool:
        """Return whether something is done with an object for the first time."""
        known = len(self.once)
        self.once.add((what, id(of), *more))
        return len(self.once) > known

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
        if id(x) not in self.behind_weak and self.is_first("class", x):
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
            self.fact(Items(holder_of(x), copy := items_of(x)))
            self._count += len(copy)
            for item in copy:
                self.lead(x, item)
            return
        holder = holder_of(x)
        try:
            entries = {key: holder[key] for key in holder}
        except KeyError:
            raise AsWritten("it reaches a dict with a key whose hash has changed", lasting=True) from None
        if (missing := self.absent.get(id(x))) is not None:  # what the function has put there since is none of it
            entries = {key: value for key, value in entries.items() if key not in missing.was}
        self.fact(Keys(holder, list(entries)))
        for key, value in entries.items():
            self.lead(x, key)
            if not (isinstance(key, str) and key in UNWATCHED):
                self.note(holder, x, key, value)

    def note_function(self, fn: types.FunctionType) -> list[Place]:
        """What a function was made of when it was first seen: its code and defaults, its variables from outside."""
        parts = self._parts.get(id(fn))
        if parts is None:
            self._functions.setdefault(id(fn.__code__), []).append(fn)
            names = ("__code__", "__defaults__", "__kwdefaults__")
            parts = [Place(Attributes(fn), key, getattr(fn, key)) for key in names]
            parts += [
                Place(cell, "cell_contents", cell.get("cell_contents", MISSING))
                for cell in map(Attributes, fn.__closure__ or ())
            ]
            self._parts[id(fn)] = parts
            self.lead(fn, fn.__globals__)
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
            for place in self.note_function(fn):
                if place.at not in self.known:
                    self.known.add(place.at)
                    self.fact(place)

    # -- going on
    def names(self, code: Code) -> frozenset[str]:
        """The names of attributes that a code may look up."""
        return self._names.get(id(code), code.attributes)

    def add_names(self, code: Code, more: Iterable[str]) -> None:
        """Further names, which stand elsewhere: in a class that is matched, in an `attrgetter`."""
        known = self.names(code)
        now = known.union(more)
        if len(now) > len(known):
            self._names[id(code)] = now
            for within in (False, True):
                self._stack += self._seen.get((id(code), within), {}).values()

    def looks_at_all(self, code: Code) -> None:
        """A code is seen to have a function that looks attributes up, by whatever name."""
        if not (code.looks_at_all and code.computes_names):
            code.take_for_one_that_looks_at_all()
            self._names.pop(id(code), None)
            for within in (False, True):
                self._stack += self._seen.get((id(code), within), {}).values()

    def push(self, x: Any, code: Code, placed: bool, named: bool, leads: bool = True) -> None:
        """Visit an object for a code.

        Args:
            x: the object.
            code: the code that may look at it.
            placed: whether it is in a place, and not passed by a frame.
            named: whether the code names it, and does not merely reach all that is in a container.
            leads: whether what is visited now led to it from the beginning.
        """
        if type(x) in ATOMS:
            if type(x) is Number and code.reads_type and not code.is_package:
                raise NeedsPlainNumbers  # its type is none of Python's
            return
        if leads and self._visited is not None:
            self.lead(self._visited, x)
        if issubclass(type(x), Tensor):
            self.visit(x, code, placed, named)
            return
        seen = self._seen.setdefault((id(code), self.handlers > 0), {})
        known = seen.get(id(x))
        if known is None or placed > known[2] or named > known[3]:
            seen[id(x)] = row = (x, code, placed, named)
            self._kept.append(x)
            self._stack.append(row)

    def walk(self) -> None:
        """Visit all objects passed on, and what they lead to."""
        stack = self._stack
        while stack:
            x, code, placed, named = stack.pop()
            self._visited = x
            self.visit(x, code, placed, named)
        self._visited = None
        pending, self.pending = self.pending, []
        for x in pending:
            self.found_optimizer(x)
        if self._count > _MOST:
            raise AsWritten(self._too_much(), lasting=True)

    def _too_much(self) -> str:
        sizes = Counter({id(f.of): len(f.was) for f in self.facts if isinstance(f, Items)})
        ((largest, n),) = sizes.most_common(1) or [(None, 0)]
        kind = next((type(f.object).__name__ for f in self.facts if id(f.of) == largest), "")
        what = f", {n} of them in a {kind}" if n else ""
        return f"it can read more than {_MOST} values outside, too many to compare before each run{what}"

    # -- facts that lead on
    def place(self, held: Any, key: Any, code: Code, named: bool = True, goes_on: bool = True) -> None:
        """An entry of a dict that a code names, and what is there."""
        value = dict.__getitem__(held, key) if isinstance(held, dict) else held[key]
        if held is _MATH:
            value = getattr(value, "replaces", value)
        if type(value) is Number and code.reads_type and not code.is_package:
            raise NeedsPlainNumbers
        if id(held) not in self.contained:
            self.note(holder_of(held), held, key, value)
        if goes_on and not (key.__class__ is str and key in code.only_called and _is_of_module(value)):
            self.push(value, code, True, named, False)

    def entries(self, held: Any, owner: Any, keys: Iterable[Any], code: Code, goes_on: bool = True) -> None:
        """Entries of a dict, in which `owner` keeps its attributes or the like, that a code names."""
        self.owners[id(held)] = owner
        for key in keys:
            self.place(held, key, code, goes_on=goes_on)

    def put(self, holder: Any, of: Any, key: Any, value: Any, code: Code | None = None) -> None:
        """A place whose holder is made for the purpose. Code that is given goes on from there."""
        self.note(holder, of, key, value)
        if value is not MISSING and code is not None:
            self.push(value, code, True, True, False)

    def variable(self, x: ContextVar[Any], code: Code) -> None:
        """A context variable that is read or set."""
        value = x.get(MISSING)
        self.put(Variable(x), x, "value", value, code)
        if value is MISSING and (default := Variable(x).default()) is not MISSING:
            self.lead(x, default)
            self.push(default, code, True, True, False)

    def state(self, function: Any) -> None:
        """What a function without arguments tells of the interpreter, which is compared by its value."""
        self.put(State(function), function, "state", function())

    def visit(self, x: Any, code: Code, placed: bool, named: bool) -> None:
        """Note what there is to note of an object, and pass on what it leads to; see `Reads`."""
        raise NotImplementedError


def _is_of_module(function: Any) -> bool:
    """Return whether something is a function written in C of a module, whose call is seen whatever it is called by."""
    if not isinstance(function, types.BuiltinFunctionType) or function in LOOKERS:
        return False
    return isinstance(function.__self__, types.ModuleType)
