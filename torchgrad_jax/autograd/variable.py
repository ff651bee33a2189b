"""The old name of tensors, as in torch.autograd.variable."""

from __future__ import annotations

from typing import Any

from .._core import dtypes
from .._engine.tensor import Tensor
from ._passes import Engine


class VariableMeta(type):
    """Makes every tensor an instance of `Variable`."""

    def __instancecheck__(cls, other: Any) -> bool:
        return isinstance(other, Tensor)


class Variable(metaclass=VariableMeta):
    """Calling it gives a tensor on the same storage; isinstance recognises every tensor.

    Example:
        >>> import torchgrad_jax as torch
        >>> isinstance(torch.ones(2), Variable)
        True
    """

    _execution_engine = Engine()

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: Any = None) -> Any:
        """The tensor's data with `requires_grad`; `volatile` is a relic and must be left out."""
        if data is None:
            from .._functions.create import empty

            out = empty(0)
        elif not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        else:
            out = data.detach()
        if requires_grad:
            if out._m.dtype.category < dtypes.FLOATING:
                raise RuntimeError(
                    "Only Tensors of floating point and complex dtype can require gradients"
                )
            out.requires_grad_(True)
        return out
