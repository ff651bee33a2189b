"""Places where Python keeps a value that a function can look at: each is a holder, looked at like a dict, and a key.

An entry of a dict has the dict for its holder. For attributes, items of lists, cells of closures and context variables
there is one here.
"""

from __future__ import annotations

import contextvars
import threading
import types
from collections import OrderedDict
from collections.abc import Iterator, MutableMapping
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

    def __delitem__(self, name: str) -> None:
        delattr(self.of, name)


class Entries(Attributes):
    """Entries of a dict whose class may look them up in a way of its own."""

    __slots__ = ("_kind",)

    def __init__(self, of: dict[Any, Any]) -> None:
        self.of = of
        self._kind: Any = OrderedDict if isinstance(of, OrderedDict) else dict

    def get(self, name: Any, default: Any) -> Any:
        """One of them."""
        return dict.get(self.of, name, default)

    def __getitem__(self, name: Any) -> Any:
        return dict.__getitem__(self.of, name)

    def __setitem__(self, name: Any, value: Any) -> None:
        self._kind.__setitem__(self.of, name, value)

    def __delitem__(self, name: Any) -> None:
        self._kind.__delitem__(self.of, name)

    def __iter__(self) -> Iterator[Any]:
        return self._kind.__iter__(self.of)

    def __len__(self) -> int:
        return dict.__len__(self.of)

    def __contains__(self, name: Any) -> bool:
        return dict.__contains__(self.of, name)

    def keys(self) -> Any:
        """The keys."""
        return dict.keys(self.of)

    def clear(self) -> None:
        """Remove all of them."""
        self._kind.clear(self.of)

    def update(self, entries: dict[Any, Any]) -> None:
        """Add entries."""
        for key, value in entries.items():
            self[key] = value


def holder_of(held: Any) -> Any:
    """What a dict is looked at by: itself, unless its class may look entries up in a way of its own."""
    return Entries(held) if isinstance(held, dict) and type(held) not in _PLAIN else held


_PLAIN = (dict, OrderedDict)


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

    def default(self) -> Any:
        """What it is where nobody has set it."""
        try:
            return contextvars.Context().run(self.of.get)
        except LookupError:
            return MISSING

    def __getitem__(self, _: str) -> Any:
        return self.of.get()

    def __setitem__(self, _: str, value: Any) -> None:
        self.of.set(value)


class State(Attributes):
    """What a function without arguments tells of the interpreter, looked at like a dict and compared by its value."""

    __slots__ = ()

    def get(self, _: str, default: Any) -> Any:
        """What it tells now."""
        return self.of()

    def __getitem__(self, _: str) -> Any:
        return self.of()

    def __setitem__(self, _: str, value: Any) -> None:
        """Nothing: what would set it acts, and ends the trace before it does."""


LOCKS = (type(threading.Lock()), type(threading.RLock()))


def state_of_lock(lock: Any) -> tuple[str]:
    """Whether a lock is taken, by whom and how often."""
    return (repr(lock),)


class Lock(Attributes):
    """A lock, looked at like a dict with its state, which is compared by its value."""

    __slots__ = ()

    def get(self, _: str, default: Any) -> Any:
        """Its state now."""
        return state_of_lock(self.of)

    def __getitem__(self, _: str) -> Any:
        return state_of_lock(self.of)

    def __setitem__(self, _: str, before: tuple[str]) -> None:
        """Give it back until it is as it was; one that was given back is taken again."""
        while state_of_lock(self.of) != before and "<locked" in repr(self.of):
            self.of.release()
        if state_of_lock(self.of) != before:
            self.of.acquire(False)


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


def place_of(holder: Any, key: Any) -> Any:
    """A place by identity."""
    return id(holder.of) if isinstance(holder, Attributes | Cell | OfThread) else id(holder), key


def value_at(holder: Any, key: Any) -> Any:
    """What is in a place now; None where somebody has removed it."""
    try:
        return holder[key]
    except (LookupError, AttributeError, ValueError):
        return None
