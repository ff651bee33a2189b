"""The launchers of several machines find each other, and hear when a process of another one fails.

They share a store, which one of them keeps: the first machine of a static meeting, or the one that the endpoint names.
The processes use the same store for `init_process_group`.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import socket
from typing import Any

from .._errors import DistNetworkError, DistStoreError
from .._stores import PrefixStore, TCPStore
from ._settings import Meeting


class Met:
    """A meeting that all machines have come to.

    Attributes:
        node: the number of this machine.
        sizes: how many processes each machine starts.
        address: where the store is.
        port: its port.
    """

    def __init__(self, asked: Meeting, processes: int) -> None:
        self.asked = asked
        self.store, self.keeper = _store(asked)
        self.port, self.address = self.store.port, asked.host
        if self.keeper and asked.local_addr is not None:
            self.address = asked.local_addr
        self._keys = PrefixStore(f"launch {asked.run_id}", self.store)
        self.node = asked.node_rank if asked.static else self._keys.add("joined", 1) - 1
        if self.node >= asked.nodes:
            raise RuntimeError(f"--nnodes={asked.nodes} machines have already joined {asked.run_id!r}")
        self._keys.set(f"node {self.node}", json.dumps(processes))
        self.sizes = [self._size(n) for n in range(asked.nodes)]
        self.address = json.loads(self._keys.get("address")) if not self.keeper else self._tell()

    def _tell(self) -> str:
        self._keys.set("address", json.dumps(self.address))
        return self.address

    def _size(self, node: int) -> int:
        try:
            return int(self._keys.get(f"node {node}"))
        except DistStoreError:
            raise DistStoreError(
                f"the launcher of node {node} of {self.asked.nodes} has not come to {self.asked.host}:{self.port} "
                f"within {self.asked.timeout:g} seconds"
            ) from None

    def tell_failure(self, attempt: int, said: str) -> None:
        """Let the other launchers know that processes here have failed."""
        if self.asked.nodes > 1:
            with contextlib.suppress(DistNetworkError):
                self._keys.compare_set(f"failed {attempt}", "", said)

    def failure(self, attempt: int) -> str | None:
        """How processes of another machine have failed, if they have."""
        key = f"failed {attempt}"
        if self.asked.nodes == 1:
            return None
        try:
            return self._keys.get(key).decode() if self._keys.check([key]) else None
        except DistNetworkError as e:
            return str(e)

    def all_done(self, attempt: int) -> bool:
        """Note that all processes here have ended well; whether those of all machines have."""
        if self.asked.nodes == 1:
            return True
        self._keys.set(f"done {attempt} {self.node}", b"1")
        return self._keys.check([f"done {attempt} {n}" for n in range(self.asked.nodes)])

    def leave(self, seconds: float = 10.0) -> None:
        """Leave; the keeper of the store stays until the others have left, or for a few seconds."""
        if self.asked.nodes == 1:
            return
        with contextlib.suppress(DistNetworkError, DistStoreError):
            self._keys.set(f"left {self.node}", b"1")
            if self.keeper:
                others = [f"left {n}" for n in range(self.asked.nodes)]
                self._keys.wait(others, datetime.timedelta(seconds=seconds))


def _store(asked: Meeting) -> tuple[TCPStore, bool]:
    """The store, and whether this process keeps it."""
    if asked.static:
        keeper = asked.node_rank == 0
        return _connect(asked, keeper), keeper
    if asked.is_host or (asked.is_host is None and _is_here(asked.host)):
        try:
            return _connect(asked, True), True
        except (OSError, DistNetworkError):  # another launcher of this machine was first
            if asked.is_host:
                raise
    return _connect(asked, False), False


def _connect(asked: Meeting, keeper: bool) -> TCPStore:
    limit = datetime.timedelta(seconds=asked.timeout)
    return TCPStore(asked.host, asked.port, None, keeper, limit, wait_for_workers=False)


def _is_here(host: str) -> bool:
    """Return whether a name or an address is one of this machine: one can listen there."""
    known: list[Any] = []
    with contextlib.suppress(OSError):
        known = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    for family, kind, *_, address in known:
        with contextlib.suppress(OSError), socket.socket(family, kind) as probe:
            probe.bind(address)
            return True
    return False
