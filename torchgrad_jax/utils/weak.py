"""Mappings from tensors, which are compared element by element, to values: by identity, held weakly."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any


class WeakIdRef(weakref.ref):
    """A weak reference that is equal to others of the very same object."""

    __slots__ = ("_id",)
    _id: int

    def __init__(self, key: Any, callback: Any = None) -> None:
        super().__init__(key, callback)
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine, theirs = self(), other() if isinstance(other, weakref.ref) else None
        return mine is theirs if mine is not None and theirs is not None else self is other


TensorWeakRef = WeakTensorRef = WeakIdRef


class WeakIdKeyDictionary(MutableMapping):  # type: ignore[type-arg]
    """A dict whose keys are objects, not what they are equal to; an entry goes when its key does.

    Args:
        dict: entries to begin with.
        ref_type: the kind of reference by which keys are held.
    """

    def __init__(
        self, dict: Mapping[Any, Any] | None = None, ref_type: type[WeakIdRef] = WeakIdRef
    ) -> None:
        self.data: Any = {}
        self.ref_type = ref_type
        mine = weakref.ref(self)

        def gone(ref: Any) -> None:
            table = mine()
            if table is not None:
                table.data.pop(ref, None)

        self._gone = gone
        if dict is not None:
            self.update(dict)

    def _alive(self) -> list[tuple[Any, Any]]:
        found = [(ref(), value) for ref, value in list(self.data.items())]
        return [(key, value) for key, value in found if key is not None]

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._gone)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:
            return False

    def __iter__(self) -> Iterator[Any]:
        return iter([key for key, _ in self._alive()])

    def __len__(self) -> int:
        return len(self._alive())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def items(self) -> Any:
        """Keys and values."""
        return self._alive()

    def values(self) -> Any:
        """Values."""
        return [value for _, value in self._alive()]

    def copy(self) -> WeakIdKeyDictionary:
        """The same entries in a dict of its own."""
        new = WeakIdKeyDictionary(ref_type=self.ref_type)
        for key, value in self._alive():
            new[key] = value
        return new

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        mine = {id(k): v for k, v in self.items()}
        return mine == {id(k): v for k, v in other.items()}


WeakTensorKeyDictionary = WeakIdKeyDictionary
