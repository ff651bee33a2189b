"""torch.masked: functions of the elements that a mask keeps, and tensors that carry their mask."""

from __future__ import annotations

from .._core.errors.messages import missing as _missing
from .._engine.entry.bind import NAMESPACES
from .maskedtensor.core import MaskedTensor as MaskedTensor, is_masked_tensor as is_masked_tensor
from .maskedtensor.creation import as_masked_tensor as as_masked_tensor, masked_tensor as masked_tensor

globals().update(NAMESPACES["masked"])
__all__ = sorted(
    [n for n in NAMESPACES["masked"] if not n.startswith("_")]
    + ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]
)

__getattr__ = _missing(__name__)
