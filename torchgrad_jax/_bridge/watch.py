"""What a compiled function depends on besides its arguments: the Python values it can reach.

The steps of a run hold for as long as the Python code would take the same branches. What it can look at
(closures, globals that it names, attributes of its `self`, modules, optimizers) is written down as a
list of places with what was found there, to be compared before the steps are used again.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections import deque
from collections.abc import Iterator
from itertools import repeat
from operator import is_
from typing import Any

import numpy as np

from .._core.state import MODES, SETTINGS
from .._engine.tensor import Tensor

_SIMPLE = (int, float, complex, bool, str, bytes, type(None))
_MISSING = object()
_ABSENT = repeat(_MISSING)
_KNOWN = ("torchgrad_jax", "torch", "jax", "jaxlib", "numpy")
_MOST = 20_000


class Watch:
    """Places and what was found there."""

    __slots__ = ("arrays", "columns", "dicts", "lists", "objects", "orders", "places", "seen")

    def __init__(self) -> None:
        self.places: list[tuple[dict[Any, Any], Any, Any]] = []
        self.dicts: list[tuple[dict[Any, Any], int]] = []
        self.lists: list[tuple[Any, list[Any]]] = []
        self.columns: Any = None
        """`places` and `dicts` by column, for a quick look."""
        self.orders: list[tuple[dict[Any, Any], list[Any]]] = []
        """Dicts of several entries, and their keys in order."""
        self.arrays: list[tuple[Any, Any]] = []
        """Arrays of NumPy and bytearrays, and what was in them."""
        self.seen: set[int] = set()
        self.objects: list[Any] = []
        """Kept alive, so that ids stay theirs."""
        for setting in AMBIENT:
            self._dict(setting)
        self.places += [(_Attributes(MODES), key, getattr(MODES, key)) for key in _MODES]  # type: ignore[misc]

    def changed(self) -> str | None:
        """What is no longer as it was, in words; None if all is."""
        if self.columns is None:
            self.columns = _columns(self.places, self.dicts)
        looks, dicts, sizes = self.columns
        # No loop in Python where everything is the very object that it was.
        try:
            for look, owners, keys, found in looks:
                if not all(map(is_, map(look, owners, keys, _ABSENT), found)):
                    break
            else:
                if list(map(len, dicts)) == sizes:
                    return self._lists_changed()
        except ValueError:  # of a cell that is empty now
            pass
        for at, (holder, key, before) in enumerate(self.places):
            now = holder.get(key, _MISSING)
            if now is before:
                continue
            if now.__class__ is before.__class__ and isinstance(now, _SIMPLE) and now == before:
                self.places[at] = (holder, key, now)
                self.columns = None
                continue
            name = (
                repr(key)
                if isinstance(key, _SIMPLE)
                else f"what a {type(key).__name__} has in a dict"
            )
            return f"{name} was {_shown(before)} and is {_shown(now)}"
        for holder, n in self.dicts:
            if len(holder) != n:
                return f"a dict had {n} entries and has {len(holder)}"
        return self._lists_changed()

    def undo(self) -> None:
        """Put everything back to what was found."""
        there: dict[int, set[Any]] = {}
        for holder, key, before in self.places:
            if isinstance(holder, dict):
                there.setdefault(id(holder), set()).add(key)
                if before is not _MISSING and holder.get(key, _MISSING) is not before:
                    holder[key] = before
            elif (
                isinstance(holder, _Attributes) and getattr(holder.of, key, _MISSING) is not before
            ):
                setattr(holder.of, key, before)
            elif isinstance(holder, _Cell):
                holder.of.cell_contents = before
        for holder, n in self.dicts:
            if len(holder) != n:
                for key in [k for k in holder if k not in there.get(id(holder), ())]:
                    del holder[key]
        for held, before in self.lists:
            held.clear()
            held.update(before) if isinstance(held, set) else held.extend(before)

    def _lists_changed(self) -> str | None:
        for holder, before in self.lists:
            if len(holder) == len(before) and all(map(is_, holder, before)):
                continue
            if len(holder) != len(before) or any(
                a is not b and not (isinstance(a, _SIMPLE) and a == b)
                for a, b in zip(holder, before)
            ):
                return "the entries of a list changed"
        for held, keys in self.orders:
            if not all(map(is_, held, keys)) and list(held) != keys:
                return "the entries of a dict have another order"
        for array, before in self.arrays:
            if _content(array) != before:
                return "the values of an array changed"
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
        self.places += [(_Attributes(fn), key, getattr(fn, key)) for key in _OF_FUNCTIONS]  # type: ignore[misc]
        self._dict(vars(fn))
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
        for value in (fn.__defaults__, fn.__kwdefaults__):
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
                for value in held.values():
                    code = getattr(value, "fget", None) or getattr(value, "__func__", value)
                    if isinstance(code, types.FunctionType):
                        self.function(code)

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
        if isinstance(x, np.ndarray | bytearray):
            self.arrays.append((x, _content(x)))
        elif isinstance(x, functools.partial):
            for part in (x.func, x.args, x.keywords, vars(x)):
                self.value(part)
        elif isinstance(x, dict):
            self._dict(x)
            if len(x) > 1:
                self.orders.append((x, list(x)))
            self._instance(x)
        elif isinstance(x, list | tuple | set | frozenset | deque):
            self._instance(x)
            if not isinstance(x, tuple | frozenset):
                self.lists.append((x, list(x)))
            for v in x:
                self.value(v)
        elif _there(x, "param_groups") and _there(x, "state"):  # an optimizer
            self._optimizer(x)
        else:
            self._instance(x)

    def _optimizer(self, x: Any) -> None:
        """Options, which parameters there are, and which tensors make up the state."""
        self._class(type(x))
        self.lists.append((x.param_groups, list(x.param_groups)))
        for group in x.param_groups:
            self._mark(group)
            for key in group:
                live = key in _LIVE and isinstance(group[key], float | int)
                if key != "params" and not live:
                    self._place(group, key)
            self.lists.append((group["params"], list(group["params"])))
        for key, held in vars(x).items():
            if isinstance(held, dict):  # the state, hooks
                self.places.append((vars(x), key, held))
                self._dict(held)

    def _instance(self, x: Any) -> None:
        """Attributes of an object of the user's, and of its class."""
        cls = type(x)
        if _ours(cls) and not _there(x, "_parameters") and cls.__name__ not in _NAMESPACES:
            return
        self._class(cls)
        if hasattr(x, "__dict__"):
            self._dict(vars(x))
        for base in cls.__mro__:
            if _ours(base):
                continue
            slots = vars(base).get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name not in ("__dict__", "__weakref__"):
                    value = getattr(x, name, _MISSING)
                    self.places.append((_Attributes(x), name, value))  # type: ignore[arg-type]
                    self.value(value)

    def _dict(self, x: dict[Any, Any]) -> None:
        self.dicts.append((x, len(x)))
        for key in list(x):
            self._place(x, key)


