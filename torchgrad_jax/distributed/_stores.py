"""Stores: values by key that several processes read, set and wait for.

    store = TCPStore("localhost", port, world_size=2, is_master=rank == 0)
    store.set("address of 0", "...")      # in one process
    store.get("address of 0")             # in the other, which waits for it

A `_Table` has the values and says how each request changes them. A `HashStore` asks a table in its own memory, a
`TCPStore` one in the memory of its master, and a `FileStore` one that every process builds from a file of requests.
"""

from __future__ import annotations

import datetime
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from . import _frames
from ._errors import DistNetworkError, DistStoreError

DEFAULT_TIMEOUT = datetime.timedelta(seconds=300)


def seconds(timeout: Any) -> float:
    """A timeout as a number: of a timedelta or of a number of seconds."""
    return timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else float(timeout)


def _bytes(value: Any) -> bytes:
    if isinstance(value, int):
        raise TypeError(f"a store keeps str and bytes, not {type(value).__name__}")
    return value.encode() if isinstance(value, str) else bytes(value)


class _Table:
    """Values by key. A request is a few fields of bytes, the first of which names it, and so is the answer."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.changed = threading.Condition()

    def ask(self, request: Sequence[bytes]) -> list[bytes]:
        """Answer a request; requests that wait for a key are woken if it changed."""
        name, fields = bytes(request[0]).decode(), [bytes(f) for f in request[1:]]
        if name == "wait":
            return self._wait(float(fields[0]), fields[1:])
        with self.changed:
            answer = _REQUESTS[name](self.values, *fields)
            if name in WRITING:
                self.changed.notify_all()
        return answer

    def _wait(self, timeout: float, keys: Sequence[bytes]) -> list[bytes]:
        with self.changed:
            self.changed.wait_for(lambda: all(k in self.values for k in keys), timeout)
            return [k for k in keys if k not in self.values]


def _get(values: dict[bytes, bytes], *keys: bytes) -> list[bytes]:
    return [values.get(k, b"") for k in keys]


def _set(values: dict[bytes, bytes], *pairs: bytes) -> list[bytes]:
    values.update(zip(pairs[::2], pairs[1::2]))
    return []


def _add(values: dict[bytes, bytes], key: bytes, amount: bytes) -> list[bytes]:
    values[key] = b"%d" % (int(values.get(key, b"0")) + int(amount))
    return [values[key]]


def _append(values: dict[bytes, bytes], key: bytes, value: bytes) -> list[bytes]:
    values[key] = values.get(key, b"") + value
    return []


def _compare_set(values: dict[bytes, bytes], key: bytes, expected: bytes, desired: bytes) -> list[bytes]:
    if values.get(key, b"") == expected:
        values[key] = desired
    return [values.get(key, expected)]


def _check(values: dict[bytes, bytes], *keys: bytes) -> list[bytes]:
    return [b"1" if all(k in values for k in keys) else b"0"]


def _delete(values: dict[bytes, bytes], key: bytes) -> list[bytes]:
    return [b"0" if values.pop(key, None) is None else b"1"]


_REQUESTS: dict[str, Callable[..., list[bytes]]] = {
    "get": _get,
    "set": _set,
    "add": _add,
    "append": _append,
    "compare_set": _compare_set,
    "check": _check,
    "delete": _delete,
    "count": lambda values: [b"%d" % len(values)],
    "keys": lambda values: list(values),
}
WRITING = frozenset({"set", "add", "append", "compare_set", "delete"})


class Store:
    """Values by key; what its kinds share. A subclass says how a request is answered."""

    def __init__(self) -> None:
        self._timeout = DEFAULT_TIMEOUT

    def _ask(self, name: str, *fields: Any) -> list[bytes]:
        raise NotImplementedError(f"{type(self).__name__} does not say how it is asked")

    def _key(self, key: str) -> bytes:
        return key.encode()

    def set(self, key: str, value: str | bytes) -> None:
        """Keep a value."""
        self._ask("set", self._key(key), _bytes(value))

    def get(self, key: str) -> bytes:
        """The value of a key, once there is one.

        Raises:
            DistStoreError: nobody has set it within the timeout.
        """
        return self.multi_get([key])[0]

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The values of keys, once all are there."""
        self.wait(keys)
        return [bytes(v) for v in self._ask("get", *map(self._key, keys))]

    def multi_set(self, keys: Sequence[str], values: Sequence[Any]) -> None:
        """Keep several values."""
        fields = [f for k, v in zip(keys, values) for f in (self._key(k), _bytes(v))]
        self._ask("set", *fields)

    def add(self, key: str, amount: int) -> int:
        """Add to a counter, which begins at 0, and return it."""
        return int(self._ask("add", self._key(key), b"%d" % amount)[0])

    def append(self, key: str, value: str | bytes) -> None:
        """Add to the end of a value."""
        self._ask("append", self._key(key), _bytes(value))

    def compare_set(self, key: str, expected_value: str, desired_value: str) -> bytes:
        """Set a key if it has the expected value, or none where that is empty; the value after it."""
        fields = self._key(key), _bytes(expected_value), _bytes(desired_value)
        return bytes(self._ask("compare_set", *fields)[0])

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether all keys have values."""
        return self._ask("check", *map(self._key, keys))[0] == b"1"

    def wait(self, keys: Sequence[str], timeout: Any = None) -> None:
        """Return when all keys have values.

        Raises:
            DistStoreError: some still have none after the timeout.
        """
        limit = seconds(self._timeout if timeout is None else timeout)
        wanted = list(map(self._key, keys))
        missing = self._ask("wait", str(limit).encode(), *wanted)
        if missing:
            asked, named = (", ".join(f"/{bytes(k).decode()}" for k in ks) for ks in (wanted, missing))
            raise DistStoreError(f"wait timeout after {int(limit * 1000)}ms, keys: {asked}\nNobody has set {named}")

    def barrier(self, key: str, world_size: int, timeout: Any = None) -> None:
        """Return when as many processes as `world_size` says have called this with the key.

        Raises:
            DistStoreError: some have not within the timeout.
        """
        if self.add(f"{key}/num_members", 1) == world_size:
            self.set(f"{key}/last_member", "<val_ignored>")
        self.wait([f"{key}/last_member"], timeout)

    def delete_key(self, key: str) -> bool:
        """Forget a key; whether it was there."""
        return self._ask("delete", self._key(key))[0] == b"1"

    def num_keys(self) -> int:
        """Return how many keys have values."""
        return int(self._ask("count")[0])

    def list_keys(self) -> list[str]:
        """The keys that have values."""
        return [bytes(k).decode() for k in self._ask("keys")]

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """Change how long `get` and `wait` wait."""
        self._timeout = timeout

    @property
    def timeout(self) -> datetime.timedelta:
        """How long `get` and `wait` wait."""
        return self._timeout

    def clone(self) -> Store:
        """A store with the same values; here it is this one, which threads may share."""
        return self

    def has_extended_api(self) -> bool:
        """True: `append`, `multi_get` and `multi_set` can be used."""
        return True


class HashStore(Store):
    """Values by key, in the memory of this process; its threads share it."""

    def __init__(self) -> None:
        super().__init__()
        self._table = _Table()

    def _ask(self, name: str, *fields: Any) -> list[bytes]:
        return self._table.ask([name.encode(), *fields])


class TCPStore(Store):
    """Values by key, in the memory of one process, the master, which others ask over the network.

    Args:
        host_name: the address of the master.
        port: where it listens; 0 is a free port, which `port` then tells.
        world_size: how many processes will use it.
        is_master: whether this process keeps the values.
        timeout: how long `get`, `wait` and the constructor wait.
        wait_for_workers: whether the constructor returns when `world_size` processes are there.
        multi_tenant: whether a second master of this process on the same port shares the first one's values.
        master_listen_fd: a socket that listens already.
        use_libuv: nothing here depends on it.
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: datetime.timedelta = DEFAULT_TIMEOUT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        self._timeout, self.host, self.port = timeout, host_name, port
        self._server = _server(port, multi_tenant, master_listen_fd) if is_master else None
        if self._server is not None:
            self.port = self._server.port
        self._local = threading.local()
        self._sockets: list[socket.socket] = []
        self._connection()
        if wait_for_workers and world_size and world_size > 0:
            self._meet(world_size)

    def _meet(self, world_size: int) -> None:
        self.add("init/", 1)
        if self._server is None:
            return
        there = self._server.count(b"init/", world_size, seconds(self._timeout))
        if there < world_size:
            raise DistStoreError(
                f"Timed out after {int(seconds(self._timeout))} seconds waiting for clients. "
                f"{there}/{world_size} clients joined."
            )

    def _connection(self) -> socket.socket:
        """Each thread asks over its own connection, since a request may wait."""
        found = getattr(self._local, "socket", None)
        if found is None:
            host = "127.0.0.1" if self._server is not None else self.host
            deadline = time.monotonic() + seconds(self._timeout)
            found = self._local.socket = _frames.connect(host, self.port, deadline)
            self._sockets.append(found)
        return found

    def __del__(self) -> None:
        for sock in self.__dict__.get("_sockets", ()):
            sock.close()

    def own_address(self) -> str:
        """The address of this machine that the others can reach."""
        if self._server is not None:
            return self.host
        return self._connection().getsockname()[0]

    def _ask(self, name: str, *fields: Any) -> list[bytes]:
        try:
            sock = self._connection()
            _frames.send(sock, [name.encode(), *fields])
            return list(map(bytes, _frames.receive(sock)))
        except OSError as e:
            self._local.socket = None
            raise DistNetworkError(
                f"the store at {self.host}:{self.port} does not answer ({e}); the process that keeps it, rank 0, "
                "has ended"
            ) from None


