"""torch.distributed.autograd answers as in a build of torch without it: no pass goes through other processes."""

from __future__ import annotations

from typing import Any

from .._core.errors.messages import no_such_name as _no_such_name
from . import _NONE, _refuse


def is_available() -> bool:
    """False."""
    return False


class context:
    """Of a pass through several processes, and none can be entered."""

    def __enter__(self) -> int:
        raise RuntimeError(_NONE)

    def __exit__(self, *args: object) -> None:
        raise RuntimeError(_NONE)


backward = get_gradients = _refuse

__all__ = ["backward", "context", "get_gradients", "is_available"]


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.distributed.autograd.{name}"))
