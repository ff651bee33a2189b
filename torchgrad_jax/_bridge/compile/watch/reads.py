"""What a traced function can have read: places in Python objects, with the value that each had before.

`Reads` is told of each function of Python that begins, of its arguments, its variables from outside and of what is
returned to it. From there it goes on through the attributes and keys that the code of this function names:

    reads = Reads()
    reads.globals_of(code, frame.f_globals)
    reads.root(code, model)      # `code` names `scale`, so `model.scale` is a place
    reads.places                 # {(id(vars(model)), "scale"): (vars(model), "scale", 2.0)}

Containers are remembered whole. What the function made itself is left out at the end: see `ages.py`.
"""

from __future__ import annotations

import builtins
import decimal
import functools
import gc
import logging
import math
import sys
import threading
import types
import weakref
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np

from ...._core.arrays.python_numbers import Number
from ...._core.errors.messages import AsWritten
from ...._core.python_classes import is_python_class
from ...._engine.memory.tensor import Tensor
from .ages import Ages
from .array_contents import array_content, kept_results, results_of
from .code_that_reads import CALLERS, OURS, USERS, Code, code_of, whose
from .kinds_of_objects import ATOMS, Kind, dict_of, is_ours, kind_of
from .number_arguments import NeedsPlainNumbers
from .places import MISSING, Attributes, Cell, Class, Lock, OfThread, State, Variable, holder_of
from .pure_calls import EFFECT, context_of_decimals, describe, verdict
from .record import Record, containers_in, content, copy_of_dict

_MOST = 500_000
"""How many values may be compared before each run; one that can read more runs as it is written."""
_SUBMODULES = ("_parameters", "_buffers", "_modules")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_KINDS_OF_HOOKS = ("_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs")


