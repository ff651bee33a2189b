"""torch.masked: functions of the elements that a mask keeps."""

from __future__ import annotations

from typing import Any

from .._core.errors.absent import refusal as _refusal
from .._core.errors.messages import missing as _missing
from .._engine.entry.bind import NAMESPACES

globals().update(NAMESPACES["masked"])
_NO_MASKED_TENSOR = "tensors that carry their mask are out of scope; the functions of torch.masked take the mask"
MaskedTensor, as_masked_tensor, masked_tensor = (
    _refusal(f"torch.masked.{name}", _NO_MASKED_TENSOR, NotImplementedError)
    for name in ("MaskedTensor", "as_masked_tensor", "masked_tensor")
)


def is_masked_tensor(obj: Any, /) -> bool:
    """False: there are no tensors that carry their mask."""
    return False


__all__ = sorted(
    [n for n in NAMESPACES["masked"] if not n.startswith("_")]
    + ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]
)

__getattr__ = _missing(__name__)
