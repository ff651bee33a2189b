"""How processes find each other: by the environment, an address, a file, or a store that they have."""

from __future__ import annotations

import contextlib
import datetime
import os
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

from ._stores import FileStore, PrefixStore, Store, TCPStore

Met = tuple[Store, int, int]
_HANDLERS: dict[str, Callable[..., Iterator[Met]]] = {}

_SCHEDULERS = {
    "RANK": ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"),
    "WORLD_SIZE": ("SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"),
}
"""What other launchers call these; they count where torchrun's own names are absent and `MASTER_ADDR` is there."""


def _asked(name: str) -> str:
    for known in (name, *_SCHEDULERS.get(name, ())):
        if known in os.environ and (known == name or "MASTER_ADDR" in os.environ):
            return os.environ[known]
    raise ValueError(
        "Error initializing torch.distributed using env:// rendezvous: environment variable "
        f"{name} expected, but not set"
    )


def place() -> tuple[int, int]:
    """The rank and the world size that the environment says, if it also says where the processes meet.

    Raises:
        ValueError: something is not said.
    """
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        _asked(name)
    return int(_asked("RANK")), int(_asked("WORLD_SIZE"))


def _by_environment(url: Any, rank: int, world_size: int, timeout: datetime.timedelta) -> Iterator[Met]:
    rank = int(_asked("RANK")) if rank < 0 else rank
    world_size = int(_asked("WORLD_SIZE")) if world_size < 0 else world_size
    host, port = _asked("MASTER_ADDR"), int(_asked("MASTER_PORT"))
    _check(rank, world_size)
    if world_size == 1 and port == 0:
        yield _store("localhost", 0, 0, 1, timeout)
        return
    hosted = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store = TCPStore(host, port, None, rank == 0 and not hosted, timeout, wait_for_workers=False, multi_tenant=True)
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    yield PrefixStore(f"attempt {attempt}", store), rank, world_size


def _store(host: str, port: int, rank: int, world_size: int, timeout: datetime.timedelta) -> Met:
    kept = TCPStore(host, port, None, rank == 0, timeout, wait_for_workers=False, multi_tenant=True)
    return kept, rank, world_size


def _numbers(url: Any, rank: int, world_size: int) -> tuple[int, int]:
    query = dict(urllib.parse.parse_qsl(url.query))
    rank = int(query.get("rank", rank)) if rank < 0 else rank
    world_size = int(query.get("world_size", world_size)) if world_size < 0 else world_size
    for name, value in (("rank", rank), ("world size", world_size)):
        if value < 0:
            raise ValueError(
                f"Error initializing torch.distributed using {url.scheme}:// rendezvous: {name} parameter missing"
            )
    _check(rank, world_size)
    return rank, world_size


def _check(rank: int, world_size: int) -> None:
    if rank >= world_size:
        raise RuntimeError(f"rank < size. {rank} vs {world_size}")


def _by_address(url: Any, rank: int, world_size: int, timeout: datetime.timedelta) -> Iterator[Met]:
    rank, world_size = _numbers(url, rank, world_size)
    if not url.port and world_size > 1:
        raise ValueError("Error initializing torch.distributed using tcp:// rendezvous: port number missing")
    yield _store(url.hostname or "localhost", url.port or 0, rank, world_size, timeout)


def _by_file(url: Any, rank: int, world_size: int, timeout: datetime.timedelta) -> Iterator[Met]:
    rank, world_size = _numbers(url, rank, world_size)
    if not url.path:
        raise ValueError("Error initializing torch.distributed using file:// rendezvous: path missing")
    yield FileStore(urllib.parse.unquote(url.path), world_size), rank, world_size


_HANDLERS.update(env=_by_environment, tcp=_by_address, file=_by_file)


def register_rendezvous_handler(scheme: str, handler: Callable[..., Iterator[Met]]) -> None:
    """Let `init_method` addresses of a new scheme be answered by a function."""
    if scheme in _HANDLERS:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _HANDLERS[scheme] = lambda url, rank, world_size, timeout: handler(
        urllib.parse.urlunparse(url), rank=rank, world_size=world_size, timeout=timeout
    )


def rendezvous(url: str, rank: int = -1, world_size: int = -1, timeout: Any = None, **kwargs: Any) -> Iterator[Met]:
    """Find the other processes.

    Args:
        url: `env://`, `tcp://host:port` or `file:///path`, with `?rank=0&world_size=2` if they are not given.
        rank: the number of this process.
        world_size: how many there are.
        timeout: how long to wait for the store.
        kwargs: for handlers of other schemes.

    Returns:
        An iterator over a store, the rank and the world size.
    """
    parsed = urllib.parse.urlparse(url)
    if parsed.scheme not in _HANDLERS:
        raise RuntimeError(f"No rendezvous handler for {parsed.scheme}://")
    timeout = datetime.timedelta(seconds=300) if timeout is None else timeout
    return _HANDLERS[parsed.scheme](parsed, rank, world_size, timeout)


def forget(path: str | None) -> None:
    """Remove the file of a file store, so that the next run may use its name."""
    if path is not None:
        with contextlib.suppress(OSError):
            os.remove(path)
