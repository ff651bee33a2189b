"""Places where Python keeps a value that a function can look at: each is a holder, looked at like a dict, and a key.

An entry of a dict has the dict for its holder. For attributes, items of lists, cells of closures, context variables
and the like there is one here: it gets, sets and deletes a value, and says how code written for a guard looks it up.
"""

from __future__ import annotations

import contextvars
import keyword
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from operator import is_
from typing import Any

from ...._core.arrays.python_numbers import same

PLAIN_VALUES = (int, float, complex, bool, str, bytes, type(None))
"""Classes of values that are the same wherever they are, as long as they are equal."""
LOCKS = (type(threading.Lock()), type(threading.RLock()))
MISSING = object()
"""Stands for what is not there."""


class Holder:
    """Attributes of an object, looked at like a dict."""

    __slots__ = ("of",)
    by_value = False
    """Whether what is there is another object each time it is asked for, so that values are compared."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def get(self, key: Any, default: Any) -> Any:
        """What is in a place now."""
        try:
            return self[key]
        except (LookupError, AttributeError, ValueError):
            return default

    def __getitem__(self, key: Any) -> Any:
        return getattr(self.of, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        setattr(self.of, key, value)

    def __delitem__(self, key: Any) -> None:
        delattr(self.of, key)

    def as_code(self, name: Callable[[Any], str], key: Any) -> str:
        """The code that looks up what is in a place, or raises where nothing is there."""
        if not key.isidentifier() or keyword.iskeyword(key):
            return f"{name(getattr)}({name(self.of)}, {key!r})"
        return f"{name(self.of)}.{key}"


class Attributes(Holder):
    """Attributes that an object keeps in slots or computes."""

    __slots__ = ()

    def __setitem__(self, key: Any, value: Any) -> None:
        """Set one. A property without a setter is computed of what has places of its own."""
        of_class = getattr(type(self.of), key, None)
        if type(of_class) is not property or of_class.fset is not None:
            super().__setitem__(key, value)


class Fixed(Attributes):
    """Attributes that nobody can set."""

    __slots__ = ()

    def __setitem__(self, key: Any, value: Any) -> None:
        """Nothing."""


class Entries(Holder):
    """Entries of a dict whose class may look them up in a way of its own."""

    __slots__ = ("_kind",)

    def __init__(self, of: dict[Any, Any]) -> None:
        self.of = of
        self._kind: Any = OrderedDict if isinstance(of, OrderedDict) else dict

    def __getitem__(self, key: Any) -> Any:
        return dict.__getitem__(self.of, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._kind.__setitem__(self.of, key, value)

    def __delitem__(self, key: Any) -> None:
        self._kind.__delitem__(self.of, key)

    def __iter__(self) -> Iterator[Any]:
        return self._kind.__iter__(self.of)

    def __len__(self) -> int:
        return dict.__len__(self.of)

    def __contains__(self, key: Any) -> bool:
        return dict.__contains__(self.of, key)

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

    def as_code(self, name: Callable[[Any], str], key: Any) -> str:
        """Its class may make entries when it is asked, so `dict` is."""
        return f"{name(dict.__getitem__)}({name(self.of)}, {code_of_key(name, key)})"


class Class(Holder):
    """Attributes of a class's own."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        return self.of.__dict__[key]

    def as_code(self, name: Callable[[Any], str], key: Any) -> str:
        """In the class's own dict."""
        return f"{name(self.of.__dict__)}[{code_of_key(name, key)}]"


class Items(Holder):
    """Entries of a list, looked at like those of a dict."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        return self.of[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        # The function may have removed entries that are put back now.
        self.of += [None] * (key + 1 - len(self.of))
        self.of[key] = value

    def __delitem__(self, key: Any) -> None:
        del self.of[key]

    def __iter__(self) -> Iterator[int]:
        """The last one first, so that none moves when a later one is deleted."""
        return reversed(range(len(self.of)))

    def __len__(self) -> int:
        return len(self.of)

    def as_code(self, name: Callable[[Any], str], key: Any) -> str:
        """By its number."""
        return f"{name(self.of)}[{key}]"


class OfThread(Holder):
    """The attributes of a `threading.local` in whichever thread looks at them."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        return vars(self.of)[key]

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self.of))

    def __len__(self) -> int:
        return len(vars(self.of))

    def keys(self) -> Any:
        """The names."""
        return vars(self.of).keys()

    def as_code(self, name: Callable[[Any], str], key: Any) -> str:
        """In the dict of the thread that asks."""
        return f"{name(vars)}({name(self.of)})[{key!r}]"


