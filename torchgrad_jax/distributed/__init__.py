"""torch.distributed among one process; for several devices, JAX's sharding is the tool here.

Differs from torch: a process group has one member, so that what is sent is what arrives.
"""

from __future__ import annotations

import importlib
from typing import Any

from .._core.errors import no_such_name as _no_such_name
from . import distributed_c10d as distributed_c10d
from ._collectives import (
    ReduceOp as ReduceOp,
    all_gather as all_gather,
    all_gather_into_tensor as all_gather_into_tensor,
    all_gather_object as all_gather_object,
    all_gather_single as all_gather_single,
    all_reduce as all_reduce,
    all_to_all as all_to_all,
    all_to_all_single as all_to_all_single,
    barrier as barrier,
    batch_isend_irecv as batch_isend_irecv,
    broadcast as broadcast,
    broadcast_object_list as broadcast_object_list,
    gather as gather,
    gather_object as gather_object,
    irecv as irecv,
    isend as isend,
    monitored_barrier as monitored_barrier,
    recv as recv,
    reduce as reduce,
    reduce_op as reduce_op,
    reduce_scatter as reduce_scatter,
    reduce_scatter_single as reduce_scatter_single,
    reduce_scatter_tensor as reduce_scatter_tensor,
    scatter as scatter,
    scatter_object_list as scatter_object_list,
    send as send,
)
from ._groups import (
    Backend as Backend,
    FileStore as FileStore,
    GroupMember as GroupMember,
    HashStore as HashStore,
    PrefixStore as PrefixStore,
    ProcessGroup as ProcessGroup,
    Store as Store,
    TCPStore as TCPStore,
    Work as Work,
    default_pg_timeout as default_pg_timeout,
    destroy_process_group as destroy_process_group,
    get_backend as get_backend,
    get_default_backend_for_device as get_default_backend_for_device,
    get_global_rank as get_global_rank,
    get_group_rank as get_group_rank,
    get_node_local_rank as get_node_local_rank,
    get_process_group_ranks as get_process_group_ranks,
    get_rank as get_rank,
    get_world_size as get_world_size,
    group as group,
    init_process_group as init_process_group,
    is_initialized as is_initialized,
    new_group as new_group,
)


def is_available() -> bool:
    """False: several processes cannot work together. A group of this one can be begun all the same."""
    return False


def is_torchelastic_launched() -> bool:
    """False."""
    return False


def is_backend_available(backend: str) -> bool:
    """False, whichever it is."""
    return False


def is_gloo_available() -> bool:
    """False."""
    return False


def is_mpi_available() -> bool:
    """False."""
    return False


def is_nccl_available() -> bool:
    """False."""
    return False


def is_ucc_available() -> bool:
    """False."""
    return False


def is_xccl_available() -> bool:
    """False."""
    return False


_NONE = (
    "torch.distributed is not available in torchgrad_jax (torch.distributed.is_available() is False); "
    "to use several devices, shard arrays with JAX"
)


def _refuse(*args: Any, **kwargs: Any) -> Any:
    """Refused: nothing is spread over several processes.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(_NONE)


def __getattr__(name: str) -> Any:
    if name in ("device_mesh", "optim"):  # needs what is above this package
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(_no_such_name(f"torch.distributed.{name}"))
