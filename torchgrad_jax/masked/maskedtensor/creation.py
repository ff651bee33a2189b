"""Functions that make tensors with a mask."""

from __future__ import annotations

from typing import Any

from .core import MaskedTensor

__all__ = ["as_masked_tensor", "masked_tensor"]


def masked_tensor(data: Any, mask: Any, requires_grad: bool = False) -> MaskedTensor:
    """A leaf with copies of `data` and `mask`.

    Args:
        data: a tensor.
        mask: a tensor of bools of the same shape: true where the data count.
        requires_grad: whether gradients are computed for it.
    """
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Any, mask: Any) -> MaskedTensor:
    """`data` with a mask, as a step that gradients pass.

    Args:
        data: a tensor.
        mask: a tensor of bools of the same shape.
    """
    return MaskedTensor._from_values(data, mask)
