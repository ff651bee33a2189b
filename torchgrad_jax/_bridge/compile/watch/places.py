"""Places where Python keeps a value that a function can look at: each is a holder, looked at like a dict, and a key.

An entry of a dict has the dict for its holder. For attributes, items of lists, cells of closures and context variables
there is one here.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, MutableMapping
from contextvars import ContextVar
from typing import Any

PLAIN_VALUES = (int, float, complex, bool, str, bytes, type(None))
"""Classes of values that are the same wherever they are, as long as they are equal."""


MISSING = object()
"""Stands for what is not there."""


class Attributes:
    """Attributes of an object that has no dict for them, looked at like one."""

    __slots__ = ("of",)

    def __init__(self, of: Any) -> None:
        self.of = of

    def get(self, name: str, default: Any) -> Any:
        """The value of one."""
        return getattr(self.of, name, default)

    def __getitem__(self, name: str) -> Any:
        return getattr(self.of, name)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self.of, name, value)


class Class(Attributes):
    """Attributes of a class's own."""

    __slots__ = ("dict",)

    def __init__(self, of: Any) -> None:
        self.of, self.dict = of, vars(of)

    def get(self, name: str, default: Any) -> Any:
        """One of them."""
        return self.dict.get(name, default)

    def __getitem__(self, name: str) -> Any:
        return self.dict[name]

    def __delitem__(self, name: str) -> None:
        delattr(self.of, name)

    def __iter__(self) -> Iterator[str]:
        """The names that are not Python's own; methods like `__call__` may be set to other ones, too."""
        return (
            k
            for k, v in list(self.dict.items())
            if isinstance(v, types.FunctionType) or not (k.startswith("__") and k.endswith("__"))
        )

    def __len__(self) -> int:
        return len(self.dict)


class Items(Attributes):
    """Entries of a list, looked at like those of a dict."""

    __slots__ = ()

    def get(self, name: Any, default: Any) -> Any:
        """One of them."""
        return self.of[name] if name < len(self.of) else default

    def __getitem__(self, name: Any) -> Any:
        return self.of[name]

    def __setitem__(self, name: Any, value: Any) -> None:
        # The function may have removed entries that are put back now.
        self.of += [None] * (name + 1 - len(self.of))
        self.of[name] = value

    def __delitem__(self, name: Any) -> None:
        del self.of[name]

    def __iter__(self) -> Iterator[int]:
        """The last one first, so that none moves when a later one is deleted."""
        return reversed(range(len(self.of)))

    def __len__(self) -> int:
        return len(self.of)


class Variable(Attributes):
    """A context variable, looked at like a dict."""

    __slots__ = ()

    def get(self, _: str, default: Any) -> Any:
        """Its value in this context."""
        return self.of.get(default)

    def __getitem__(self, _: str) -> Any:
        return self.of.get()

    def __setitem__(self, _: str, value: Any) -> None:
        self.of.set(value)


class Cell:
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

    def __getitem__(self, _: str) -> Any:
        return self.of.cell_contents

    def __setitem__(self, _: str, value: Any) -> None:
        self.of.cell_contents = value


class OfThread(MutableMapping[str, Any]):
    """The attributes of a `threading.local` in whichever thread looks at them, as a dict."""

    __slots__ = ("of",)

    def __init__(self, of: Any) -> None:
        self.of = of

    def __getitem__(self, name: str) -> Any:
        return vars(self.of)[name]

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self.of, name, value)

    def __delitem__(self, name: str) -> None:
        delattr(self.of, name)

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self.of))

    def __len__(self) -> int:
        return len(vars(self.of))


def quick_places(places: Any, dicts: Any) -> tuple[Any, ...]:
    looks = (dict.get, getattr, _of_class, _item, _in_context)
    rows: dict[Any, list[Any]] = {look: [] for look in looks}
    for holder, key, value in places:
        if isinstance(holder, dict):
            rows[dict.get].append((holder, key, value))
        elif isinstance(holder, Class):
            rows[_of_class].append((holder.dict, key, value))
        elif isinstance(holder, types.MappingProxyType):
            rows[_of_class].append((holder, key, value))
        else:
            look = _LOOKS.get(type(holder), getattr)
            rows[look].append((holder.of, key, value))
    return (
        [(look, *zip(*entries)) for look, entries in rows.items() if entries],
        [holder.dict if isinstance(holder, Class) else holder for holder, _ in dicts],
        [n for _, n in dicts],
    )


_of_class = types.MappingProxyType.get


def _item(held: list[Any], i: int, default: Any) -> Any:
    return held[i] if i < len(held) else default


def _in_context(variable: ContextVar[Any], _: str, default: Any) -> Any:
    return variable.get(default)


_LOOKS: dict[type, Callable[..., Any]] = {Items: _item, Variable: _in_context}
"""How a place is looked at that is neither an entry of a dict nor an attribute."""


def place_of(holder: Any, key: Any) -> Any:
    """A place by identity."""
    return id(holder.of) if isinstance(holder, Attributes | Cell | OfThread) else id(holder), key


def value_at(holder: Any, key: Any) -> Any:
    """What is in a place now; None where somebody has removed it."""
    try:
        return holder[key]
    except (LookupError, AttributeError, ValueError):
        return None
