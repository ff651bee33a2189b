"""Ways to fill parameters with initial values; with the same seed, those that torch draws."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

from .._core.errors import warn
from .._core.errors.messages import missing as _missing
from .._core.state import MODES
from .._engine.entry.bind import ops
from .._engine.memory.tensor import Tensor
from ..autograd.grad_mode import no_grad
from ._top import torch

__all__ = [
    "calculate_gain", "constant", "constant_", "dirac", "dirac_", "eye", "eye_", "kaiming_normal", "kaiming_normal_",
    "kaiming_uniform", "kaiming_uniform_", "normal", "normal_", "ones_", "orthogonal", "orthogonal_", "sparse",
    "sparse_", "trunc_normal_", "uniform", "uniform_", "xavier_normal", "xavier_normal_", "xavier_uniform",
    "xavier_uniform_", "zeros_",
]  # fmt: skip

_NonlinearityType = Literal[
    "linear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "sigmoid",
    "tanh",
    "relu",
    "leaky_relu",
    "selu",
]
_FanMode = Literal["fan_in", "fan_out"]

_GAINS = {
    **dict.fromkeys(
        ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid"),
        1,
    ),
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4,
}


def calculate_gain(nonlinearity: _NonlinearityType, param: float | None = None) -> float:
    """The factor by which initial weights before a nonlinearity are larger.

    Args:
        nonlinearity: its name in `nn.functional`.
        param: the slope of "leaky_relu" (0.01).

    Example:
        >>> calculate_gain("leaky_relu", 1)
        1.0
    """
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity == "leaky_relu":
        if param is None:
            slope: Any = 0.01
        elif isinstance(param, int | float) and not isinstance(param, bool):
            slope = param
        else:
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


# --- one distribution or value --------------------------------------------------------------------


def _no_grad_uniform_(tensor: Any, a: float, b: float, generator: Any = None) -> Tensor:
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def _no_grad_normal_(tensor: Any, mean: float, std: float, generator: Any = None) -> Tensor:
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def _no_grad_fill_(tensor: Any, val: float) -> Tensor:
    with no_grad():
        return tensor.fill_(val)


def _no_grad_zero_(tensor: Any) -> Tensor:
    with no_grad():
        return tensor.zero_()


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with draws from the uniform distribution on [a, b).

    Args:
        tensor: what to fill.
        a: the lower bound.
        b: the upper bound.
        generator: where the random numbers come from.
    """
    return _no_grad_uniform_(tensor, a, b, generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with draws from a normal distribution.

    Args:
        tensor: what to fill.
        mean: its mean.
        std: its standard deviation.
        generator: where the random numbers come from.
    """
    return _no_grad_normal_(tensor, mean, std, generator)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """Fill with draws from a normal distribution conditioned on [a, b].

    Args:
        tensor: what to fill.
        mean: the mean before conditioning.
        std: the standard deviation before conditioning.
        a: the lower bound.
        b: the upper bound.
        generator: where the random numbers come from.
    """
    return _no_grad_trunc_normal_(tensor, mean, std, a, b, generator)


def _no_grad_trunc_normal_(tensor: Any, mean: float, std: float, a: float, b: float, generator: Any = None) -> Tensor:
    if mean < a - 2 * std or mean > b + 2 * std:
        warn.to_user(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect."
        )
    inside = _below((b - mean) / std) - _below((a - mean) / std)
    if tensor.is_meta:
        return tensor
    with no_grad():
        # A traced program cannot draw until all are inside.
        if generator is None and MODES.keys is not None:
            below = _below((a - mean) / std)
            tensor.uniform_(2 * below - 1, 2 * (below + inside) - 1).erfinv_()
            tensor.mul_(std * math.sqrt(2.0)).add_(mean).clamp_(a, b)
        elif inside > 0.3:
            _redraw_outside(tensor, mean, std, a, b, generator)
        else:
            _accept_uniforms(tensor, mean, std, a, b, generator)
    return tensor


def _below(x: float) -> float:
    """The standard normal distribution function."""
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def _redraw_outside(t: Any, mean: float, std: float, a: float, b: float, generator: Any) -> None:
    """Normal numbers; those outside are drawn again until none is left."""
    low, high = (t.new_tensor(bound).item() for bound in (a, b))  # as the dtype has them
    values = t.normal_(mean, std, generator=generator)
    while True:
        outside = (values < low) | (values > high)
        if not outside.any():
            break
        again = torch.empty_like(values).normal_(mean, std, generator=generator)
        values = torch.where(outside, again, values)
    if values is not t:
        t.copy_(values)


def _accept_uniforms(t: Any, mean: float, std: float, a: float, b: float, generator: Any) -> None:
    """Uniform numbers, each kept with a probability that is the density over its maximum."""
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    candidates = t.uniform_(a, b, generator=generator).clone()
    chance = torch.empty_like(t)

    def refused() -> Any:
        density = candidates.sub_(mean).div_(std).pow_(2).mul_(-0.5).sub_(peak)
        return chance.uniform_(generator=generator).log_().gt(density)

    values, pending = t, refused()
    if not pending.any():
        return
    while pending.any():
        candidates.uniform_(a, b, generator=generator)
        values = torch.where(pending, candidates, values)
        pending = pending & refused()
    t.copy_(values)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one value.

    Args:
        tensor: what to fill.
        val: the value.
    """
    return _no_grad_fill_(tensor, val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones.

    Args:
        tensor: what to fill.
    """
    return _no_grad_fill_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros.

    Args:
        tensor: what to fill.
    """
    return _no_grad_zero_(tensor)


# --- shapes that mean something -------------------------------------------------------------------


def eye_(tensor: Any) -> Tensor:
    """Make a matrix the identity.

    Args:
        tensor: the matrix.
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with no_grad():
        tensor.zero_()
        tensor.diagonal().fill_(1)
    return tensor


def dirac_(tensor: Any, groups: int = 1) -> Tensor:
    """Make the weight of a convolution pass its input through.

    Args:
        tensor: the weight, of 3 to 5 dimensions.
        groups: the number of groups of the convolution.
    """
    if tensor.ndimension() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    sizes = tensor.size()
    if sizes[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    each = sizes[0] // groups
    centre = tuple(n // 2 for n in sizes[2:])
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(each, sizes[1])):
                tensor[(group * each + channel, channel, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Any) -> tuple[int, int]:
    """Return how many inputs an output depends on, and the other way round."""
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.size(1) * field, tensor.size(0) * field


def _calculate_correct_fan(tensor: Tensor, mode: Any) -> int:
    mode = mode.lower()
    valid = ["fan_in", "fan_out"]
    if mode not in valid:
        raise ValueError(f"Mode {mode} not supported, please use one of {valid}")
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return fan_in if mode == "fan_in" else fan_out


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill uniformly such that variance is kept in both directions on average.

    Args:
        tensor: a weight.
        gain: a factor, see `calculate_gain`.
        generator: where the random numbers come from.
    """
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    std = gain * math.sqrt(2.0 / float(fan_in + fan_out))
    bound = math.sqrt(3.0) * std
    return _no_grad_uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """`xavier_uniform_` with normal numbers.

    Args:
        tensor: a weight.
        gain: a factor, see `calculate_gain`.
        generator: where the random numbers come from.
    """
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return _no_grad_normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(fan_in + fan_out)), generator)


