"""torch.distributed.tensor.debug: pictures of what lies where, and counts of collectives."""

from __future__ import annotations

import sys
from typing import Any

from ...._core.errors.messages import missing as _missing
from ._comm_mode import CommDebugMode as CommDebugMode

__all__ = ["CommDebugMode", "visualize_sharding"]


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


__getattr__ = _missing(__name__)
