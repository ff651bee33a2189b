"""Nonlinearities."""

from __future__ import annotations

from typing import Any

from ..._core.errors import warn
from ..._engine.memory.tensor import Tensor
from .. import functional as F, init
from .._top import torch
from ..parameter import Parameter
from ._parts import Named
from .attention import MultiheadAttention as MultiheadAttention
from .module import Module

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU",
    "LogSigmoid", "LogSoftmax", "Mish", "MultiheadAttention", "PReLU", "RReLU", "ReLU", "ReLU6", "SiLU", "Sigmoid",
    "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip


def _inplace(module: Any, sep: str = "") -> str:
    return f"{sep}inplace=True" if module.inplace else ""


class Threshold(Module):
    """The input where it is above a threshold, a fixed value elsewhere.

    Args:
        threshold: the threshold.
        value: what stands where the input does not exceed it.
        inplace: whether the input is overwritten.
    """

    __constants__ = ["threshold", "value", "inplace"]
    threshold: float
    value: float
    inplace: bool

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """Its arguments."""
        return f"threshold={self.threshold}, value={self.value}{_inplace(self, ', ')}"


class _Rectifier(Named, Module):
    """A nonlinearity whose only argument is whether it overwrites its input."""

    __constants__ = ["inplace"]
    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Its argument."""
        return _inplace(self)


class ReLU(_Rectifier):
    """The larger of the input and 0.

    Args:
        inplace: whether the input is overwritten.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.relu(input, inplace=self.inplace)


class RReLU(Module):
    """`LeakyReLU` with slopes drawn at random while training.

    Args:
        lower: the smallest slope.
        upper: the largest slope.
        inplace: whether the input is overwritten.
    """

    __constants__ = ["lower", "upper", "inplace"]
    lower: float
    upper: float
    inplace: bool

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Its arguments."""
        return f"lower={self.lower}, upper={self.upper}{_inplace(self, ', ')}"


class Hardtanh(Module):
    """The input limited to a range.

    Args:
        min_val: the lower end of the range.
        max_val: the upper end.
        inplace: whether the input is overwritten.
        min_value: the former name of `min_val`.
        max_value: the former name of `max_val`.
    """

    __constants__ = ["min_val", "max_val", "inplace"]
    min_val: float
    max_val: float
    inplace: bool

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        for name, former in (("min", min_value), ("max", max_value)):
            if former is not None:
                warn.to_user(
                    f"keyword argument `{name}_value` is deprecated and renamed to `{name}_val`", FutureWarning
                )
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """Its arguments."""
        return f"min_val={self.min_val}, max_val={self.max_val}{_inplace(self, ', ')}"


class ReLU6(Hardtanh):
    """The input limited to [0, 6].

    Args:
        inplace: whether the input is overwritten.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        """Its argument."""
        return _inplace(self)


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return torch.sigmoid(input)


class Hardsigmoid(_Rectifier):
    """``relu6(x + 3) / 6``.

    Args:
        inplace: whether the input is overwritten.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        """Nothing: torch does not show the argument here."""
        return ""


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return torch.tanh(input)


class SiLU(_Rectifier):
    """``x * sigmoid(x)``.

    Args:
        inplace: whether the input is overwritten.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.silu(input, inplace=self.inplace)


class Mish(_Rectifier):
    """``x * tanh(softplus(x))``.

    Args:
        inplace: whether the input is overwritten.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.mish(input, inplace=self.inplace)


class Hardswish(_Rectifier):
    """``x * relu6(x + 3) / 6``.

    Args:
        inplace: whether the input is overwritten.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        """Nothing: torch does not show the argument here."""
        return ""


class _Exponential(Named, Module):
    """A nonlinearity that tends to a value below 0, which `alpha` says."""

    __constants__ = ["alpha", "inplace"]
    alpha: float
    inplace: bool

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def extra_repr(self) -> str:
        """Its arguments."""
        return f"alpha={self.alpha}{_inplace(self, ', ')}"


