"""Facts: what was so in Python when a function was traced, and has to be so when its program runs again.

    fact = Place(vars(config), "scale", 2.0)
    fact.holds()                   # whether `config.scale` is the very object that it was
    fact.describe()                # "'scale' was 2.0 and is 3.0"
    fact.restore()                 # puts 2.0 back
    holds = written([fact, ...])   # all of them as one function: `_1["scale"] is _2 and ...`

Each kind of fact is one class here. `kinds.py` says which facts there are of which objects, and `guards.py` keeps the
facts of a program.
"""

from __future__ import annotations

import copy
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ...._core.arrays.python_numbers import plain
from .array_contents import array_content, kept_results, refill
from .places import MISSING, PLAIN_VALUES, are_same_values, code_of_key, code_of_place, object_of, place_of


class Fact:
    """Something about an object (`of`, or its holder) that was so."""

    __slots__ = ("given", "of", "was")
    rank = 0
    """Which facts are put back first."""
    change = ""
    """What to say where it no longer holds."""

    def __init__(self, of: Any, was: Any) -> None:
        self.of, self.was = of, was
        self.given = False
        """Whether it is about a container among the arguments, which is another one in the next call."""

    @property
    def is_compared(self) -> bool:
        """Whether it has to hold when a program runs again."""
        return True

    @property
    def object(self) -> Any:
        """The object that it is about."""
        return object_of(self.of)

    def holds(self) -> bool:
        """Whether it is so now."""
        return self.now() == self.was

    def now(self) -> Any:
        """What is there now."""
        raise NotImplementedError

    def renew(self) -> None:
        """What is there now is what has to be there."""
        self.was = self.now()

    def as_code(self, name: Callable[[Any], str]) -> str | None:
        """The code that asks whether it holds; None if that takes more than a look."""
        return None

    def restore(self) -> None:
        """Make it so again."""

    def describe(self) -> str:
        """What is no longer so, in words."""
        return self.change

    def copied(self) -> Any:
        """The same fact for another program."""
        return copy.copy(self)


class Place(Fact):
    """What is in a place."""

    __slots__ = ("key",)

    def __init__(self, of: Any, key: Any, was: Any) -> None:
        super().__init__(of, was)
        self.key = key

    @property
    def at(self) -> Any:
        """The place by identity."""
        return place_of(self.of, self.key)

    def now(self) -> Any:
        """What is there."""
        return self.of.get(self.key, MISSING)

    def holds(self) -> bool:
        """By identity, or where no object stays the same by value."""
        now = self.now()
        return now is self.was or (getattr(self.of, "by_value", False) and now == self.was)

    def as_code(self, name: Callable[[Any], str]) -> str | None:
        """As its holder is looked at."""
        if self.was is MISSING:
            return f"{name(self.of.get)}({code_of_key(name, self.key)}, {name(MISSING)}) is {name(MISSING)}"
        same = "==" if getattr(self.of, "by_value", False) else "is"
        return f"{code_of_place(name, self.of, self.key)} {same} {name(self.was)}"

    def restore(self) -> None:
        """Put back what was there."""
        if not self.holds():
            if self.was is not MISSING:
                self.of[self.key] = self.was
            else:
                del self.of[self.key]

    def describe(self) -> str:
        """The place by its key."""
        name = (
            repr(self.key)
            if issubclass(type(self.key), PLAIN_VALUES)
            else f"what a {type(self.key).__name__} has in a dict"
        )
        return f"{name} was {_in_words(self.was)} and is {_in_words(self.now())}"


class Filled(Place):
    """A place that the program itself fills in each run."""

    __slots__ = ()

    def __init__(self, of: Any, key: Any, given: bool = False) -> None:
        super().__init__(of, key, None)
        self.given = given

    @property
    def is_compared(self) -> bool:
        """Whatever is there is right."""
        return False

    def restore(self) -> None:
        """Whoever fills it puts back what was there."""


