"""Process groups of one process: what they are, how one begins, who asks for it.

Differs from torch: a group has one member. More processes are refused where they are asked for; on several
devices, JAX's sharding is the tool.
"""

from __future__ import annotations

import datetime
import os
import urllib.parse
from collections.abc import Sequence
from typing import Any

from ..futures import Future

default_pg_timeout = datetime.timedelta(minutes=30)
_ONE = (
    "torchgrad_jax has process groups of one process; to use several devices, shard arrays with JAX"
)
_NO_GROUP = (
    "Default process group has not been initialized, please make sure to call init_process_group."
)


class Backend(str):
    """The name of a backend, of which `gloo` can be used."""

    UNDEFINED, GLOO, NCCL, XCCL = "undefined", "gloo", "nccl", "xccl"
    UCC, MPI, FAKE = "ucc", "mpi", "fake"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return str.__new__(cls, name.lower())


class Store:
    """A name for annotations; `HashStore` can be made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"torch.distributed.{type(self).__name__}: {_ONE}")


class HashStore(Store):
    """Values by key, in the memory of this process."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}

    def set(self, key: str, value: str | bytes) -> None:
        """Keep a value."""
        self._values[key] = value.encode() if isinstance(value, str) else bytes(value)

    def get(self, key: str) -> bytes:
        """The value of a key.

        Raises:
            RuntimeError: there is none, and nobody else who could set it.
        """
        if key not in self._values:
            raise RuntimeError("wait timeout: no other process sets " + key)
        return self._values[key]

    def add(self, key: str, amount: int) -> int:
        """Add to a counter and return it."""
        self.set(key, str(int(self._values.get(key, b"0")) + amount))
        return int(self._values[key])

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys have values."""
        return all(key in self._values for key in keys)

    def wait(self, keys: Sequence[str], timeout: Any = None) -> None:
        """Return if all keys have values.

        Raises:
            RuntimeError: some do not, and nobody else could set them.
        """
        for key in keys:
            self.get(key)

    def delete_key(self, key: str) -> bool:
        """Forget a key; whether it was there."""
        return self._values.pop(key, None) is not None

    def num_keys(self) -> int:
        """How many keys have values."""
        return len(self._values)


class TCPStore(Store):
    """A store over the network: refused."""


class FileStore(Store):
    """A store in a file: refused."""


class PrefixStore(Store):
    """A part of another store: refused."""


class Work:
    """An operation among processes, which is over as soon as it is asked for."""

    def __init__(self, results: Sequence[Any]) -> None:
        self._results = list(results)

    def wait(self, timeout: Any = None) -> bool:
        """True."""
        return True

    def is_completed(self) -> bool:
        """True."""
        return True

    def is_success(self) -> bool:
        """True."""
        return True

    def exception(self) -> None:
        """None: what fails raises at once."""

    def result(self) -> list[Any]:
        """The tensors that were written to."""
        return self._results

    def get_future(self) -> Any:
        """A future that has its results."""
        future = Future()
        future.set_result(self._results)
        return future


class ProcessGroup:
    """A group that this process alone belongs to; `init_process_group` and `new_group` make them."""

    def __init__(self, backend: str = Backend.GLOO, description: str = "undefined") -> None:
        self._backend, self.group_desc = backend, description

    def rank(self) -> int:
        """0."""
        return 0

    def size(self) -> int:
        """1."""
        return 1

    def name(self) -> str:
        """The name of its backend."""
        return self._backend


class group:
    """The group of all processes."""

    WORLD: ProcessGroup | None = None


class GroupMember(group):
    """`group`, and what stands for a group that one is not in."""

    NON_GROUP_MEMBER = -100


_default = group

_groups: list[ProcessGroup] = []


def is_initialized() -> bool:
    """Whether `init_process_group` has been called."""
    return group.WORLD is not None


def member_of(which: Any) -> ProcessGroup:
    """The group that is meant, the default one for None.

    Raises:
        ValueError: there is none.
    """
    found = group.WORLD if which is None else which
    if group.WORLD is None or found is None:
        raise ValueError(_NO_GROUP)
    if found not in _groups:
        raise ValueError("Invalid process group specified or Process Group has been destroyed.")
    return found


# --- meeting --------------------------------------------------------------------------------------


def _from_environment(rank: int, world_size: int) -> tuple[int, int]:
    def asked(name: str) -> str:
        if name not in os.environ:
            raise ValueError(
                "Error initializing torch.distributed using env:// rendezvous: environment variable "
                f"{name} expected, but not set"
            )
        return os.environ[name]

    rank = int(asked("RANK")) if rank < 0 else rank
    world_size = int(asked("WORLD_SIZE")) if world_size < 0 else world_size
    asked("MASTER_ADDR"), asked("MASTER_PORT")
    return rank, world_size


def _from_url(method: str, rank: int, world_size: int) -> tuple[int, int]:
    url = urllib.parse.urlparse(method)
    if url.scheme == "env":
        return _from_environment(rank, world_size)
    if url.scheme not in ("tcp", "file"):
        raise RuntimeError(f"No rendezvous handler for {url.scheme}://")
    query = dict(urllib.parse.parse_qsl(url.query))
    found = {
        "rank": int(query["rank"]) if rank < 0 and "rank" in query else rank,
        "world size": int(query["world_size"])
        if world_size < 0 and "world_size" in query
        else world_size,
    }
    for name, value in found.items():
        if value < 0:
            raise ValueError(
                f"Error initializing torch.distributed using {url.scheme}:// rendezvous: {name} parameter missing"
            )
    return found["rank"], found["world size"]


def _backend(name: str | None) -> str:
    """The backend as `get_backend` tells it."""
    if name is None:
        return Backend.UNDEFINED
    for part in str(name).lower().split(","):
        kind = part.rpartition(":")[2]
        if kind not in Backend.backend_list or kind == Backend.UNDEFINED:
            raise AssertionError(f"Unknown backend type {kind}")
        if kind != Backend.GLOO:
            raise RuntimeError(f"Distributed package doesn't have {kind.upper()} built in")
    return str(name).lower()


def init_process_group(
    backend: str | None = None, init_method: str | None = None, timeout: Any = None, world_size: int = -1,
    rank: int = -1, store: Any = None, group_name: str = "", pg_options: Any = None, device_id: Any = None,
    _ranks: Any = None,
) -> None:  # fmt: skip
    """Begin the group of all processes, which is this one.

    Args:
        backend: `gloo`, or None.
        init_method: an address, of which the numbers are read.
        timeout: nobody is waited for.
        world_size: 1.
        rank: 0.
        store: instead of an address, nothing is put into it.
        group_name: deprecated in torch.
        pg_options: nothing here reads it.
        device_id: nothing here reads it.

    Differs from torch: there can be one process.

    Raises:
        NotImplementedError: more than one process is wanted.
        ValueError: the group is there already, or its size or the rank is not said.
    """
    if group.WORLD is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    name = _backend(backend)
    if store is None:
        rank, world_size = _from_url(init_method or "env://", rank, world_size)
    elif world_size <= 0 or rank < 0:
        raise AssertionError(
            f"{'world_size must be positive' if world_size <= 0 else 'rank must be non-negative'} if using store"
        )
    if world_size != 1:
        raise NotImplementedError(
            f"torch.distributed.init_process_group: world_size={world_size}; {_ONE}"
        )
    if rank != 0:
        raise RuntimeError(f"rank < size. {rank} vs {world_size}")
    group.WORLD = ProcessGroup(name, "default_pg")
    _groups.append(group.WORLD)


def destroy_process_group(group: Any = None) -> None:
    """End a group, or all of them.

    Raises:
        AssertionError: no group is given and there is none.
    """
    found: Any = _default.WORLD if group is None else group
    if found is None:
        raise AssertionError("Process group cannot be None")
    if found is _default.WORLD:
        _default.WORLD = None
        _groups.clear()
    else:
        member_of(found)
        _groups.remove(found)


def new_group(
    ranks: Sequence[int] | None = None, timeout: Any = None, backend: str | None = None, pg_options: Any = None,
    use_local_synchronization: bool = False, group_desc: str | None = None, device_id: Any = None,
    sort_ranks: bool = True,
) -> ProcessGroup:  # fmt: skip
    """One more group of this process.

    Args:
        ranks: None or [0].
        timeout: nobody is waited for.
        backend: `gloo`, or None for that of the default group.
        pg_options: nothing here reads it.
        use_local_synchronization: there is nobody to synchronize with.
        group_desc: a description.
        device_id: nothing here reads it.
        sort_ranks: there is nothing to sort.

    Raises:
        ValueError: there are other ranks among them.
    """
    world = member_of(None)
    if ranks is not None:
        if len(ranks) > 1:
            raise ValueError(
                "the new group's world size should be less or equal to the world size set by init_process_group"
            )
        for rank in ranks:
            if rank != 0:
                raise ValueError(
                    f"Rank {rank} is out of range. Valid ranks are 0 to 0 (world_size=1)"
                )
    made = ProcessGroup(
        world.name() if backend is None else _backend(backend), group_desc or "undefined"
    )
    _groups.append(made)
    return made


# --- asking ---------------------------------------------------------------------------------------


def get_rank(group: Any = None) -> int:
    """0, the rank of the one process."""
    return member_of(group).rank()


def get_world_size(group: Any = None) -> int:
    """1, how many processes there are."""
    return member_of(group).size()


def get_backend(group: Any = None) -> str:
    """The backend of a group."""
    return Backend(member_of(group).name())


def get_process_group_ranks(group: Any) -> list[int]:
    """[0], the processes of a group."""
    member_of(group)
    return [0]


def get_group_rank(group: Any, global_rank: int) -> int:
    """0, the rank in the group of the one process."""
    return _only(group, "Global rank", global_rank)


def get_global_rank(group: Any, group_rank: int) -> int:
    """0, the rank of the one process in the group."""
    return _only(group, "Group rank", group_rank)


def _only(group: Any, asked: str, rank: int) -> int:
    member_of(group)
    if rank != 0:
        raise ValueError(f"{asked} {rank} is not part of group {group}")
    return 0


def get_default_backend_for_device(device: Any) -> str:
    """The backend that torch takes for a device: `gloo` for the CPU, `nccl` for a GPU."""
    kind = str(getattr(device, "type", device)).partition(":")[0]
    found = {"cpu": Backend.GLOO, "cuda": Backend.NCCL, "xpu": Backend.XCCL}.get(kind)
    if found is None:
        raise ValueError(f"Default backend not registered for device : {device}")
    return found


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The rank on this machine, by the environment."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to "
        "work, assuming you are not running in a multi-device context and want the code to run locally instead."
    )
