"""torch.distributed.rpc answers as in a build of torch without it: there are no other processes to call."""

from __future__ import annotations

from .._core.errors.messages import missing as _missing
from . import _refuse


def is_available() -> bool:
    """False."""
    return False


init_rpc = rpc_sync = rpc_async = remote = shutdown = get_worker_info = _refuse

__all__ = ["get_worker_info", "init_rpc", "is_available", "remote", "rpc_async", "rpc_sync", "shutdown"]

__getattr__ = _missing(__name__)
