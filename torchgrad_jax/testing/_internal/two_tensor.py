"""A tensor of two tensors, which needs torch's dispatcher: it is refused when it is made."""

from __future__ import annotations

from typing import Any

from ..._engine.memory.tensor import Tensor
from ...utils._python_dispatch import TorchDispatchMode
from ._missing import missing_in


class TwoTensor(Tensor):
    """Refused: a tensor whose operators run on two tensors at once."""

    @staticmethod
    def __new__(cls, a: Any, b: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"{cls.__name__} is not supported: it wraps tensors below autograd, where there is no dispatcher"
        )


class TwoTensorMode(TorchDispatchMode):
    """Refused when it is entered."""


__getattr__ = missing_in("two_tensor")
