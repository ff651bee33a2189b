"""torch.distributed answers as in a build of torch without it: JAX's sharding is the tool here.

Differs from torch: there are no process groups.
"""

from __future__ import annotations

import importlib
from typing import Any

from .._core.errors import no_such_name as _no_such_name


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False: there is no process group."""
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


class ProcessGroup:
    """A name for annotations; there is none."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(_NONE)


class Store:
    """A name for annotations and imports; processes have nothing to share here."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(_NONE)


class TCPStore(Store):
    """A store over the network: refused."""


class FileStore(Store):
    """A store in a file: refused."""


class HashStore(Store):
    """A store in memory: refused."""


class PrefixStore(Store):
    """A part of another store: refused."""


_NONE = (
    "torch.distributed is not available in torchgrad_jax (torch.distributed.is_available() is False); "
    "to use several devices, shard arrays with JAX"
)


class _Group:
    """Groups of processes, of which there are none."""

    WORLD = None


class ReduceOp:
    """Names of reductions, for default arguments; nothing reduces with them."""

    SUM, AVG, PRODUCT, MIN, MAX = "SUM", "AVG", "PRODUCT", "MIN", "MAX"


group = GroupMember = _Group


def _refuse(*args: Any, **kwargs: Any) -> Any:
    """Refused: there are no process groups.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(_NONE)


init_process_group = destroy_process_group = new_group = get_rank = get_world_size = _refuse
get_backend = barrier = broadcast = reduce = all_reduce = all_gather = all_gather_object = _refuse
all_gather_into_tensor = gather = scatter = reduce_scatter = reduce_scatter_tensor = _refuse
all_to_all = all_to_all_single = broadcast_object_list = send = recv = isend = irecv = _refuse


def __getattr__(name: str) -> Any:
    if name in ("device_mesh", "optim"):  # needs what is above this package
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(_no_such_name(f"torch.distributed.{name}"))
