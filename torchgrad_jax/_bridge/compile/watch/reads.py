"""What a traced function can have read: facts about Python objects, as they were before.

`Reads` is told of each function of Python that begins, of its arguments, its variables from outside and of what is
returned to it. From there it goes on through the attributes and keys that the code of this function names:

    reads = Reads(ages)
    reads.globals_of(code, frame.f_globals)
    reads.root(code, model)      # `code` names `scale`, so `model.scale` is a place
    reads.facts                  # [..., Place(vars(model), "scale", 2.0)]

What there is to note of an object, and what it leads to, says `kinds.py`. `leads_to` keeps what led to what at first:
what is reached from outside is from outside. Only of what frames hand over without such a path `ages.py` is asked.
"""

from __future__ import annotations

import builtins
import logging
import math
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

from ...._core.arrays.python_numbers import Number
from ...._core.errors.messages import AsWritten
from ...._engine.memory.tensor import Tensor
from . import kinds
from .ages import Ages
from .code_that_reads import Code, is_ours
from .facts import Items, Size
from .notes import Notes
from .number_arguments import NeedsPlainNumbers
from .places import MISSING, State, Variable, holder_of

ATOMS = frozenset(
    [int, float, complex, bool, str, bytes, type(None), type(Ellipsis), type(NotImplemented), range, object, Number]
)
"""Classes of values that are nothing but what they are."""
_MOST = 500_000
"""How many values may be compared before each run; one that can read more runs as it is written."""
_MATH = vars(math)
_OF_LOGGING = vars(logging)["_lock"]
"""A lock under which loggers remember which lines are asked for; a function that logs names it, and seldom takes it."""


