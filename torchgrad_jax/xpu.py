"""torch.xpu: no such devices."""

from __future__ import annotations

from typing import Any

from ._core.errors import no_such_name as _no_such_name


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def is_initialized() -> bool:
    """False."""
    return False


def is_bf16_supported() -> bool:
    """False."""
    return False


def empty_cache() -> None:
    """Nothing: there is no such device."""


def memory_allocated(device: Any = None) -> int:
    """0."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def _refuse(*args: Any, **kwargs: Any) -> Any:
    """Refused: there is no such device.

    Raises:
        AssertionError: always.
    """
    raise AssertionError("Torch not compiled with XPU enabled")


synchronize = current_device = current_stream = set_device = get_device_name = _refuse
get_device_properties = get_device_capability = mem_get_info = _refuse


def manual_seed_all(seed: int) -> None:
    """Nothing: there is no such device."""


def manual_seed(seed: int) -> None:
    """Nothing: there is no such device."""


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.xpu.{name}"))
