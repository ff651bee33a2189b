"""Sets that remember the order in which elements came."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSet, Reversible
from typing import TypeVar

T = TypeVar("T")


class OrderedSet(MutableSet[T], Reversible[T]):
    """A set whose elements come in the order in which they were added.

    Example:
        >>> list(OrderedSet("banana") | OrderedSet("nut"))
        ['b', 'a', 'n', 'u', 't']
    """

    def __init__(self, iterable: Iterable[T] | None = None) -> None:
        self._dict: dict[T, None] = dict.fromkeys(iterable or ())

    def __contains__(self, elem: object) -> bool:
        return elem in self._dict

    def __iter__(self) -> Iterator[T]:
        return iter(self._dict)

    def __len__(self) -> int:
        return len(self._dict)

    def __reversed__(self) -> Iterator[T]:
        return reversed(self._dict)

    def __repr__(self) -> str:
        return f"OrderedSet({list(self)!r})"

    def add(self, elem: T) -> None:
        """Add an element at the end, unless it is there."""
        self._dict[elem] = None

    def discard(self, elem: T) -> None:
        """Take an element away, if it is there."""
        self._dict.pop(elem, None)

    def pop(self) -> T:
        """Take the last element away."""
        if not self:
            raise KeyError("pop from an empty set")
        return self._dict.popitem()[0]

    def copy(self) -> OrderedSet[T]:
        """A set of the same elements."""
        return OrderedSet(self)

    def update(self, *others: Iterable[T]) -> None:
        """Add the elements of others."""
        for other in others:
            self._dict.update(dict.fromkeys(other))

    def union(self, *others: Iterable[T]) -> OrderedSet[T]:
        """The elements of this set and of others."""
        made = self.copy()
        made.update(*others)
        return made

    def difference(self, *others: Iterable[T]) -> OrderedSet[T]:
        """The elements that no other has."""
        gone = {x for other in others for x in other}
        return OrderedSet(x for x in self if x not in gone)

    def intersection(self, *others: Iterable[T]) -> OrderedSet[T]:
        """The elements that all others have."""
        kept = [set(o) for o in others]
        return OrderedSet(x for x in self if all(x in k for k in kept))
