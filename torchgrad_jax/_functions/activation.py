"""Activation functions of nn.functional, and those that torch composes of other ops."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .._core.arrays import dtypes
from .._core.arrays.dtypes import FLOATING
from .._core.arrays.meta import Meta, meta
from .._core.errors import warn
from .._core.errors.messages import Unsupported
from .._core.random import rng
from .._core.random.keys import KeyStream
from .._core.random.rounding import cast
from .._core.state import MODES
from .._engine.entry.bind import METHODS, NAMESPACES, composite, ops
from .._engine.memory.concrete import concrete
from .._engine.memory.tensor import Tensor
from .create import from_host
from .random import chosen, draw, without_derivatives

SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
_functional = functools.partial(composite, method=False, namespace="nn.functional")
_top = functools.partial(composite, method=False)


# --- piecewise linear ---------------------------------------------------------------------------


@_functional
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """The larger of the input and 0."""
    return ops.relu_(input) if inplace else ops.relu(input)


@_functional
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """The input limited to ``[min_val, max_val]``."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return (ops.hardtanh_ if inplace else ops.hardtanh)(input, min_val, max_val)


@_functional
def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`hardtanh` in place."""
    return hardtanh(input, min_val, max_val, True)


@_functional
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """The input limited to [0, 6]."""
    return hardtanh(input, 0.0, 6.0, inplace)


def _threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """The input above `threshold`, `value` elsewhere."""
    return (ops.threshold_inplace_ if inplace else ops.threshold)(input, threshold, value)


@_top
def threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    """The input above `threshold`, `value` elsewhere."""
    return _threshold(input, threshold, value)


@_top
def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """`threshold` in place."""
    return _threshold(input, threshold, value, True)


_functional(_threshold, name="threshold")
_functional(threshold_, name="threshold_")


@_functional
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """The input where positive, `negative_slope` times it elsewhere."""
    return (ops.leaky_relu_inplace_ if inplace else ops.leaky_relu)(input, negative_slope)


@_functional
def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """`leaky_relu` in place."""
    return leaky_relu(input, negative_slope, True)


@_functional
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """A straight line from 0 at -3 to 1 at 3."""
    return (ops.hardsigmoid_ if inplace else ops.hardsigmoid)(input)


@_functional
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """The input times hardsigmoid of it."""
    return (ops.hardswish_ if inplace else ops.hardswish)(input)


@_functional(out=True)
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """0 on ``[-lambd, lambd]``, the input elsewhere."""
    return ops.hardshrink(input, lambd)


@_functional(out=True)
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """0 on ``[-lambd, lambd]``, the input moved towards 0 by `lambd` elsewhere."""
    return ops.softshrink(input, lambd)


@composite
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """The input where positive, a learned multiple of it elsewhere: one for all or one per channel."""
    x, w = input._m, weight._m
    if x.dtype is not w.dtype:
        names = [dtypes.scalar_type_name(d) for d in (x.dtype, w.dtype)]
        raise RuntimeError(f"prelu: Type promoting not supported. Got {names[0]} and {names[1]}")
    if w.numel != 1:
        if not x.ndim:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = x.shape[1] if x.ndim > 1 else 1
        if channels != w.numel:
            raise RuntimeError(
                "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{w.numel} and channel size = {channels}."
            )
    if w.ndim > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {w.ndim}")
    if w.ndim != x.ndim:
        shape = (1, w.numel, *[1] * (x.ndim - 2)) if x.ndim > 1 else (1,) * x.ndim
        weight = weight.reshape(shape)
    return ops.prelu_kernel(input, weight)


_functional(prelu, name="prelu")


def _rrelu(
    input: Tensor, lower: float = 0.125, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """`leaky_relu` with a slope drawn per entry between `lower` and `upper` while training."""
    for name, bound in (("lower", lower), ("upper", upper)):
        if not math.isfinite(bound):
            raise RuntimeError(f"rrelu: {name} bound must be finite, got {bound:g}")
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    row = ops.rrelu_with_noise_inplace_ if inplace else ops.rrelu_with_noise
    noise = _slopes(input, lower, upper) if training else _unread(input._m)
    return row(input, noise, lower, upper, training)


def _unread(m: Meta) -> Tensor:
    """The slopes that torch saves in evaluation mode, although it neither writes nor reads them."""
    return from_host(np.zeros(m.shape, m.dtype.np), m.device)


def _slopes(input: Tensor, lower: float, upper: float) -> Tensor:
    """A double drawn for each entry that is not positive, in row-major order; 1 for the others."""
    m = input._m
    if MODES.run.batch is not None:
        raise RuntimeError("vmap: we do not yet support aten::rrelu. Please file an issue")
    generator = chosen("rrelu", None, m.device)
    # A key draws a number for each entry, since a program does not know how many are negative.
    if generator.__class__ is KeyStream:
        drawn = draw(
            meta(m.shape, m.dtype, m.device),
            lambda m: cast(rng.uniform(m.shape, np.float64, lower, upper, generator=generator), m.dtype.np),
        )
        negative = without_derivatives(input) <= 0
        return ops.where(negative, drawn, from_host(np.ones((), m.dtype.np), m.device))
    if not MODES.run.at_once:
        raise Unsupported(
            "torch.compile: rrelu draws a number for each entry that is not positive, and a compiled function does not "
            "know how many there are"
        )
    negative = concrete(input) <= 0
    noise = np.ones(m.shape, m.dtype.np)
    count = (int(np.count_nonzero(negative)),)
    noise[negative] = rng.uniform(count, np.float64, lower, upper, generator=generator)
    return from_host(noise, m.device)


@_top
def rrelu(
    input: Tensor, lower: float = 0.125, upper: float = 1 / 3, training: bool = False, generator: Any = None
) -> Tensor:
    """`leaky_relu` with a random slope while training."""
    if generator is not None:
        raise NotImplementedError("rrelu(): generator")
    return _rrelu(input, lower, upper, training)


@_top
def rrelu_(
    input: Tensor, lower: float = 0.125, upper: float = 1 / 3, training: bool = False, generator: Any = None
) -> Tensor:
    """`rrelu` in place."""
    if generator is not None:
        raise NotImplementedError("rrelu_(): generator")
    return _rrelu(input, lower, upper, training, True)


_functional(_rrelu, name="rrelu")
_functional(rrelu_, name="rrelu_")

# --- exponential units --------------------------------------------------------------------------


def _elu(input: Tensor, alpha: float, scale: float, inplace: bool) -> Tensor:
    return (ops.elu_inplace_ if inplace else ops.elu)(input, alpha, scale)


@_functional
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """The input where positive, ``alpha * expm1(input)`` elsewhere."""
    return _elu(input, alpha, 1.0, inplace)


@_functional
def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`elu` in place."""
    return _elu(input, alpha, 1.0, True)


