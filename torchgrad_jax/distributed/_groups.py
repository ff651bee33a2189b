"""Process groups: who is in them, and who asks."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from typing import Any, ClassVar

from . import _jax_processes, _wires
from ._exchange import Turn
from ._stores import HashStore, Store, seconds

default_pg_timeout = datetime.timedelta(minutes=30)
_NO_GROUP = "Default process group has not been initialized, please make sure to call init_process_group."


class Backend(str):
    """The name of a backend. Collectives go between memories of processes; with `xla`, JAX knows all processes, too."""

    UNDEFINED, GLOO, NCCL, XCCL = "undefined", "gloo", "nccl", "xccl"
    UCC, MPI, FAKE, XLA = "ucc", "mpi", "fake", "xla"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE, XLA]
    default_device_backend_map: ClassVar[dict[str, str]] = {"cpu": GLOO, "cuda": NCCL, "xpu": XCCL, "mps": GLOO}

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return str.__new__(cls, name.lower())


class ProcessGroup:
    """Processes that work together, as collectives see them.

    Args:
        wires: the connections of this process.
        members: the global ranks of the processes, in the order of their ranks here.
        backend: its name.
        name: of the group, the same in all processes.
        timeout: of its operations, in seconds.
        description: for people.
    """

    def __init__(
        self, wires: _wires.Wires, members: Sequence[int], backend: str, name: str, timeout: float, description: str
    ) -> None:
        self._wires, self._members, self._backend = wires, list(members), backend
        self.group_name, self.group_desc, self._timeout = name, description, timeout
        self._turns, self._compiled_turns = 0, 0
        self.store: Store = HashStore()

    def rank(self) -> int:
        """The number of this process in the group."""
        return self._members.index(self._wires.rank)

    def size(self) -> int:
        """Return how many processes there are."""
        return len(self._members)

    def name(self) -> str:
        """The name of its backend."""
        return self._backend

    def turn(self, what: str, key: str = "", timeout: Any = None, compiled: bool = False) -> Turn:
        """The next collective of the group, or of its compiled programs, or with a key, one message in it."""
        limit = self._timeout if timeout is None else seconds(timeout)
        if not key and compiled:
            self._compiled_turns += 1
            key = f"compiled {self._compiled_turns}"
        elif not key:
            self._turns += 1
            key = str(self._turns)
        return Turn(self._wires, self._members, self.group_name, f"{self.group_name}/{key}", what, limit)


class group:
    """The group of all processes."""

    WORLD: ProcessGroup | None = None


class GroupMember(group):
    """`group`, and what stands for a group that one is not in."""

    NON_GROUP_MEMBER = -100


_default = group

_groups: list[ProcessGroup] = []
_made = {"groups": 0, "worlds": 0}
_file: list[str | None] = [None]


def is_initialized() -> bool:
    """Return whether `init_process_group` has been called."""
    return group.WORLD is not None


def member_of(which: Any) -> ProcessGroup:
    """The group that is meant, the default one for None.

    Raises:
        ValueError: there is none, or this process is not in it.
    """
    found = group.WORLD if which is None else which
    if group.WORLD is None or found is None:
        raise ValueError(_NO_GROUP)
    if not any(found is g for g in _groups):
        raise ValueError("Invalid process group specified or Process Group has been destroyed.")
    return found


def outside(which: Any) -> bool:
    """Return whether a group is one that this process is not in."""
    return which is not None and isinstance(which, int) and which == GroupMember.NON_GROUP_MEMBER


def is_live(pg: ProcessGroup | None) -> bool:
    """Return whether a group has been made and not destroyed."""
    return any(pg is g for g in _groups)


def is_backend_available(backend: str) -> bool:
    """Return whether groups can have it: `gloo`, `xla`, and `nccl` where JAX runs on GPUs."""
    name = backend.lower()
    return name in (Backend.GLOO, Backend.XLA) or (name == Backend.NCCL and _jax_processes.has_gpus())


class _NoWires:
    """What the default group of a loader's worker has instead of connections."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(
            "torch.distributed: a worker of a DataLoader knows its rank and has no connection to other ranks; "
            "communicate in the program"
        )


def identity() -> tuple[int, int, str] | None:
    """The rank of this process in the default group, the size of that, and its backend; None where there is none."""
    world = group.WORLD
    return None if world is None else (world.rank(), world.size(), world.name())


def answer_as(rank: int, size: int, backend: str) -> None:
    """Let this process, which a rank has started, give the answers of that rank where code asks for its own."""
    wires: Any = _NoWires(rank)
    group.WORLD = ProcessGroup(wires, range(size), backend, "0", default_pg_timeout.total_seconds(), "default_pg")
    _groups.append(group.WORLD)


# --- asking ---------------------------------------------------------------------------------------


def get_rank(group: Any = None) -> int:
    """The number of this process in a group; -1 if it is not in it."""
    return -1 if outside(group) else member_of(group).rank()


def get_world_size(group: Any = None) -> int:
    """Return how many processes a group has; -1 if this one is not in it."""
    return -1 if outside(group) else member_of(group).size()


def get_backend(group: Any = None) -> str:
    """The backend of a group."""
    return Backend(member_of(group).name())


def get_backend_config(group: Any = None) -> str:
    """For each type of device the backend of a group, as "cpu:gloo,cuda:gloo"."""
    name = member_of(group).name()
    return name if ":" in name else ",".join(f"{kind}:{name}" for kind in ("cpu", "cuda"))


def get_process_group_ranks(group: Any) -> list[int]:
    """The processes of a group, by their global ranks."""
    return list(member_of(group)._members)


def get_group_rank(group: Any, global_rank: int) -> int:
    """The rank in the group of the process with a global rank."""
    members = member_of(group)._members
    if global_rank not in members:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return members.index(global_rank)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The global rank of the process with a rank in the group."""
    members = member_of(group)._members
    if not 0 <= group_rank < len(members):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return members[group_rank]


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
