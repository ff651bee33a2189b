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


def manual_seed_all(seed: int) -> None:
    """Nothing: there is no such device."""


def manual_seed(seed: int) -> None:
    """Nothing: there is no such device."""


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.xpu.{name}"))
