"""Shapes as tensors, for programs that export to ONNX."""

from __future__ import annotations

from .._core.dtypes import int64
from .._engine.tensor import Tensor
from .._functions.create import tensor


def shape_as_tensor(x: Tensor) -> Tensor:
    """The sizes of a tensor as a tensor."""
    return tensor(list(x.shape), dtype=int64)


def reshape_from_tensor_shape(x: Tensor, shape: Tensor) -> Tensor:
    """`reshape` to sizes that a tensor holds."""
    return x.reshape(shape.tolist())
