"""torch.distributed.distributed_c10d: process groups and what they do together, under the name of their module."""

from typing import Any

from ._arguments import ReduceOp, reduce_op, supports_complex
from ._beginning import (
    destroy_process_group,
    init_process_group,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
    set_timeout,
    set_timeout as _set_pg_timeout,  # noqa: F401 - torch's name before 2.14
)
from ._buckets import BuiltinCommHookType, GradBucket
from ._collectives import (
    all_gather,
    all_gather_into_tensor,
    all_gather_single,
    all_reduce,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    monitored_barrier,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
)
from ._debug import DebugLevel, get_debug_level, set_debug_level, set_debug_level_from_env
from ._errors import DistBackendError, DistError, DistNetworkError, DistStoreError
from ._groups import (
    Backend,
    GroupMember,
    ProcessGroup,
    default_pg_timeout,
    get_backend,
    get_backend_config,
    get_default_backend_for_device,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    is_initialized,
    member_of as _member_of,
)
from ._messages import P2POp, batch_isend_irecv, irecv, isend, recv, recv_object_list, send, send_object_list
from ._objects import all_gather_object, broadcast_object_list, gather_object, scatter_object_list
from ._rendezvous import register_rendezvous_handler, rendezvous
from ._stores import FileStore, HashStore, PrefixStore, Store, TCPStore
from ._work import Work

__all__ = [
    "Backend", "BuiltinCommHookType", "DebugLevel", "DistBackendError", "DistError", "DistNetworkError",
    "DistStoreError", "FileStore", "GradBucket", "GroupMember", "HashStore", "P2POp", "PrefixStore", "ProcessGroup",
    "ReduceOp", "Store", "TCPStore", "Work", "all_gather", "all_gather_into_tensor", "all_gather_object",
    "all_gather_single", "all_reduce", "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast",
    "broadcast_object_list", "default_pg_timeout", "destroy_process_group", "gather", "gather_object", "get_backend",
    "get_backend_config", "get_debug_level", "get_default_backend_for_device", "get_global_rank", "get_group_rank",
    "get_node_local_rank", "get_process_group_ranks", "get_rank", "get_world_size", "group", "init_process_group",
    "irecv", "is_initialized", "isend", "monitored_barrier", "new_group", "new_subgroups",
    "new_subgroups_by_enumeration", "recv", "recv_object_list", "reduce", "reduce_op", "reduce_scatter",
    "reduce_scatter_single", "reduce_scatter_tensor", "register_rendezvous_handler", "rendezvous", "scatter",
    "scatter_object_list", "send", "send_object_list", "set_debug_level", "set_debug_level_from_env",
    "set_timeout", "supports_complex",
]  # fmt: skip


def _get_default_group() -> Any:
    """The default group."""
    return _member_of(None)


def _get_default_store() -> Store:
    """The store of the default group, with keys of its own."""
    return _member_of(None).store
