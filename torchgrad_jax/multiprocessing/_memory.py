"""Memory that several processes map, and that has no name: it is gone with the last process that maps it.

A worker of a loader writes a batch into a segment of its pool and sends the segment's file descriptor. The program
maps the segment and makes its tensors on it without a copy. When the last of these is gone, the program counts so in
the segment's head, and the worker uses the segment for another batch once it came back as often as it was sent.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import weakref
from typing import Any

import numpy as np

HEAD = 64
"""Bytes before the first one that holds data: three counters, and room so that data is aligned."""
_SENT, _BACK, _ONCE = range(3)
"""Counters: how often it was sent, how often it came back, whether the receiver has to copy what is in it."""
_MOST = 32
"""Segments of a pool. A program that keeps more batches than these gets the others as copies of its own."""
_REMEMBERED = 2
"""Arrays that a pool does not copy when they are sent once more."""


def aligned(n: int) -> int:
    """The next multiple of 64: XLA takes arrays that begin at one as they are."""
    return -(-n // 64) * 64


def anonymous(size: int) -> int:
    """A file descriptor for new memory."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("torchgrad_jax", os.MFD_CLOEXEC)
    else:
        fd = _unlinked()
    try:
        os.ftruncate(fd, size)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _unlinked() -> int:
    import _posixshmem  # the module behind multiprocessing.shared_memory

    name = f"/tg_{os.getpid()}_{os.urandom(4).hex()}"
    fd = _posixshmem.shm_open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode=0o600)
    _posixshmem.shm_unlink(name)
    return fd


class Segment:
    """Memory of this process's own making, for others to map."""

    __slots__ = ("__weakref__", "_memory", "bytes", "counters", "fd", "held", "number", "size")

    def __init__(self, size: int) -> None:
        self.fd = -1
        self.size = max(size, HEAD)
        self.fd = anonymous(self.size)
        self._memory = mmap.mmap(self.fd, self.size)
        self.bytes = np.frombuffer(self._memory, np.uint8)
        self.counters = self.bytes[: 3 * 4].view(np.uint32)
        self.held = 0
        """How many arrays of this process lie here."""
        self.number = int.from_bytes(os.urandom(8), "little")
        """Which segment it is, for those that map it."""

    def is_idle(self) -> bool:
        """Return whether nobody needs what is in it."""
        return not self.held and self.counters[_SENT] == self.counters[_BACK]

    def __del__(self, close: Any = os.close) -> None:  # `os` is gone when a program ends
        if self.fd >= 0:
            close(self.fd)


class Held:
    """Bytes of a segment that an array is on; the segment is not used again while there is one."""

    __slots__ = ("__array_interface__", "__weakref__", "_leave")

    def __init__(self, memory: Any, address: int, size: int, leave: Any) -> None:
        self._leave = memory, leave
        self.__array_interface__ = {"data": (address, False), "shape": (size,), "typestr": "|u1", "version": 3}

    def __del__(self) -> None:
        memory, leave = self._leave
        leave(memory)


class Pool:
    """The segments that a process sends data in."""

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._waiting: dict[int, Segment] = {}
        """By address, those that an array was made on which was not sent yet."""
        self._lasting: dict[int, tuple[Any, Segment]] = {}
        """By address, arrays that nobody writes to and that were sent of late, and what they were sent in."""

    def take(self, size: int) -> Segment:
        """A segment with room for so many bytes after its head."""
        size += HEAD
        fitting = [s for s in self._segments if size <= s.size <= 2 * size + (1 << 20) and s.is_idle()]
        if fitting:
            return min(fitting, key=lambda s: s.size)
        new = Segment(-(-size // 65536) * 65536)
        self._keep(new)
        return new

    def _keep(self, new: Segment) -> None:
        if len(self._segments) >= _MOST:
            idle = [s for s in self._segments if s.is_idle()]
            if not idle:
                new.counters[_ONCE] = 1
                return
            self._segments.remove(idle[0])
        self._segments.append(new)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An array that need not be copied to be sent."""
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        segment = self.take(size)
        segment.held += 1
        address = segment.bytes.ctypes.data + HEAD
        self._waiting[address] = segment
        held = Held(segment, address, size, self._given_up)
        return np.asarray(held).view(dtype).reshape(shape)

    def _given_up(self, segment: Segment, head: int = HEAD) -> None:
        segment.held -= 1
        self._waiting.pop(segment.bytes.ctypes.data + head, None)

    def holding(self, address: int, owner: Any, size: int) -> Segment | None:
        """The segment that an array lies in, right after the head; None for one that is to be copied with others.

        Args:
            address: where the array begins.
            owner: what its memory belongs to, if nobody writes to it; such an array is copied once, if at all.
            size: its bytes.
        """
        found = self._waiting.pop(address, None)
        if found is not None or owner is None:
            return found
        known = self._lasting.pop(address, None)
        if known is None or known[0]() is not owner:
            self._forget(known)
            segment = self.take(size)
            segment.bytes[HEAD : HEAD + size] = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
            segment.held += 1
            known = weakref.ref(owner), segment
        self._lasting[address] = known
        if len(self._lasting) > _REMEMBERED:
            self._forget(self._lasting.pop(next(iter(self._lasting))))
        return known[1]

    @staticmethod
    def _forget(known: tuple[Any, Segment] | None) -> None:
        if known is not None:
            known[1].held -= 1


class Mapped:
    """Segments of other processes, as they come in."""

    def __init__(self) -> None:
        self._maps: dict[int, mmap.mmap] = {}

    def open(self, fd: int, number: int) -> np.ndarray:
        """All bytes of a segment; its owner gets it back when the last array on it is gone. Closes `fd`."""
        try:
            memory = self._maps.get(number)
            if memory is None:
                memory = mmap.mmap(fd, 0)
        finally:
            os.close(fd)
        counters = np.frombuffer(memory, np.uint32, 3)
        if counters[_ONCE]:
            return np.frombuffer(memory, np.uint8).copy()
        if len(self._maps) >= 16 * _MOST:
            self._maps.clear()  # whatever is in use stays mapped
        self._maps[number] = memory
        return np.asarray(Held(counters, _address(memory), len(memory), _give_back))


def _address(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _give_back(counters: Any, back: int = _BACK) -> None:
    counters[back] += 1


def private(fd: int) -> Any:
    """The bytes of a segment; what this process writes to them, no other sees. Closes `fd`."""
    try:
        return np.frombuffer(mmap.mmap(fd, 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE), np.uint8)
    finally:
        os.close(fd)


POSSIBLE = sys.platform != "win32"
"""Whether the system hands file descriptors from one process to another."""
