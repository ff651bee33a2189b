"""torch._tensor: where torch keeps its class of tensors."""

from __future__ import annotations

from typing import Any

from ._core.errors.messages import no_such_name as _no_such_name
from ._engine.memory.tensor import Tensor as Tensor

__all__ = ["Tensor"]


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch._tensor.{name}"))