def _selu(input: Tensor, inplace: bool = False) -> Tensor:
    """`elu` with the scales that keep activations normalised."""
    return _elu(input, SELU_ALPHA, SELU_SCALE, inplace)


@_top
def selu(input: Tensor) -> Tensor:
    """`elu` with the scales that keep activations normalised."""
    return _selu(input)


@_top
def selu_(input: Tensor) -> Tensor:
    """`selu` in place."""
    return _selu(input, True)


_functional(_selu, name="selu")
_functional(selu_, name="selu_")


def _celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``max(0, x) + min(0, alpha * expm1(x / alpha))``."""
    return (ops.celu_inplace_ if inplace else ops.celu)(input, alpha)


@_top
def celu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """``max(0, x) + min(0, alpha * expm1(x / alpha))``."""
    return _celu(input, alpha)


@_top
def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`celu` in place."""
    return _celu(input, alpha, True)


_functional(_celu, name="celu")
_functional(celu_, name="celu_")

# --- smooth units -------------------------------------------------------------------------------


@_functional
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * sigmoid(x)``."""
    return (ops.silu_ if inplace else ops.silu)(input)


@_functional
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * tanh(softplus(x))``."""
    return (ops.mish_ if inplace else ops.mish)(input)


@_functional(out=True)
def softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """A smooth relu, linear where ``beta * input`` is past `threshold`."""
    return ops.softplus(input, beta, threshold)


@_functional(out=True)
def logsigmoid(input: Tensor) -> Tensor:
    """``log(sigmoid(x))``."""
    return ops.log_sigmoid(input)


@_functional(out=True)
def gelu(input: Tensor, *, approximate: str = "none") -> Tensor:
    """The input times the normal distribution function of it."""
    return ops.gelu(input, approximate=approximate)


@_functional
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along `dim` times the sigmoid of the second half."""
    return ops.glu(input, dim)


@_functional
def sigmoid(input: Tensor) -> Tensor:
    """``1 / (1 + exp(-x))``."""
    return ops.sigmoid(input)


@_functional
def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return ops.tanh(input)


@_functional
def softsign(input: Tensor) -> Tensor:
    """``x / (1 + |x|)``."""
    return ops.true_divide(input, ops.add(ops.abs(input), 1))


@_functional
def tanhshrink(input: Tensor) -> Tensor:
    """``x - tanh(x)``."""
    return ops.sub(input, ops.tanh(input))


# --- softmax ------------------------------------------------------------------------------------


def _cast(input: Tensor, dtype: Any) -> Tensor:
    return input if dtype is None or dtype is input._m.dtype else input.to(dtype=dtype)


def _implicit_dim(name: str, ndim: int) -> int:
    warn.to_user(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument."
    )
    return 0 if ndim in (0, 1, 3) else 1


@composite(out=True)
def softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """Exponentials along `dim`, divided by their sum."""
    return ops._softmax(_cast(input, dtype), dim)


@composite(out=True)
def log_softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """The logarithm of `softmax`."""
    return ops._log_softmax(_cast(input, dtype), dim)


@_functional(name="softmax")
def softmax_with_implicit_dim(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Exponentials along `dim`, divided by their sum."""
    return softmax(input, _implicit_dim("softmax", input._m.ndim) if dim is None else dim, dtype)


@_functional(name="log_softmax")
def log_softmax_with_implicit_dim(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """The logarithm of `softmax`."""
    return log_softmax(input, _implicit_dim("log_softmax", input._m.ndim) if dim is None else dim, dtype)


@_functional
def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """`softmax` of the negated input."""
    return softmax(ops.neg(input), _implicit_dim("softmin", input._m.ndim) if dim is None else dim, dtype)


@_functional
def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """A sample from the Gumbel-softmax distribution; `hard` makes it one-hot, gradients unchanged."""
    if eps != 1e-10:
        warn.to_user("`eps` parameter is deprecated and has no effect.")
    if logits._m.dtype.category != FLOATING:
        raise RuntimeError("gumbel_softmax() expects a floating-point tensor")
    noise = ops.neg(ops.log(logits.detach().new_empty(logits._m.shape).exponential_()))
    soft = softmax(ops.true_divide(ops.add(logits, noise), tau), dim)
    if not hard:
        return soft
    winner = soft.detach().argmax(dim, keepdim=True)
    one_hot = logits.detach().new_zeros(logits._m.shape).scatter(dim, winner, 1.0)
    return ops.add(ops.sub(one_hot, soft.detach()), soft)


# torch binds relu_ in nn.functional and at the top level to one function.
NAMESPACES["nn.functional"]["relu_"] = METHODS["relu_"]