class Scalar(Filled):
    """A place of a number, or of a list or tuple of numbers, that is read anew in each run.

    Where a program reads it without a step in Python, its type is compared (`was`).
    """

    __slots__ = ()

    @property
    def is_compared(self) -> bool:
        """Whether a program relies on its type."""
        return self.was is not None

    @property
    def value(self) -> Any:
        """What is there; None where somebody has removed it."""
        return self.of.get(self.key, None)

    def now(self) -> Any:
        """Its type."""
        return form_of(self.of.get(self.key, None))

    def holds(self) -> bool:
        """By the type."""
        return self.now() is self.was

    def is_read_by_a_program(self) -> None:
        """From here on its type is compared."""
        self.was = self.now()

    def as_code(self, name: Callable[[Any], str]) -> str | None:
        """By `type`."""
        return f"type({code_of_place(name, self.of, self.key)}) is {name(self.was)}"

    def describe(self) -> str:
        """The type that it had."""
        return f"{self.key!r} was a {self.was.__name__}"


def form_of(x: Any) -> Any:
    """Of what type a number is that can be followed: for a list or tuple of them its type and theirs. None for others.

    A bool is none: code asks for it with `is`.
    """
    kind = type(x)
    if kind is int or kind is float:
        return kind
    if kind is not list and kind is not tuple:
        return None
    kinds = tuple(map(type, x))
    return (kind, kinds) if kinds and all(k is int or k is float for k in kinds) else None


def with_plain_numbers(value: Any, around: frozenset[int] = frozenset()) -> Any:
    """A value without carried numbers in it: itself, or a new tuple; lists and dicts are changed in place.

    `around` are the identities of the containers that it is in, one of which it may be itself.
    """
    if type(value) not in (tuple, list, dict):
        return plain(value)
    if id(value) in around:
        return value
    around |= {id(value)}
    if type(value) is dict:
        value.update([(k, with_plain_numbers(v, around)) for k, v in value.items()])
        return value
    plain_items = [with_plain_numbers(v, around) for v in value]
    if type(value) is list:
        value[:] = plain_items
    elif not all(map(operator.is_, value, plain_items)):
        return tuple(plain_items)
    return value


class Size(Fact):
    """How many entries a dict has, all of which are places."""

    __slots__ = ()
    rank = 1

    def now(self) -> int:
        """How many there are."""
        return len(self.of)

    def as_code(self, name: Callable[[Any], str]) -> str | None:
        """By `len`."""
        return f"len({name(self.of)}) == {self.was}"

    def remove_others(self, places: set[Any]) -> None:
        """Remove the entries that were not there."""
        if not self.holds():
            for key in [k for k in self.of if place_of(self.of, k) not in places]:
                del self.of[key]

    def describe(self) -> str:
        """Both numbers."""
        return f"a dict had {self.was} entries and has {self.now()}"


class Absent(Fact):
    """Names that a dict, or a class of itself, does not have; `was` is the set of them."""

    __slots__ = ()
    rank = 2

    @property
    def held(self) -> Any:
        """The dict to look in."""
        return self.of.__dict__ if isinstance(self.of, type) else self.of

    def now(self) -> Any:
        """Those that are there."""
        return self.held.keys() & self.was

    def holds(self) -> bool:
        """None of them is."""
        return self.held.keys().isdisjoint(self.was)

    def renew(self) -> None:
        """Names that are there by now do not matter."""
        if isinstance(self.of, dict):
            self.was = self.was - self.of.keys()

    def as_code(self, name: Callable[[Any], str]) -> str | None:
        """So few lookups take less time than one call that compares two sets; which of these goes over the smaller."""
        held, names = self.held, frozenset(self.was)
        if len(names) <= 4:
            return " and ".join(f"{code_of_key(name, key)} not in {name(held)}" for key in names) or "True"
        if isinstance(self.of, type) and self.holds():  # a name more makes it longer
            return f"(len({name(held)}) == {len(held)} or {name(held)}.keys().isdisjoint({name(names)}))"
        if len(held) < len(names):
            return f"{name(names)}.isdisjoint({name(held)})"
        return f"{name(held)}.keys().isdisjoint({name(names)})"

    def restore(self) -> None:
        """Remove them."""
        for key in self.now():
            if isinstance(self.of, type):
                delattr(self.of, key)
            else:
                del self.of[key]

    def describe(self) -> str:
        """The first one."""
        return f"{min(self.now())!r} was missing and is there"


