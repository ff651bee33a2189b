"""What a compiled function depends on besides its arguments: the Python values it can reach.

The steps of a run hold for as long as the Python code would take the same branches. What it can look at
(closures, globals that it names, attributes of its `self`, modules, optimizers) is written down as a
list of places with what was found there, to be compared before the steps are used again.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from itertools import repeat
from operator import is_
from typing import Any

from .._engine.tensor import Tensor

_SIMPLE = (int, float, complex, bool, str, bytes, type(None))
_MISSING = object()
_KNOWN = ("torchgrad_jax", "torch", "jax", "jaxlib", "numpy")
_MOST = 20_000


class Watch:
    """Places and what was found there."""

    __slots__ = ("columns", "dicts", "lists", "objects", "places", "seen")

    def __init__(self) -> None:
        self.places: list[tuple[dict[Any, Any], Any, Any]] = []
        self.dicts: list[tuple[dict[Any, Any], int]] = []
        self.lists: list[tuple[Any, list[Any]]] = []
        self.columns: Any = None
        """`places` and `dicts` by column, for a quick look."""
        self.seen: set[int] = set()
        self.objects: list[Any] = []
        """Kept alive, so that ids stay theirs."""

    def changed(self) -> str | None:
        """What is no longer as it was, in words; None if all is."""
        if self.columns is None:
            self.columns = _columns(self.places, self.dicts)
        held, keys, found, others, dicts, sizes = self.columns
        # No loop in Python where everything is the very object that it was.
        if (
            all(map(is_, map(dict.get, held, keys, repeat(_MISSING)), found))
            and list(map(len, dicts)) == sizes
            and all([holder.get(key, _MISSING) is before for holder, key, before in others])
        ):
            return self._lists_changed()
        for at, (holder, key, before) in enumerate(self.places):
            now = holder.get(key, _MISSING)
            if now is before:
                continue
            if now.__class__ is before.__class__ and isinstance(now, _SIMPLE) and now == before:
                self.places[at] = (holder, key, now)
                self.columns = None
                continue
            return f"{key!r} was {_shown(before)} and is {_shown(now)}"
        for holder, n in self.dicts:
            if len(holder) != n:
                return f"a dict had {n} entries and has {len(holder)}"
        return self._lists_changed()

    def _lists_changed(self) -> str | None:
        for holder, before in self.lists:
            if len(holder) != len(before) or any(
                a is not b and not (isinstance(a, _SIMPLE) and a == b)
                for a, b in zip(holder, before)
            ):
                return "the entries of a list changed"
        return None

    # -- collecting
    def function(self, fn: Any) -> None:
        """A function: its closure, the globals that it names, its `self`."""
        if isinstance(fn, types.MethodType):
            self.value(fn.__self__)
            fn = fn.__func__
        while hasattr(fn, "__wrapped__"):
            fn = fn.__wrapped__
        if not isinstance(fn, types.FunctionType) or id(fn) in self.seen:
            if not isinstance(fn, type | types.BuiltinFunctionType | types.FunctionType):
                self.value(fn)
            return
        self._mark(fn)
        names = list(_names(fn.__code__))
        for cell in fn.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:  # still empty
                continue
            self.places.append((_Cell(cell), "cell_contents", content))  # type: ignore[arg-type]
            if isinstance(content, types.ModuleType):
                self._module(content, names)
            else:
                self.value(content)
        for name in names:
            if name not in fn.__globals__:
                continue
            found = fn.__globals__[name]
            if isinstance(found, types.ModuleType):
                self._module(found, names)
            else:
                self._place(fn.__globals__, name)
        for value in (*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()):
            self.value(value)

    def _module(self, module: types.ModuleType, names: list[str]) -> None:
        """What a function may look up in a module of the user's: attributes that it names."""
        top = module.__name__.partition(".")[0]
        if top in sys.stdlib_module_names or top in _KNOWN:
            return
        for name in names:
            if name in vars(module):
                self._place(vars(module), name)

    def _class(self, cls: type) -> None:
        """Attributes of a class of the user's, which instances fall back on."""
        for base in cls.__mro__:
            if base is not object and not _ours(base) and self._mark(base):
                held = vars(base)
                self.places += [
                    (held, key, v)  # type: ignore[misc] - a view of the class's own dict
                    for key, v in held.items()
                    if not (key.startswith("__") and key.endswith("__"))
                ]

    def _mark(self, x: Any) -> bool:
        if id(x) in self.seen:
            return False
        self.seen.add(id(x))
        self.objects.append(x)
        return True

    def _place(self, holder: dict[Any, Any], key: Any) -> None:
        if len(self.places) < _MOST:
            value = holder[key]
            if isinstance(value, types.ModuleType):
                return
            self.places.append((holder, key, value))
            self.value(value)

    def value(self, x: Any) -> None:
        """Something reachable."""
        if isinstance(x, type):
            self._class(x)
            return
        if isinstance(x, (*_SIMPLE, Tensor, types.ModuleType, types.BuiltinFunctionType)):
            return
        if isinstance(x, types.FunctionType | types.MethodType):
            if not _ours(x):
                self.function(x)
            return
        if not self._mark(x):
            return
        if isinstance(x, dict):
            self._dict(x)
        elif isinstance(x, list | tuple | set | frozenset):
            if not isinstance(x, tuple | frozenset):
                self.lists.append((x, list(x)))
            for v in x:
                self.value(v)
        elif hasattr(x, "param_groups") and hasattr(x, "state"):  # an optimizer
            for group in x.param_groups:
                self._mark(group)
                for key in group:
                    if key not in ("params", *_LIVE):
                        self._place(group, key)
                self.lists.append((group["params"], list(group["params"])))
            self.dicts.append((x.state, len(x.state)))
        elif (hasattr(x, "__dict__") and not _ours(type(x))) or hasattr(x, "_parameters"):
            self._class(type(x))
            self._dict(vars(x))

    def _dict(self, x: dict[Any, Any]) -> None:
        self.dicts.append((x, len(x)))
        for key in list(x):
            self._place(x, key)


def _columns(places: Any, dicts: Any) -> tuple[Any, ...]:
    held = [place for place in places if isinstance(place[0], dict)]
    return (
        *[[place[i] for place in held] for i in range(3)],
        [place for place in places if not isinstance(place[0], dict)],
        [holder for holder, _ in dicts],
        [n for _, n in dicts],
    )


_LIVE = ("lr",)
"""Entries of an optimizer's groups that are read anew in each step."""


class _Cell:
    """A closure's cell, looked at like a dict."""

    __slots__ = ("cell",)

    def __init__(self, cell: Any) -> None:
        self.cell = cell

    def get(self, _: str, default: Any) -> Any:
        """What is in it."""
        try:
            return self.cell.cell_contents
        except ValueError:
            return default


def _names(code: types.CodeType) -> Iterator[str]:
    """Global names of a function and of those defined in it."""
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _names(const)


def _ours(x: Any) -> bool:
    """Whether something belongs to this package, whose state is known."""
    module = getattr(x, "__module__", None) or ""
    top = module.partition(".")[0]
    return top in _KNOWN or top in sys.stdlib_module_names


def _shown(x: Any) -> str:
    text = repr(x) if isinstance(x, _SIMPLE) else f"a {type(x).__name__}"
    return "missing" if x is _MISSING else text


__all__ = ["Watch"]
