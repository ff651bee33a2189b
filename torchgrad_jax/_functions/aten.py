"""Functions that torch publishes under its dispatcher or with an underscore, and that programs call."""

from __future__ import annotations

from typing import Any

from .._core.arrays import dtypes
from .._engine.entry.bind import composite, ops
from .._engine.memory.tensor import Tensor
from .copies import slice_range


@composite(name="slice", method=False, namespace="ops.aten")
def aten_slice(input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """``input[start:end:step]`` along a dimension, as a view."""
    d, at, length = slice_range(input._m, dim, start, end, step)
    return ops.slice(input, d, at, length, step)


@composite(method=False)
def _softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Tensor:
    """What the backward of softmax computes from its result."""
    if input_dtype is dtypes.float16 and grad_output._m.dtype is dtypes.float32:
        raise RuntimeError("expected scalar type Float but found Half")
    return ops._softmax_backward_data_row(grad_output, output, dim)
