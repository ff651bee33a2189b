"""torch.distributed.fsdp: names to ask for; JAX's sharding is the tool here."""

from __future__ import annotations

from typing import Any

from ..._core.errors import no_such_name as _no_such_name
from .. import _refuse


class FullyShardedDataParallel:
    """No module is one, and none can be made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse()


class FSDPModule:
    """No module is one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse()


class MixedPrecisionPolicy(FSDPModule):
    """Refused: there are no process groups."""


class CPUOffloadPolicy(FSDPModule):
    """Refused: there are no process groups."""


fully_shard = _refuse


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.distributed.fsdp.{name}"))
