"""Guards: the facts about Python that a program takes for granted, compared before it runs again.

A program is right for as long as the Python code would take the same branches. `Reads` notes what the code can have
read while it was traced; of that, what was there before and may change is guarded:

    guards = PythonGuards()
    guards.take(reads, lambda x: True)
    guards.describe_change()  # None, or "'scale' was 2 and is 3"
    guards.restore()          # after a trace that was undone: puts everything back
"""

from __future__ import annotations

import copy
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ...._core.arrays.python_numbers import Number, with_plain_numbers
from ...._core.errors.messages import AsWritten
from ...._core.python_arrays import kept_results, results_of
from ...._core.python_objects import items_of
from ...._core.python_values import looks_the_same
from ...._core.state import MODES, SETTINGS
from ...._engine.memory.tensor import Tensor
from .code_that_reads import Code
from .facts import Absent, Cached, Content, Fact, Filled, Items, Keys, Place, Scalar, written
from .notes import UNWATCHED
from .places import MISSING, Attributes, Entries, ListItems, Variable, holder_of, place_of
from .reads import Reads


class Change(NamedTuple):
    """Something else in a place."""

    holder: Any
    key: Any
    before: Any
    now: Any
    given: bool
    """Whether it is a place in a container among the arguments."""


class FactList:
    """Facts, and whether they hold."""

    __slots__ = ("_contents", "_holds", "facts")

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self._holds: Callable[[], bool] | None = None
        self._contents: list[Content] = []
        """Those that `holds` does not look at."""

    def each(self, kind: type[Any]) -> list[Any]:
        """The facts of a kind."""
        return [fact for fact in self.facts if type(fact) is kind]

    @property
    def places(self) -> list[Place]:
        """Places of which what is there is compared."""
        return self.each(Place)

    @property
    def has_arrays(self) -> bool:
        """Whether the contents of arrays are compared."""
        return bool(self.each(Content))

    @property
    def holds(self) -> Callable[[], bool]:
        """A function that says whether everything is the very object that it was."""
        if self._holds is None:
            self._contents = self.each(Content)
            self._holds = written(self.facts)
        return self._holds

    def replace(self, facts: Iterable[Fact]) -> None:
        """Compare these facts from here on."""
        self.facts = list(facts)
        self._holds = None

    def add(self, facts: Iterable[Fact]) -> None:
        """Compare these facts, too."""
        self.facts += facts
        self._holds = None

    def describe_change(self) -> str | None:
        """Return what is no longer as it was, in words; None if everything is."""
        if self.holds():
            for content in self._contents:
                if not content.holds():
                    return content.describe()
            return None
        return self._first_change()

    def _first_change(self) -> str | None:
        """The same by asking each fact, of which no code is written."""
        for fact in sorted(self.facts, key=lambda fact: fact.rank):
            if fact.is_compared and not (type(fact) is Place and self._is_alike(fact)) and not fact.holds():
                return fact.describe()
        return None

    def _is_alike(self, place: Place) -> bool:
        """Return whether a place holds what code cannot tell from what was there, which is compared from here on."""
        now, before = place.now(), place.was
        if now is before:
            return True
        if not looks_the_same(now, before):
            return False
        place.was = now
        self._rebind(now, before)
        return True

    def _rebind(self, now: Any, before: Any) -> None:
        """Look at a container that is like the one before, in its place."""
        self._holds = None
        if not issubclass(type(now), list | dict | tuple | set):
            return
        for fact in self.facts:
            if fact.object is before:
                fact.of = ListItems(now) if type(fact.of) is ListItems else holder_of(now)
                fact.was = list(now) if isinstance(fact, Items) else fact.was
        pairs = zip(now.values(), before.values()) if issubclass(type(now), dict) else zip(now, before)
        for a, b in pairs if not issubclass(type(now), set) else ():
            if a is not b:
                self._rebind(a, b)

    def refresh(self) -> None:
        """Compare with what is there now from here on."""
        for fact in self.facts:
            fact.renew()
            if type(fact) is Place:
                fact.was = with_plain_numbers(fact.was)
        self._holds = None

    def changes(self) -> Iterator[Change]:
        """Where the function has put another object."""
        for place in self.places:
            now = place.now()
            if now is not place.was:
                yield Change(place.of, place.key, place.was, now, place.given)
        yield from self.added_entries()

    def changed_lists(self) -> list[Items]:
        """Lists, sets and deques with other items."""
        return [fact for fact in self.each(Items) if not fact.is_same()]

    def added_entries(self) -> list[Change]:
        """Return what the function has put where nothing was."""
        there = {fact.at for fact in self.facts if isinstance(fact, Place)}
        found: dict[Any, Change] = {}
        for fact in self.facts:
            if type(fact) is Keys and isinstance(fact.of, dict | Entries) and len(fact.of) != len(fact.was):
                new = [key for key in fact.of if not _is_unwatched(key)]
            elif type(fact) is Absent and isinstance(fact.of, dict):
                new = [key for key in fact.of if type(key) is str and key in fact.was]
            else:
                continue
            for key in new:
                found[place_of(fact.of, key)] = Change(fact.of, key, MISSING, fact.of[key], fact.given)
        return [entry for at, entry in found.items() if at not in there]

    def _drop(self, ids: set[int]) -> None:
        """Compare nothing of some objects."""
        if ids:
            self.replace([fact for fact in self.facts if id(fact.object) not in ids or type(fact) is Absent])

    def _add_dict(self, x: Any, in_order: bool = True) -> None:
        """All entries of a dict."""
        holder = holder_of(x)
        self.facts.append(Keys(holder, list(holder), in_order))
        self.facts += [Place(holder, key, holder[key]) for key in list(holder) if not _is_unwatched(key)]


