"""An object that several processes are to get: pickled once, its large arrays once in memory that all of them map."""

from __future__ import annotations

import os
import threading
import weakref
from multiprocessing import context, reduction
from typing import Any

import numpy as np

from ._carrying import Packed, Pickled, dumps, loads
from ._memory import Segment, aligned, private

_LARGE = 1 << 20
"""Bytes of an array that the next parcel finds again, if it is still as it was."""
_STEP = 1 << 24


class _Copy:
    """An array's bytes in a segment, for as long as a parcel refers to them."""

    __slots__ = ("__weakref__", "at", "segment", "size")

    def __init__(self, segment: Segment, at: int, array: np.ndarray) -> None:
        self.segment, self.at, self.size = segment, at, array.nbytes
        segment.bytes[at : at + array.nbytes] = array

    def holds(self, array: np.ndarray) -> bool:
        """Return whether the array is still what was copied."""
        there = self.segment.bytes[self.at : self.at + self.size]
        return all(np.array_equal(there[i : i + _STEP], array[i : i + _STEP]) for i in range(0, self.size, _STEP))


_COPIES: weakref.WeakValueDictionary[tuple[int, int], _Copy] = weakref.WeakValueDictionary()
"""By address and size."""


class _Opening(threading.local):
    descriptors: list[int] | None = None


_OPENING = _Opening()


class _Inside:
    """A descriptor that travels with a parcel, by its number."""

    def __init__(self, number: int) -> None:
        self._number = number

    def detach(self) -> int:
        """A descriptor for this process."""
        assert _OPENING.descriptors is not None
        return os.dup(_OPENING.descriptors[self._number])


class _Descriptors:
    """Stands for the process that is being started while a parcel is packed: locks and pipes are sent to such."""

    method = "forkserver"
    DupFd = _Inside

    def __init__(self) -> None:
        self.taken: list[int] = []

    def duplicate_for_child(self, fd: int) -> int:
        """The number of a descriptor among those of the parcel."""
        self.taken.append(os.dup(fd))
        return len(self.taken) - 1

    def __del__(self, close: Any = os.close) -> None:
        for fd in self.taken:
            close(fd)


class Parcel(Packed):
    """An object, packed. It can be pickled for processes that `multiprocessing` starts, and opened there.

    Args:
        obj: the object. Where it has large arrays that another parcel has, unchanged, both refer to the same memory.
    """

    def __init__(self, obj: Any) -> None:
        self._descriptors = _Descriptors()
        before = context.get_spawning_popen()
        context.set_spawning_popen(self._descriptors)
        try:
            pickled = dumps(obj)
        finally:
            context.set_spawning_popen(before)
        self._of_body, self.modules = pickled.of_body, pickled.modules
        arrays = [np.frombuffer(x, np.uint8) for x in (*pickled.apart, pickled.head, pickled.body)]
        copies = [self._known_copy(a) for a in arrays]
        missing = [a for a, copy in zip(arrays, copies) if copy is None]
        if missing:
            segment, at = Segment(max(sum(aligned(a.nbytes) for a in missing), 1)), 0
            for i, array in enumerate(arrays):
                if copies[i] is None:
                    copies[i] = copy = _Copy(segment, at, array)
                    at += aligned(array.nbytes)
                    if array.nbytes >= _LARGE and i < len(pickled.apart):
                        _COPIES[array.ctypes.data, array.nbytes] = copy
        self._copies: list[Any] = copies

    @staticmethod
    def _known_copy(array: np.ndarray) -> _Copy | None:
        copy = _COPIES.get((array.ctypes.data, array.nbytes)) if array.nbytes >= _LARGE else None
        return copy if copy is not None and copy.holds(array) else None

    def __reduce__(self) -> Any:
        segments = list({id(c.segment): c.segment for c in self._copies}.values())
        numbers = {id(s): i for i, s in enumerate(segments)}
        places = [(numbers[id(c.segment)], c.at, c.size) for c in self._copies]
        inside = [reduction.DupFd(fd) for fd in self._descriptors.taken]
        return Arrived, ([reduction.DupFd(s.fd) for s in segments], inside, places, self._of_body)


class Arrived:
    """A parcel in the process that it was sent to."""

    def __init__(self, segments: list[Any], inside: list[Any], places: list[Any], of_body: int) -> None:
        self._segments, self._inside = [s.detach() for s in segments], [d.detach() for d in inside]
        self._places, self._of_body = places, of_body

    def open(self) -> Any:
        """The object, once: what this process writes to its arrays, no other sees."""
        memory = [private(fd) for fd in self._segments]
        *apart, head, body = [memory[i][at : at + size] for i, at, size in self._places]
        _OPENING.descriptors = self._inside
        try:
            return loads(Pickled(body, head, apart, self._of_body))
        finally:
            _OPENING.descriptors = None
            for fd in self._inside:
                os.close(fd)
