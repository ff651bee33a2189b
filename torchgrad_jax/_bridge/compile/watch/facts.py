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

import operator
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ...._core.arrays.python_numbers import form_of
from ...._core.python_arrays import array_content, kept_results, refill
from ...._core.python_objects import kind_of
from ...._core.python_values import PLAIN_VALUES, are_same_values
from ...._core.written_code import Names, compiled
from .places import MISSING, ListItems, code_of_key, code_of_place, object_of, place_of


class Fact:
    """Something about an object (`of`, or its holder) that was so."""

    __slots__ = ("given", "is_compared", "of", "was")
    rank = 0
    """Which facts are put back first."""
    code = ""
    """The code that asks whether it holds; none if that takes more than a look."""
    change = ""
    """What to say where it no longer holds."""

    def __init__(self, of: Any, was: Any) -> None:
        self.of, self.was = of, was
        self.given = False
        """Whether it is about a container among the arguments, which is another one in the next call."""
        self.is_compared = True
        """Whether it has to hold when a program runs again."""

    @property
    def object(self) -> Any:
        """The object that it is about."""
        return object_of(self.of)

    def holds(self) -> bool:
        """Return whether it is so now."""
        return self.now() == self.was

    def now(self) -> Any:
        """Return what is there now."""
        raise NotImplementedError

    def renew(self) -> None:
        """What is there now is what has to be there."""
        self.was = self.now()

    def as_code(self, name: Callable[[Any], str]) -> str:
        """The code that asks whether it holds."""
        return self.code and self.code.format(of=name(self.of), was=name(self.was))

    def restore(self) -> None:
        """Make it so again."""

    def describe(self) -> str:
        """Return what is no longer so, in words."""
        return self.change.format(was=self.was, now=self.now())


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

    @property
    def by_value(self) -> bool:
        """Whether no object stays the same there."""
        return getattr(self.of, "by_value", False)

    def now(self) -> Any:
        """Return what is there."""
        return self.of.get(self.key, MISSING)

    def holds(self) -> bool:
        """By identity, or where no object stays the same by value."""
        now = self.now()
        return now is self.was or (self.by_value and now == self.was)

    def as_code(self, name: Callable[[Any], str]) -> str:
        """As its holder is looked at."""
        if self.was is MISSING:
            return f"{name(self.of.get)}({code_of_key(name, self.key)}, {name(MISSING)}) is {name(MISSING)}"
        same = "==" if self.by_value else "is"
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
        is_plain = issubclass(type(self.key), PLAIN_VALUES)
        name = repr(self.key) if is_plain else f"what a {type(self.key).__name__} has in a dict"
        return f"{name} was {_in_words(self.was)} and is {_in_words(self.now())}"


class Filled(Place):
    """A place that the program itself fills in each run: whatever is there is right, and who fills it puts it back."""

    __slots__ = ()

    def __init__(self, of: Any, key: Any, given: bool = False) -> None:
        super().__init__(of, key, None)
        self.given, self.is_compared = given, False

    def restore(self) -> None:
        """Nothing."""


class Scalar(Filled):
    """A place of a number, or of a list or tuple of numbers, that is read again in each run.

    Where a program reads it without a step in Python, its type is compared (`was`).
    """

    __slots__ = ()

    @property
    def value(self) -> Any:
        """What is there; None where somebody has removed it."""
        return self.of.get(self.key, None)

    def now(self) -> Any:
        """Its type."""
        return form_of(self.value)

    def holds(self) -> bool:
        """By the type."""
        return self.now() is self.was

    def is_read_by_a_program(self) -> None:
        """From here on its type is compared."""
        self.was, self.is_compared = self.now(), True

    def as_code(self, name: Callable[[Any], str]) -> str:
        """By `type`."""
        return f"type({code_of_place(name, self.of, self.key)}) is {name(self.was)}"

    def describe(self) -> str:
        """The type that it had."""
        return f"{self.key!r} was a {self.was.__name__}"


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

    def as_code(self, name: Callable[[Any], str]) -> str:
        """So few lookups take less time than one call that compares two sets; which of these goes over the smaller."""
        held, names = self.held, frozenset(self.was)
        if len(names) <= 4:
            return " and ".join(f"{code_of_key(name, key)} not in {name(held)}" for key in names)
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
    code = "type({of}) is {was}"
    change = "a {was.__name__} has become a {now.__name__}"

    def now(self) -> type:
        """Its class."""
        return type(self.of)

    def restore(self) -> None:
        """Give it its class back."""
        if not self.holds():
            self.of.__class__ = self.was


class Alive(Fact):
    """Of what class the object is that a weak reference leads to: None's where it is gone. Nothing keeps it alive."""

    __slots__ = ()
    code = "type({of}()) is {was}"
    change = "a weak reference leads to something else"

    def now(self) -> type:
        """The class of what is there."""
        return type(self.of())

    def restore(self) -> None:
        """Nobody can bring back what is gone."""
        self.renew()


