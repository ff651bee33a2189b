"""torch._tensor: where torch keeps its class of tensors."""

from __future__ import annotations

from ._core.errors.messages import missing as _missing
from ._engine.memory.tensor import Tensor as Tensor

__all__ = ["Tensor"]

__getattr__ = _missing(__name__)
