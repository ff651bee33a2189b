"""torch.nn.attention: which kernels attention may use."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from ..._core.errors.messages import missing as _missing
from ..._core.signals import contextmanager
from ..._core.state import allowed_kernels
from ._registry import (
    activate_flash_attention_impl as activate_flash_attention_impl,
    current_flash_attention_impl as current_flash_attention_impl,
    list_flash_attention_impls as list_flash_attention_impls,
    register_flash_attention_impl as register_flash_attention_impl,
    restore_flash_attention_impl as restore_flash_attention_impl,
)

__all__ = [
    "WARN_FOR_UNFUSED_KERNELS", "SDPBackend", "activate_flash_attention_impl", "current_flash_attention_impl",
    "list_flash_attention_impls", "register_flash_attention_impl", "restore_flash_attention_impl", "sdpa_kernel",
]  # fmt: skip

WARN_FOR_UNFUSED_KERNELS = False
"""Programs may set it; XLA chooses the kernels, so there is nothing to warn of."""


class SDPBackend(IntEnum):
    """The kernels that torch has for `scaled_dot_product_attention`."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_NAMES = {
    SDPBackend.FLASH_ATTENTION: "flash_sdp",
    SDPBackend.EFFICIENT_ATTENTION: "mem_efficient_sdp",
    SDPBackend.MATH: "math_sdp",
    SDPBackend.CUDNN_ATTENTION: "cudnn_sdp",
}


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Ask for certain kernels of `scaled_dot_product_attention`.

    Differs from torch: a compiled function takes cuDNN's kernel on a GPU where FLASH_ATTENTION or CUDNN_ATTENTION is
    asked for and fits; all other attention is XLA's, whatever is asked for.

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
    asked = [backends] if isinstance(backends, SDPBackend) else backends
    with allowed_kernels({name: backend in asked for backend, name in _NAMES.items()}):
        yield


__getattr__ = _missing(__name__)