class Reads(Record):
    """Finds what a function can have read, from what it is given and the names that its code looks up."""

    def __init__(self, ages: Ages) -> None:
        super().__init__(ages)
        self._pending: list[Any] = []
        self.schedules: dict[int, Any] = {}
        self.found_optimizer: Any = lambda x: None
        """What is told of an optimizer or schedule before code that names it goes on."""
        self.handlers = 0
        """How many functions that wait for one which runs now may go on after an attribute was missing."""
        self._seen: dict[tuple[int, bool], dict[int, Any]] = {}
        """What was handed to `_visit`, by the identity of the code, whether there are handlers, and the object."""
        self._behind_weak: set[int] = set()
        self._called: set[int] = set()
        self._with_bases: set[int] = set()
        self._with_slots: set[int] = set()
        self._of_tensors: dict[int, Collection[str]] = {}
        """By the identity of a code: the names of attributes that it notices in a tensor that has none."""
        self._whole: set[int] = set()
        self._names: dict[int, frozenset[str]] = {}
        self._stack: list[tuple[Any, Code, bool, bool]] = []
        self._visited: Any = None
        """What is visited just now, which leads to what is handed on."""

    def settle(self) -> None:
        super().settle()
        self._seen.clear()

    # -- where a function begins
    def globals_of(self, code: Code, held: dict[str, Any]) -> None:
        """The variables of its module, and Python's own names, that a function names."""
        around = held.get("__builtins__", builtins)
        own = around if isinstance(around, dict) else vars(around)
        for name in code.globals:
            if name in held:
                self._place(held, name, code, True, goes_on=held[name] is not _OF_LOGGING)
                continue
            self._absent(held, (name,))
            if name in own:
                self._place(own, name, code, True)
            elif code.catches or self.handlers:
                self._absent(own, (name,))
        for name in code.imports:
            self._imported(name, code)
        if code.looks_at_all and "globals" in code.globals:
            self._container(held, code, False, True)
        self._walk()

    def _imported(self, name: str, code: Code) -> None:
        module = sys.modules.get(name)
        if module is None and (code.catches or self.handlers):
            self._absent(sys.modules, (name,))
        while module is not None:
            self._place(sys.modules, name, code, True)
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
        if kind_of(x) is Kind.MODULE and sys.modules.get(x.__name__) is x:
            self._place(sys.modules, x.__name__, code, True)
        self._push(x, code, placed, True)
        self._walk()

    def again(self, code: Code, x: Any) -> None:
        """An object that a function was given has come back: the caller may find other things in it than before."""
        if type(x) not in ATOMS and not issubclass(type(x), Tensor):
            self._seen.get((id(code), self.handlers > 0), {}).pop(id(x), None)
            self._push(x, code, False, True)
            self._walk()

    def whole(self, code: Code, x: Any) -> None:
        """An object of which a function written in C looks at all attributes."""
        held = dict_of(x)
        if held is not None:
            self.owners[id(held)] = x
            self._container(held, code, True, True)
        self._walk()

    def module_called(self, code: Code, module: Any) -> None:
        """A layer is called: what the call itself looks at."""
        held = vars(module)
        self.owners[id(held)] = module
        if id(module) in self._called:
            return
        self._keep(module)
        self._called.add(id(module))
        self._class_of(module, type(module))
        self._of_class(type(module), "__call__", code)
        self._attribute_of(module, held, "forward", code)
        self._attribute_of(module, held, "_compiled_call_impl", code)
        for name in _HOOKS:
            hooks = held.get(name)
            if hooks is not None:
                self.owners[id(hooks)] = module
                self._container(hooks, code, True, True)
                if hooks:
                    for kinds in _KINDS_OF_HOOKS:
                        self._container(held[kinds], code, True, True)
        self._walk()

    def parts_of(self, parts: Iterable[tuple[Any, dict[Any, Any], Any]], code: Code) -> None:
        """What a function of this package looks at: objects, dicts of these, and keys."""
        for x, held, key in parts:
            if isinstance(x, type):
                self._of_class(x, key, code)
            else:
                self.owners[id(held)] = x
                self._place(held, key, code, True)
        self._walk()

    def method_called(self, code: Code, x: Any, name: str) -> None:
        """Python itself has called a method, such as `__call__` or `__add__`, which no code names."""
        if not issubclass(type(x), Tensor) and not is_ours(type(x)):
            self._class_of(x, type(x))
            self._of_class(type(x), name, code)
            self._walk()

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

    def _push(self, x: Any, code: Code, placed: bool, named: bool, leads: bool = True) -> None:
        if type(x) in ATOMS:
            return
        if leads and self._visited is not None:
            self._lead(self._visited, x)
        if issubclass(type(x), Tensor):
            self._tensor(x, code, placed)
            return
        seen = self._seen.setdefault((id(code), self.handlers > 0), {})
        known = seen.get(id(x))
        if known is None or placed > known[2] or named > known[3]:
            seen[id(x)] = row = (x, code, placed, named)
            self._keep(x)
            self._stack.append(row)

    def _walk(self) -> None:
        stack = self._stack
        while stack:
            self._visited, code, placed, named = stack.pop()
            self._visit(self._visited, code, placed, named)
        self._visited = None
        pending, self._pending = self._pending, []
        for x in pending:
            self.found_optimizer(x)
        if self._count > _MOST:
            raise AsWritten(self._too_much(), lasting=True)

    def _too_much(self) -> str:
        largest = max(filter(None, self.containers.values()), key=lambda row: len(row[1]), default=None)
        what = "" if largest is None else f", {len(largest[1])} of them in a {type(largest[0]).__name__}"
        return f"it can read more than {_MOST} values outside, too many to compare before each run{what}"

    def _visit(self, x: Any, code: Code, placed: bool, named: bool) -> None:
        kind = kind_of(x)
        if (x if kind is Kind.CLASS else type(x)) is decimal.Decimal:
            self.state(context_of_decimals)
        if kind is Kind.INSTANCE:
            self._instance(x, code, named)
        elif kind is Kind.CONTAINER:
            if x is sys.modules and code.whose is CALLERS:
                return  # where the standard library looks up whose a class is
            self._container(x, code, placed, named)
            if type(x) not in _PLAIN_CONTAINERS:
                self._instance(x, code, named)
        elif kind is Kind.FUNCTION:
            self._function(x, code)
        elif kind is Kind.METHOD:
            self._push(x.__func__, code, placed, named)
            self._push(x.__self__, code, placed, named)
        elif kind is Kind.CLASS:
            self._class(x, code, named)
        elif kind is Kind.MODULE:
            self._module(x, code, named)
        elif kind is Kind.BUILTIN:
            self._builtin(x, code, placed, named)
        elif kind is Kind.ARRAY:
            self._array(x, code, placed)
            if dict_of(x) is not None:
                self._instance(x, code, named)
        elif kind is Kind.OURS:
            self._of_ours(x, code)
        elif kind is Kind.LEADS_ON:
            self._leads_on(x, code, placed, named)
        elif kind is Kind.OPTIMIZER:
            self._optimizer(x, code)
        elif kind is Kind.SCHEDULE:
            self._schedule(x, code)
        elif kind is Kind.WHOLE:
            self._whole_instance(x, code, named)
        elif kind is Kind.WEAK or kind is Kind.PROXY:
            there = x() if kind is Kind.WEAK else _behind_proxy(x)
            if kind is Kind.WEAK or there is not None:
                self._weak(x, x if kind is Kind.WEAK else weakref.ref(there), there)
            self._push(there, code, placed, named)
        elif kind is Kind.LOCAL:
            self._attributes(OfThread(x), x, code, named)
        elif kind is Kind.NAMES:
            self.add_names(code, (n for text in x.__reduce__()[1] if isinstance(text, str) for n in text.split(".")))
        elif kind is Kind.CACHED:
            self.caches.append((x, frozenset(kept_results(x))))
            self._push(x.__wrapped__, code, placed, named)
            for result in results_of(x):
                self._push(result, code, placed, named)
        elif kind is Kind.VARIABLE:
            self.variable(x, code)
        elif kind is Kind.LOCK:
            self._lock(x, placed)
        elif kind is Kind.ITERATOR:
            self._iterator(x, code, placed and named)
        elif kind is Kind.OPAQUE and placed and named:
            self._opaque(x, code)

    # -- places
    def _place(self, held: Any, key: Any, code: Code, named: bool, goes_on: bool = True) -> None:
        value = dict.__getitem__(held, key) if isinstance(held, dict) else held[key]
        if held is _MATH:
            value = getattr(value, "replaces", value)
        if type(value) is Number and code.reads_type and not code.is_package:
            raise NeedsPlainNumbers
        if (id(held), key) not in self.places and id(held) not in self.containers:
            self._note(holder_of(held), held, key, value)
        if goes_on and not (key.__class__ is str and key in code.only_called and _is_of_module(value)):
            self._push(value, code, True, named, False)

    def _put(self, holder: Any, of: Any, key: Any, value: Any, code: Code | None = None) -> None:
        """A place whose holder is made for the purpose. Code that is given goes on from there."""
        self._note(holder, of, key, value)
        if value is not MISSING and code is not None:
            self._push(value, code, True, True, False)

    def variable(self, x: ContextVar[Any], code: Code) -> None:
        """A context variable that is read or set."""
        value = x.get(MISSING)
        self._put(Variable(x), x, "value", value, code)
        if value is MISSING and (default := Variable(x).default()) is not MISSING:
            self._lead(x, default)
            self._push(default, code, True, True, False)

    def _lock(self, x: Any, placed: bool) -> None:
        """A lock, which the function may take and give back. While it is traced it must not wait for others."""
        text = repr(x)
        mine = "<unlocked" in text or f"owner={threading.get_ident()} " in text
        if placed and not mine and (id(x), "state") not in self.places:
            raise AsWritten(f"it reaches a {type(x).__name__} from outside that is taken", lasting=False)
        self._put(Lock(x), x, "state", (text,))

    def state(self, function: Any) -> None:
        """What a function without arguments tells of the interpreter, which is compared by its value."""
        self._put(State(function), function, "state", function())

    # -- objects
    def _leads_on(self, x: Any, code: Code, placed: bool, named: bool) -> None:
        """A cell, a partial or a view: what it holds is as old as it is."""
        if isinstance(x, types.CellType):
            self._put(Cell(x), x, "cell_contents", content(x), code)
        elif isinstance(x, functools.partial):
            for name in ("func", "args", "keywords"):
                self._put(Attributes(x), x, name, getattr(x, name), code)
        parts = [] if isinstance(x, types.CellType) else [x.obj] if isinstance(x, memoryview) else gc.get_referents(x)
        for part in parts:
            if type(part) is dict and id(part) not in self.owners:
                self.owners[id(part)] = x
            self._push(part, code, placed, named)

    def _weak(self, x: Any, ref: Any, there: Any) -> None:
        """A weak reference or a proxy: that what it leads to is there, which is not kept alive for it."""
        self._behind_weak.add(id(there))
        self.owners[id(ref)] = x
        self._keep(ref)
        self.weak[id(x)] = (ref, type(there))

    def _instance(self, x: Any, code: Code, named: bool) -> None:
        cls = type(x)
        if hasattr(cls, "__del__") and not self.ages.is_old(x):
            raise AsWritten(f"it makes a {cls.__name__}, which may act when it is gone (__del__)", lasting=False)
        if code.reads_class:
            self._class_of(x, cls)
        if id(cls) not in self._with_slots:
            self._with_slots.add(id(cls))
            for name in _unnamed_slots(cls):
                self._of_class(cls, name, code)
        held = dict_of(x)
        if code.compares and isinstance(held, dict) and issubclass(cls, types.SimpleNamespace):
            self._container(held, code, True, False)
        self._attributes(_NO_ATTRIBUTES if held is None else held, x, code, named)

    def _attributes(self, held: Any, x: Any, code: Code, named: bool) -> None:
        names, cls = self.names(code), type(x)
        self.owners[id(held)] = x
        has_dict = isinstance(held, OfThread) or dict_of(x) is not None
        there = names & held.keys()
        for name in there:
            self._place(held, name, code, True)
        rest = names - there
        is_layer = "_modules" in held and "_parameters" in held
        if is_layer:
            rest = self._of_module(held, x, code, rest)
        found, data, missing = self._on_class(cls, code, rest)
        is_plain = has_dict and not is_layer and cls.__getattribute__ is object.__getattribute__
        if is_plain and (there or found) and id(x) not in self._behind_weak:
            self._put(Attributes(x), x, "__dict__", held)
        if len(missing) < len(rest):
            self._class_of(x, cls)
            for name in data:
                value = getattr(x, name, MISSING)
                self._put(Attributes(x), x, name, value, code)
            overriding = [n for n in found if n not in data]
            if overriding and has_dict:
                self._absent(held, overriding)
        missing = self._noticed(code, missing, cls)
        if missing and has_dict:
            self._absent(held, missing)
        if named and (code.looks_at_all or code.computes_names):
            self._all_attributes(held, x, cls, code)

    def _of_module(self, held: Any, x: Any, code: Code, names: frozenset[str]) -> frozenset[str]:
        """Parameters, buffers and submodules that are named; all of a module that is a container."""
        there: set[str] = set()
        for kind in _SUBMODULES:
            inner = held.get(kind)
            if inner:
                self.owners[id(inner)] = x
                hits = names & inner.keys()
                for name in hits:
                    self._place(inner, name, code, True)
                there |= hits
        if hasattr(type(x), "__iter__") or hasattr(type(x), "__getitem__"):
            for kind in ("_modules", "_parameters"):
                if held.get(kind):
                    self._container(held[kind], code, True, True)
        return names - there

    def _all_attributes(self, held: Any, x: Any, cls: type, code: Code) -> None:
        if id(x) in self._whole:
            return
        self._whole.add(id(x))
        if isinstance(held, dict):
            self._container(held, code, True, False)
        for base in cls.__mro__:
            if is_ours(base) or not is_python_class(base):
                continue
            for name, value in list(vars(base).items()):
                if isinstance(value, types.MemberDescriptorType):
                    self._put(Attributes(x), x, name, getattr(x, name, MISSING), code)
                elif not (name.startswith("__") and name.endswith("__")):
                    self._of_class(cls, name, code)

    def _noticed(self, code: Code, missing: Collection[str], cls: type = object) -> Collection[str]:
        """Of names that are missing, those of which code notices when they are there, or which it gives a value."""
        if not missing or code.catches or self.handlers or code.may_ask_for_absent:
            return missing
        fallback = getattr(cls, "__getattr__", None)
        if isinstance(fallback, types.FunctionType) and code_of(fallback.__code__, fallback.__globals__).whose != OURS:
            return missing  # which an attribute would take the place of
        return code.writes.intersection(missing)

    def _class_of(self, x: Any, cls: type) -> None:
        if id(x) not in self.types and id(x) not in self._behind_weak:
            self.types[id(x)] = (x, cls)
            self._keep(x)
            self._count += 1

    def _on_class(self, cls: type, code: Code, names: Iterable[str]) -> tuple[list[str], list[str], list[str]]:
        """Which names a class has; which of these are slots; which it has not."""
        found, data, missing = [], [], []
        for name in names:
            value = self._of_class(cls, name, code)
            if value is MISSING:
                missing.append(name)
            elif isinstance(value, types.MemberDescriptorType):
                found.append(name)
                data.append(name)
            elif not isinstance(value, property):
                found.append(name)
        noticed = self._noticed(code, missing, cls)
        for base in cls.__mro__ if noticed else ():
            if is_python_class(base):
                self._absent(base, noticed)
        return found, data, missing

    def _of_class(self, cls: type, name: str, code: Code) -> Any:
        """What a class has under a name, and that none of the classes before it has it."""
        bases = cls.__mro__
        if id(cls) not in self._with_bases:
            self._with_bases.add(id(cls))
            for base in bases:
                if is_python_class(base) and not is_ours(base):
                    self._put(Attributes(base), base, "__bases__", base.__bases__)
        for at, base in enumerate(bases):
            held = base.__dict__
            if name not in held:
                continue
            value = held[name]
            for earlier in bases[:at]:
                if is_python_class(earlier):
                    self._absent(earlier, (name,))
            if is_python_class(base):
                self._put(Class(base), base, name, value)
            if not is_ours(base):
                self._push_class_value(value, code)
            if code.calls_super:
                self._behind(bases[at + 1 :], name, code)
            return value
        return MISSING

    def _behind(self, bases: Iterable[type], name: str, code: Code) -> None:
        """What `super()` may find: the same name in the classes behind."""
        for base in filter(is_python_class, bases):
            if name not in base.__dict__:
                self._absent(base, (name,))
                continue
            self._put(Class(base), base, name, base.__dict__[name])
            if not is_ours(base):
                self._push_class_value(base.__dict__[name], code)

    def _push_class_value(self, value: Any, code: Code) -> None:
        if isinstance(value, property):
            for part in (value.fget, value.fset, value.fdel):
                if part is not None:
                    self._push(part, code, True, True, False)
        elif isinstance(value, staticmethod | classmethod):
            self._push(value.__func__, code, True, True, False)
        elif not isinstance(value, types.MemberDescriptorType | types.GetSetDescriptorType):
            self._push(value, code, True, True, False)

    def _attribute_of(self, x: Any, held: dict[str, Any], name: str, code: Code) -> None:
        if name in held:
            self._place(held, name, code, True)
        else:
            self._absent(held, (name,))
            self._of_class(type(x), name, code)

    def _class(self, x: type, code: Code, named: bool) -> None:
        if not is_python_class(x):
            return
        matched = vars(x).get("__match_args__")
        if "__match_args__" in code.attributes and isinstance(matched, tuple):
            self.add_names(code, matched)
        for name in self.names(code):
            if self._of_class(x, name, code) is MISSING and type(x) is not type:
                self._of_class(type(x), name, code)
        absent = [n for n in self.names(code) if not any(n in base.__dict__ for base in x.__mro__)]
        missing = self._noticed(code, absent)
        for base in x.__mro__ if missing else ():
            if is_python_class(base):
                self._absent(base, missing)
        if named and (code.looks_at_all or code.computes_names) and not is_ours(x):
            for base in x.__mro__:
                for name in list(vars(base)) if is_python_class(base) else ():
                    if not (name.startswith("__") and name.endswith("__")):
                        self._of_class(x, name, code)

    def _module(self, x: types.ModuleType, code: Code, named: bool) -> None:
        held = vars(x)
        self.owners[id(held)] = x
        ours = x.__name__.partition(".")[0] in _OUR_NAMES
        for name in self.names(code):
            if name in held:
                self._place(held, name, code, True, goes_on=not ours or not isinstance(held[name], _WITHOUT_FLAGS))
            elif not ours and (self._noticed(code, (name,)) or "__getattr__" in held):
                self._absent(held, (name,))
        if "__getattr__" in held and not ours:
            self._push(held["__getattr__"], code, True, True)
        whole = named and code.looks_at_all and not code.globals.isdisjoint(("vars", "dir"))
        if code.computes_names and named and not whole:
            whole = x.__name__ not in sys.builtin_module_names and whose(str(getattr(x, "__file__", ""))) is USERS
        if whole and not ours:
            self._container(held, code, True, False)
        if type(x) is not types.ModuleType and not ours:
            self._attributes(held, x, code, False)

    def _function(self, x: types.FunctionType, code: Code) -> None:
        of = whose(x.__code__.co_filename)
        held = x.__dict__
        if of is not OURS and id(x) not in self.cells:
            self.functions.setdefault(id(x.__code__), []).append(x)
            self._parts(x)
        if held:
            self.owners[id(held)] = x
            for name in self.names(code) & held.keys():
                self._place(held, name, code, True)
            if "__wrapped__" in held:
                self._push(held["__wrapped__"], code, True, True)
        if of is not OURS:
            if code.may_ask_for_absent:
                self.owners[id(held)] = x
                self._absent(held, self.names(code) - held.keys())
            names = self.names(code)
            describes = not _DESCRIBE.isdisjoint(names | code.globals)
            for name in _OF_FUNCTIONS if describes else names & _OF_FUNCTIONS:
                self._put(Attributes(x), x, name, getattr(x, name), code)
            if "__globals__" in code.attributes:
                for name in self.names(code) & x.__globals__.keys():
                    self._place(x.__globals__, name, code, True)
        if of is OURS or held:
            for cell in x.__closure__ or ():
                inner = content(cell)
                if isinstance(inner, types.FunctionType | types.MethodType):
                    self._push(inner, code, True, True)
        if x.__kwdefaults__ and of is not OURS:
            self.owners[id(x.__kwdefaults__)] = x
            self._container(x.__kwdefaults__, code, True, False)
        if x.__defaults__ and of is not OURS:
            self._push(x.__defaults__, code, True, True, False)

    def _builtin(self, x: Any, code: Code, placed: bool, named: bool) -> None:
        owner = getattr(x, "__self__", None)
        if owner is not None and not isinstance(owner, types.ModuleType | type):
            self._push(owner, code, placed, False)
        if not (placed and named):
            return
        name = x.__name__
        handed_on = name in code.values or (name not in code.globals and name not in code.attributes)
        if handed_on and verdict(x) is EFFECT and self.ages.is_old(x):
            raise AsWritten(f"{describe(x)} is handed on, and it may act outside{code.place()}", lasting=False)

    def _array(self, x: Any, code: Code, placed: bool) -> None:
        is_new = placed and id(x) not in self.arrays
        if is_new:
            self.arrays[id(x)] = (x, array_content(x))
            self._keep(x)
            self._count += 1
        if isinstance(x, np.ndarray) and x.dtype == object:
            for v in x.flat:
                self._push(v, code, placed, True, is_new)

    def _container(self, x: Any, code: Code, placed: bool, named: bool) -> None:
        fixed = isinstance(x, tuple | frozenset)
        if id(x) not in self.containers and not fixed:
            copy = copy_of_dict(x) if isinstance(x, dict) else list(x)
            self.containers[id(x)] = (x, copy)
            for item in (
                [*copy, *(v for k, v in copy.items() if (id(x), k) not in self.places)] if isinstance(x, dict) else copy
            ):
                self._lead(x, item)
            self._keep(x)
            self._count += len(copy)
        items = [*dict.keys(x), *dict.values(x)] if isinstance(x, dict) else list(x)
        for item in items:
            if type(item) not in ATOMS:
                if fixed:
                    self._lead(x, item)
                self._push(item, code, placed, named, False)
        if isinstance(x, defaultdict):
            self._push(x.default_factory, code, placed, named, False)

    def _whole_instance(self, x: Any, code: Code, named: bool) -> None:
        """An object of this package that holds what users put into it; its own code is not looked at.

        An iterator is one for what it iterates over, too.
        """
        held = dict_of(x)
        if held is not None:
            self.owners[id(held)] = x
            self._class_of(x, type(x))
            self._container(held, code, True, named and hasattr(type(x), "__next__"))

    def _of_ours(self, x: Any, code: Code) -> None:
        """An object of this package: attributes that code names, such as a flag."""
        held = dict_of(x)
        for name in () if held is None else self.names(code) & held.keys():
            self.owners[id(held)] = x
            self._place(held, name, code, True, goes_on=False)

    def _optimizer(self, x: Any, code: Code) -> None:
        if id(x) not in self.optimizers:
            self.optimizers[id(x)] = x
            self._keep(x)
            self._pending.append(x)
            self.states[id(x)] = list(containers_in(vars(x)["state"]))
        self._instance(x, code, False)
        for name in ("state", "param_groups"):  # others, once a state was loaded
            self._place(vars(x), name, code, True, goes_on=False)
        self._container(x.param_groups, code, True, False)
        for name in _HOOKS_OF_STEPS:
            if name in vars(x):
                self._container(vars(x)[name], code, True, False)

    def _schedule(self, x: Any, code: Code) -> None:
        if id(x) not in self.schedules:
            self.schedules[id(x)] = x
            self._keep(x)
            self._pending.append(x)
            self.owners[id(vars(x))] = x
        self._container(vars(x), code, True, False)

    def _tensor(self, x: Tensor, code: Code, placed: bool) -> None:
        if id(code) not in self._of_tensors:
            missing = self._on_class(Tensor, code, self.names(code))[2]
            self._of_tensors[id(code)] = self._noticed(code, missing)
        if x.__dict__ or not is_ours(type(x)):
            self._attributes(x.__dict__, x, code, False)
        elif self._of_tensors[id(code)]:
            self.owners[id(x.__dict__)] = x
            self._absent(x.__dict__, self._of_tensors[id(code)])
        if code.reads_form:
            self.forms[id(x)] = x
        if code.reads_requires_grad:
            self.flags[id(x)] = x
        if not placed:
            return
        if id(x) not in self.gradients:
            self.gradients[id(x)] = x._g
            self._keep(x)
        for hooks in (x._x.hooks, x._x.post_acc) if x._x is not None else ():
            if hooks:
                self._push(hooks, code, True, False, False)

    def _iterator(self, x: Any, code: Code, placed: bool) -> None:
        if placed and self.ages.is_old(x):
            self._opaque(x)
        for part in gc.get_referents(x):
            if not isinstance(part, types.FrameType | types.CodeType | str):
                self._push(part, code, False, True)

    def _opaque(self, x: Any, code: Code | None = None) -> None:
        if self.ages.is_old(x) and not (code is not None and _only_calls_stream(x, code)):
            raise AsWritten(f"it reaches a {type(x).__name__} from outside, whose state nothing tells", lasting=False)


