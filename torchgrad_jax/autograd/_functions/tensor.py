"""Conversions of type and shape as custom Functions."""

from __future__ import annotations

import math
from typing import Any

from ..function import Function


class Type(Function):
    """`Tensor.type`, whose gradient is converted back."""

    @staticmethod
    def forward(ctx: Any, i: Any, dest_type: Any) -> Any:
        ctx.input_type = i.type()
        return i.type(dest_type)

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        return grad_output.type(ctx.input_type), None


class Resize(Function):
    """`Tensor.view` to a shape of as many elements."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, sizes: tuple[int, ...]) -> Any:
        asked, count = "x".join(map(str, sizes)), math.prod(sizes)
        if count != tensor.numel():
            raise RuntimeError(
                f"requested resize to {asked} ({count} elements in total), but the given "
                f"tensor has a size of {'x'.join(map(str, tensor.size()))} ({tensor.numel()} elements). autograd's "
                "resize can only change the shape of a given tensor, while preserving the number of elements. "
            )
        ctx.input_sizes = tensor.size()
        if tensor.is_contiguous():
            return tensor.view(sizes)
        return tensor.contiguous().view(sizes)

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        return grad_output.contiguous().view(ctx.input_sizes), None
