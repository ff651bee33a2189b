"""Linear maps."""

from __future__ import annotations

import math
from typing import Any

from ..._engine.memory.tensor import Tensor
from ...autograd.grad_mode import no_grad
from .. import functional as F, init
from .._top import torch
from ..parameter import Parameter, UninitializedParameter
from .lazy import LazyModuleMixin
from .module import Module

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Gives its input back; all arguments of the constructor are ignored."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """The input."""
        return input


class Linear(Module):
    """``x @ weight.T + bias`` over the last dimension.

    Args:
        in_features: size of each input vector.
        out_features: size of each output vector.
        bias: whether there is a bias.
        device: where the parameters live.
        dtype: their dtype.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.nn.Linear(2, 3)(torch.ones(4, 2)).shape
        torch.Size([4, 3])
    """

    __constants__ = ["in_features", "out_features"]
    in_features: int
    out_features: int
    weight: Tensor

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        kind = {"device": device, "dtype": dtype}
        self.weight = Parameter(torch.empty((out_features, in_features), **kind))
        self.register_parameter("bias", Parameter(torch.empty(out_features, **kind)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values, uniform within one over the root of the input size."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the map."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes and whether there is a bias."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """A `Linear` under another name, which attention uses."""


class Bilinear(Module):
    """``x1 @ weight[k] @ x2 + bias[k]`` for each output feature k.

    Args:
        in1_features: size of the first input vectors.
        in2_features: size of the second input vectors.
        out_features: size of the output vectors.
        bias: whether there is a bias.
        device: where the parameters live.
        dtype: their dtype.
    """

    __constants__ = ["in1_features", "in2_features", "out_features"]
    in1_features: int
    in2_features: int
    out_features: int
    weight: Tensor

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={in1_features})")
        self.in1_features, self.in2_features = in1_features, in2_features
        self.out_features = out_features
        kind = {"device": device, "dtype": dtype}
        self.weight = Parameter(torch.empty((out_features, in1_features, in2_features), **kind))
        self.register_parameter("bias", Parameter(torch.empty(out_features, **kind)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values, uniform within one over the root of the first input size."""
        if self.in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={self.in1_features})")
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Apply the map to two tensors of the same leading dimensions."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes and whether there is a bias."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class LazyLinear(LazyModuleMixin, Linear):
    """A `Linear` that takes the number of input features from its first input.

    Args:
        out_features: size of each output vector.
        bias: whether there is a bias.
        device: where the parameters live.
        dtype: their dtype.
    """

    cls_to_become = Linear
    weight: Any
    bias: Any

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        # Without a bias, which would be a parameter of a wrong shape until the first call.
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new initial values, once the shapes are known."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Take the number of features from the input."""
        if self.has_uninitialized_params():
            with no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:  # the parameters came from a state
            if input.shape[-1] != self.weight.shape[-1]:
                raise AssertionError(
                    f"The in_features inferred from input: {input.shape[-1]} is not equal to in_features from "
                    f"self.weight: {self.weight.shape[-1]}"
                )
            self.in_features = input.shape[-1]