class Reads(Notes):
    """Finds what a function can have read, from what it is given and the names that its code looks up."""

    def __init__(self, ages: Ages) -> None:
        super().__init__(ages)
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
        self.optimizers: dict[int, Any] = {}
        self.schedules: dict[int, Any] = {}
        self.pending: list[Any] = []
        self.found_optimizer: Callable[[Any], Any] = lambda x: None
        """What is told of an optimizer or schedule before code that names it goes on."""
        self.absorbed: list[Any] = []
        """Guards of operators that were made of functions of JAX, which ran before."""
        self.handlers = 0
        """How many functions that wait for one which runs now may go on after an attribute was missing."""
        self.names_in_tensors: dict[int, Iterable[str]] = {}
        """By the identity of a code: the names of attributes that it notices in a tensor that has none."""
        self._names: dict[int, frozenset[str]] = {}
        self._seen: dict[tuple[int, bool], dict[int, Any]] = {}
        """What was handed on, by the identity of the code, whether there are handlers, and the object."""
        self._stack: list[tuple[Any, Code, bool, bool]] = []
        self._visited: Any = None
        """What is visited just now, which leads to what is handed on."""
        self._kept: list[Any] = []

    def forget(self) -> None:
        """Keep nothing of the function's alive."""
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

    # -- where a function begins
    def globals_of(self, code: Code, held: dict[str, Any]) -> None:
        """The variables of its module, and Python's own names, that a function names."""
        around = held.get("__builtins__", builtins)
        own = around if isinstance(around, dict) else vars(around)
        for name in code.globals:
            if name in held:
                self.place(held, name, code, goes_on=held[name] is not _OF_LOGGING)
                continue
            self.note_absent(held, (name,))
            if name in own:
                self.place(own, name, code)
            elif code.catches or self.handlers:
                self.note_absent(own, (name,))
        for name in code.imports:
            self._imported(name, code)
        if code.looks_at_all and "globals" in code.globals:
            kinds.container(self, held, code, False, True)
        self.walk()

    def _imported(self, name: str, code: Code) -> None:
        module = sys.modules.get(name)
        if module is None and (code.catches or self.handlers):
            self.note_absent(sys.modules, (name,))
        while module is not None:
            self.place(sys.modules, name, code)
            name, _, _ = name.rpartition(".")
            module = sys.modules.get(name) if name else None

    def begin_at(self, code: Code, x: Any) -> None:
        """What is called, or an argument of it: here paths from outside begin."""
        self.outside[id(x)] = x
        self.root(code, x, placed=True)

    def root(self, code: Code, x: Any, *, placed: bool = False) -> None:
        """An argument of a function, something returned to it, or what a closure's variable holds (`placed`)."""
        if type(x) in ATOMS:
            return
        if issubclass(type(x), types.ModuleType) and sys.modules.get(x.__name__) is x:
            self.place(sys.modules, x.__name__, code)
        self.push(x, code, placed, True)
        self.walk()

    def again(self, code: Code, x: Any) -> None:
        """An object that a function was given has come back: the caller may find other things in it than before."""
        if type(x) not in ATOMS and not issubclass(type(x), Tensor):
            self._seen.get((id(code), self.handlers > 0), {}).pop(id(x), None)
            self.push(x, code, False, True)
            self.walk()

    def whole(self, code: Code, x: Any) -> None:
        """An object of which a function written in C looks at all attributes."""
        held = kinds.dict_of(x)
        if held is not None:
            self.owners[id(held)] = x
            kinds.container(self, held, code, True, True)
        self.walk()

    def parts_of(self, parts: Iterable[tuple[Any, dict[Any, Any], Any]], code: Code) -> None:
        """What a function of this package looks at: objects, dicts of these, and keys; or classes, and names."""
        for x, held, key in parts:
            if isinstance(x, type):
                kinds.of_class(self, x, key, code)
            else:
                self.owners[id(held)] = x
                self.place(held, key, code)
        self.walk()

    def method_called(self, code: Code, x: Any, name: str) -> None:
        """Python itself has called a method, such as `__call__` or `__add__`, which no code names."""
        if not issubclass(type(x), Tensor) and not is_ours(type(x)):
            self.note_class(x)
            kinds.of_class(self, type(x), name, code)
            self.walk()

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

    def push(self, x: Any, code: Code, placed: bool, named: bool, leads: bool = True) -> None:
        """Visit an object for a code.

        Args:
            x: the object.
            code: the code that may look at it.
            placed: whether it is in a place, and not handed over by a frame.
            named: whether the code names it, and does not merely reach all that is in a container.
            leads: whether what is visited now led to it from the beginning.
        """
        if type(x) in ATOMS:
            return
        if leads and self._visited is not None:
            self.lead(self._visited, x)
        if issubclass(type(x), Tensor):
            kinds.tensor(self, x, code, placed)
            return
        seen = self._seen.setdefault((id(code), self.handlers > 0), {})
        known = seen.get(id(x))
        if known is None or placed > known[2] or named > known[3]:
            seen[id(x)] = row = (x, code, placed, named)
            self._kept.append(x)
            self._stack.append(row)

    def walk(self) -> None:
        """Visit all that was handed on, and what that leads to."""
        stack = self._stack
        while stack:
            x, code, placed, named = stack.pop()
            self._visited = x
            kinds.kind_of(x)(self, x, code, placed, named)
        self._visited = None
        pending, self.pending = self.pending, []
        for x in pending:
            self.found_optimizer(x)
        if self._count > _MOST:
            raise AsWritten(self._too_much(), lasting=True)

    def _too_much(self) -> str:
        sizes = Counter(
            {id(f.of): f.was if type(f) is Size else len(f.was) for f in self.facts if type(f) in (Size, Items)}
        )
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

    def absorb(self, guards: Any) -> None:
        """What some guards compare is read, too."""
        if not any(guards is known for known in self.absorbed):
            self.absorbed.append(guards)


def _is_of_module(function: Any) -> bool:
    """Whether something is a function written in C of a module, whose call is seen whatever it is called by."""
    return isinstance(function, types.BuiltinFunctionType) and isinstance(function.__self__, types.ModuleType)
