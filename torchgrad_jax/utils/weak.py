"""Dictionaries that do not keep their keys, which tell tensors apart by identity."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, MutableMapping
from copy import deepcopy
from typing import Any, Generic, TypeVar

from .._engine.memory.tensor import Tensor

K = TypeVar("K")
V = TypeVar("V")


class WeakIdRef(weakref.ref, Generic[K]):
    """A weak reference that is hashed and compared by the identity of its object."""

    __slots__ = ("_id",)

    def __init__(self, key: K, callback: Any = None) -> None:
        self._id = id(key)
        super().__init__(key, callback)  # type: ignore[call-arg]

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        a, b = self(), other() if isinstance(other, weakref.ref) else None
        return a is b if a is not None and b is not None else self is other


class WeakIdKeyDictionary(MutableMapping[K, V]):
    """A dictionary that holds its keys weakly and tells them apart by identity.

    Args:
        dict: entries to begin with.
        ref_type: what refers to the keys.
    """

    def __init__(self, dict: Any = None, ref_type: Any = WeakIdRef) -> None:
        self.data: Any = {}
        self.ref_type = ref_type
        here = weakref.ref(self)

        def remove(ref: Any) -> None:
            owner = here()
            if owner is not None:
                owner.data.pop(ref, None)

        self._remove = remove
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: K) -> V:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: K, value: V) -> None:
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key: K) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # what nothing refers to weakly is no key
            return False

    def __iter__(self) -> Iterator[K]:
        for ref in list(self.data):
            key = ref()
            if key is not None:
                yield key

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return any(True for _ in self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def copy(self) -> Any:
        """A dictionary of the same entries."""
        return type(self)(self, self.ref_type)

    __copy__ = copy

    def keyrefs(self) -> list[Any]:
        """The weak references to the keys."""
        return list(self.data)

    def __deepcopy__(self, memo: Any) -> Any:
        new = type(self)()
        new.update((key, deepcopy(value, memo)) for key, value in self.items())
        return new

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return {id(k): v for k, v in self.items()} == {id(k): v for k, v in other.items()}

    __hash__ = None  # type: ignore[assignment]

    def __or__(self, other: Any) -> Any:
        return self._joined(self, other)

    def __ror__(self, other: Any) -> Any:
        return self._joined(other, self)

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self

    def _joined(self, *parts: Any) -> Any:
        if not all(isinstance(part, Mapping) for part in parts):
            return NotImplemented
        new = type(self)()
        for part in parts:
            new.update(part)
        return new


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor, which gives the tensor when it is called, or None when it is gone."""

    def __init__(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise AssertionError(f"expected torch.Tensor, got {type(tensor)}.")
        self.ref: Any = weakref.ref(tensor)

    def __call__(self) -> Tensor | None:
        return self.ref()


__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]
