"""Numbers of Python that a function has changed: plain ones are put there, and a program reads them again in each run.

put_plain_numbers(guards)   # where the trace has left its own
drifted_numbers(guards)     # [Scalar(vars(counter), "n")]: to be carried in the next trace
take_scalars(guards, carried)  # their types are compared from here on, and not their values
"""

from __future__ import annotations

from collections.abc import Iterable

from ...._core.arrays.python_numbers import form_of, with_plain_numbers
from ...._core.python_values import is_same_value, looks_the_same
from ..watch.facts import Fact, Items, Keys, Place, Scalar
from ..watch.guards import PythonGuards
from ..watch.places import Fixed, ListItems


def put_plain_numbers(guards: PythonGuards) -> None:
    """Put plain numbers where the function has put those that were followed while it was traced."""
    # Each of these has its turn: a number in it is a number at a place.
    watched = frozenset([*guards.visited_ids, *guards.arguments])
    for holder, key, _, now, given in list(guards.changes()):
        if (plain_value := with_plain_numbers(now, watched)) is not now:
            holder[key] = plain_value
            guards.replaced.append(Scalar(holder, key, given))
    for fact in guards.changed_lists():
        items = list(fact.of)
        plain_items = [with_plain_numbers(v, watched) for v in items]
        replaced = [i for i, v in enumerate(items) if plain_items[i] is not v]
        if replaced:
            guards.replaced += [Scalar(ListItems(fact.object), i, fact.given) for i in replaced]
            fact.fill(plain_items)


def take_scalars(guards: PythonGuards, scalars: Iterable[Scalar]) -> None:
    """Numbers that are read again in each run are not compared; one may be an item of a list."""
    wanted = {scalar.at: scalar for scalar in scalars}
    lists = {of for of, _ in wanted}
    facts: list[Fact] = []
    for fact in guards.facts:
        if type(fact) is Items and type(fact.of) is list and id(fact.of) in lists:
            items, places = ListItems(fact.of), range(len(fact.was))
            facts += [Keys(items, list(reversed(places))), *[Place(items, i, v) for i, v in enumerate(fact.was)]]
        else:
            facts.append(fact)
    guards.replace([*wanted.values(), *[f for f in facts if not (isinstance(f, Place) and f.at in wanted)]])


def drifted_numbers(guards: PythonGuards) -> list[Scalar]:
    """The places where a number has become another one; without those in containers among the arguments."""
    drifted = [scalar for scalar in guards.replaced if not scalar.given]
    for holder, key, before, now, given in guards.changes():
        can_be_put = not given and not isinstance(holder, Fixed)
        if can_be_put and form_of(now) and form_of(before) and not looks_the_same(now, before):
            drifted.append(Scalar(holder, key))
    for fact in guards.changed_lists():
        if type(fact.of) is list and len(fact.of) == len(fact.was) and not fact.given:
            pairs = enumerate(zip(fact.of, fact.was))
            numbers = [i for i, (a, b) in pairs if form_of(a) and form_of(b) and not is_same_value(a, b)]
            drifted += [Scalar(ListItems(fact.of), i) for i in numbers]
    return drifted
