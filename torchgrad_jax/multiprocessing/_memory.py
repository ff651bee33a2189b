"""Memory that several processes map, and that has no name: it is gone with the last process that maps it.

A worker of a loader writes a batch into a segment of its pool and sends the segment's file descriptor. The program
maps the segment and makes its tensors on it without a copy. When the last of these is gone, the program writes FREE
into the segment's first byte, and the worker uses it for another batch.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from typing import Any

import numpy as np

HEAD = 64
"""Bytes before the first one that holds data: the state of the segment, and room so that data is aligned."""
_FREE, _TAKEN, _ONCE = 0, 1, 2
_MOST = 32
"""Segments of a pool. A program that keeps more batches than these gets the others as copies of its own."""


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

    __slots__ = ("__weakref__", "_memory", "bytes", "fd", "held", "size")

    def __init__(self, size: int) -> None:
        self.fd = -1
        self.fd = anonymous(size)
        self.size = size
        self._memory = mmap.mmap(self.fd, size)
        self.bytes = np.frombuffer(self._memory, np.uint8)
        self.held = False
        """Whether an array of this process lies here."""

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

    def take(self, size: int) -> Segment:
        """A segment with room for so many bytes after its head."""
        size += HEAD
        fitting = [
            s for s in self._segments if not s.held and s.bytes[0] == _FREE and size <= s.size <= 2 * size + (1 << 20)
        ]
        if fitting:
            found = min(fitting, key=lambda s: s.size)
        else:
            found = Segment(-(-size // 65536) * 65536)
            self._keep(found)
        if found.bytes[0] == _FREE:
            found.bytes[0] = _TAKEN
        return found

    def _keep(self, new: Segment) -> None:
        if len(self._segments) >= _MOST:
            idle = [s for s in self._segments if not s.held and s.bytes[0] == _FREE]
            if not idle:
                new.bytes[0] = _ONCE
                return
            self._segments.remove(idle[0])
        self._segments.append(new)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An array that need not be copied to be sent."""
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        segment = self.take(size)
        segment.held = True
        address = segment.bytes.ctypes.data + HEAD
        self._waiting[address] = segment
        held = Held(segment, address, size, self._given_up)
        return np.asarray(held).view(dtype).reshape(shape)

    def _given_up(self, segment: Segment, head: int = HEAD, taken: int = _TAKEN, free: int = _FREE) -> None:
        segment.held = False
        never_sent = self._waiting.pop(segment.bytes.ctypes.data + head, None) is not None
        if never_sent and segment.bytes[0] == taken:
            segment.bytes[0] = free

    def sent(self, address: int) -> Segment | None:
        """The segment that an array lies in from its beginning, which is now the receiver's; None for other arrays."""
        return self._waiting.pop(address, None)


class Mapped:
    """Segments of other processes, as they come in."""

    def __init__(self) -> None:
        self._maps: dict[int, mmap.mmap] = {}

    def open(self, fd: int) -> np.ndarray:
        """All bytes of a segment; its owner gets it back when the last array on it is gone. Closes `fd`."""
        try:
            number = os.fstat(fd).st_ino
            memory = self._maps.get(number)
            if memory is None:
                memory = mmap.mmap(fd, 0)
        finally:
            os.close(fd)
        if memory[0] == _ONCE:
            return np.frombuffer(memory, np.uint8).copy()
        if len(self._maps) >= 16 * _MOST:
            self._maps.clear()  # whatever is in use stays mapped
        self._maps[number] = memory
        return np.asarray(Held(memory, _address(memory), len(memory), _free))


def _address(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _free(memory: Any, state: int = _FREE) -> None:  # names of modules are gone when a program ends
    memory[0] = state


def private(fd: int) -> np.ndarray:
    """The bytes of a segment; what this process writes to them, no other sees. Closes `fd`."""
    try:
        return np.frombuffer(mmap.mmap(fd, 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE), np.uint8)
    finally:
        os.close(fd)


POSSIBLE = sys.platform != "win32"
"""Whether the system hands file descriptors from one process to another."""
