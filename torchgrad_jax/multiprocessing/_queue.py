"""Queues and events between processes, without locks that a killed process could hold.

A message of a queue is one packet of a socket: it arrives whole or not at all, whichever processes write or read, and
the file descriptors of the memory that its arrays lie in go with it.
"""

from __future__ import annotations

import array
import collections
import contextlib
import os
import pickle
import queue
import select
import socket
import sys
import threading
import time
from multiprocessing import reduction
from typing import Any

import numpy as np

from ._carrying import Pickled, dumps, loads
from ._memory import _SENT, HEAD, Mapped, Pool, aligned

_INLINE = 1 << 15
"""Bytes of a message that are in the packet itself; more than these lie in memory that both sides map."""
_PACKET, _DESCRIPTORS = 1 << 17, 60
_KIND = socket.SOCK_SEQPACKET if sys.platform == "linux" else socket.SOCK_DGRAM


class Packet:
    """A message on its way: bytes, and descriptors of the segments that it refers to."""

    __slots__ = ("data", "segments")

    def __init__(self, pickled: Pickled, pool: Pool) -> None:
        """Put what is large into segments of the pool."""
        self.segments: list[Any] = []
        places: list[Any] = [None] * len(pickled.apart)
        copied: list[tuple[int, np.ndarray]] = []
        for i, raw in enumerate(pickled.apart):
            flat, there = np.frombuffer(raw, np.uint8), None
            if len(self.segments) < _DESCRIPTORS - 1:
                address = flat.ctypes.data
                there = pool.holding(address, pickled.lasting.get(address), flat.nbytes)
            if there is None:
                copied.append((i, flat))
            else:
                places[i] = len(self.segments), HEAD, flat.nbytes
                self._add(there)
        body: Any = pickled.body
        if len(body) + len(pickled.head) > _INLINE:
            copied += [(-1, np.frombuffer(body, np.uint8)), (-2, np.frombuffer(pickled.head, np.uint8))]
            places += [None, None]
        if copied:
            self._copy(copied, places, pool)
        moved = len(places) > len(pickled.apart)
        pickles = None if moved else (bytes(body), pickled.head)
        numbers = [s.number for s in self.segments]
        self.data = pickle.dumps((pickles, places, pickled.of_body, numbers), pickle.HIGHEST_PROTOCOL)
        if len(self.data) > _PACKET // 2:  # very many arrays
            raise _TooManyPieces

    def _copy(self, arrays: list[tuple[int, np.ndarray]], places: list[Any], pool: Pool) -> None:
        segment = pool.take(sum(aligned(a.nbytes) for _, a in arrays))
        at, number = HEAD, len(self.segments)
        for i, flat in arrays:
            segment.bytes[at : at + flat.nbytes] = flat
            places[i] = number, at, flat.nbytes
            at += aligned(flat.nbytes)
        self._add(segment)

    def _add(self, segment: Any) -> None:
        """Refer to a segment, which is not idle from now on."""
        segment.counters[_SENT] += 1
        self.segments.append(segment)


class _TooManyPieces(Exception):
    """The arrays of an object are so many that their places fill a packet."""


def _packet(obj: Any, pool: Pool) -> Packet:
    try:
        return Packet(dumps(obj), pool)
    except _TooManyPieces:
        return Packet(dumps(obj, worth=sys.maxsize), pool)


def _opened(data: bytes, descriptors: list[int], mapped: Mapped) -> Pickled:
    pickles, places, of_body, numbers = pickle.loads(data)
    segments = [mapped.open(fd, number) for fd, number in zip(descriptors, numbers)]
    arrays = [segments[i][at : at + size] for i, at, size in places]
    if pickles is None:
        *arrays, head, body = arrays
        pickles = body, head
    body, head = pickles
    return Pickled(body, head, arrays, of_body)


