"""torch.distributed.tensor.debug: pictures of what lies where."""

from __future__ import annotations

import sys
from typing import Any

from ...._core.errors.messages import no_such_name as _no_such_name

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


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.distributed.tensor.debug.{name}"))
