"""An operator whose result has a dtype of its own: products of int8 as int32."""

from __future__ import annotations

from typing import Any

from .._core.arrays.dtypes import dtype
from .._engine.memory.tensor import Tensor


def out_dtype(op: Any, output_dtype: dtype, /, *args: Any) -> Tensor:
    """Return what an operator gives of tensors in the dtype that its result is to have.

    Args:
        op: the operator, for example `torch.ops.aten.mm.default`.
        output_dtype: the dtype.
        args: its arguments.
    """
    return op(*[a.to(output_dtype) if isinstance(a, Tensor) else a for a in args])
