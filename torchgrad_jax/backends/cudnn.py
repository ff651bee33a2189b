"""torch.backends.cudnn: flags of a library that XLA uses, or not, as it sees fit.

Differs from torch: flags can be set and have no effect; XLA chooses kernels by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .._core.signals import contextmanager, restore

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
allow_tf32 = True
fp32_precision = "none"


def is_available() -> bool:
    """False: tensors are never handed to cuDNN directly."""
    return False


def version() -> int | None:
    """None: see `is_available`."""
    return None


def is_acceptable(tensor: Any) -> bool:
    """False: see `is_available`."""
    return False


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str = "none",
) -> tuple[Any, ...]:
    """Set flags, and return what they were."""
    new = {
        "enabled": _enabled,
        "benchmark": _benchmark,
        "benchmark_limit": _benchmark_limit,
        "deterministic": _deterministic,
        "allow_tf32": _allow_tf32,
    }
    before = (*[globals()[n] for n in new], fp32_precision)
    globals().update({n: v for n, v in new.items() if v is not None})
    return before


@contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> Iterator[None]:
    """The flags as given inside of a `with` block."""
    before = set_flags()
    try:
        set_flags(enabled, benchmark, benchmark_limit, deterministic, allow_tf32, fp32_precision)
        yield
    finally:
        restore(set_flags, *before)
