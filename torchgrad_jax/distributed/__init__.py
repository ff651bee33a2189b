"""torch.distributed among one process; for several devices, JAX's sharding is the tool here.

Differs from torch: a process group has one member, so that what is sent is what arrives.
"""

from __future__ import annotations

import importlib
from typing import Any

from .._core.errors import no_such_name as _no_such_name
from . import distributed_c10d as distributed_c10d
from .distributed_c10d import *  # noqa: F403 - the names that the module lists


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
