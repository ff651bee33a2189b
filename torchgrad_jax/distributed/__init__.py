"""torch.distributed answers as in a build of torch without it: JAX's sharding is the tool here.

Differs from torch: there are no process groups.
"""

from __future__ import annotations

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


class ProcessGroup:
    """A name for annotations; there is none."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(_NONE)


_NONE = (
    "torch.distributed is not available in torchgrad_jax (torch.distributed.is_available() is False); "
    "to use several devices, shard arrays with JAX"
)


def init_process_group(*args: Any, **kwargs: Any) -> None:
    """Refused.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(_NONE)


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.distributed.{name}"))