class Class(Fact):
    """Of what class an object is."""

    __slots__ = ()
    rank = 3

    def now(self) -> type:
        """Its class."""
        return type(self.of)

    def as_code(self, name: Callable[[Any], str]) -> str | None:
        """By `type`."""
        return f"type({name(self.of)}) is {name(self.was)}"

    def restore(self) -> None:
        """Give it its class back."""
        if not self.holds():
            self.of.__class__ = self.was

    def describe(self) -> str:
        """Both classes."""
        return f"a {self.was.__name__} has become a {type(self.of).__name__}"


class Alive(Class):
    """Of what class the object is that a weak reference leads to: None's where it is gone. Nothing keeps it alive."""

    __slots__ = ()

    def now(self) -> type:
        """The class of what is there."""
        return type(self.of())

    def as_code(self, name: Callable[[Any], str]) -> str | None:
        """By asking the reference."""
        return f"type({name(self.of)}()) is {name(self.was)}"

    def restore(self) -> None:
        """Nobody can bring back what is gone."""
        self.renew()

    def describe(self) -> str:
        """What it leads to has no name."""
        return "a weak reference leads to something else"


class Items(Fact):
    """What is in a list, set or deque, in its order."""

    __slots__ = ()
    rank = 5
    change = "the entries of a list changed"

    def now(self) -> list[Any]:
        """The items now."""
        return list(self.of)

    def is_same(self) -> bool:
        """Whether these are the very items."""
        return is_same_list(self.of, self.was)

    def holds(self) -> bool:
        """Items that code cannot tell from those that were there."""
        return len(self.of) == len(self.was) and are_same_values(self.of, self.was)

    def as_code(self, name: Callable[[Any], str]) -> str | None:
        """By identity."""
        return f"{name(is_same_list)}({name(self.of)}, {name(self.was)})" if self.was else f"not {name(self.of)}"

    def restore(self) -> None:
        """Fill it anew, which may give a set another order."""
        if not self.is_same():
            self.fill(self.was)
            self.was = list(self.of)

    def fill(self, items: Sequence[Any]) -> None:
        """Put other items there."""
        self.of.clear()
        self.of.update(items) if isinstance(self.of, set) else self.of.extend(items)


class Order(Items):
    """The keys of a dict of several entries, in their order: 1, 1.0 and True are one key."""

    __slots__ = ()
    rank = 4
    change = "the entries of a dict have another order"

    def as_code(self, name: Callable[[Any], str]) -> str | None:
        """One by one; how many there are is another fact."""
        return f"all(map({name(operator.is_)}, {name(self.of)}, {name(self.was)}))"

    def restore(self) -> None:
        """Fill the dict anew, if it has the same keys."""
        if list(self.of) != self.was and self.of.keys() == set(self.was):
            entries = {key: self.of[key] for key in self.was}
            self.of.clear()
            self.of.update(entries)


class Content(Fact):
    """What is in an array of NumPy, of Python or of C, which is compared after all others."""

    __slots__ = ()
    rank = 6
    change = "the values of an array changed"

    def now(self) -> Any:
        """Its shape, dtype and bytes."""
        return array_content(self.of)

    def restore(self) -> None:
        """Put the elements back."""
        if not self.holds():
            refill(self.of, self.was)


class Cached(Fact):
    """For which arguments a cache of results (`functools.lru_cache`) has some.

    More of them are no change: they are compared one by one where they matter.
    """

    __slots__ = ()
    rank = 7

    @property
    def is_compared(self) -> bool:
        """Only to be put back."""
        return False

    def now(self) -> frozenset[Any]:
        """The keys."""
        return frozenset(kept_results(self.of))

    def restore(self) -> None:
        """Forget the results that were not there."""
        held = kept_results(self.of)
        for key in held.keys() - self.was:
            del held[key]