class _Server:
    """The master's side: one thread for each connection."""

    def __init__(self, port: int, fd: int | None) -> None:
        self._table = _Table()
        self._socket = socket.socket(fileno=fd) if fd is not None else _frames.listen(port=port)
        self.port = int(self._socket.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True, name="store").start()

    def count(self, key: bytes, goal: int, timeout: float) -> int:
        """Return what a counter has reached, once that is the goal, or after the timeout."""
        table = self._table
        with table.changed:
            table.changed.wait_for(lambda: int(table.values.get(key, b"0")) >= goal, timeout)
            return int(table.values.get(key, b"0"))

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._socket.accept()
            except OSError:
                return
            _frames.quick(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True, name="store").start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            while True:
                _frames.send(sock, self._table.ask(list(map(bytes, _frames.receive(sock)))))
        except (OSError, KeyError, ValueError):
            sock.close()


_SHARED: dict[int, _Server] = {}


def _server(port: int, shared: bool, fd: int | None) -> _Server:
    if not shared:
        return _Server(port, fd)
    if port not in _SHARED:
        _SHARED[port] = _Server(port, fd)
    return _SHARED[port]


class FileStore(Store):
    """Values by key, in a file that all processes can lock.

    Args:
        file_name: the file; it is made if it is not there.
        world_size: how many processes use it.
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self.path = file_name
        self._table, self._read = _Table(), 0
        self._lock = threading.Lock()
        with open(file_name, "ab"):
            pass

    def _ask(self, name: str, *fields: Any) -> list[bytes]:
        if name == "wait":
            return self._poll(float(fields[0]), fields[1:])
        with self._lock, open(self.path, "r+b") as file:
            _locked(file)
            self._catch_up(file)
            # A request that fails is not written.
            answer = self._table.ask([name.encode(), *fields])
            if name in WRITING:
                file.seek(0, os.SEEK_END)
                file.write(_packed([name.encode(), *fields]))
                self._read = file.tell()
            return answer

    def _poll(self, timeout: float, keys: Sequence[bytes]) -> list[bytes]:
        deadline, pause = time.monotonic() + timeout, 0.001
        while True:
            if self._ask("check", *keys)[0] == b"1":
                return []
            if time.monotonic() > deadline:
                return [k for k in keys if self._ask("check", k)[0] == b"0"]
            time.sleep(pause)
            pause = min(2 * pause, 0.05)

    def _catch_up(self, file: Any) -> None:
        """Repeat the requests that other processes have written since."""
        file.seek(self._read)
        rest = memoryview(file.read())
        while rest:
            fields, rest = _unpacked(rest)
            self._table.ask(fields)
        self._read = file.tell()


def _locked(file: Any) -> None:
    import fcntl

    fcntl.flock(file, fcntl.LOCK_EX)


def _packed(fields: Sequence[bytes]) -> bytes:
    return b"%d " % len(fields) + b"".join([b"%d " % len(f) + bytes(f) for f in fields])


def _unpacked(data: memoryview) -> tuple[list[bytes], memoryview]:
    count, data = _number(data)
    fields = []
    for _ in range(count):
        n, data = _number(data)
        fields.append(bytes(data[:n]))
        data = data[n:]
    return fields, data


def _number(data: memoryview) -> tuple[int, memoryview]:
    end = bytes(data[:24]).index(b" ")
    return int(bytes(data[:end])), data[end + 1 :]


class PrefixStore(Store):
    """A part of another store: its keys begin with a prefix there."""

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self.prefix, self.underlying_store = prefix, store
        self._timeout = store.timeout

    def _key(self, key: str) -> bytes:
        return self.underlying_store._key(f"{self.prefix}/{key}")

    def _ask(self, name: str, *fields: Any) -> list[bytes]:
        return self.underlying_store._ask(name, *fields)

    def own_address(self) -> str:
        """The address of this machine in the network of the store."""
        return own_address(self.underlying_store)


def own_address(store: Store) -> str:
    """The address at which processes that use a store reach this one."""
    ask = getattr(store, "own_address", None)
    return ask() if ask is not None else os.environ.get("TORCHGRAD_JAX_ADDRESS", "127.0.0.1")
