"""torch.backends.cuda: flags of a library that XLA uses, or not, as it sees fit.

Differs from torch: most flags can be set and have no effect; XLA chooses kernels by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax

from .._core.signals import contextmanager
from .._core.state import ATTENTION, SETTINGS, allowed_kernels
from .._settings import get_float32_matmul_precision, set_float32_matmul_precision


def is_built() -> bool:
    """Return whether JAX has a GPU backend."""
    try:
        return bool(jax.local_devices(backend="gpu"))
    except RuntimeError:
        return False


class _Matmul:
    """Flags about products of matrices. Those of float32 set the precision of products, others do nothing."""

    def __init__(self) -> None:
        self._exact = "none"
        self.allow_fp16_reduced_precision_reduction = True
        self.allow_bf16_reduced_precision_reduction = True
        self.allow_fp16_accumulation = False

    @property
    def allow_tf32(self) -> bool:
        """Whether products of float32 may be computed in TF32."""
        return get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        self._exact = "ieee"
        set_float32_matmul_precision("high" if allowed else "highest")

    @property
    def fp32_precision(self) -> str:
        """ "ieee", or "tf32" where that is allowed."""
        return "tf32" if self.allow_tf32 else self._exact

    @fp32_precision.setter
    def fp32_precision(self, name: str) -> None:
        if name not in ("ieee", "tf32", "none"):
            raise RuntimeError(f"Unknown precision: {name}")
        self.allow_tf32 = name == "tf32"
        self._exact = "ieee" if name == "tf32" else name


matmul = _Matmul()


def flash_sdp_enabled() -> bool:
    """The flag that `enable_flash_sdp` sets."""
    return SETTINGS.flash_sdp


def enable_flash_sdp(enabled: bool) -> None:
    """Allow a kernel. Compiled functions take a GPU's for attention where "flash" or "cudnn" is allowed."""
    SETTINGS.flash_sdp = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """The flag that `enable_mem_efficient_sdp` sets."""
    return SETTINGS.mem_efficient_sdp


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Allow a kernel; this flag has no effect."""
    SETTINGS.mem_efficient_sdp = bool(enabled)


def math_sdp_enabled() -> bool:
    """The flag that `enable_math_sdp` sets."""
    return SETTINGS.math_sdp


def enable_math_sdp(enabled: bool) -> None:
    """Allow a kernel; this flag has no effect."""
    SETTINGS.math_sdp = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """The flag that `enable_cudnn_sdp` sets."""
    return SETTINGS.cudnn_sdp


def enable_cudnn_sdp(enabled: bool) -> None:
    """Allow a kernel, see `enable_flash_sdp`."""
    SETTINGS.cudnn_sdp = bool(enabled)


@contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Iterator[dict[str, Any]]:
    """The flags about attention as given inside of a `with` block."""
    given = (enable_flash, enable_mem_efficient, enable_math, enable_cudnn)
    with allowed_kernels(dict(zip(ATTENTION, given))):
        yield {}
