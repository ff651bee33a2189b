"""Places where Python keeps a value that a function can look at: each is a holder, looked at like a dict, and a key.

An entry of a dict has the dict for its holder. For attributes, items of lists, cells of closures, context variables
and the like there is one here: it gets, sets and deletes a value, and says how code written for a guard looks it up.
"""

from __future__ import annotations

import contextvars
import keyword
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from ...._core.python_objects import kind_of

LOCKS = (type(threading.Lock()), type(threading.RLock()))
MISSING = object()
"""Stands for what is not there."""


class Attributes:
    """Attributes of an object, looked at like a dict: those in slots, computed ones, what is in a closure's cell."""

    __slots__ = ("of",)
    by_value = False
    """Whether what is there is another object each time it is asked for, so that values are compared."""
    code = "{of}.{key}"
    """The code that looks up what is in a place, or raises where nothing is there."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def get(self, key: Any, default: Any) -> Any:
        """Return what is in a place now."""
        try:
            return self[key]
        except (LookupError, AttributeError, ValueError):
            return default

    def __getitem__(self, key: Any) -> Any:
        return getattr(self.of, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Set one. A property without a setter is computed of what has places of its own."""
        of_class = getattr(type(self.of), key, None)
        if type(of_class) is not property or of_class.fset is not None:
            setattr(self.of, key, value)

    def __delitem__(self, key: Any) -> None:
        delattr(self.of, key)

    def as_code(self, name: Callable[[Any], str], key: Any) -> str:
        """That code for a key."""
        if type(self).code is not Attributes.code:
            return self.code.format(of=name(self.of), key=code_of_key(name, key))
        if not key.isidentifier() or keyword.iskeyword(key):
            return f"{name(getattr)}({name(self.of)}, {key!r})"
        return f"{name(self.of)}.{key}"


class Fixed(Attributes):
    """Attributes that nobody can set."""

    __slots__ = ()

    def __setitem__(self, key: Any, value: Any) -> None:
        """Nothing."""


class Entries(Attributes):
    """Entries of a dict whose class may look them up, or make them, in a way of its own."""

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

    def as_code(self, name: Callable[[Any], str], key: Any) -> str:
        """Its class may make entries when it is asked, so `dict` is."""
        return f"{name(dict.__getitem__)}({name(self.of)}, {code_of_key(name, key)})"


class Class(Attributes):
    """Attributes of a class's own."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        return self.of.__dict__[key]

    def as_code(self, name: Callable[[Any], str], key: Any) -> str:
        """In the class's own dict."""
        return f"{name(self.of.__dict__)}[{code_of_key(name, key)}]"


class Elements(Attributes):
    """What is in a list, set or deque whose class may iterate in a way of its own."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return kind_of(self.of).__iter__(self.of)

    def __len__(self) -> int:
        return kind_of(self.of).__len__(self.of)


class ListItems(Attributes):
    """Items of a list or deque, looked at like the entries of a dict."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        return kind_of(self.of).__getitem__(self.of, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        kind = kind_of(self.of)
        # The function may have removed entries that are put back now.
        kind.extend(self.of, [None] * (key + 1 - len(self)))
        kind.__setitem__(self.of, key, value)

    def __delitem__(self, key: Any) -> None:
        kind_of(self.of).__delitem__(self.of, key)

    def __iter__(self) -> Iterator[int]:
        """The last one first, so that none moves when a later one is deleted."""
        return reversed(range(len(self)))

    def __len__(self) -> int:
        return kind_of(self.of).__len__(self.of)

    def as_code(self, name: Callable[[Any], str], key: Any) -> str:
        """The item, looked up by Python's own class where the list's may look it up in another way."""
        kind = kind_of(self.of)
        of = name(self.of)
        return f"{of}[{key}]" if type(self.of) is kind else f"{name(kind.__getitem__)}({of}, {key})"


class OfThread(Attributes):
    """The attributes of a `threading.local` in whichever thread looks at them."""

    __slots__ = ()
    code = "vars({of})[{key}]"

    def __getitem__(self, key: Any) -> Any:
        return vars(self.of)[key]

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self.of))

    def __len__(self) -> int:
        return len(vars(self.of))

    def keys(self) -> Any:
        """The names."""
        return vars(self.of).keys()


class Variable(Attributes):
    """A context variable, in the context of the call."""

    __slots__ = ()
    code = "{of}.get()"

    def get(self, key: Any, default: Any) -> Any:
        """Its value; where nobody has set it that is no default of its own, which is another place."""
        return self.of.get(default)

    def __getitem__(self, key: Any) -> Any:
        return self.of.get()

    def __setitem__(self, key: Any, value: Any) -> None:
        self.of.set(value)

    def default(self) -> Any:
        """Return what it is where nobody has set it."""
        try:
            return contextvars.Context().run(self.of.get)
        except LookupError:
            return MISSING


class State(Attributes):
    """What a function without arguments tells of the interpreter."""

    __slots__ = ()
    by_value = True
    code = "{of}()"

    def __getitem__(self, key: Any) -> Any:
        return self.of()

    def __setitem__(self, key: Any, value: Any) -> None:
        """Nothing: what would set it acts, and ends the trace before it does."""


def before_it_was_taken(text: str) -> str:
    """How a lock was that is first seen when it is released: `with` takes one without a call that is seen."""
    taken = f"owner={threading.get_ident()} count=1 "
    return text.replace("<locked", "<unlocked").replace(taken, "owner=0 count=0 ") if taken in text else text


class Lock(Attributes):
    """A lock: whether it is taken, by whom and how often."""

    __slots__ = ()
    by_value = True
    code = "(repr({of}),)"

    def __getitem__(self, key: Any) -> Any:
        return (repr(self.of),)

    def __setitem__(self, key: Any, value: tuple[str]) -> None:
        """Give it back until it is as it was; one that was given back is taken again."""
        while self[key] != value and "<locked" in repr(self.of):
            self.of.release()
        if self[key] != value:
            self.of.acquire(False)


def holder_of(held: Any) -> Any:
    """Return what a container is looked at by: itself, unless its class may look into it in a way of its own."""
    kind = kind_of(held)
    if kind is None or type(held) in (kind, OrderedDict):
        return held
    return Entries(held) if kind is dict else Elements(held)


def object_of(holder: Any) -> Any:
    """The object whose places a holder has."""
    return holder.of if issubclass(type(holder), Attributes) else holder


def place_of(holder: Any, key: Any) -> Any:
    """A place by identity."""
    return id(object_of(holder)), key


def code_of_key(name: Callable[[Any], str], key: Any) -> str:
    """A key, as code."""
    return repr(key) if type(key) is str or type(key) is int else name(key)


def code_of_place(name: Callable[[Any], str], holder: Any, key: Any) -> str:
    """The code that looks up what is in a place, or raises where nothing is there."""
    if issubclass(type(holder), Attributes):  # `isinstance` would ask a user's object
        return holder.as_code(name, key)
    return f"{name(holder)}[{code_of_key(name, key)}]"
