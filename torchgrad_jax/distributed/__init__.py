"""torch.distributed: processes that work together, as many as `torchrun` starts."""

from __future__ import annotations

import os

from .._core.errors.messages import missing as _missing
from . import distributed_c10d as distributed_c10d
from ._groups import is_backend_available as is_backend_available
from .distributed_c10d import *  # noqa: F403 - the names that the module lists


def is_available() -> bool:
    """True."""
    return True


def is_torchelastic_launched() -> bool:
    """Return whether a launcher has started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def is_gloo_available() -> bool:
    """True: processes exchange what is in their memories."""
    return True


def is_mpi_available() -> bool:
    """False."""
    return False


def is_nccl_available() -> bool:
    """Return whether JAX runs on GPUs, where it uses NCCL."""
    return is_backend_available("nccl")


def is_ucc_available() -> bool:
    """False."""
    return False


def is_xccl_available() -> bool:
    """False."""
    return False


# `device_mesh` and `optim` need what is above this package.
__getattr__ = _missing(__name__, DeviceMesh="device_mesh", init_device_mesh="device_mesh")
