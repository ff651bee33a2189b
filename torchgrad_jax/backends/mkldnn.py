"""torch.backends.mkldnn: flags of a library that XLA uses, or not, as it sees fit.

Differs from torch: flags can be set and have no effect; XLA chooses kernels by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .._core.signals import contextmanager, restore

enabled = False
deterministic = False
allow_tf32 = True
fp32_precision = "none"


def is_available() -> bool:
    """False: XLA has kernels of its own."""
    return False


def set_flags(
    _enabled: bool | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str = "none",
) -> tuple[Any, ...]:
    """Set flags, and return what they were."""
    global enabled, deterministic, allow_tf32
    before = (enabled, deterministic, allow_tf32, fp32_precision)
    enabled = enabled if _enabled is None else _enabled
    deterministic = deterministic if _deterministic is None else _deterministic
    allow_tf32 = allow_tf32 if _allow_tf32 is None else _allow_tf32
    return before


@contextmanager
def flags(
    enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True, fp32_precision: str = "none"
) -> Iterator[None]:
    """The flags as given inside of a `with` block."""
    before = set_flags()
    try:
        set_flags(enabled, deterministic, allow_tf32, fp32_precision)
        yield
    finally:
        restore(set_flags, *before)