_NO_ATTRIBUTES = types.MappingProxyType[str, Any]({})
"""Stands for the attributes of an object without a dict: one for all, since identities of new ones come again."""
_MATH = vars(math)
_OF_LOGGING = vars(logging)["_lock"]
"""A lock under which loggers remember which lines are asked for; a function that logs names it, and seldom takes it."""
_HOOKS_OF_STEPS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
_OF_FUNCTIONS = frozenset([
    "__name__", "__qualname__", "__doc__", "__module__", "__annotations__", "__closure__", "__defaults__",
    "__kwdefaults__",
])  # fmt: skip
"""Attributes of functions that are in no dict."""
_DESCRIBE = frozenset(["signature", "getfullargspec", "get_annotations", "get_type_hints"])
"""Functions of the standard library that look at all of these."""
_PLAIN_CONTAINERS = (list, dict, tuple, set, frozenset, deque)
_WITHOUT_FLAGS = (types.FunctionType, types.BuiltinFunctionType, type, Tensor)
"""What this package and JAX have in their modules beside modules and objects with flags."""
_OUR_NAMES = ("torchgrad_jax", "torch", "jax", "jaxlib")


def _unnamed_slots(cls: type) -> Iterator[str]:
    """Methods that Python itself calls, such as `__call__`, which are no function of that name: a lambda, a partial."""
    for base in filter(is_python_class, cls.__mro__):
        for name, value in () if is_ours(base) else list(vars(base).items()):
            if not (name.startswith("__") and callable(value)):
                continue
            of = getattr(value, "__objclass__", None) or getattr(value, "__self__", None)
            if of is not base:  # else the class is written in C
                code = getattr(value, "__code__", None)
                if code is None or code.co_name != name:
                    yield name


def _only_calls_stream(x: Any, code: Code) -> bool:
    """Whether something is a standard stream of which code hands no method on: then it is seen when it writes."""
    if (x is not sys.stdout and x is not sys.stderr) or code.may_ask_for_absent:
        return False
    return not any(hasattr(type(x), name) for name in code.values)


def _is_of_module(function: Any) -> bool:
    """Whether something is a function written in C of a module, whose call is seen whatever it is called by."""
    return isinstance(function, types.BuiltinFunctionType) and isinstance(function.__self__, types.ModuleType)


def _behind_proxy(x: Any) -> Any:
    try:
        return x.__repr__.__self__
    except ReferenceError:
        return None