def _there(x: Any, name: str) -> bool:
    """Whether an object has an attribute, without asking a `__getattr__`, which may do anything."""
    return inspect.getattr_static(x, name, _MISSING) is not _MISSING


def _columns(places: Any, dicts: Any) -> tuple[Any, ...]:
    rows: dict[Any, list[Any]] = {look: [] for look in (dict.get, getattr, _of_class)}
    for holder, key, found in places:
        if isinstance(holder, _Attributes | _Cell):
            rows[getattr].append((holder.of, key, found))
        else:
            rows[dict.get if isinstance(holder, dict) else _of_class].append((holder, key, found))
    return (
        [(look, *zip(*found)) for look, found in rows.items() if found],
        [holder for holder, _ in dicts],
        [n for _, n in dicts],
    )


_of_class = types.MappingProxyType.get
_LIVE = ("lr",)
"""Entries of an optimizer's groups that are read anew in each step where they are numbers."""


_MODES = ("default_device", "device_stack", "grad_layout")
"""Modes that are no bits, and that code can tell apart."""
_OF_FUNCTIONS = ("__code__", "__defaults__", "__kwdefaults__")
_NAMESPACES = ("SimpleNamespace", "Namespace")
"""Classes of the standard library that are nothing but a place for attributes."""
AMBIENT: list[dict[str, Any]] = [vars(SETTINGS)]
"""What every function may look at: settings, and hooks of all modules, which `nn` adds."""


def _content(array: Any) -> tuple[Any, ...]:
    if isinstance(array, bytearray):
        return (bytes(array),)
    return (array.shape, array.dtype, array.tobytes())


class _Attributes:
    """Attributes of an object that has no dict for them, looked at like one."""

    __slots__ = ("of",)

    def __init__(self, of: Any) -> None:
        self.of = of

    def get(self, name: str, default: Any) -> Any:
        """The value of one."""
        return getattr(self.of, name, default)


class _Cell:
    """A closure's cell, looked at like a dict."""

    __slots__ = ("of",)

    def __init__(self, cell: Any) -> None:
        self.of = cell

    def get(self, _: str, default: Any) -> Any:
        """What is in it."""
        try:
            return self.of.cell_contents
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


__all__ = ["AMBIENT", "Watch"]
