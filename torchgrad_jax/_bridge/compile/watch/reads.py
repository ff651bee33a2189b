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
import itertools
import logging
import sys
import types
from collections.abc import Iterable
from typing import Any

import jax

from ...._core.python_code import is_ours
from ...._core.python_objects import parts_of
from ...._engine.memory.tensor import Tensor
from . import kinds
from .code_that_reads import Code
from .notes import ATOMS, Notes

_OF_LOGGING = vars(logging)["_lock"]
"""A lock under which loggers remember which lines are asked for; a function that logs names it, and seldom takes it."""


class Reads(Notes):
    """Finds what a function can have read, from what it is given and the names that its code looks up."""

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
        kinds.everything(self, x, code, True, True)
        self.walk()

    def parts_of(self, parts: Iterable[tuple[Any, dict[Any, Any], Any]], code: Code) -> None:
        """What a function of this package looks at: objects, dicts of these, and keys; or classes, and names."""
        for x, held, key in parts:
            if issubclass(type(x), type):
                kinds.of_class(self, x, key, code)
            else:
                self.entries(held, x, (key,), code)
        self.walk()

    def method_called(self, code: Code, x: Any, name: str) -> None:
        """Python itself has called a method, such as `__call__` or `__add__`, which no code names."""
        if not issubclass(type(x), Tensor) and not is_ours(type(x)):
            self.note_class(x)
            kinds.of_class(self, type(x), name, code)
            if issubclass(type(x), type):  # such as `__class_getitem__`
                kinds.of_class(self, x, name, code)
            self.walk()

    def result_kept(self, of: types.CodeType, code: Code, x: Any) -> bool:
        """A function returns what a cache keeps of it from here on, where later runs find it."""
        cache = self.caches.get(id(of))
        if cache is None or _may_hold_tensors(x):
            return False
        self.lead(cache, x)
        self.root(code, x, placed=True)
        return True

    def visit(self, x: Any, code: Code, placed: bool, named: bool) -> None:
        """Note what there is to note of an object, and pass on what it leads to."""
        if issubclass(type(x), Tensor):
            kinds.tensor(self, x, code, placed)
        else:
            kinds.kind_of(x)(self, x, code, placed, named)


def _may_hold_tensors(x: Any) -> bool:
    """Return whether a tensor is in an object, or in what it leads to; one that leads to very much may hold one."""
    parts = parts_of([x], lambda x: not issubclass(type(x), _LEAD_ELSEWHERE))
    first = list(itertools.islice(parts, 1000))
    return len(first) == 1000 or any(issubclass(type(part), _TENSORS) for part in first)


_TENSORS = (Tensor, jax.Array, jax.core.Tracer)
_LEAD_ELSEWHERE = (type, types.ModuleType, types.FunctionType, types.CodeType)
