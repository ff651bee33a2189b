"""Connections between processes, and the messages that arrived on them.

    wires.send(2, b"sums/7", b"", array)         # to rank 2
    wires.take([2], b"sums/7", deadline)         # there: waits for it

A thread for each peer reads messages into boxes by sender and key, so that a sender is never held up by a receiver
that does something else. When a peer's connection ends, threads that wait for it are told at once.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from . import _frames
from ._errors import DistBackendError, DistStoreError
from ._stores import Store, own_address


class Message(NamedTuple):
    """What arrived: who sent it, what it says about itself, and its bytes."""

    source: int
    note: bytes
    body: Any


class Late(Exception):
    """Nobody of those waited for has sent anything by the deadline."""


class Gone(Exception):
    """Who is waited for has closed its connection."""

    def __init__(self, rank: int) -> None:
        super().__init__(rank)
        self.rank = rank


class Wires:
    """The connections of this process to all others.

    Args:
        store: where the processes find each other's addresses.
        rank: the number of this one.
        size: how many there are.
        timeout: seconds until a process that is not there is an error.
    """

    def __init__(self, store: Store, rank: int, size: int, timeout: float) -> None:
        self.rank, self.size = rank, size
        self._boxes: dict[tuple[int, bytes], deque[Message]] = {}
        self._arrived = threading.Condition()
        self._gone: set[int] = set()
        self._sockets: dict[int, socket.socket] = {}
        self._sending: dict[int, Any] = {r: threading.Lock() for r in range(size)}
        if size > 1:
            try:
                self._meet(store, time.monotonic() + timeout, timeout)
            except BaseException:
                self.close()
                raise

    # --- meeting ----------------------------------------------------------------------------------

    def _meet(self, store: Store, deadline: float, timeout: float) -> None:
        """Connect to all lower ranks, and wait for the higher ones to connect."""
        token = secrets.token_hex(16)
        with _frames.listen() as listener:
            port = listener.getsockname()[1]
            store.set(f"address/{self.rank}", f"{own_address(store)} {port} {token}")
            for other in range(self.rank):
                self._call(store, other, deadline, timeout)
            while len(self._sockets) < self.size - 1:
                self._accept(listener, token, deadline, timeout)
        for other, sock in self._sockets.items():
            threading.Thread(target=self._read, args=(other, sock), daemon=True).start()

    def _call(self, store: Store, other: int, deadline: float, timeout: float) -> None:
        try:
            store.wait([f"address/{other}"], max(deadline - time.monotonic(), 0.01))
        except DistStoreError:
            raise self._absent(store, timeout) from None
        host, port, token = store.get(f"address/{other}").decode().split(" ")
        sock = _frames.connect(host, int(port), deadline)
        _frames.send(sock, [str(self.rank).encode(), token.encode()])
        self._sockets[other] = sock

    def _accept(self, listener: Any, token: str, deadline: float, timeout: float) -> None:
        listener.settimeout(max(deadline - time.monotonic(), 0.01))
        try:
            sock, _ = listener.accept()
        except TimeoutError:
            raise self._absent(None, timeout) from None
        sock.settimeout(5)
        with contextlib.suppress(OSError, ValueError):
            rank, said = _frames.receive(sock)
            if hmac.compare_digest(bytes(said), token.encode()):
                sock.settimeout(None)
                _frames.quick(sock)
                self._sockets[int(rank)] = sock
                return
        sock.close()

    def _absent(self, store: Store | None, timeout: float) -> DistBackendError:
        missing = [r for r in range(self.size) if r != self.rank and r not in self._sockets]
        if store is not None:
            missing = [r for r in missing if not store.check([f"address/{r}"])]
        return DistBackendError(
            f"init_process_group: {ranks(missing)} of {self.size} did not arrive within {timeout:g} seconds; this is "
            f"rank {self.rank}. It may not have been started, have raised before, or have another address"
        )

    # --- messages ---------------------------------------------------------------------------------

    def _read(self, other: int, sock: socket.socket) -> None:
        """What the thread of a peer does."""
        try:
            while True:
                key, note, body = _frames.receive(sock)
                self._put(bytes(key), Message(other, bytes(note), body))
        except (OSError, ValueError):
            with self._arrived:
                self._gone.add(other)
                self._arrived.notify_all()

    def _put(self, key: bytes, message: Message) -> None:
        with self._arrived:
            self._boxes.setdefault((message.source, key), deque()).append(message)
            self._arrived.notify_all()

    def send(self, rank: int, key: bytes, note: bytes, body: Any) -> None:
        """Send a message; it is kept there until somebody takes it.

        Raises:
            Gone: the other process has ended.
        """
        if rank == self.rank:
            self._put(key, Message(rank, note, bytearray(body)))
            return
        try:
            with self._sending[rank]:
                _frames.send(self._sockets[rank], [key, note, body])
        except (OSError, KeyError):
            raise Gone(rank) from None

    def take(self, sources: Sequence[int], key: bytes, deadline: float) -> Message:
        """The next message with a key from one of some processes.

        Raises:
            Late: there is none by the deadline.
            Gone: none can come any more.
        """
        with self._arrived:
            while True:
                found = self.peek(sources, key)
                if found is not None:
                    return self._taken(found, key)
                lost = self._gone.intersection(sources)
                if len(lost) == len(sources):
                    raise Gone(min(lost))
                left = deadline - time.monotonic()
                if left <= 0 or not self._arrived.wait(min(left, threading.TIMEOUT_MAX)):
                    raise Late

    def peek(self, sources: Sequence[int], key: bytes) -> int | None:
        """Who of some processes has sent a message with a key that nobody has taken."""
        return next((s for s in sources if (s, key) in self._boxes), None)

    def _taken(self, source: int, key: bytes) -> Message:
        box = self._boxes[source, key]
        message = box.popleft()
        if not box:
            del self._boxes[source, key]
        return message

    def close(self) -> None:
        """End all connections."""
        for sock in self._sockets.values():
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        self._sockets.clear()


def ranks(numbers: Sequence[int]) -> str:
    """Ranks as a sentence names them."""
    return f"rank{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"