class Queue:
    """A queue for any number of processes at either end, with the methods of `multiprocessing.Queue`."""

    def __init__(self) -> None:
        reader, writer = socket.socketpair(socket.AF_UNIX, _KIND)
        if _KIND == socket.SOCK_DGRAM:  # whose packets are small by default
            writer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * _PACKET)
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * _PACKET)
        self._set_up(reader, writer)

    def _set_up(self, reader: socket.socket | None, writer: socket.socket | None) -> None:
        self._reader, self._writer = reader, writer
        self.pool, self._mapped = Pool(), Mapped()
        self._backlog: collections.deque[Packet] = collections.deque()
        self._lock = threading.Lock()
        self._feeder: threading.Thread | None = None

    def __reduce__(self) -> Any:
        ends = [None if s is None else reduction.DupFd(s.fileno()) for s in (self._reader, self._writer)]
        return _queue_here, tuple(ends)

    def fileno(self) -> int:
        """For `multiprocessing.connection.wait`: readable when there is a message."""
        assert self._reader is not None
        return self._reader.fileno()

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        """Send an object. Never waits: what the socket has no room for is sent by a thread."""
        if self._writer is None:
            raise ValueError(f"{type(self).__name__} {self!r} is closed for writing")
        packet = _packet(obj, self.pool)
        with self._lock:
            if not self._backlog and self._sent(packet):
                return
            self._backlog.append(packet)
            if self._feeder is None:
                self._feeder = threading.Thread(target=self._feed, daemon=True)
                self._feeder.start()

    put_nowait = put

    def _sent(self, packet: Packet) -> bool:
        assert self._writer is not None
        descriptors = array.array("i", [s.fd for s in packet.segments])
        more = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)] if descriptors else []
        try:
            self._writer.sendmsg([packet.data], more, socket.MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            if error.errno in _NO_ROOM:
                return False
            raise
        return True

    def _feed(self) -> None:
        while True:
            with self._lock:
                writer = self._writer
                if writer is None or not self._backlog:
                    self._feeder = None
                    return
                try:
                    if self._sent(self._backlog[0]):
                        self._backlog.popleft()
                        continue
                except OSError:  # nobody reads any more
                    self._backlog.clear()
                    continue
            _ready(writer.fileno(), select.POLLOUT, 0.05)
            time.sleep(0.001)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """The next object.

        Raises:
            queue.Empty: there was none in time.
            EOFError: all writers are gone.
        """
        return loads(self.receive(block, timeout))

    def get_nowait(self) -> Any:
        """The next object, if there is one."""
        return self.get(False)

    def receive(self, block: bool = True, timeout: float | None = None) -> Pickled:
        """The next object, for `loads`."""
        if self._reader is None:
            raise ValueError(f"{type(self).__name__} {self!r} is closed for reading")
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = 0.0 if not block else None if until is None else max(until - time.monotonic(), 0.0)
            if not _ready(self._reader.fileno(), select.POLLIN, left):
                raise queue.Empty
            try:
                data, descriptors, _, _ = socket.recv_fds(self._reader, _PACKET, _DESCRIPTORS, socket.MSG_DONTWAIT)
            except BlockingIOError:  # another reader was faster
                continue
            if not data:
                raise EOFError("all writers of the queue are gone")
            return _opened(data, descriptors, self._mapped)

    def empty(self) -> bool:
        """Return whether there is nothing to get at the moment."""
        return not _ready(self.fileno(), select.POLLIN, 0.0)

    def only_reads(self) -> None:
        """Give up the end for writing: the last writer's end is noticed then."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def only_writes(self) -> None:
        """Give up the end for reading: what is put when nobody reads any more raises then."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def close(self) -> None:
        """Give up both ends, after what was put has been sent."""
        self.join_thread()
        with self._lock:
            self.only_reads()
            self.only_writes()

    def join_thread(self) -> None:
        """Wait until what was put has been sent."""
        feeder = self._feeder
        if feeder is not None and not self._abandoned:
            feeder.join()

    _abandoned = False

    def __del__(self) -> None:
        for end in (self._reader, self._writer):
            if end is not None:
                end.close()

    def cancel_join_thread(self) -> None:
        """Do not wait in `close`."""
        self._abandoned = True


def _queue_here(reader: Any, writer: Any) -> Queue:
    self = Queue.__new__(Queue)
    self._set_up(*[None if end is None else socket.socket(fileno=end.detach()) for end in (reader, writer)])
    return self


_NO_ROOM = (55, 105, 109)
"""ENOBUFS of macOS and of Linux, and ETOOMANYREFS: too many descriptors are under way."""


def _ready(fd: int, event: int, timeout: float | None) -> bool:
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(None if timeout is None else int(timeout * 1000 + 0.999)))


class Event:
    """A flag that processes share, with the methods of `multiprocessing.Event`: a pipe with a byte in it, or none."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def __reduce__(self) -> Any:
        return _event_here, (reduction.DupFd(self._read), reduction.DupFd(self._write))

    def is_set(self) -> bool:
        """Return whether it is set."""
        return _ready(self._read, select.POLLIN, 0.0)

    def set(self) -> None:
        """Set it, for all processes."""
        if not self.is_set():
            with contextlib.suppress(BlockingIOError):
                os.write(self._write, b"1")

    def clear(self) -> None:
        """Take it back."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read, 1 << 12):
                pass

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set; whether it is."""
        return _ready(self._read, select.POLLIN, timeout)

    def __del__(self, close: Any = os.close) -> None:
        for name in ("_read", "_write"):
            if name in self.__dict__:
                close(self.__dict__.pop(name))


def _event_here(read: Any, write: Any) -> Event:
    self = Event.__new__(Event)
    self._read, self._write = read.detach(), write.detach()
    return self
