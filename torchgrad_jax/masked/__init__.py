"""torch.masked: functions of the elements that a mask keeps, and tensors that carry their mask."""

from __future__ import annotations

from typing import Any

from .._core.errors.messages import no_such_name as _no_such_name
from .._engine.entry.bind import NAMESPACES
from .maskedtensor.core import MaskedTensor as MaskedTensor, is_masked_tensor as is_masked_tensor
from .maskedtensor.creation import as_masked_tensor as as_masked_tensor, masked_tensor as masked_tensor

globals().update(NAMESPACES["masked"])
__all__ = sorted(
    [n for n in NAMESPACES["masked"] if not n.startswith("_")]
    + ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]
)


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.masked.{name}"))