class Items(Fact):
    """What is in a list, set or deque, in its order."""

    __slots__ = ()
    rank = 5
    change = "the entries of a list changed"

    def now(self) -> list[Any]:
        """The items now."""
        return list(self.of)

    def is_same(self) -> bool:
        """Return whether these are the very items."""
        return len(self.of) == len(self.was) and all(map(operator.is_, self.of, self.was))

    def holds(self) -> bool:
        """Items that code cannot tell from those that were there."""
        return len(self.of) == len(self.was) and are_same_values(self.of, self.was)

    def as_code(self, name: Callable[[Any], str]) -> str:
        """By identity."""
        return f"{self._size(name)} and all(map({name(operator.is_)}, {name(self.of)}, {name(self.was)}))"

    def _size(self, name: Callable[[Any], str]) -> str:
        return f"len({name(self.of)}) == {len(self.was)}"

    def restore(self) -> None:
        """Refill it, which may give a set another order."""
        if not self.is_same():
            self.fill(self.was)
            self.was = list(self.of)

    def fill(self, items: Sequence[Any]) -> None:
        """Put other items there."""
        kind = kind_of(self.object)
        kind.clear(self.object)
        (kind.update if kind is set else kind.extend)(self.object, items)


class Keys(Items):
    """The keys of a dict, in their order; what is under each is another fact. So are the items of a list, if places."""

    __slots__ = ("in_order",)
    rank = 1

    def __init__(self, of: Any, was: list[Any], in_order: bool = True) -> None:
        super().__init__(of, was)
        self.in_order = in_order and type(of) is not ListItems
        """Whether their order is compared, too."""

    def as_code(self, name: Callable[[Any], str]) -> str:
        """By how many there are, where no others can be in these places: 1, 1.0 and True are one key."""
        one = len(self.was) == 1 and type(self.was[0]) is str
        return self._size(name) if one or not self.in_order else super().as_code(name)

    def restore(self) -> None:
        """Remove the others, and put those that were there in their order."""
        if self.is_same():
            return
        known = set(self.was)
        for key in [key for key in self.of if key not in known]:
            del self.of[key]
        if len(self.of) == len(self.was) and type(self.of) is not ListItems:
            for key, value in [(key, self.of[key]) for key in self.was]:
                del self.of[key]
                self.of[key] = value

    def describe(self) -> str:
        """Return how many there were, or that they are in another order."""
        was, now = len(self.was), len(self.of)
        return f"a dict had {was} entries and has {now}" if was != now else "the entries of a dict have another order"


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

    More of them are no change, so this is only put back: they are compared one by one where they matter.
    """

    __slots__ = ()
    rank = 7

    def __init__(self, of: Any) -> None:
        super().__init__(of, frozenset(kept_results(of)))
        self.is_compared = False

    def now(self) -> frozenset[Any]:
        """The keys."""
        return frozenset(kept_results(self.of))

    def restore(self) -> None:
        """Forget the results that were not there."""
        held = kept_results(self.of)
        for key in held.keys() - self.was:
            del held[key]


def _in_words(x: Any) -> str:
    text = repr(x) if issubclass(type(x), PLAIN_VALUES) else f"a {type(x).__name__}"
    return "missing" if x is MISSING else text


# --- as Python code, written for a program: one comparison after the other -----------------------------------

_IN_ONE_FUNCTION = 400
_MOST_WRITTEN = 20_000
"""More comparisons are made in loops; the code for them would take long to compile."""


def written(facts: Sequence[Fact]) -> Callable[[], bool]:
    """A function that says whether all is the very object that it was."""
    compared = sorted((f for f in facts if f.is_compared), key=lambda f: f.rank)
    if len(compared) > _MOST_WRITTEN:
        return lambda: _all_hold(compared)
    names = Names()
    lines = _comparisons(compared, names.name)
    parts = [lines[i : i + _IN_ONE_FUNCTION] for i in range(0, len(lines), _IN_ONE_FUNCTION)]
    source = "".join(_function(f"part{i}", " and ".join(part)) for i, part in enumerate(parts))
    source += _function("holds", " and ".join(f"part{i}()" for i in range(len(parts))) or "True")
    return compiled(source, names.known, "holds", __file__)


def _comparisons(facts: Sequence[Fact], name: Callable[[Any], str]) -> list[str]:
    """The comparisons for all of these; empty dicts are asked for together."""
    lines: list[str] = []
    there = {fact.at for fact in facts if type(fact) is Place and fact.was is not MISSING}
    places = Counter(of for of, _ in there)
    whole = {id(fact.object) for fact in facts if type(fact) is Keys and places[id(fact.object)] == len(fact.was)}
    empty: list[Any] = []
    without: dict[frozenset[Any], list[Any]] = {}
    for fact in facts:
        if isinstance(fact, Items) and not fact.was:
            empty.append(fact.of)
        elif type(fact) is Absent and not fact.held:
            without.setdefault(frozenset(fact.was), []).append(fact.held)
        elif not (type(fact) is Absent and id(fact.of) in whole):  # as many entries as places: no room for more
            lines.append(fact.as_code(name))
    if empty:
        lines.append(f"not any({name(tuple(empty))})")
    for names, held in without.items():
        all_of_them = name(tuple(held))
        lines.append(f"(not any({all_of_them}) or all(map({name(names)}.isdisjoint, {all_of_them})))")
    return [line for line in lines if line]


def _all_hold(facts: Sequence[Fact]) -> bool:
    try:
        return all(type(fact) is Content or fact.holds() for fact in facts)
    except (LookupError, ValueError, AttributeError):
        return False


def _function(name: str, condition: str) -> str:
    return (
        f"def {name}():\n  try:\n    return {condition}\n"
        # Of a cell that is empty, a list that is shorter, an attribute that is gone.
        "  except (LookupError, ValueError, AttributeError):\n    return False\n"
    )