def is_same_list(now: Any, before: list[Any]) -> bool:
    """Whether a list, set or deque has the very items that it had."""
    return len(now) == len(before) and all(map(operator.is_, now, before))


def _in_words(x: Any) -> str:
    text = repr(x) if issubclass(type(x), PLAIN_VALUES) else f"a {type(x).__name__}"
    return "missing" if x is MISSING else text


# --- as Python code, written for a program: one comparison after the other -----------------------------------

_IN_ONE_FUNCTION = 400
_MOST_WRITTEN = 20_000
"""More comparisons are made in loops; the code for them would take long to compile."""


class Comparisons:
    """Comparisons in the making, and the objects that they name."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self._known: dict[int, str] = {}
        self.lines: list[str] = []

    def name(self, value: Any) -> str:
        """What the code calls an object."""
        if value is None or value is True or value is False:
            return repr(value)
        known = self._known.get(id(value))
        if known is None:
            known = self._known[id(value)] = f"_{len(self.names)}"
            self.names[known] = value
        return known

    def add(self, facts: Sequence[Fact]) -> None:
        """The comparisons for all of these; empty dicts are asked for together."""
        there = {fact.at: fact for fact in facts if type(fact) is Place and fact.was is not MISSING}
        places = Counter(of for of, _ in there)
        whole = {id(fact.object) for fact in facts if type(fact) is Size and places[id(fact.object)] == fact.was}
        empty: list[Any] = []
        without: dict[frozenset[Any], list[Any]] = {}
        for fact in facts:
            if type(fact) is Size and not fact.was:
                empty.append(fact.of)
            elif type(fact) is Absent and not fact.held:
                without.setdefault(frozenset(fact.was), []).append(fact.held)
            elif not (type(fact) is Absent and id(fact.of) in whole):  # as many entries as places: no room for more
                line = fact.as_code(self.name)
                self.lines += [] if line is None else [line]
        if empty:
            self.lines.append(f"not any({self.name(tuple(empty))})")
        for names, held in without.items():
            all_of_them = self.name(tuple(held))
            self.lines.append(f"(not any({all_of_them}) or all(map({self.name(names)}.isdisjoint, {all_of_them})))")


def written(facts: Sequence[Fact]) -> Callable[[], bool]:
    """A function that says whether all is the very object that it was."""
    compared = sorted((f for f in facts if f.is_compared), key=lambda f: f.rank)
    if len(compared) > _MOST_WRITTEN:
        return lambda: _all_hold(compared)
    code = Comparisons()
    code.add(compared)
    parts = [code.lines[i : i + _IN_ONE_FUNCTION] for i in range(0, len(code.lines), _IN_ONE_FUNCTION)]
    names = [f"part{i}" for i in range(len(parts))]
    source = "".join(_function(name, " and ".join(part)) for name, part in zip(names, parts))
    source += _function("holds", " and ".join(f"{name}()" for name in names) or "True")
    return compiled(source, code.names, "holds")


def _all_hold(facts: Sequence[Fact]) -> bool:
    try:
        return all(fact.is_same() if type(fact) is Items else type(fact) is Content or fact.holds() for fact in facts)
    except (LookupError, ValueError, AttributeError):
        return False


def _function(name: str, condition: str) -> str:
    return (
        f"def {name}():\n  try:\n    return {condition}\n"
        # Of a cell that is empty, a list that is shorter, an attribute that is gone.
        "  except (LookupError, ValueError, AttributeError):\n    return False\n"
    )


def compiled(source: str, names: dict[str, Any], wanted: str) -> Any:
    """A function of written code, whose global variables are these names."""
    exec(compile(source, f"{__file__}:written", "exec"), names)
    return names[wanted]
