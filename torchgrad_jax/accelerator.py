"""torch.accelerator: the accelerator that JAX sees, if any."""

from __future__ import annotations

import importlib
from typing import Any

from . import cuda
from ._core import devices
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


def get_device_module(device: Any = None) -> Any:
    """torch.cpu, torch.cuda, ...: the module about a kind of device.

    Args:
        device: a device or its type; the accelerator, or else the CPU, if None.
    """
    if device is None:
        kind = (current_accelerator() or devices.device("cpu")).type
    elif isinstance(device, str | devices.device):
        kind = devices.device(device).type
    else:
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    if kind not in ("cpu", "cuda", "mps", "xpu"):
        raise RuntimeError(
            f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'."
        )
    return importlib.import_module(f"{__package__}.{kind}")


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.accelerator.{name}"))
