"""Process groups: how they begin, who is in them, and who asks."""

from __future__ import annotations

import atexit
import datetime
import os
from collections.abc import Sequence
from typing import Any

from . import _jax_processes, _rendezvous, _wires
from ._exchange import Turn
from ._stores import HashStore, PrefixStore, Store, seconds

default_pg_timeout = datetime.timedelta(minutes=30)
_NO_GROUP = (
    "Default process group has not been initialized, please make sure to call init_process_group."
)


class Backend(str):
    """The name of a backend. Collectives go between memories of processes; with `xla`, JAX knows all processes, too."""

    UNDEFINED, GLOO, NCCL, XCCL = "undefined", "gloo", "nccl", "xccl"
    UCC, MPI, FAKE, XLA = "ucc", "mpi", "fake", "xla"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE, XLA]

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return str.__new__(cls, name.lower())


class ProcessGroup:
    """Processes that work together; `init_process_group` and `new_group` make them.

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
    ) -> None:  # fmt: skip
        self._wires, self._members, self._backend = wires, list(members), backend
        self.group_name, self.group_desc, self._timeout = name, description, timeout
        self._turns, self._compiled_turns = 0, 0
        self.store: Store = HashStore()

    def rank(self) -> int:
        """The number of this process in the group."""
        return self._members.index(self._wires.rank)

    def size(self) -> int:
        """How many processes there are."""
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
        return Turn(self._wires, self._members, self.group_name, f"{self.group_name}/{key}", what, limit)  # fmt: skip


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
    """Whether `init_process_group` has been called."""
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
    """Whether a group is one that this process is not in."""
    return which is not None and isinstance(which, int) and which == GroupMember.NON_GROUP_MEMBER


# --- beginning and ending -------------------------------------------------------------------------


def _backend(name: str | None) -> str:
    """The backend as `get_backend` tells it."""
    if name is None:
        return Backend.UNDEFINED
    for part in str(name).lower().split(","):
        kind = part.rpartition(":")[2]
        if kind not in Backend.backend_list or kind == Backend.UNDEFINED:
            raise AssertionError(f"Unknown backend type {kind}")
        if not is_backend_available(kind):
            raise RuntimeError(f"Distributed package doesn't have {kind.upper()} built in")
    return str(name).lower()


def is_backend_available(backend: str) -> bool:
    """Whether groups can have it: `gloo`, `xla`, and `nccl` where JAX runs on GPUs."""
    name = backend.lower()
    return name in (Backend.GLOO, Backend.XLA) or (
        name == Backend.NCCL and _jax_processes.has_gpus()
    )


def init_process_group(
    backend: str | None = None, init_method: str | None = None, timeout: Any = None, world_size: int = -1,
    rank: int = -1, store: Any = None, group_name: str = "", pg_options: Any = None, device_id: Any = None,
    _ranks: Any = None,
) -> None:  # fmt: skip
    """Begin the group of all processes.

    Args:
        backend: `gloo` or None, or `xla`, which lets meshes of devices span the processes, as `nccl` does on GPUs.
        init_method: `env://` (which None means), `tcp://host:port` or `file:///path`.
        timeout: how long processes wait for each other, here and in every operation; 30 minutes if it is not given.
        world_size: how many processes there are.
        rank: the number of this one.
        store: instead of an address.
        group_name: deprecated in torch.
        pg_options: nothing here reads it.
        device_id: nothing here reads it.

    Raises:
        ValueError: the group is there already, or its size or the rank is not said.
        DistBackendError: a process did not arrive in time; the message names it.
    """
    if group.WORLD is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    name = _backend(backend)
    timeout = default_pg_timeout if timeout is None else timeout
    if not isinstance(timeout, datetime.timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")  # fmt: skip
    if store is None:
        met = _rendezvous.rendezvous(init_method or "env://", rank, world_size, timeout)
        store, rank, world_size = next(iter(met))
    elif world_size <= 0 or rank < 0:
        raise AssertionError(
            f"{'world_size must be positive' if world_size <= 0 else 'rank must be non-negative'} if using store"
        )
    if rank >= world_size:
        raise RuntimeError(f"rank < size. {rank} vs {world_size}")
    _begin(store, rank, world_size, name, seconds(timeout))


def _begin(store: Store, rank: int, world_size: int, backend: str, timeout: float) -> None:
    _file[0] = getattr(store, "path", None)
    named = PrefixStore(f"world {_made['worlds']}", store)
    wires = _wires.Wires(named, rank, world_size, timeout)  # first: this names who does not arrive
    try:
        _jax_processes.join_processes(backend, named, rank, world_size, timeout)
    except BaseException:
        wires.close()
        raise
    _made["worlds"] += 1
    everybody = list(range(world_size))
    group.WORLD = ProcessGroup(wires, everybody, backend, "0", timeout, "default_pg")
    group.WORLD.store = named
    _groups.append(group.WORLD)


@atexit.register
def _close_connections() -> None:
    """Others that wait for this process hear at once that it ends, even if JAX keeps it for a while."""
    if group.WORLD is not None:
        group.WORLD._wires.close()


def destroy_process_group(group: Any = None) -> None:
    """End a group, or all of them.

    Raises:
        AssertionError: no group is given and there is none.
    """
    found: Any = _default.WORLD if group is None else group
    if outside(found):
        return
    if found is None:
        raise AssertionError("Process group cannot be None")
    if found is not _default.WORLD:
        _groups.remove(member_of(found))
        return
    _default.WORLD = None
    _groups.clear()
    _made["groups"] = 0
    found._wires.close()
    if found._wires.rank == 0:
        _rendezvous.forget(_file[0])


def new_group(
    ranks: Sequence[int] | None = None, timeout: Any = None, backend: str | None = None, pg_options: Any = None,
    use_local_synchronization: bool = False, group_desc: str | None = None, device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:  # fmt: skip
    """A group of some of the processes. All processes call this, in the same order.

    Args:
        ranks: which ones; all if it is None.
        timeout: how long its processes wait for each other; that of the default group if it is None.
        backend: `gloo`, or None for that of the default group.
        pg_options: nothing here reads it.
        use_local_synchronization: whether only the processes of the group call this.
        group_desc: a description.
        device_id: nothing here reads it.
        sort_ranks: whether the ranks in the group follow the global ones; otherwise they are as given.

    Returns:
        The group, or `GroupMember.NON_GROUP_MEMBER` in a process that is not in it.

    Raises:
        ValueError: there is no such rank, or one is given twice.
    """
    world = member_of(None)
    members = list(range(world.size())) if ranks is None else list(ranks)
    _check_members(members, world.size())
    members = sorted(members) if sort_ranks else members
    _made["groups"] += 0 if use_local_synchronization else 1
    name = _name_of(members) if use_local_synchronization else str(_made["groups"])
    if world.rank() not in members:
        return GroupMember.NON_GROUP_MEMBER
    kind = world.name() if backend is None else _backend(backend)
    limit = world._timeout if timeout is None else seconds(timeout)
    made = ProcessGroup(world._wires, members, kind, name, limit, group_desc or "undefined")
    _groups.append(made)
    return made


def _name_of(members: Sequence[int]) -> str:
    """A name that the members of a group find without the other processes: no group of theirs has it yet."""
    name, taken = f"ranks {'-'.join(map(str, members))}", {g.group_name for g in _groups}
    while name in taken:
        name += "'"
    return name


def is_live(pg: ProcessGroup | None) -> bool:
    """Whether a group has been made and not destroyed."""
    return any(pg is g for g in _groups)


def _check_members(members: Sequence[int], size: int) -> None:
    if len(members) > size:
        raise ValueError(
            "the new group's world size should be less or equal to the world size set by init_process_group"
        )
    for rank in members:
        if not 0 <= rank < size:
            raise ValueError(
                f"Rank {rank} is out of range. Valid ranks are 0 to {size - 1} (world_size={size})"
            )
    if len(set(members)) != len(members):
        raise ValueError(f"ranks list must not contain duplicate entries, got {list(members)}")


def new_subgroups(
    group_size: int | None = None, group: Any = None, timeout: Any = None, backend: str | None = None,
    pg_options: Any = None, group_desc: str | None = None,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """Groups of neighbours, as many in each as `group_size` says; the one of this process, and all of them."""
    n = get_world_size(group)
    size = n if group_size is None else group_size
    if size <= 0:
        raise ValueError(f"The arg 'group_size' ({size}) must be positive")
    if n < size:
        raise ValueError(f"The arg 'group_size' ({size}) must not exceed the world size ({n})")
    if n % size:
        raise ValueError(f"The world size ({n}) must be divisible by '{group_size=}'")
    everybody = get_process_group_ranks(group)
    lists = [everybody[i : i + size] for i in range(0, n, size)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]], timeout: Any = None, backend: str | None = None,
    pg_options: Any = None, group_desc: str | None = None,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """Groups of the ranks that are listed; the one of this process, and all of them."""
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    owner: dict[int, Sequence[int]] = {}
    for ranks in ranks_per_subgroup_list:
        for rank in ranks:
            if rank in owner:
                raise ValueError(
                    f"Rank {rank} has appeared in both subgroup {owner[rank]} and {ranks}"
                )
            owner[rank] = ranks
    made = [new_group(r, timeout, backend, group_desc=group_desc) for r in ranks_per_subgroup_list]
    return next((g for g in made if not outside(g)), None), made


# --- asking ---------------------------------------------------------------------------------------


def get_rank(group: Any = None) -> int:
    """The number of this process in a group; -1 if it is not in it."""
    return -1 if outside(group) else member_of(group).rank()


def get_world_size(group: Any = None) -> int:
    """How many processes a group has; -1 if this one is not in it."""
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


def get_pg_count() -> int:
    """How many groups this process is in."""
    return len(_groups)


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
