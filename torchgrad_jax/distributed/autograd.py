"""torch.distributed.autograd answers as in a build of torch without it: no pass goes through other processes."""

from __future__ import annotations

from .._core.errors.messages import missing as _missing
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

__getattr__ = _missing(__name__)
