"""Tensors that carry a mask."""

from .core import MaskedTensor as MaskedTensor, is_masked_tensor as is_masked_tensor
