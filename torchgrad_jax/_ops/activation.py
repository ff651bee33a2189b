"""Activation functions; coefficients are static, so that each kernel is the plain formula."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from .._core.arrays import shapes
from .._core.arrays.division import divide
from .._core.arrays.dtypes import BOOL, COMPLEX, FLOATING, INTEGRAL
from .._core.arrays.kernels import category, half_as_float, refuse, scalar_name, where, widen
from .._core.arrays.layouts import elementwise, preserved
from .._core.host import forms
from .._core.jax.custom_jvp import custom_jvp
from .helpers import broadcast, erf, softplus_with_rule
from .inner import inner_op
from .registry import NONE, Array, Compares, Grad, Layout, NoGradient, Out, op, with_rule

# Rows that users reach through a Python function of the namespace nn.functional.
_hidden = functools.partial(inner_op, layout=Layout.ELEMENTWISE, promote=NONE, inplace=True)
_NOT_FLOAT = (BOOL, INTEGRAL, COMPLEX)


def _float_only(x: Array, kernel: str) -> None:
    refuse(x, kernel, *_NOT_FLOAT)


# --- piecewise linear ---------------------------------------------------------------------------


@custom_jvp
def _relu(x: Array) -> Array:
    return where(x < 0, 0, x)  # a zero keeps its sign


@_relu.defjvp
def _relu_jvp(primals: Any, tangents: Any) -> Any:
    """Through the result, which is what torch saves; slope 0 at 0, and 1 for nan."""
    y = _relu(*primals)
    return y, where(y <= 0, 0, tangents[0])


@op(layout=Layout.ELEMENTWISE, inplace=True, out=False)
def relu(input: Array) -> Array:
    """The larger of the input and 0."""
    if category(input) == BOOL:
        raise RuntimeError("Boolean inputs not supported for relu")
    if category(input) == COMPLEX:
        raise NotImplementedError("clamp is not supported for complex types")
    return _relu(input)


def _gate(name: str) -> Callable[..., Any]:
    """``where(rule(x, ...), 0, t)`` as the slope of a function whose slopes are 0 and 1."""

    def declare(fn: Callable[..., Array], stops: Callable[..., Array]) -> Callable[..., Array]:
        ruled = custom_jvp(fn, nondiff_argnums=(1, 2))

        def jvp(a: Any, b: Any, primals: Any, tangents: Any) -> Any:
            (x,), (t,) = primals, tangents
            return ruled(x, a, b), where(stops(x, a, b), 0, t)

        ruled.defjvp(jvp)
        ruled.__name__ = name
        return ruled

    return declare


def _shrunk(x: Array, lambd: Any, _: Any) -> Array:
    return (x >= -lambd) & (x <= lambd)


def _limited(x: Array, low: Any, high: Any) -> Array:
    if low < high and low and high:
        return lax.clamp(jnp.asarray(low, x.dtype), x, jnp.asarray(high, x.dtype))
    # A zero keeps its sign beside a limit of 0.
    return where(x < low, jnp.full_like(x, low), where(x > high, jnp.full_like(x, high), x))


_hardtanh = _gate("hardtanh")(_limited, lambda x, low, high: (x <= low) | (x >= high))
_threshold = _gate("threshold")(
    lambda x, at, value: where(x <= at, jnp.full_like(x, value), x), lambda x, at, value: x <= at
)
_hardshrink = _gate("hardshrink")(lambda x, lambd, _: where((x >= -lambd) & (x <= lambd), 0, x), _shrunk)
_softshrink = _gate("softshrink")(
    lambda x, lambd, _: where(x > lambd, x - lambd, where(x < -lambd, x + lambd, x * 0)), _shrunk
)


def _plain(x: Array, value: float) -> Any:
    """A coefficient in the dtype of `x`; whole numbers stay exact where `x` has integers."""
    return int(value) if category(x) < FLOATING else value


@_hidden(layout=elementwise(preserved))
def hardtanh(input: Array, min_val: float = -1.0, max_val: float = 1.0) -> Array:
    """The input limited to ``[min_val, max_val]``, flat on both edges."""
    if category(input) == BOOL:
        raise RuntimeError("Bool inputs not supported for hardtanh")
    if category(input) == COMPLEX:
        raise NotImplementedError("clamp is not supported for complex types")
    if input.dtype == jnp.uint8 and (min_val < 0 or max_val < 0):
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    return _hardtanh(input, _plain(input, min_val), _plain(input, max_val))


@_hidden()
def threshold(input: Array, threshold: float, value: float) -> Array:
    """The input above `threshold`, `value` elsewhere."""
    refuse(input, "threshold_cpu", BOOL, COMPLEX)
    return _threshold(input, _plain(input, threshold), _plain(input, value))


@op(layout=Layout.ELEMENTWISE, out=Out.EXACT)
def hardshrink(input: Array, lambd: float = 0.5) -> Array:
    """0 on ``[-lambd, lambd]``, the input elsewhere."""
    _float_only(input, "hardshrink_cpu")
    return _hardshrink(input, lambd, None)


@op(layout=Layout.ELEMENTWISE, function=False, method=False)
def softshrink(input: Array, lambd: float = 0.5) -> Array:
    """0 on ``[-lambd, lambd]``, the input moved towards 0 by `lambd` elsewhere."""
    _float_only(input, "softshrink_check")
    if not lambd >= 0:
        high = float(jnp.finfo(input.dtype).max)
        raise RuntimeError(
            f"lambda must be in range [0, {high:g}] for input dtype {scalar_name(input)}, but found {lambd:g}"
        )
    return _softshrink(input, lambd, None)


def _leaky(x: Array, slope: Any) -> Array:
    return with_rule(lambda x: where(x > 0, x, x * slope), lambda x, y, t: t * where(x > 0, jnp.ones_like(x), slope))(x)


@_hidden()
def leaky_relu(input: Array, negative_slope: float = 0.01) -> Array:
    """The input where positive, `negative_slope` times it elsewhere."""
    _float_only(input, "leaky_relu_cpu")
    return half_as_float(_leaky)(input, negative_slope)


def _prelu_value(x: Array, w: Array) -> Array:
    return where(x > 0, x, w * x)


# At 0 torch's first gradients are those of the left, its second ones and its forward mode those of the right.
_prelu_slope = with_rule(
    lambda x, w: where(x > 0, jnp.ones_like(x), w), lambda x, w, out, tx, tw: where(x >= 0, jnp.zeros_like(x), tw)
)
_below_zero = with_rule(
    lambda x: where(x > 0, jnp.zeros_like(x), x), lambda x, out, t: where(x >= 0, jnp.zeros_like(x), t)
)
# The slope is a factor of 1 where the weight is not used, so that a NaN among the weights does no harm there.
# An infinite gradient of what the weight is not used for is masked, not multiplied by 0.
_prelu = with_rule(
    _prelu_value,
    lambda x, w, out, tx, tw: _prelu_slope(x, w) * tx + _below_zero(x) * where(x > 0, jnp.zeros_like(x), tw),
)
_prelu_forward = with_rule(_prelu_value, lambda x, w, out, tx, tw: where(x >= 0, 1, w) * tx + where(x >= 0, 0, x) * tw)


@_hidden(
    name="prelu_kernel",
    node="PreluKernelBackward0",
    inplace=False,
    layout=Layout.PRESERVE,
    no_gradient={NoGradient.ZEROS: ("input", "weight")},
    keeps={"weight": ("input", "weight")},
    forward=lambda input, weight: _prelu_forward(*broadcast(input, weight)),
)
def _prelu_kernel(input: Array, weight: Array) -> Array:
    _float_only(input, "prelu_cpu")
    return _prelu(*broadcast(input, weight))


@_hidden(
    name="rrelu_with_noise",
    node="RreluWithNoiseBackward0",
    no_gradient={NoGradient.REFUSED: ("noise",)},
    layout=Layout.CONTIGUOUS,
    keeps={"input": ("input", "noise")},
)
def _rrelu_with_noise(input: Array, noise: Array, lower: float, upper: float, training: bool) -> Array:
    _float_only(input, "leaky_relu_cpu" if not training else "rrelu_with_noise_out_cpu")
    if not training:
        return half_as_float(_leaky)(input, (lower + upper) / 2)
    return where(input <= 0, input * lax.stop_gradient(noise), input)


@_hidden()
def hardsigmoid(input: Array) -> Array:
    """A straight line from 0 at -3 to 1 at 3."""
    _float_only(input, "hardsigmoid_cpu")
    return _hardsigmoid(input)


@custom_jvp
def _hardsigmoid(x: Array) -> Array:
    return half_as_float(lambda x: divide(jnp.clip(x + 3, 0, 6), 6))(x)


@_hardsigmoid.defjvp
def _hardsigmoid_jvp(primals: Any, tangents: Any) -> Any:
    # torch multiplies by a sixth in single precision, whatever the dtype is.
    (x,), (t,) = primals, tangents
    return _hardsigmoid(x), where((x > -3) & (x < 3), t * 0.1666666716337204, 0)


@_hidden(compares=Compares.IN_SECOND_GRADIENTS)
def hardswish(input: Array) -> Array:
    """The input times hardsigmoid of it."""
    _float_only(input, "hardswish_cpu")
    return _hardswish(input)


@custom_jvp
def _hardswish(x: Array) -> Array:
    return half_as_float(lambda x: divide(x * jnp.clip(x + 3, 0, 6), 6))(x)


@_hardswish.defjvp
def _hardswish_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    slope = where(x <= -3, 0, where(x < 3, x / 3 + 0.5, 1))
    return _hardswish(x), where(x <= -3, 0, t) * slope


# --- exponential units --------------------------------------------------------------------------


@functools.partial(custom_jvp, nondiff_argnums=(1, 2, 3))
def _elu(x: Array, alpha: float, scale: float, input_scale: float) -> Array:
    below = where(x <= 0, x, 0)  # the derivative never sees exp of a large number
    return where(x <= 0, lax.expm1(below * input_scale) * (alpha * scale), x * scale)


@_elu.defjvp
def _elu_jvp(alpha: float, scale: float, input_scale: float, primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    below = where(x < 0, x, 0)
    steep = lax.exp(below * input_scale) * (alpha * scale * input_scale)
    return _elu(x, alpha, scale, input_scale), t * where(x <= 0, steep, scale)


@functools.partial(custom_jvp, nondiff_argnums=(1, 2, 3))
def _elu_by_result(x: Array, alpha: float, scale: float, input_scale: float) -> Array:
    return half_as_float(_elu)(x, alpha, scale, input_scale)


@_elu_by_result.defjvp
def _elu_by_result_jvp(alpha: float, scale: float, input_scale: float, primals: Any, tangents: Any) -> Any:
    y = _elu_by_result(*primals, alpha, scale, input_scale)
    slope = where(y <= 0, (y + alpha * scale) * input_scale, scale)
    return y, tangents[0] * slope


@_hidden(inplace=False)
def elu(input: Array, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Array:
    """``scale * x`` where positive, ``scale * alpha * expm1(input_scale * x)`` elsewhere."""
    _float_only(input, "elu_cpu")
    return half_as_float(_elu)(input, alpha, scale, input_scale)


@_hidden(inplace=False)
def celu(input: Array, alpha: float = 1.0) -> Array:
    """``max(0, x) + min(0, alpha * expm1(x / alpha))``."""
    return elu(input, _nonzero(alpha), 1.0, 1.0 / alpha)


def _nonzero(alpha: float) -> float:
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return alpha


# In place the input is overwritten, so torch differentiates through the result.
@_hidden(name="elu_inplace", node="EluBackward1")
def _elu_inplace(input: Array, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Array:
    _float_only(input, "elu_cpu")
    if alpha < 0:
        raise RuntimeError(
            "In-place elu backward calculation is triggered with a negative slope which is not "
            "supported. This is caused by calling in-place forward function with a negative slope, "
            "please call out-of-place version instead."
        )
    return _elu_by_result(input, alpha, scale, input_scale)


@_hidden(name="celu_inplace", node="CeluBackward1")
def _celu_inplace(input: Array, alpha: float = 1.0) -> Array:
    return _elu_inplace(input, _nonzero(alpha), 1.0, 1.0 / alpha)


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _leaky_by_result(x: Array, slope: float) -> Array:
    return half_as_float(_leaky)(x, slope)


@_leaky_by_result.defjvp
def _leaky_by_result_jvp(slope: float, primals: Any, tangents: Any) -> Any:
    y = _leaky_by_result(*primals, slope)
    return y, tangents[0] * where(y > 0, jnp.ones_like(y), slope)


@_hidden(name="leaky_relu_inplace", node="LeakyReluBackward1")
def _leaky_relu_inplace(input: Array, negative_slope: float = 0.01) -> Array:
    _float_only(input, "leaky_relu_cpu")
    if negative_slope < 0:
        raise RuntimeError(
            "In-place leakyReLu backward calculation is triggered with a negative slope which is not "
            "supported. This is caused by calling in-place forward function with a negative slope, "
            "please call out-of-place version instead. File an issue at "
            "https://github.com/pytorch/pytorch if you do require supporting in-place leakRelu "
            "backward calculation with negative slope"
        )
    return _leaky_by_result(input, negative_slope)


@_hidden(name="threshold_inplace", node="ThresholdBackward1")
def _threshold_inplace(input: Array, threshold: float, value: float) -> Array:
    refuse(input, "threshold_cpu", BOOL, COMPLEX)
    return _threshold(input, _plain(input, threshold), _plain(input, value))


@functools.partial(custom_jvp, nondiff_argnums=(2, 3))
def _rrelu_by_result(x: Array, noise: Array, lower: float, upper: float) -> Array:
    return _rrelu_with_noise(x, noise, lower, upper, True)


@_rrelu_by_result.defjvp
def _rrelu_by_result_jvp(lower: float, upper: float, primals: Any, tangents: Any) -> Any:
    """The slopes are 1 where the input was positive."""
    return _rrelu_by_result(*primals, lower, upper), tangents[0] * primals[1]


@_hidden(
    name="rrelu_with_noise_inplace",
    node="RreluWithNoiseBackward1",
    no_gradient={NoGradient.REFUSED: ("noise",)},
    keeps={"input": ("noise", "result")},
)
def _rrelu_inplace(input: Array, noise: Array, lower: float, upper: float, training: bool) -> Array:
    if not training:
        _float_only(input, "leaky_relu_cpu")
        return _leaky_by_result(input, (lower + upper) / 2)
    return _rrelu_by_result(input, noise, lower, upper)


# --- smooth units -------------------------------------------------------------------------------


def _sloped(fn: Callable[[Array], Array], slope: Callable[[Array], Array]) -> Callable[..., Array]:
    """`fn` with its slope as one factor: a sum of products would make NaN of an infinite gradient."""
    return with_rule(fn, lambda x, y, t: t * slope(x))


def _silu_slope(x: Array) -> Array:
    y = lax.logistic(x)
    return y * (1 + x * (1 - y))


_silu = _sloped(lambda x: x * lax.logistic(x), _silu_slope)


@_hidden(grad=Grad.REAL)
def silu(input: Array) -> Array:
    """``x * sigmoid(x)``."""
    refuse(input, "silu_cpu", BOOL, INTEGRAL)
    return half_as_float(_silu)(input)


def _mish_slope(x: Array) -> Array:
    y = lax.tanh(softplus_with_rule(x))
    return y + x * lax.logistic(x) * (1 - y * y)


_mish = _sloped(lambda x: x * lax.tanh(softplus_with_rule(x)), _mish_slope)


@_hidden()
def mish(input: Array) -> Array:
    """``x * tanh(softplus(x))``."""
    _float_only(input, "mish_cpu")
    return half_as_float(_mish)(input)


@op(layout=Layout.ELEMENTWISE, function=False, method=False, host=forms.softplus)
def softplus(input: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """``log(1 + exp(beta * x)) / beta``, and the input itself where ``beta * x`` is past `threshold`."""
    _float_only(input, "softplus_cpu")

    def body(x: Array) -> Array:
        z = x * beta
        soft = lax.log1p(lax.exp(where(z > threshold, 0, z)))
        return where(z > threshold, x, divide(soft, beta))

    def slope(x: Array) -> Array:
        z = x * beta
        flat = lax.logistic(jnp.full_like(x, threshold))  # torch: the slope of the slope is 0
        return where(z > threshold, jnp.ones_like(x), where(z == threshold, flat, lax.logistic(z)))

    return half_as_float(_sloped(body, slope))(input)


@custom_jvp
def _log_sigmoid(x: Array) -> Array:
    return half_as_float(lambda x: lax.min(x, jnp.zeros_like(x)) - lax.log1p(lax.exp(-lax.abs(x))))(x)


@_log_sigmoid.defjvp
def _log_sigmoid_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _log_sigmoid(x), t * lax.logistic(-x)


@op(function=False, method=False)
def log_sigmoid(input: Array) -> Array:
    """``log(sigmoid(x))``."""
    _float_only(input, "log_sigmoid_cpu")
    return _log_sigmoid(input)


def _below(x: Array) -> Array:
    """The normal distribution function."""
    return 0.5 * (1 + erf(x * math.sqrt(0.5)))


_gelu_erf = _sloped(
    lambda x: x * 0.5 * (1 + erf(x * math.sqrt(0.5))),
    lambda x: _below(x) + x * (lax.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))),
)


def _gelu_inner(x: Array) -> Array:
    return lax.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x)))


def _gelu_tanh_slope(x: Array) -> Array:
    y = _gelu_inner(x)
    steep = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)
    return 0.5 * (1 + y) + 0.5 * x * ((1 - y * y) * steep)


_gelu_tanh = _sloped(lambda x: 0.5 * x * (1 + _gelu_inner(x)), _gelu_tanh_slope)


@op(layout=Layout.ELEMENTWISE, function=False, method=False)
def gelu(input: Array, *, approximate: str = "none") -> Array:
    """The input times the normal distribution function of it, or a tanh formula for that."""
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    _float_only(input, "GeluKernelImpl")
    return half_as_float(_gelu_tanh if approximate == "tanh" else _gelu_erf)(input)


def _halved(metas: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    return shapes.elementwise_strides(shape, [(shape, metas[0].strides)])


@op(function=False, method=False, layout=_halved)
def glu(input: Array, dim: int = -1) -> Array:
    """The first half along `dim` times the sigmoid of the second half."""
    if not input.ndim:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    dim = shapes.wrap_dim(dim, input.ndim)
    size = input.shape[dim]
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {size}")
    refuse(input, "glu_cpu", BOOL, INTEGRAL, COMPLEX)

    def body(x: Array) -> Array:
        a, b = (lax.slice_in_dim(x, i * size // 2, (i + 1) * size // 2, axis=dim) for i in (0, 1))
        return a * lax.logistic(b)

    return half_as_float(body)(input)


# --- softmax ------------------------------------------------------------------------------------


def _sum(x: Array, dim: Any) -> Array:
    return jnp.sum(x, axis=dim, keepdims=True)


def _shifted(x: Array, dim: Any) -> Array:
    """The input minus its largest value, which is a constant for derivatives."""
    if not x.size:  # there is no largest value
        return x
    return x - lax.stop_gradient(jnp.max(x, axis=dim, keepdims=True))


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _softmax(x: Array, dim: Any) -> Array:
    def body(x: Array) -> Array:
        e = lax.exp(_shifted(x, dim))
        return e / _sum(e, dim)

    return half_as_float(body)(x)


@_softmax.defjvp
def _softmax_jvp(dim: int, primals: Any, tangents: Any) -> Any:
    """Through the result, which is what torch saves."""
    y = _softmax(*primals, dim)
    wy, wt = widen(y), widen(tangents[0])
    return y, (wy * (wt - _sum(wy * wt, dim))).astype(y.dtype)


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _log_softmax(x: Array, dim: Any) -> Array:
    def body(x: Array) -> Array:
        z = _shifted(x, dim)
        return z - lax.log(_sum(lax.exp(z), dim))

    return half_as_float(body)(x)


@_log_softmax.defjvp
def _log_softmax_jvp(dim: int, primals: Any, tangents: Any) -> Any:
    """Through the result, which is what torch saves."""
    y = _log_softmax(*primals, dim)
    wy, wt = widen(y), widen(tangents[0])
    return y, (wt - _sum(lax.exp(wy) * wt, dim)).astype(y.dtype)


def _along(fn: Callable[[Array, Any], Array], name: str, x: Array, dim: int) -> Array:
    axis = shapes.wrap_dim(dim, x.ndim)
    last = axis == max(x.ndim - 1, 0)
    # torch runs no kernel, which would refuse the dtype.
    if not x.size and category(x) in _NOT_FLOAT:
        return x
    refuse(x, f"{name}_lastdim_kernel_impl" if last else f"{name}_kernel_impl", *_NOT_FLOAT)
    return fn(x, axis if x.ndim else ())  # a scalar is a sum of one term


@inner_op(name="_softmax", node="SoftmaxBackward0", grad=Grad.REAL)
def _softmax_row(input: Array, dim: int) -> Array:
    return _along(_softmax, "softmax", input, dim)


@inner_op(name="_log_softmax", node="LogSoftmaxBackward0", grad=Grad.REAL)
def _log_softmax_row(input: Array, dim: int) -> Array:
    return _along(_log_softmax, "log_softmax", input, dim)


@inner_op(name="_softmax_backward_data_row", node="SoftmaxBackwardDataBackward0")
def _softmax_backward_data_row(input: Array, output: Array, dim: int) -> Array:
    if input.shape != output.shape:
        raise RuntimeError("Assertion error: grad_output and output have different shapes")
    if input.dtype != output.dtype:
        raise RuntimeError(f"expected scalar type {scalar_name(input)} but found {scalar_name(output)}")
    _float_only(input, "softmax_backward_lastdim_kernel_impl")
    axis = shapes.wrap_dim(dim, input.ndim) if input.ndim else ()
    g, y = widen(input), widen(output)
    return (g * y - y * _sum(g * y, axis)).astype(output.dtype)
