"""torch.utils._triton: whether Triton's kernels can be used. They cannot: XLA makes the kernels here."""

from __future__ import annotations


def has_triton_package() -> bool:
    """Whether Triton is there to be used: never."""
    return False


def has_triton() -> bool:
    """Whether Triton supports a device that is there: never."""
    return False
