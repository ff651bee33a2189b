"""What code under a transform of JAX's leaves in objects of Python's that keep state.

`opt.state[p]["exp_avg"] = x` and `group["lr"] = x.sum()` write to no tensor, but to dicts that are there when the
transform is over, and then hold what nobody can use. So the dicts, lists and attributes of optimizers, schedules and
scalers are noted when the outermost transform begins, those of a module when it is first called or written to. When
the transform ends and one of them holds a traced value, they get back what they held, and an error says which.
"""

from __future__ import annotations

import linecache
import os
import weakref
from pathlib import Path
from typing import Any

import jax

from ..._core.errors.messages import TRACED_IS_KEPT, users_place
from ..._core.jax import running_transforms
from ..._core.jax.abstract import is_abstract
from ..._core.python_objects import items_of
from .tensor import Storage, Tensor, held_by, kept_array

_KEEPERS: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""Optimizers, schedules and scalers, by identity."""
_MADE_INSIDE: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""Modules that code under a transform has made, by identity: it may write to them."""


class Watch:
    """What some objects held before a transform."""

    __slots__ = ("containers", "keepers", "passed_over")

    def __init__(self) -> None:
        self.keepers: dict[int, Any] = {}
        self.containers: list[tuple[Any, Any]] = []
        self.passed_over: dict[int, Any] = {}
        """Dicts and lists that held traced values already, such as the parameters within `functional_call`."""
        for keeper in list(_KEEPERS.values()):
            self.add(keeper)

    def add(self, keeper: Any) -> None:
        """Note what an object holds, in its attributes and in dicts and lists of these."""
        if id(keeper) in self.keepers:
            return
        self.keepers[id(keeper)] = keeper
        for held in _containers(vars(keeper)):
            if any(traced_value(value) is not None for value in items_of(held)):
                self.passed_over[id(held)] = held
            else:
                self.containers.append((held, held.copy()))

    def find(self) -> tuple[str, Any] | None:
        """A traced value that one of the objects holds now, and where; None if there is none."""
        for keeper in self.keepers.values():
            for held in _containers(vars(keeper)):
                if id(held) in self.passed_over:
                    continue
                for key, value in held.items() if isinstance(held, dict) else enumerate(held):
                    tracer = traced_value(value)
                    if tracer is not None:
                        name = key if isinstance(key, str) else None
                        of = f"of {type(keeper).__name__}" if name is None else f"{name!r} of {type(keeper).__name__}"
                        return of, tracer
        return None

    def restore(self) -> None:
        """Let everything hold what it held."""
        for held, before in self.containers:
            if isinstance(held, dict):
                held.clear()
                held.update(before)
            else:
                held[:] = before

    def finish(self, failed: bool) -> None:
        """The transform is over: undo what must not stay, and raise unless it has failed anyway."""
        found = self.find()
        if found is None:
            return
        self.restore()
        if not failed:
            of, tracer = found
            raise RuntimeError(TRACED_IS_KEPT.format(of=of) + (made_at(tracer) or f"\n  {users_place()}"))


def watch_always(keeper: Any) -> None:
    """An optimizer or the like was made: each transform notes what it holds."""
    _KEEPERS[id(keeper)] = keeper


def watch(module: Any) -> None:
    """A module is called or written to under a transform of JAX's: note what it holds, unless it was made there."""
    noted = running_transforms.running_watch()
    if noted is not None and id(module) not in _MADE_INSIDE:
        noted.add(module)


def made_inside(module: Any) -> None:
    """A module was made under a transform of JAX's."""
    _MADE_INSIDE[id(module)] = module


def _containers(whole: Any) -> list[Any]:
    """A dict or list, and those that are in it, at any depth."""
    found, seen, stack = [], set(), [whole]
    while stack:
        held = stack.pop()
        if id(held) not in seen:
            seen.add(id(held))
            found.append(held)
            stack += [v for v in items_of(held) if issubclass(type(v), dict | list)]
    return found


def traced_value(value: Any) -> Any:
    """The traced value that something is, or that a tuple has; None for others."""
    if isinstance(value, Tensor):
        st = getattr(value._st, "whole", value._st)  # as it is: a detached tensor's storage would compute something
        value = held_by(st) if st.__class__ is Storage else kept_array(st)
    if issubclass(type(value), tuple):
        return next((t for t in map(traced_value, items_of(value)) if t is not None), None)
    return value if isinstance(value, jax.core.Tracer) and not is_abstract(value) else None


def made_at(tracer: Any) -> str:
    """The line of the user's code that computed a traced value, where JAX knows it."""
    while (inner := getattr(tracer, "primal", None)) is not None:
        tracer = inner
    info = getattr(tracer, "_line_info", None) or getattr(tracer, "source_info", None)
    trace = getattr(info, "traceback", None)
    for frame in () if trace is None else trace.frames:
        if not frame.file_name.startswith(("<", running_transforms.HOME_OF_JAX, _HOME)):
            line = linecache.getline(frame.file_name, frame.line_num).strip()
            return f'\n  File "{frame.file_name}", line {frame.line_num}, in {frame.function_name}\n    {line}'
    return ""


_HOME = f"{Path(__file__).parents[2]}{os.sep}"

running_transforms.make_watch = Watch
