"""Messages on a socket: a few fields of bytes, each behind its length."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._errors import DistNetworkError

_COUNT = struct.Struct(">I")
_LENGTH = struct.Struct(">Q")
_JOINED = 1 << 16
"""Bytes; shorter messages are sent in one piece."""


def send(sock: socket.socket, fields: Sequence[Any]) -> None:
    """Send fields: bytes, or what has a buffer of bytes."""
    views = [memoryview(f).cast("B") if len(f) else b"" for f in fields]
    head = _COUNT.pack(len(views)) + b"".join([_LENGTH.pack(len(v)) for v in views])
    if sum(map(len, views)) < _JOINED:
        sock.sendall(head + b"".join(views))
        return
    sock.sendall(head)
    for view in views:
        sock.sendall(view)


def receive(sock: socket.socket) -> list[Any]:
    """The fields of the next message, as buffers of bytes.

    Raises:
        ConnectionError: the other side is gone.
    """
    (count,) = _COUNT.unpack(_exactly(sock, _COUNT.size))
    lengths = struct.unpack(f">{count}Q", _exactly(sock, 8 * count))
    return [_exactly(sock, n) for n in lengths]


def _exactly(sock: socket.socket, n: int) -> Any:
    # NumPy does not fill memory with zeros first.
    found: Any = bytearray(n) if n < _JOINED else np.empty(n, np.uint8)
    view, done = memoryview(found), 0
    while done < n:
        got = sock.recv_into(view[done:])
        if not got:
            raise ConnectionError("the connection was closed")
        done += got
    return found


def listen(port: int = 0) -> socket.socket:
    """A socket that waits for connections; port 0 is a free one."""
    try:
        return socket.create_server(("", port), backlog=512)
    except OSError as e:
        raise DistNetworkError(
            f"The server socket has failed to listen on any address, port {port}: {e.strerror or e}"
        ) from None


def connect(host: str, port: int, deadline: float) -> socket.socket:
    """A connection to somebody who may begin to listen later."""
    pause = 0.01
    while True:
        try:
            return _connected(host, port, max(deadline - time.monotonic(), 0.01))
        except OSError as e:
            if time.monotonic() + pause > deadline:
                raise DistNetworkError(
                    f"The client socket has timed out while trying to connect to ({host}, {port}): {e}"
                ) from None
        time.sleep(pause)
        pause = min(2 * pause, 0.5)


def _connected(host: str, port: int, timeout: float) -> socket.socket:
    sock = socket.create_connection((host, port), timeout)
    sock.settimeout(None)
    quick(sock)
    return sock


def quick(sock: socket.socket) -> None:
    """Small messages leave at once."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
