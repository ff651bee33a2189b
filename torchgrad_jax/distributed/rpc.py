"""torch.distributed.rpc answers as in a build of torch without it: there are no other processes to call."""

from __future__ import annotations

from typing import Any

from .._core.errors.messages import no_such_name as _no_such_name
from . import _refuse


def is_available() -> bool:
    """False."""
    return False


init_rpc = rpc_sync = rpc_async = remote = shutdown = get_worker_info = _refuse

__all__ = ["get_worker_info", "init_rpc", "is_available", "remote", "rpc_async", "rpc_sync", "shutdown"]


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.distributed.rpc.{name}"))
