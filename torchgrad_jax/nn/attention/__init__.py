"""torch.nn.attention: which kernel attention would use, as far as one can say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(IntEnum):
    """The kernels that torch has for `scaled_dot_product_attention`."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Ask for certain kernels of `scaled_dot_product_attention`.

    Differs from torch: there is one implementation, which XLA compiles; results do not depend on
    what is asked for.

    Args:
        backends: an `SDPBackend` or a list of them.
        set_priority: whether their order says which comes first.

    Raises:
        AssertionError: for anything else.

    Example:
        >>> with sdpa_kernel(SDPBackend.MATH):
        ...     pass
    """
    if not isinstance(backends, list | SDPBackend):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    yield


def __getattr__(name: str) -> Any:
    raise AttributeError(f"torchgrad_jax does not implement torch.nn.attention.{name}")
