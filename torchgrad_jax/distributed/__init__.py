"""torch.distributed: processes that work together, as many as `torchrun` starts."""

from __future__ import annotations

import importlib
import os
from typing import Any

from .._core.errors.messages import no_such_name as _no_such_name
from . import distributed_c10d as distributed_c10d
from ._groups import is_backend_available as is_backend_available
from .distributed_c10d import *  # noqa: F403 - the names that the module lists


def is_available() -> bool:
    """True."""
    return True


def is_torchelastic_launched() -> bool:
    """Whether a launcher has started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def is_gloo_available() -> bool:
    """True: processes exchange what is in their memories."""
    return True


def is_mpi_available() -> bool:
    """False."""
    return False


def is_nccl_available() -> bool:
    """Whether JAX runs on GPUs, where it uses NCCL."""
    return is_backend_available("nccl")


def is_ucc_available() -> bool:
    """False."""
    return False


def is_xccl_available() -> bool:
    """False."""
    return False


def __getattr__(name: str) -> Any:
    if name in ("DeviceMesh", "init_device_mesh"):
        return getattr(importlib.import_module(f"{__name__}.device_mesh"), name)
    if name in ("device_mesh", "optim"):  # needs what is above this package
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(_no_such_name(f"torch.distributed.{name}"))
