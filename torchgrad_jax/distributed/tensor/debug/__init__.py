"""torch.distributed.tensor.debug: pictures of what lies where."""

from __future__ import annotations

import sys
from typing import Any

from ...._core.errors.absent import refusal as _refusal
from ...._core.errors.messages import missing as _missing

__all__ = ["visualize_sharding"]


def visualize_sharding(dtensor: Any, header: str = "", use_rich: bool = False) -> None:
    """Print which device has which part of a tensor, as `tensor.visualize_sharding()` does.

    Args:
        dtensor: a tensor over a mesh.
        header: what to print above it.
        use_rich: not looked at: JAX draws with `rich`.
    """
    if header:
        sys.stdout.write(f"{header}\n")
    dtensor.visualize_sharding()


CommDebugMode = _refusal(
    "torch.distributed.tensor.debug.CommDebugMode",
    "XLA puts the collectives into programs, and no operator of torch's runs them; "
    "torch.compile(f).lower(*args).collectives() counts those of a program",
    NotImplementedError,
)

__getattr__ = _missing(__name__)