class PythonGuards(FactList):
    """The facts of one program."""

    __slots__ = (
        "_before_state", "_held", "_held_by_arguments", "_only_state", "_with_hooks", "arguments", "compares_identity",
        "met_again", "optimizers", "reached_beside", "reached_tensors", "replaced", "schedules", "visited_ids",
    )  # fmt: skip

    def __init__(self, arguments: Iterable[Any] = ()) -> None:
        """Guards for a function that is given these containers, and those in them."""
        super().__init__()
        self.arguments = {id(x): x for x in arguments}
        """Containers among the arguments, by identity: other ones come in the next call."""
        self._held_by_arguments: set[int] = set()
        """Identities of what these lead to."""
        self.replaced: list[Scalar] = []
        """Places where the function put a number that differs from call to call; a plain one is there now."""
        self.optimizers: list[Any] = []
        self.schedules: list[Any] = []
        self.visited_ids: set[int] = set()
        """Identities of containers of before that are reached, without those among the arguments."""
        self.met_again: set[int] = set()
        """Identities of what is reached in several ways."""
        self.reached_tensors: dict[int, Tensor] = {}
        """Tensors that are reached by a place, by identity; empty after the trace."""
        self.reached_beside: dict[int, Tensor] = {}
        """Their gradients, which are reached by them alone, and tensors that containers among the arguments hold."""
        self.compares_identity = False
        """Whether the code may ask whether two tensors are one object."""
        self._before_state: list[Fact] = []
        """The facts as they were before an optimizer made its state."""
        self._only_state: dict[int, int] = {}
        """Containers in the state of an optimizer and nowhere else: its identity, by theirs."""
        self._held: set[int] = set()
        """Identities of what objects of before lead to: it is of before, too."""
        self._with_hooks: set[int] = set()
        for setting in AMBIENT:
            self._add_dict(setting, in_order=False)
        self.facts += [Place(Attributes(MODES), key, getattr(MODES, key)) for key in _MODES]

    @classmethod
    def of(cls, reads: Reads, ran: Sequence[Code]) -> PythonGuards:
        """Guards for all that some code can have read."""
        guards = cls()
        guards.are_there(reads.outside.values())
        reads.ages.look()
        reads.functions_ran(ran)
        guards.take(reads, refuses=False)
        for place in guards.places:
            place.was = with_plain_numbers(place.was)
        return guards

    def knows(self, x: Any) -> bool:
        """Return whether something is reached from what was there before, in another way than by the arguments."""
        return id(x) in self._held

    def is_given(self, x: Any) -> bool:
        """Return whether something is a container among the arguments, and reached by them alone."""
        return id(x) in self.arguments and id(x) not in self._held

    def was_there(self, x: Any) -> bool:
        """Return whether something is reached from what was there before."""
        return id(x) in self._held or id(x) in self._held_by_arguments or id(x) in self.arguments

    def are_there(self, objects: Iterable[Any]) -> None:
        """These objects were there before."""
        self._held.update(map(id, objects))

    def describe_effect(self) -> str | None:
        """Return what the function has changed, or left a number of the trace in, in words."""
        if self.replaced:
            return f"a number that is another one in each call was put under {self.replaced[0].key!r}"
        return self._first_change()

    def forget_arguments(self) -> None:
        """What is in containers among the arguments is nothing to later calls."""
        if any(fact.given for fact in self.facts):
            self.replace([fact for fact in self.facts if not fact.given])
        self._before_state = [fact for fact in self._before_state if not fact.given]
        self.arguments.clear()

    def restore(self) -> None:
        """Put everything back, after a trace that failed or was undone."""
        if self._before_state:
            self.replace(self._before_state)
            self._before_state = []
        for fact in sorted(self.facts, key=lambda fact: fact.rank):
            fact.restore()
        # Caches have lost the results that the trace put there, which is no change.
        before = {id(kept_results(fact.of)): fact.was for fact in self.each(Cached)}
        self.replace([f for f in self.facts if type(f) is not Place or f.key in before.get(id(f.of), (f.key,))])
        self._holds = None
        self.replaced.clear()

    # -- what the program does by itself
    def optimizer_state_began(self, optimizer: Any) -> None:
        """The state that an optimizer made on its first step is what is watched from here on.

        So are the tensors that a gradient scaler made of its first scale.
        """
        before = [copy.copy(fact) for fact in self.facts]
        if any(optimizer is known for known in self.optimizers):
            state_dicts = [optimizer.state, *[v for v in optimizer.state.values() if isinstance(v, dict)]]
            self._drop({id(held) for held in state_dicts})
            for held in state_dicts:
                self._add_dict(held)
        else:
            made = [p for p in self.places if p.of is vars(optimizer) and p.was is None and isinstance(p.now(), Tensor)]
            if not made:
                return
            for place in made:
                place.renew()
        self._before_state = self._before_state or before
        self._holds = None

    def forget_unused_states(self, used: set[int]) -> None:
        """Watch no state of an optimizer that the function neither looked at nor stepped with.

        Such a function sets gradients to None or reads options. What other code does to the state is nothing to it.
        """
        self._drop({held for held, of in self._only_state.items() if of not in used})

    def stop_watching(self, holder: Any, key: Any, objects: set[int]) -> None:
        """The program itself puts something in a place: compare neither it nor the containers and tensors in it."""
        filled = Filled(holder, key)
        there = {filled.at}  # a tensor is a key by its identity, and its `==` is no bool
        kept: list[Fact] = [filled]
        for fact in self.facts:
            if type(fact) is Absent:
                fact.was = fact.was - {key} if fact.of is holder else fact.was
            elif id(fact.object) in objects or (isinstance(fact, Place) and fact.at in there):
                continue
            kept.append(fact)
        self.replace(kept)

    def watch_caches(self) -> None:
        """After a trace, which may have filled caches: a result that one of them loses is computed again."""
        for held in (kept_results(fact.of) for fact in self.each(Cached)):
            self.add([Place(held, key, value) for key, value in held.items()])

    # -- taking over what was read
    def take(self, reads: Reads, *, refuses: bool = True) -> None:
        """Guard what a function can have read of what was there before.

        Args:
            reads: all that it can have read.
            refuses: whether a place of which the value before is not known is an error.
        """
        self._find_held(reads)
        for fact in self.facts:  # which may be reached in another way by now
            fact.given = fact.given and id(fact.object) not in self._held
        known = {id(fact) for fact in self.each(Absent)}
        absent = [fact for fact in reads.absent.values() if id(fact) not in known]
        for fact in [*reads.facts, *absent]:
            fact.given = not self._is_outside(fact.object, reads)
            if not fact.given or self._is_given(fact.object, reads):
                self.facts.append(fact)
        self._holds = None
        self.visited_ids.update(id(f.object) for f in self.facts if isinstance(f, Items) and not f.given)
        self._only_state = dict(reads.only_state)
        self.optimizers = [x for x in reads.optimizers.values() if self._is_outside(x, reads)]
        self.schedules = [x for x in reads.schedules.values() if self._is_outside(x, reads)]
        for guards in reads.absorbed.values():
            self._take_over(guards, reads)
        self._find_tensors(reads)
        if refuses:
            self._refuse_new_values(reads)

    def _is_outside(self, of: Any, reads: Reads) -> bool:
        """Return whether an object was there before, and is reached in another way than by the arguments."""
        owner = reads.owners.get(id(of), of)
        if self.is_given(of) or self.is_given(owner):
            return False
        return reads.ages.was_there(owner, self._held) or reads.ages.was_there(of, self._held)

    def _is_given(self, of: Any, reads: Reads) -> bool:
        """Return whether an object is a container among the arguments."""
        return id(of) in self.arguments and id(reads.owners.get(id(of), of)) in self.arguments

    def _find_held(self, reads: Reads) -> None:
        """Find what objects of before lead to, and these lead to, and so on: all of it is of before, too."""
        rest = list(reads.leads_to.values())
        for of, led_to in rest:
            if self._is_given(of, reads):
                self._held_by_arguments.update(led_to)
        found = True
        while found:
            found, later = False, []
            for row in rest:
                if self._is_outside(row[0], reads):
                    found = True
                    self._held.update(row[1])
                else:
                    later.append(row)
            rest = later

    def _take_over(self, guards: PythonGuards, reads: Reads) -> None:
        """Guard what other guards compare, as it was when this function looked at it, if it has."""
        for fact in guards.facts:
            known = fact.at in reads.known if type(fact) is Place else id(fact.object) in reads.contained
            if not (known and isinstance(fact, Place | Items)):
                self.facts.append(copy.copy(fact))
        self._holds = None

    def _find_tensors(self, reads: Reads) -> None:
        """Which tensors are reached by what is kept, and what is reached twice."""
        met: set[int] = set()
        self.met_again.clear()
        values, given = list[Any](), list[Any]()
        for fact in self.facts:
            held = [fact.was] if type(fact) is Place else fact.was if isinstance(fact, Items) else ()
            (given if fact.given else values).extend(held)
        for fact in self.each(Cached):  # which may keep each result in a link
            values += [value for value in results_of(fact.of) if id(value) not in reads.ages.young]
        for value in values:
            if issubclass(type(value), Tensor):  # `isinstance` would ask an object's own `__getattribute__`
                self.reached_tensors[id(value)] = value
            elif not issubclass(type(value), tuple | list | dict | set | deque):
                continue
            if id(value) in met:
                self.met_again.add(id(value))
            met.add(id(value))
            if issubclass(type(value), tuple):
                values += items_of(value)
        beside = [x for x in given if issubclass(type(x), Tensor)]
        gradients = [reads.gradients.get(id(x)) for x in (*self.reached_tensors.values(), *beside)]
        beside += [g for g in gradients if g is not None and id(g) not in reads.ages.young]
        self.reached_beside = {id(x): x for x in beside if id(x) not in self.reached_tensors}
        for x in (*self.reached_tensors.values(), *self.reached_beside.values()):
            if (x._x is not None or (x._rg and x._fn is None)) and id(x) not in self._with_hooks:
                self._with_hooks.add(id(x))
                hooks = Place(Attributes(x), "_x", x._x)
                hooks.given = id(x) not in self.reached_tensors
                self.facts.append(hooks)

    def _refuse_new_values(self, reads: Reads) -> None:
        """A place that was changed before anybody looked at it: what was there before is not known."""
        for place in self.places:
            key, value = place.key, place.was
            if id(value) not in reads.ages.young or _is_followed(value) or id(place.object) in reads.ages.young:
                continue
            if isinstance(place.of, Variable) or place.by_value:
                continue
            if not (type(key) is str and key == "__dict__"):  # which may be made when it is asked for
                name = key if isinstance(key, str) else type(key).__name__
                error = AsWritten(f"{name!r} was changed before torch.compile could see what it was", lasting=False)
                # A module that an operator has loaded is there by now, so that the function can be traced.
                error.imports = name if place.object is sys.modules else None
                raise error


_MODES = ("default_device", "device_stack", "grad_layout")
"""Modes that are no bits, and that code can tell apart."""
AMBIENT: list[dict[str, Any]] = [vars(SETTINGS)]
"""What every function may look at: settings, and hooks of all modules, which `nn` adds."""


def _is_unwatched(key: Any) -> bool:
    return isinstance(key, str) and key in UNWATCHED


def _is_followed(value: Any) -> bool:
    """Return whether a value was put in its place by the log of numbers, or may have been there before."""
    if issubclass(type(value), tuple | list):
        return any(type(v) is Number for v in items_of(value))
    return type(value) in (Number, dict)
