"""Weights of convolutions in another order of memory."""

from __future__ import annotations

from typing import Any, TypeVar

from ..modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module

M = TypeVar("M", bound=Module)


def _convert(module: M, kinds: tuple[type, ...], memory_format: Any) -> M:
    for m in module.modules():
        if isinstance(m, kinds):
            weight = m.weight.detach().clone()
            m.weight.data = weight.contiguous(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Lay out the weights of all 2-D convolutions of a module in another memory format.

    Args:
        module: where to look.
        memory_format: the order of memory.
    """
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Lay out the weights of all 3-D convolutions of a module in another memory format.

    Args:
        module: where to look.
        memory_format: the order of memory.
    """
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
