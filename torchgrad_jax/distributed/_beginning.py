"""How process groups begin and end."""

from __future__ import annotations

import atexit
import datetime
import multiprocessing
from collections.abc import Sequence
from typing import Any, NamedTuple

from .._core.arrays.devices import BEFORE_OPENING
from . import _jax_processes, _rendezvous, _wires
from ._groups import (
    Backend,
    GroupMember,
    ProcessGroup,
    _file,
    _groups,
    _made,
    default_pg_timeout,
    get_process_group_ranks,
    get_world_size,
    group as _default,
    is_backend_available,
    member_of,
    outside,
)
from ._stores import PrefixStore, Store, seconds


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


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: Any = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
    _ranks: Any = None,
) -> None:
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
    if _default.WORLD is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    name = _backend(backend)
    timeout = default_pg_timeout if timeout is None else timeout
    if not isinstance(timeout, datetime.timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")
    BEFORE_OPENING.clear()  # the processes meet here
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
    same = bool(_early) and (_early[0].wires.rank, _early[0].wires.size) == (rank, world_size)
    met = _early.pop() if same else _meet(store, rank, world_size, backend, timeout)
    everybody = list(range(world_size))
    _default.WORLD = ProcessGroup(met.wires, everybody, backend, "0", timeout, "default_pg")
    _default.WORLD.store = met.store
    _groups.append(_default.WORLD)


class _Met(NamedTuple):
    """What processes have that have found each other: a store, and connections."""

    store: Store
    wires: _wires.Wires


_early: list[_Met] = []
"""What this process has if it met the others before `init_process_group`, which takes it from here."""


def _meet(store: Store, rank: int, world_size: int, backend: str, timeout: float) -> _Met:
    """Connect this process to all others, and tell JAX about them if the backend or the environment says so."""
    named = PrefixStore(f"world {_made['worlds']}", store)
    wires = _wires.Wires(named, rank, world_size, timeout)  # first: this names who does not arrive
    try:
        _jax_processes.join_processes(backend, named, rank, world_size, timeout)
    except BaseException:
        wires.close()
        raise
    _made["worlds"] += 1
    return _Met(named, wires)


def meet_before_opening() -> None:
    """Meet the processes that a launcher has started beside this one, as soon as JAX is about to open its devices.

    Programs make tensors before they call `init_process_group`, some on import. JAX has to know all processes then.
    Processes that this one starts have its environment, and are none of them.
    """
    if not multiprocessing.parent_process() and _jax_processes.take_place():
        BEFORE_OPENING.append(_meet_by_environment)


def _meet_by_environment() -> None:
    store, rank, size = next(iter(_rendezvous.rendezvous("env://")))
    _early.append(_meet(store, rank, size, "", default_pg_timeout.total_seconds()))


@atexit.register
def _close_connections() -> None:
    """Others that wait for this process hear at once that it ends, even if JAX keeps it for a while."""
    for wires in [met.wires for met in _early] + [g._wires for g in _groups[:1]]:
        wires.close()


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
    ranks: Sequence[int] | None = None,
    timeout: Any = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
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


def set_timeout(timeout: datetime.timedelta, group: Any = None) -> None:
    """Say how long the processes of a group wait for each other from now on, in each operation that says nothing else.

    Args:
        timeout: how long.
        group: the group; the default one if it is None.

    Raises:
        ValueError: this process is not in the group.
        TypeError: `timeout` is no timedelta.
    """
    if not isinstance(timeout, datetime.timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")
    if outside(group):
        raise ValueError("Invalid process group specified")
    member_of(group)._timeout = seconds(timeout)


def _name_of(members: Sequence[int]) -> str:
    """A name that the members of a group find without the other processes: no group of theirs has it yet."""
    name, taken = f"ranks {'-'.join(map(str, members))}", {g.group_name for g in _groups}
    while name in taken:
        name += "'"
    return name


def _check_members(members: Sequence[int], size: int) -> None:
    if len(members) > size:
        raise ValueError(
            "the new group's world size should be less or equal to the world size set by init_process_group"
        )
    for rank in members:
        if not 0 <= rank < size:
            raise ValueError(f"Rank {rank} is out of range. Valid ranks are 0 to {size - 1} (world_size={size})")
    if len(set(members)) != len(members):
        raise ValueError(f"ranks list must not contain duplicate entries, got {list(members)}")


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: Any = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
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
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: Any = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of the ranks that are listed; the one of this process, and all of them."""
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    owner: dict[int, Sequence[int]] = {}
    for ranks in ranks_per_subgroup_list:
        for rank in ranks:
            if rank in owner:
                raise ValueError(f"Rank {rank} has appeared in both subgroup {owner[rank]} and {ranks}")
            owner[rank] = ranks
    made = [new_group(r, timeout, backend, group_desc=group_desc) for r in ranks_per_subgroup_list]
    return next((g for g in made if not outside(g)), None), made
