"""Guards: the Python values that a compiled function can have read, compared before its program is used again.

A program is right for as long as the Python code would take the same branches. `Reads` says what the code can have read
while it was traced; of that, what was there before and may change is guarded:

    guards = PythonGuards()
    guards.take(reads)
    guards.describe_change()  # None, or "'scale' was 2 and is 3"
    guards.restore()          # after a trace that was undone: puts the values back
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import jax

from ...._core.arrays.python_numbers import Number
from ...._core.errors.messages import AsWritten
from ...._core.state import MODES, SETTINGS
from ...._engine.memory.tensor import Tensor
from .array_contents import array_content, kept_results, refill, results_of
from .code_that_reads import Code
from .number_log import (
    are_same_numbers,
    are_same_values,
    is_number,
    is_number_or_list,
    is_same_value,
    with_plain_numbers,
)
from .places import (
    MISSING,
    PLAIN_VALUES,
    Attributes,
    Cell,
    Entries,
    Items,
    Lock,
    OfThread,
    State,
    Variable,
    holder_of,
    place_of,
)
from .reads import Reads
from .written_guard import Rows, written

_SWITCHES = (bool, str, type(None))
"""Plain values that are no numbers: a program that was traced for one of them sets the same one in each run."""


class PythonGuards:
    """Places in Python objects, and the value that each had when the function was traced."""

    __slots__ = (
        "_absent_too", "_held", "_holds", "_known", "_settings", "_with_hooks", "absent", "arrays",
        "before_optimizer_state", "caches", "compares_identity", "dicts", "kept_places", "lists",
        "met_again", "number_places", "optimizers", "orders", "places", "reached_gradients", "reached_tensors",
        "replaced_numbers", "schedules", "state_holders", "types", "visited_ids", "weak",
    )  # fmt: skip

    def __init__(self) -> None:
        self.places: list[tuple[Any, Any, Any]] = []
        """(holder, key, value): a dict, or something that is looked at like one."""
        self.absent: list[tuple[Any, frozenset[str]]] = []
        """Dicts and classes, and names that are not in them."""
        self.dicts: list[tuple[Any, int]] = []
        """Dicts of which all entries are places, and how many there were."""
        self.lists: list[tuple[Any, list[Any]]] = []
        """Lists, sets and deques, and copies of them."""
        self.orders: list[tuple[dict[Any, Any], list[Any]]] = []
        """Dicts of several entries, and their keys in order."""
        self.types: list[tuple[Any, type]] = []
        """Objects, and their classes."""
        self.weak: list[tuple[Any, type]] = []
        """Weak references, and the classes of what they lead to, which is None's where it is gone."""
        self.arrays: list[tuple[Any, Any]] = []
        """Arrays of NumPy, of Python and of C, bytearrays, and what was in them."""
        self.caches: list[tuple[Any, frozenset[Any]]] = []
        """Functions of the user's whose results are kept (`functools.lru_cache`), and for what they were."""
        self.number_places: list[tuple[Any, Any]] = []
        """Places that are not watched, since their numbers are read anew in each run."""
        self.kept_places: set[Any] = set()
        """Places that are not watched, since the program puts tensors there."""
        self.replaced_numbers: list[tuple[Any, Any]] = []
        """Places where the function put a number that differs from call to call; a plain one is there now."""
        self.before_optimizer_state: list[tuple[Any, Any, Any]] = []
        """`places`, `dicts` and `orders` as they were before the optimizer made its state."""
        self.optimizers: list[Any] = []
        self.schedules: list[Any] = []
        self.state_holders: dict[int, set[int]] = {}
        """Identities of what is watched in the state of an optimizer and nowhere else, by that of the optimizer.

        Those whose steps nobody would tell of are left out.
        """
        self.visited_ids: set[int] = set()
        """Identities of containers of before that are reached."""
        self.met_again: set[int] = set()
        """Identities of what is reached in several ways."""
        self.reached_tensors: dict[int, Tensor] = {}
        """Tensors that are reached by a place, by identity; empty after the trace."""
        self.reached_gradients: dict[int, Tensor] = {}
        """Their gradients, which are reached by them alone."""
        self.compares_identity = False
        """Whether the code may ask whether two tensors are one object."""
        self._known: dict[int, int] = {}
        self._absent_too: list[tuple[Any, frozenset[str]]] = []
        """Those of guards that were taken over."""
        self._held: set[int] = set()
        """Identities of what is held by places and containers of before."""
        self._with_hooks: set[int] = set()
        self._holds: Callable[[], bool] | None = None
        for setting in AMBIENT:
            self._add_dict(setting)
        self.places += [(Attributes(MODES), key, getattr(MODES, key)) for key in _MODES]
        self._settings = len(self.places), len(self.dicts)
        """How many of the places and dicts are settings."""

    def knows(self, x: Any) -> bool:
        """Whether something is held by what was there before."""
        return id(x) in self._held

    @classmethod
    def of(cls, reads: Reads, ran: Sequence[Code]) -> PythonGuards:
        """Guards for all that some code can have read."""
        guards = cls()
        guards.are_there(reads.outside.values())
        reads.ages.look()
        guards.take(reads, ran, lambda x: True, refuses=False)
        guards.places = [(holder, key, with_plain_numbers(value)) for holder, key, value in guards.places]
        return guards

    @property
    def holds(self) -> Callable[[], bool]:
        """A function that says whether everything is the very object that it was."""
        if self._holds is None:
            self._holds = written(
                Rows(self.places, self.absent, self.dicts, self.lists, self.orders, self.types, self.weak)
            )
        return self._holds

    def changed_rows(self) -> None:
        """What is compared is something else from here on."""
        self._holds = None

    def describe_change(self) -> str | None:
        """What is no longer as it was, in words; None if everything is."""
        if self.holds():
            return self._describe_array_change()
        for at, (holder, key, before) in enumerate(self.places):
            now = holder.get(key, MISSING)
            if now is before:
                continue
            if _looks_the_same(now, before):
                self.places[at] = (holder, key, now)
                self._rebind(now, before)
                continue
            name = repr(key) if isinstance(key, PLAIN_VALUES) else f"what a {type(key).__name__} has in a dict"
            return f"{name} was {_describe_value(before)} and is {_describe_value(now)}"
        for holder, n in self.dicts:
            if len(holder) != n:
                return f"a dict had {n} entries and has {len(holder)}"
        for of, names in self.absent:
            there = (of.__dict__ if isinstance(of, type) else of).keys() & names
            if there:
                return f"{min(there)!r} was missing and is there"
        for x, cls in self.types:
            if type(x) is not cls:
                return f"a {cls.__name__} has become a {type(x).__name__}"
        for ref, cls in self.weak:
            if type(ref()) is not cls:
                return "a weak reference leads to something else"
        return self._describe_list_change() or self._describe_array_change()

    def _rebind(self, now: Any, before: Any) -> None:
        """Look at a container that is like the one before, in its place."""
        self.changed_rows()
        if not isinstance(now, list | dict | tuple | set):
            return
        new = holder_of(now)
        self.places = [(new if _object_of(h) is before else h, k, v) for h, k, v in self.places]
        self.dicts = [(new if _object_of(h) is before else h, n) for h, n in self.dicts]
        self.orders = [(new if _object_of(h) is before else h, keys) for h, keys in self.orders]
        self.lists = [(now, list(now)) if h is before else (h, copy) for h, copy in self.lists]
        pairs = zip(now.values(), before.values()) if isinstance(now, dict) else zip(now, before)
        for a, b in pairs if not isinstance(now, set) else ():
            if a is not b:
                self._rebind(a, b)

    def keeps_traced_array(self) -> bool:
        """Whether a place, a dict or a list holds an array that JAX traces, which is of no use after the trace."""
        held: list[Any] = [holder.get(key, None) for holder, key, _ in self.places]
        held += [v for holder, _ in self.lists for v in holder]
        held += [holder[key] for holder, _ in self.dicts for key in list(holder)]
        seen: set[int] = set()
        while held:
            x = held.pop()
            if isinstance(x, jax.core.Tracer):
                return True
            if isinstance(x, list | tuple | dict) and id(x) not in seen:
                seen.add(id(x))
                held += x.values() if isinstance(x, dict) else x
        return False

    def restore(self) -> None:
        """Put back the values of all places, after a trace that failed or was undone."""
        if self.before_optimizer_state:
            self.places, self.dicts, self.orders = self.before_optimizer_state[0]
            self.changed_rows()
            self.before_optimizer_state.clear()
        there = self.kept_places.union(place_of(*place) for place in self.number_places)
        for holder, key, before in self.places:
            there.add(place_of(holder, key))
            if holder.get(key, MISSING) is not before:
                if before is not MISSING:
                    holder[key] = before
                else:
                    del holder[key]
        for holder, n in self.dicts:
            if len(holder) != n:
                for key in [k for k in holder if place_of(holder, k) not in there]:
                    del holder[key]
        for of, names in self.absent:
            for name in (of.__dict__ if isinstance(of, type) else of).keys() & names:
                if isinstance(of, type):
                    delattr(of, name)
                else:
                    del of[name]
        for x, cls in self.types:
            if type(x) is not cls:
                x.__class__ = cls
        for holder, keys in self.orders:
            if list(holder) != keys and holder.keys() == set(keys):
                entries = {key: holder[key] for key in keys}
                holder.clear()
                holder.update(entries)
        for i, (holder, before) in enumerate(self.lists):
            if len(holder) == len(before) and all(map(operator.is_, holder, before)):
                continue
            holder.clear()
            holder.update(before) if isinstance(holder, set) else holder.extend(before)
            # A set that is filled anew may have another order.
            self.lists[i] = (holder, list(holder))
        for holder, before in self.arrays:
            if array_content(holder) != before:
                refill(holder, before)
        for cached, keys in self.caches:
            held = kept_results(cached)
            for key in held.keys() - keys:
                del held[key]
        self.weak = [(ref, cls) for ref, cls in self.weak if type(ref()) is cls]  # nobody can bring back what is gone
        self.changed_rows()
        self.replaced_numbers.clear()

    def optimizer_state_began(self, optimizer: Any) -> None:
        """The state that an optimizer made on its first step is what is watched from here on.

        So are the tensors that a gradient scaler made of its first scale.
        """
        if not any(optimizer is known for known in self.optimizers):
            self._scaler_tensors_began(vars(optimizer))
            return
        self.before_optimizer_state.append((list(self.places), list(self.dicts), list(self.orders)))
        state_dicts = [optimizer.state, *[v for v in optimizer.state.values() if isinstance(v, dict)]]
        ids = {id(held) for held in state_dicts}
        self.dicts, self.places, self.orders = (
            [row for row in rows if id(_object_of(row[0])) not in ids]
            for rows in (self.dicts, self.places, self.orders)
        )
        for held in state_dicts:
            self._add_dict(held)
            if len(held) > 1:
                self.orders.append((holder_of(held), list(held)))
        self.changed_rows()

    def _scaler_tensors_began(self, held: dict[str, Any]) -> None:
        """Attributes that were None and are tensors now."""
        if not any(holder is held for holder, _, _ in self.places):
            return
        self.before_optimizer_state.append((self.places, list(self.dicts), list(self.orders)))
        self.places = [
            (h, k, h[k]) if h is held and v is None and isinstance(h.get(k), Tensor) else (h, k, v)
            for h, k, v in self.places
        ]
        self.changed_rows()

    def _describe_list_change(self) -> str | None:
        for holder, before in self.lists:
            if len(holder) != len(before) or not are_same_values(holder, before):
                return "the entries of a list changed"
        for holder, keys in self.orders:
            if len(holder) != len(keys) or not are_same_values(holder, keys):
                return "the entries of a dict have another order"
        return None

    def _describe_array_change(self) -> str | None:
        for holder, before in self.arrays:
            if array_content(holder) != before:
                return "the values of an array changed"
        return None

    def describe_advanced_state(self) -> str | None:
        """Whether a number of the trace was put where it cannot stay, in words; None if not."""
        if self.replaced_numbers:
            return f"a number that is another one in each call was put under {self.replaced_numbers[0][1]!r}"
        return None

    def watch_caches(self) -> None:
        """After a trace, which may have filled caches: a result that one of them loses is computed anew."""
        for held in (kept_results(cached) for cached, _ in self.caches):
            self.places += [(held, key, value) for key, value in held.items()]
        self.changed_rows()

    def added_entries(self) -> list[tuple[Any, Any, Any]]:
        """What the function has put where nothing was: (holder, key, value)."""
        there = self.kept_places.union(place_of(*place) for place in self.number_places)
        there.update(place_of(holder, key) for holder, key, _ in self.places)
        new = [
            (holder, key)
            for holder, n in self.dicts
            if len(holder) != n and isinstance(holder, dict | Entries)
            for key in holder
        ]
        new += [(of, name) for of, names in self.absent if isinstance(of, dict) for name in of.keys() & names]
        found = {place_of(*place): place for place in new if place_of(*place) not in there}
        return [(holder, key, holder[key]) for holder, key in found.values()]

    # -- numbers that are carried
    def put_plain_numbers(self, watched: frozenset[int]) -> None:
        """Put plain numbers where the function has put those that were carried while it was traced.

        Args:
            watched: identities of containers, each of which has its turn: a number in it is a number at a place.
        """
        for holder, key, _ in self.places:
            value = holder.get(key, MISSING)
            if (plain_value := with_plain_numbers(value, watched)) is not value:
                holder[key] = plain_value
                self.replaced_numbers.append((holder, key))
        new = [(of, name) for of, names in self.absent if isinstance(of, dict) for name in of.keys() & names]
        new += [(holder, key) for holder, _ in self.dicts if isinstance(holder, dict | Entries) for key in list(holder)]
        for holder, key in new:
            value = holder[key]
            if (plain_value := with_plain_numbers(value, watched)) is not value:
                holder[key] = plain_value
                self.replaced_numbers.append((holder, key))
        for holder, before in self.lists:
            if len(holder) != len(before) or not all(map(operator.is_, holder, before)):
                plain_value = [with_plain_numbers(v, watched) for v in holder]
                if not all(map(operator.is_, holder, plain_value)):
                    self.replaced_numbers += [(holder, i) for i, v in enumerate(holder) if plain_value[i] is not v]
                    holder.clear()
                    holder.update(plain_value) if isinstance(holder, set) else holder.extend(plain_value)

    def take_number_places(self, more: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """The places of numbers that are read anew in each run: (holder, key). They are no longer watched.

        These are learning rates (and momenta, where a schedule of cycles has left its bounds in the group), what
        schedules count, and the places `more`.
        """
        number_places = {place_of(*place): place for place in self.number_places}
        for x in (*self.optimizers, *self.schedules):
            number_places.update((place_of(*place), place) for place in number_places_of(x))
        watched = {place_of(holder, key) for holder, key, _ in self.places}
        lists = {id(held): (held, before) for held, before in self.lists if type(held) is list}
        for holder, key in more:
            place = place_of(holder, key)
            held, before = lists.get(place[0], (None, ()))
            if held is not None and key < len(before):
                number_places[place] = (Items(held), key)
            elif place in watched:
                number_places[place] = (holder, key)
        self.places = [p for p in self.places if place_of(p[0], p[1]) not in number_places]
        for i, (held, before) in enumerate(self.lists):
            if type(held) is list and any((id(held), j) in number_places for j in range(len(before))):
                items = Items(held)
                self.dicts.append((items, len(before)))
                self.places += [(items, j, v) for j, v in enumerate(before) if (id(held), j) not in number_places]
                self.lists[i] = ([], [])
        self.number_places = list(number_places.values())
        self.changed_rows()
        return self.number_places

    def drifted_numbers(self) -> list[tuple[Any, Any]]:
        """The places where a number has become another one: (holder, key)."""
        drifted: list[tuple[Any, Any]] = list(self.replaced_numbers)
        for holder, key, before in self.places:
            now = holder.get(key, MISSING)
            numbers = is_number_or_list(now) and is_number_or_list(before)
            if numbers and not are_same_numbers(now, before):
                drifted.append((holder, key))
        for held, before in self.lists:
            if type(held) is list and len(held) == len(before):
                pairs = zip(held, before)
                drifted += [
                    (held, i)
                    for i, (a, b) in enumerate(pairs)
                    if is_number(a) and is_number(b) and not is_same_value(a, b)
                ]
        return drifted

    def switches(self) -> list[tuple[Any, Any, Any]]:
        """Where a bool, a text or None has become another one: (holder, key, the new one).

        What was there is put back.
        """
        found = []
        for holder, key, before in self.places:
            now = holder.get(key, MISSING)
            if now is not before and isinstance(now, _SWITCHES) and isinstance(before, _SWITCHES):
                found.append((holder, key, now))
                holder[key] = before
        return found

    # -- taking over what was read
    def take(self, reads: Reads, ran: Sequence[Code], belongs: Callable[[Any], bool], *, refuses: bool = True) -> None:
        """Guard what a function can have read of what was there before.

        Args:
            reads: all that it can have read.
            ran: the code that ran.
            belongs: whether an object is among those that these guards are for.
            refuses: whether a place of which the value before is not known is an error.
        """
        was_there = reads.ages.was_there

        def kept(of: Any) -> bool:
            owner = reads.owners.get(id(of), of)
            return belongs(of) and belongs(owner) and (was_there(owner, held) or was_there(of, held))

        held = self._held
        functions = reads.functions_of(ran)
        self._find_held(reads, kept)
        for fn, parts in functions:
            if kept(fn):
                self.places += parts
        self.places += [row for row in self._since(reads.places) if kept(_object_of(row[0]))]
        self.absent = [(of, frozenset(names)) for of, names in reads.absent.values() if kept(of)]
        for x, copy in self._since(reads.containers):
            if kept(x):
                self._take_container(x, copy, reads)
        self.types += [row for row in self._since(reads.types) if kept(row[0])]
        self.weak += [row for row in self._since(reads.weak) if kept(row[0])]
        self.arrays += [row for row in self._since(reads.arrays) if kept(row[0])]
        self.caches = [row for row in reads.caches if kept(row[0])]
        self.optimizers = [x for x in reads.optimizers.values() if kept(x)]
        self.schedules = [x for x in reads.schedules.values() if kept(x)]
        self._take_states(reads)
        for guards in reads.absorbed:
            if belongs(guards):
                self._take_over(guards, reads)
        self.absent += self._absent_too
        self._find_tensors(reads)
        if refuses:
            self._refuse_new_values(reads)
        self.changed_rows()

    def _find_held(self, reads: Reads, kept: Callable[[Any], bool]) -> None:
        """Find what objects of before lead to, and these lead to, and so on: all of it is of before, too."""
        rest = list(reads.leads_to.values())
        found = True
        while found:
            found, later = False, []
            for row in rest:
                if kept(row[0]):
                    found = True
                    self._held.update(row[1])
                else:
                    later.append(row)
            rest = later

    def _take_over(self, guards: PythonGuards, reads: Reads) -> None:
        """Guard what other guards compare, as it was when this function looked at it, if it has."""
        known = reads.places
        self.places += [row for row in guards.places if (id(_object_of(row[0])), row[1]) not in known]
        for name in ("dicts", "orders", "lists"):
            rows = getattr(guards, name)
            getattr(self, name).extend(row for row in rows if id(_object_of(row[0])) not in reads.containers)
        for name in ("types", "weak", "arrays"):
            getattr(self, name).extend(getattr(guards, name))
        self._absent_too += guards.absent

    def _since(self, rows: dict[Any, Any]) -> list[Any]:
        """The rows that were not there the last time."""
        known = self._known.get(id(rows), 0)
        self._known[id(rows)] = len(rows)
        return list(islice(rows.values(), known, None))

    def refresh(self) -> None:
        """Compare with what is there now from here on."""
        self.places = [(holder, key, with_plain_numbers(holder.get(key, MISSING))) for holder, key, _ in self.places]
        self.absent = [(of, names - of.keys() if isinstance(of, dict) else names) for of, names in self.absent]
        self.dicts = [(holder, len(holder)) for holder, _ in self.dicts]
        self.orders = [(holder, list(holder)) for holder, _ in self.orders]
        self.lists = [(holder, list(holder)) for holder, _ in self.lists]
        self.arrays = [(holder, array_content(holder)) for holder, _ in self.arrays]
        self.changed_rows()

    def are_there(self, objects: Iterable[Any]) -> None:
        """These objects were there before."""
        self._held.update(map(id, objects))

    def _take_container(self, x: Any, copy: Any, reads: Reads) -> None:
        self.visited_ids.add(id(x))
        if not isinstance(x, dict):
            self.lists.append((x, copy))
            return
        holder = holder_of(x)
        self.dicts.append((holder, len(copy)))
        known = reads.places  # what was there earlier
        self.places += [
            (holder, key, v) for key, v in copy.items() if (id(x), key) not in known and not _is_unwatched(key)
        ]
        if len(copy) > 1 or any(type(key) is not str for key in copy):  # 1, 1.0 and True are one key
            self.orders.append((holder, list(copy)))

    def _take_states(self, reads: Reads) -> None:
        """What optimizers keep for their parameters."""
        for x in self.optimizers:
            if id(x) in self.state_holders:
                continue
            holders: set[int] = set()
            for held, copy in reads.states[id(x)]:
                if id(held) not in self.visited_ids:
                    self._take_container(held, copy, reads)
                    holders.add(id(held))
            if getattr(getattr(type(x), "step", None), "hooked", False):  # it tells when it steps
                self.state_holders[id(x)] = holders

    def _find_tensors(self, reads: Reads) -> None:
        """Which tensors are reached by what is kept, and what is reached twice."""
        met: set[int] = set()
        self.met_again.clear()
        values = [value for _, _, value in self.places]
        for _, copy in self.lists:
            values += copy
        values += [key for keys in (held for _, held in self.orders) for key in keys]
        for cached, _ in self.caches:  # which may keep each result in a link
            values += [value for value in results_of(cached) if id(value) not in reads.ages.young]
        for value in values:
            if issubclass(type(value), Tensor):  # `isinstance` would ask an object's own `__getattribute__`
                self.reached_tensors[id(value)] = value
            elif not issubclass(type(value), tuple | list | dict | set | deque):
                continue
            if id(value) in met:
                self.met_again.add(id(value))
            met.add(id(value))
            if isinstance(value, tuple):
                values += value
        gradients = (reads.gradients.get(key) for key in self.reached_tensors)
        self.reached_gradients = {
            id(g): g
            for g in gradients
            if g is not None and id(g) not in reads.ages.young and id(g) not in self.reached_tensors
        }
        for x in self.reached_tensors.values():
            if (x._x is not None or (x._rg and x._fn is None)) and id(x) not in self._with_hooks:
                self._with_hooks.add(id(x))
                self.places.append((Attributes(x), "_x", x._x))

    def _refuse_new_values(self, reads: Reads) -> None:
        """A place that was changed before anybody looked at it: what was there before is not known."""
        for holder, key, value in self.places:
            if id(value) not in reads.ages.young or _is_followed(value) or isinstance(holder, Variable | State | Lock):
                continue
            if not (type(key) is str and key == "__dict__"):  # which may be made when it is asked for
                name = key if isinstance(key, str) else type(key).__name__
                raise AsWritten(f"{name!r} was changed before torch.compile could see what it was", lasting=False)

    def forget_unused_states(self, used: set[int]) -> None:
        """Watch no state of an optimizer that the function neither looked at nor stepped with.

        Such a function sets gradients to None or reads options. What other code does to the state is nothing to it.
        """
        unused = [held for of, held in self.state_holders.items() if of not in used]
        ids = set().union(*unused)
        if ids:
            self.dicts, self.places, self.orders, self.lists = (
                [row for row in rows if id(_object_of(row[0])) not in ids]
                for rows in (self.dicts, self.places, self.orders, self.lists)
            )
            self.changed_rows()

    def _add_dict(self, x: Any) -> None:
        """All entries of a dict."""
        holder = holder_of(x)
        self.dicts.append((holder, len(holder)))
        self.places += [(holder, key, holder[key]) for key in list(holder) if not _is_unwatched(key)]


_MODES = ("default_device", "device_stack", "grad_layout")
"""Modes that are no bits, and that code can tell apart."""
KEPT_UNDER = "_torchgrad_jax_operators"
"""The attribute of functions, and of objects that are called, under which operators made of them are kept."""
UNWATCHED = ("_opt_called", KEPT_UNDER, "unraisablehook")
"""Attributes that a step sets in each call, to the same, or that are no business of the user's."""
AMBIENT: list[dict[str, Any]] = [vars(SETTINGS)]
"""What every function may look at: settings, and hooks of all modules, which `nn` adds."""


def _tensors_in(group: dict[str, Any]) -> Iterator[Tensor]:
    for key, value in group.items():
        if isinstance(value, Tensor):
            yield value
        elif key != "params" and isinstance(value, list | tuple):
            yield from (v for v in value if isinstance(v, Tensor))


def number_places_of(x: Any) -> list[tuple[Any, Any]]:
    """The numbers of an optimizer or a schedule that are read anew in each run: (holder, key).

    These are learning rates (and momenta, where a schedule of cycles has left its bounds in the group), and what
    schedules count.
    """
    found: list[tuple[Any, Any]] = []
    held = vars(x)
    if "param_groups" in held:
        for group in held["param_groups"]:
            cycled = ("momentum", "betas") if "max_momentum" in group else ()
            found += [(group, key) for key in ("lr", *cycled) if is_number_or_list(group.get(key))]
        return found
    # Tensors in `_last_lr` are read by nobody else.
    return [(held, key) for key, value in held.items() if is_number(value) or key == "_last_lr"]


def tensors_of_options(x: Any) -> list[Tensor]:
    """Options of the optimizer of a schedule that are tensors, which the schedule may write to."""
    groups = getattr(vars(x).get("optimizer"), "param_groups", ()) if "optimizer" in vars(x) else ()
    return list({id(t): t for group in groups for t in _tensors_in(group)}.values())


def _is_unwatched(key: Any) -> bool:
    return isinstance(key, str) and key in UNWATCHED


def _is_followed(value: Any) -> bool:
    """Whether a value was put in its place by the log of numbers, or may have been there before."""
    if isinstance(value, tuple | list):
        return any(type(v) is Number for v in value)
    return type(value) in (Number, dict)


def _object_of(holder: Any) -> Any:
    return holder.of if isinstance(holder, Attributes | Cell | OfThread) else holder


def _looks_the_same(now: Any, before: Any, depth: int = 0) -> bool:
    """Whether code cannot tell two values apart: equal plain values, or a new container of the same items."""
    if is_same_value(now, before):
        return True
    if (
        type(now) is not type(before)
        or type(now) not in (list, dict, tuple, set)
        or len(now) != len(before)
        or depth > 8
    ):
        return False
    if isinstance(now, set):
        return now == before
    if isinstance(now, dict):
        same_keys = all(map(is_same_value, now, before))
        return same_keys and all(_looks_the_same(now[k], before[k], depth + 1) for k in now)
    return all(_looks_the_same(a, b, depth + 1) for a, b in zip(now, before))


def _describe_value(x: Any) -> str:
    text = repr(x) if isinstance(x, PLAIN_VALUES) else f"a {type(x).__name__}"
    return "missing" if x is MISSING else text