class ELU(_Exponential):
    """The input where positive, ``alpha * (exp(x) - 1)`` elsewhere.

    Args:
        alpha: minus the value that it tends to.
        inplace: whether the input is overwritten.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.elu(input, self.alpha, self.inplace)


class CELU(_Exponential):
    """The input where positive, ``alpha * (exp(x / alpha) - 1)`` elsewhere.

    Args:
        alpha: minus the value that it tends to.
        inplace: whether the input is overwritten.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.celu(input, self.alpha, self.inplace)


class SELU(_Rectifier):
    """`ELU` with the scales that keep activations normalised.

    Args:
        inplace: whether the input is overwritten.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.selu(input, self.inplace)


class GLU(Module):
    """One half of the input times the sigmoid of the other.

    Args:
        dim: the dimension that is halved.
    """

    __constants__ = ["dim"]
    dim: int

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        """Its argument."""
        return f"dim={self.dim}"


class GELU(Module):
    """The input times the normal distribution function of it.

    Args:
        approximate: "none", or "tanh" for a formula that is nearly it.
    """

    __constants__ = ["approximate"]
    approximate: str

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """Its argument."""
        return f"approximate={self.approximate!r}"


class _Shrink(Named, Module):
    __constants__ = ["lambd"]
    lambd: float

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        """Its argument."""
        return str(self.lambd)


class Hardshrink(_Shrink):
    """0 on ``[-lambd, lambd]``, the input elsewhere.

    Args:
        lambd: half the width of the range.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """0 on ``[-lambd, lambd]``, the input moved towards 0 by `lambd` elsewhere.

    Args:
        lambd: half the width of the range.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.softshrink(input, self.lambd)


class LeakyReLU(Module):
    """The input where positive, a multiple of it elsewhere.

    Args:
        negative_slope: the factor.
        inplace: whether the input is overwritten.
    """

    __constants__ = ["inplace", "negative_slope"]
    inplace: bool
    negative_slope: float

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """Its arguments."""
        return f"negative_slope={self.negative_slope}{_inplace(self, ', ')}"


class LogSigmoid(Module):
    """``log(sigmoid(x))``."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.logsigmoid(input)


class Softplus(Module):
    """A smooth relu, linear where ``beta * input`` is past a threshold.

    Args:
        beta: how sharp the bend is.
        threshold: from where on it is linear.
    """

    __constants__ = ["beta", "threshold"]
    beta: float
    threshold: float

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Its arguments."""
        return f"beta={self.beta}, threshold={self.threshold}"


class PReLU(Module):
    """The input where positive, a learned multiple of it elsewhere.

    Args:
        num_parameters: 1, or the number of channels for a factor each.
        init: the factor to begin with.
        device: where the parameter lives.
        dtype: its dtype.
    """

    __constants__ = ["num_parameters"]
    num_parameters: int

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        self.num_parameters = num_parameters
        super().__init__()
        self.init = init
        self.weight = Parameter(torch.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Put the initial factor back."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """Its argument."""
        return f"num_parameters={self.num_parameters}"


class Softsign(Module):
    """``x / (1 + |x|)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.softsign(input)


class Tanhshrink(Module):
    """``x - tanh(x)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.tanhshrink(input)


class _Along(Named, Module):
    """A function along a dimension, which may be left to be guessed."""

    __constants__ = ["dim"]
    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "dim"):
            self.dim = None

    def extra_repr(self) -> str:
        """Its argument."""
        return f"dim={self.dim}"


class Softmin(_Along):
    """`Softmax` of the negated input.

    Args:
        dim: the dimension along which the results sum to 1.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.softmin(input, self.dim, _stacklevel=5)


class Softmax(_Along):
    """Exponentials divided by their sum.

    Args:
        dim: the dimension along which the results sum to 1.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.softmax(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """`Softmax` over the channels of images."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3, _stacklevel=5)


class LogSoftmax(_Along):
    """The logarithm of `Softmax`.

    Args:
        dim: the dimension along which the exponentials of the results sum to 1.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.log_softmax(input, self.dim, _stacklevel=5)
