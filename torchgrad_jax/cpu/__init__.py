"""torch.cpu: what torch.cuda is for GPUs, for code that is written for any device."""

from __future__ import annotations

from typing import Any

import jax

from .._core.errors import no_such_name as _no_such_name


def is_available() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """ "cpu"."""
    return "cpu"


def synchronize(device: Any = None) -> None:
    """Wait for everything that was dispatched."""
    for array in jax.live_arrays("cpu"):
        array.block_until_ready()


def __getattr__(name: str) -> Any:
    if name == "amp":
        import importlib

        return importlib.import_module(__name__ + ".amp")
    raise AttributeError(_no_such_name(f"torch.cpu.{name}"))