class Cell(Holder):
    """A closure's cell."""

    __slots__ = ()


class Variable(Holder):
    """A context variable."""

    __slots__ = ()

    def get(self, key: Any, default: Any) -> Any:
        """Its value in this context."""
        return self.of.get(default)

    def __getitem__(self, key: Any) -> Any:
        return self.of.get()

    def __setitem__(self, key: Any, value: Any) -> None:
        self.of.set(value)

    def default(self) -> Any:
        """What it is where nobody has set it."""
        try:
            return contextvars.Context().run(self.of.get)
        except LookupError:
            return MISSING

    def as_code(self, name: Callable[[Any], str], key: Any) -> str:
        """What it gives in the context of the call."""
        return f"{name(self.of)}.get()"


class State(Holder):
    """What a function without arguments tells of the interpreter."""

    __slots__ = ()
    by_value = True

    def __getitem__(self, key: Any) -> Any:
        return self.of()

    def __setitem__(self, key: Any, value: Any) -> None:
        """Nothing: what would set it acts, and ends the trace before it does."""

    def as_code(self, name: Callable[[Any], str], key: Any) -> str:
        """What it tells."""
        return f"{name(self.of)}()"


def state_of_lock(lock: Any) -> tuple[str]:
    """Whether a lock is taken, by whom and how often."""
    return (repr(lock),)


def before_it_was_taken(text: str) -> str:
    """How a lock was that is first met when it is given back: `with` takes one without a call that is seen."""
    taken = f"owner={threading.get_ident()} count=1 "
    return text.replace("<locked", "<unlocked").replace(taken, "owner=0 count=0 ") if taken in text else text


class Lock(Holder):
    """A lock, whose state is compared."""

    __slots__ = ()
    by_value = True

    def __getitem__(self, key: Any) -> Any:
        return state_of_lock(self.of)

    def __setitem__(self, key: Any, value: tuple[str]) -> None:
        """Give it back until it is as it was; one that was given back is taken again."""
        while state_of_lock(self.of) != value and "<locked" in repr(self.of):
            self.of.release()
        if state_of_lock(self.of) != value:
            self.of.acquire(False)

    def as_code(self, name: Callable[[Any], str], key: Any) -> str:
        """Its state."""
        return f"{name(state_of_lock)}({name(self.of)})"


def holder_of(held: Any) -> Any:
    """What a dict is looked at by: itself, unless its class may look entries up in a way of its own."""
    return Entries(held) if isinstance(held, dict) and type(held) not in (dict, OrderedDict) else held


def object_of(holder: Any) -> Any:
    """The object whose places a holder has."""
    return holder.of if issubclass(type(holder), Holder) else holder


def place_of(holder: Any, key: Any) -> Any:
    """A place by identity."""
    return id(object_of(holder)), key


def code_of_key(name: Callable[[Any], str], key: Any) -> str:
    """A key, as code."""
    return repr(key) if type(key) is str else name(key)


def code_of_place(name: Callable[[Any], str], holder: Any, key: Any) -> str:
    """The code that looks up what is in a place, or raises where nothing is there."""
    if issubclass(type(holder), Holder):  # `isinstance` would ask a user's object
        return holder.as_code(name, key)
    return f"{name(holder)}[{code_of_key(name, key)}]"


def is_same_value(a: Any, b: Any) -> bool:
    """Whether code cannot tell two values apart: one object, or plain values of one type (`1` is not `1.0`)."""
    if type(a) is tuple and type(b) is tuple:
        return len(a) == len(b) and are_same_values(a, b)
    return a is b or (issubclass(type(a), PLAIN_VALUES) and same(a, b) and not _has_attributes(a))


def _has_attributes(x: Any) -> bool:
    """Whether a plain value is of a class whose instances have attributes, which differ between equal values."""
    return type(x) not in PLAIN_VALUES and (hasattr(x, "__dict__") or bool(getattr(type(x), "__slots__", ())))


def are_same_values(a: Iterable[Any], b: Iterable[Any]) -> bool:
    """Whether code cannot tell the values in two sequences of one length apart."""
    return all(map(is_, a, b)) or all(map(is_same_value, a, b))
