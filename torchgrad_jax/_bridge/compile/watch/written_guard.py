"""The look at what a program depends on, as Python code written for this program: one comparison after the other.

holds = written(Rows(places=[(config, "scale", 2.0)], ...))
holds()  # `config["scale"] is two`: True as long as the very same object is there
"""

from __future__ import annotations

import keyword
import types
from collections import Counter
from collections.abc import Callable, Sequence
from operator import is_
from typing import Any, NamedTuple

from .places import MISSING, Cell, Class, Entries, Items, Lock, OfThread, State, Variable, state_of_lock

_IN_ONE_FUNCTION = 400
_MOST_WRITTEN = 20_000
"""More comparisons are made in loops; the code for them would take long to compile."""
_FEW = 4
"""So many lookups take less time than one call that compares two sets."""


class Rows(NamedTuple):
    """What is compared; see `PythonGuards` for what each of the lists holds."""

    places: Sequence[tuple[Any, Any, Any]]
    absent: Sequence[tuple[Any, Any]]
    dicts: Sequence[tuple[Any, int]]
    lists: Sequence[tuple[Any, list[Any]]]
    orders: Sequence[tuple[Any, list[Any]]]
    types: Sequence[tuple[Any, type]]
    weak: Sequence[tuple[Any, type]]


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

    def _key(self, key: Any) -> str:
        return repr(key) if type(key) is str else self.name(key)

    def place(self, holder: Any, key: Any, value: Any) -> str:
        """The code that compares what is in a place with what was there."""
        missing, was = value is MISSING, self.name(value)
        if isinstance(holder, Class):
            holder = holder.of.__dict__
        name = self._key(key)
        if isinstance(holder, Entries):  # its class may make entries when it is asked
            return f"{self.name(dict.get)}({self.name(holder.of)}, {name}, {self.name(MISSING)}) is {was}"
        if isinstance(holder, dict | types.MappingProxyType):
            of = self.name(holder)
            return f"{name} not in {of}" if missing else f"{of}[{name}] is {was}"
        if isinstance(holder, OfThread):
            return f"{self.name(holder)}.get({key!r}, {self.name(MISSING)}) is {was}"
        of = self.name(holder.of)
        if isinstance(holder, Items):
            return f"len({of}) <= {key}" if missing else f"{of}[{key}] is {was}"
        if isinstance(holder, State | Lock):
            return f"{of}() == {was}" if isinstance(holder, State) else f"{self.name(state_of_lock)}({of}) == {was}"
        if isinstance(holder, Variable):
            return f"{of}.get({self.name(MISSING)}) is {was}"
        if isinstance(holder, Cell) and missing:
            return f"{self.name(_is_empty)}({of})"
        if missing or not key.isidentifier() or keyword.iskeyword(key):
            return f"{self.name(getattr)}({of}, {key!r}, {self.name(MISSING)}) is {was}"
        return f"{of}.{key} is {was}"

    def add(self, rows: Rows) -> None:
        """The comparisons for all of these."""
        lines = self.lines
        lines += [self.place(*place) for place in rows.places]
        dicts = [(holder.of.__dict__ if isinstance(holder, Class) else holder, n) for holder, n in rows.dicts]
        lines += [f"len({self.name(held)}) == {n}" for held, n in dicts if n]
        if empty := tuple([held for held, n in dicts if not n]):
            lines.append(f"not any({self.name(empty)})")
        there = {(id(holder), key) for holder, key, value in rows.places if value is not MISSING}
        places = Counter(holder for holder, _ in there)
        whole = {id(holder) for holder, n in rows.dicts if places[id(holder)] == n}
        empty_ones: dict[frozenset[Any], list[Any]] = {}
        for of, names in rows.absent:
            held = of.__dict__ if isinstance(of, type) else of
            if id(of) in whole:  # as many entries as there are places: no room for another one
                continue
            if not held:
                empty_ones.setdefault(frozenset(names), []).append(held)
            elif len(names) <= _FEW:
                lines += [f"{self._key(name)} not in {self.name(held)}" for name in names]
            elif len(held) < len(names):  # one call less, and it looks at each entry of the dict
                lines.append(f"{self.name(names)}.isdisjoint({self.name(held)})")
            else:
                lines.append(f"{self.name(held)}.keys().isdisjoint({self.name(names)})")
        for names, found in empty_ones.items():
            all_of_them = self.name(tuple(found))
            lines.append(f"(not any({all_of_them}) or all(map({self.name(names)}.isdisjoint, {all_of_them})))")
        for holder, before in rows.lists:
            if before:
                lines.append(f"{self.name(same_items)}({self.name(holder)}, {self.name(before)})")
            else:
                lines.append(f"not {self.name(holder)}")
        lines += [f"all(map({self.name(is_)}, {self.name(d)}, {self.name(keys)}))" for d, keys in rows.orders]
        lines += [f"type({self.name(x)}) is {self.name(cls)}" for x, cls in rows.types]
        lines += [f"type({self.name(ref)}()) is {self.name(cls)}" for ref, cls in rows.weak]


def same_items(now: Any, before: list[Any]) -> bool:
    """Whether a list, set or deque has the very items that it had."""
    return len(now) == len(before) and all(map(is_, now, before))


def is_at(holder: Any, key: Any, value: Any) -> bool:
    """Whether a place has what it had."""
    now = holder.get(key, MISSING)
    return now == value if isinstance(holder, State | Lock) else now is value


def _is_empty(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is MISSING
    except ValueError:
        return True


def written(rows: Rows) -> Callable[[], bool]:
    """A function that says whether everything is the very object that it was."""
    if sum(map(len, rows)) > _MOST_WRITTEN:
        return lambda: _in_a_loop(rows)
    code = Comparisons()
    code.add(rows)
    parts = [code.lines[i : i + _IN_ONE_FUNCTION] for i in range(0, len(code.lines), _IN_ONE_FUNCTION)]
    names = [f"part{i}" for i in range(len(parts))]
    source = "".join(_function(name, " and ".join(part)) for name, part in zip(names, parts))
    source += _function("holds", " and ".join(f"{name}()" for name in names) or "True")
    return compiled(source, code.names, "holds")


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


def _in_a_loop(rows: Rows) -> bool:
    try:
        return (
            all(is_at(*place) for place in rows.places)
            and all(len(holder) == n for holder, n in rows.dicts)
            and all((of.__dict__ if isinstance(of, type) else of).keys().isdisjoint(names) for of, names in rows.absent)
            and all(same_items(holder, before) for holder, before in rows.lists)
            and all(all(map(is_, holder, keys)) for holder, keys in rows.orders)
            and all(type(x) is cls for x, cls in rows.types)
            and all(type(ref()) is cls for ref, cls in rows.weak)
        )
    except (LookupError, ValueError, AttributeError):
        return False
