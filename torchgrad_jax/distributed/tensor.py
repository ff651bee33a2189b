"""torch.distributed.tensor: names to ask for; JAX's sharding is the tool here."""

from __future__ import annotations

from typing import Any

from .._core.errors import no_such_name as _no_such_name
from . import _refuse


class DTensor:
    """No tensor is one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse()

    from_local = staticmethod(_refuse)


class _Placement:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse()


class Shard(_Placement):
    """Refused: there are no process groups."""


class Replicate(_Placement):
    """Refused: there are no process groups."""


class Partial(_Placement):
    """Refused: there are no process groups."""


class DeviceMesh(_Placement):
    """Refused: there are no process groups."""


distribute_tensor = distribute_module = init_device_mesh = _refuse


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.distributed.tensor.{name}"))
