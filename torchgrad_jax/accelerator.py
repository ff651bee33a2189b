"""torch.accelerator: the accelerator that JAX sees, if any."""

from __future__ import annotations

from typing import Any

from . import cuda
from ._core.devices import device
from ._core.errors import no_such_name as _no_such_name


def is_available() -> bool:
    """Whether JAX sees a GPU."""
    return cuda.is_available()


def device_count() -> int:
    """How many GPUs JAX sees."""
    return cuda.device_count()


def current_accelerator(check_available: bool = False) -> device | None:
    """The device type of the GPU; None without one."""
    return device("cuda") if is_available() else None


def current_device_index() -> int:
    """The index of the GPU that tensors go to when no index is given."""
    return cuda.current_device()


def synchronize(device: Any = None) -> None:
    """Wait for everything that was dispatched."""
    cuda.synchronize(device)


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.accelerator.{name}"))