def _kaiming_std(tensor: Any, a: float, mode: Any, nonlinearity: Any) -> float | None:
    """The standard deviation; None for tensors without elements."""
    if 0 in tensor.shape:
        warn.to_user("Initializing zero-element tensors is a no-op")
        return None
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: _FanMode = "fan_in",
    nonlinearity: _NonlinearityType = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fill uniformly such that rectified layers keep the variance.

    Args:
        tensor: a weight.
        a: the slope of the rectifier below 0.
        mode: "fan_in" keeps the variance forward, "fan_out" backward.
        nonlinearity: "relu" or "leaky_relu".
        generator: where the random numbers come from.
    """
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    if std is None:
        return tensor
    bound = math.sqrt(3.0) * std
    return _no_grad_uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: _FanMode = "fan_in",
    nonlinearity: _NonlinearityType = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """`kaiming_uniform_` with normal numbers; the arguments are the same."""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    return tensor if std is None else _no_grad_normal_(tensor, 0, std, generator)


def orthogonal_(tensor: Any, gain: float = 1, generator: Any = None) -> Tensor:
    """Fill with an orthogonal matrix; dimensions after the first count as one.

    Args:
        tensor: what to fill.
        gain: a factor.
        generator: where the random numbers come from.
    """
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0 or tensor.is_meta:
        return tensor
    rows = tensor.size(0)
    columns = tensor.numel() // rows
    with no_grad():
        drawn = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
        q, r = ops.linalg_qr(drawn.t() if rows < columns else drawn)
        q = q * torch.diag(r).sign()
        tensor.copy_((q.t() if rows < columns else q).reshape(tensor.shape))
        tensor.mul_(gain)
    return tensor


def sparse_(tensor: Any, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fill a matrix with normal numbers, and a part of each column with zeros.

    Args:
        tensor: the matrix.
        sparsity: which part of each column is zero.
        std: the standard deviation of the others.
        generator: where the normal numbers come from.
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[torch.randperm(rows)[:zeros], column] = 0
    return tensor


# --- former names ---------------------------------------------------------------------------------


def _make_deprecate(fn: Callable[..., Any]) -> Callable[..., Any]:
    new = fn.__name__
    old = new[:-1]

    def deprecated(*args: Any, **kwargs: Any) -> Any:
        warn.to_user(f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.", FutureWarning)
        return fn(*args, **kwargs)

    deprecated.__name__ = deprecated.__qualname__ = old
    deprecated.__doc__ = f"The former name of `{new}`."
    return deprecated


uniform = _make_deprecate(uniform_)
normal = _make_deprecate(normal_)
constant = _make_deprecate(constant_)
eye = _make_deprecate(eye_)
dirac = _make_deprecate(dirac_)
xavier_uniform = _make_deprecate(xavier_uniform_)
xavier_normal = _make_deprecate(xavier_normal_)
kaiming_uniform = _make_deprecate(kaiming_uniform_)
kaiming_normal = _make_deprecate(kaiming_normal_)
orthogonal = _make_deprecate(orthogonal_)
sparse = _make_deprecate(sparse_)

__getattr__ = _missing(__name__)
