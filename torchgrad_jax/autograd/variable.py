"""The old name of tensors, as in torch.autograd.variable."""

from __future__ import annotations

import operator
from typing import Any

from .._core.arrays import dtypes
from .._core.errors import warn
from .._engine.memory.tensor import Tensor, watchers
from .._engine.tensor.attributes import share
from .._functions.create import empty
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

    def __new__(
        cls,
        data: Any = None,
        requires_grad: bool = False,
        volatile: bool = False,
        _grad_fn: Any = None,
        name: str | None = None,
    ) -> Any:
        """The tensor's data with `requires_grad` and a name; `volatile` is a relic."""
        requires_grad, volatile = bool(operator.index(requires_grad)), bool(operator.index(volatile))
        if volatile:
            warn.to_user("volatile was removed and now has no effect. Use `with torch.no_grad():` instead.")
        if volatile and requires_grad:
            raise ValueError("Variable can't be volatile and require_grad at the same time!")
        if _grad_fn is not None:
            raise TypeError(f"_grad_fn has to be a Function object or None, but got {type(_grad_fn).__name__}")
        if name is not None and not isinstance(name, str):
            raise TypeError(f"argument 5 must be str or None, not {type(name).__name__}")
        if data is None:
            out = empty(0)
        elif not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        else:
            out = share(data, data._vc)
        if requires_grad:
            if out._m.dtype.category < dtypes.FLOATING:
                raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
            out._rg = True
        if name is not None:
            watchers(out).name = name
        return out
