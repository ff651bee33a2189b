"""Fake quantization for training: numbers rounded to those that a quantized tensor could hold, in their own dtype.

A gradient goes through where the rounded number was in range. As in torch, scales are float32 whatever the
input is, and the inputs are multiplied by their reciprocals.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays.dtypes import BOOL, COMPLEX, INTEGRAL
from .._core.arrays.kernels import refuse, scalar_name, where
from .._core.errors.checks import fail_if, readable
from .._core.jax.custom_jvp import custom_jvp
from .registry import Array, Layout, NoGradient, Scalar, TracedInt, op

_row = functools.partial(op, nondiff=(1,), returns=("output", "mask"), out=False, function=False, method=False)
_NOT_FLOAT = (BOOL, INTEGRAL, COMPLEX)


def _check_range(low: int, high: int) -> None:
    if low > high:
        raise RuntimeError("`quant_min` should be less than or         equal to `quant_max`.")


def _zero_in_range(zero: Any, low: int, high: int) -> None:
    zero = readable(zero)
    fail_if(
        ((zero < low) | (zero > high)).any(),
        lambda: RuntimeError("`zero_point` must be between `quant_min` and `quant_max`."),
    )


def _scaled(x: Array, scale: Array) -> Array:
    """``x / scale``, by way of the reciprocal in float32."""
    inverse = lax.div(jnp.ones((), jnp.float32), scale)
    wide = jnp.promote_types(x.dtype, jnp.float32) if x.dtype == jnp.float64 else jnp.float32
    return lax.convert_element_type(x, wide) * lax.convert_element_type(inverse, wide)


def _nearest(x: Array) -> Array:
    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


def _dequantized(q: Array, zero: Array, scale: Array, low: int, high: int, dtype: Any) -> Array:
    """The number that an integer in range stands for."""
    kept = lax.convert_element_type(jnp.clip(q, low, high), scale.dtype)
    return lax.convert_element_type((kept - zero) * scale, dtype)


def _straight_through(body: Any) -> Any:
    """`body` gives a result and a mask; tangents of the input go through where the mask is set."""
    ruled = custom_jvp(body)

    @ruled.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        out, mask = ruled(*primals)
        passed = where(mask, tangents[0], 0)
        return (out, mask), (passed, np.zeros(mask.shape, jax.dtypes.float0))

    return ruled


def _per_tensor(x: Array, scale: Array, zero: Array, low: int, high: int) -> tuple[Array, Array]:
    refuse(x, "fake_quantize_tensor_cachemask_kernel_type_handling", *_NOT_FLOAT)
    _check_range(low, high)

    def body(x: Array, scale: Array, zero: Array) -> tuple[Array, Array]:
        scaled = _scaled(x, scale)
        q = _nearest(scaled) + lax.convert_element_type(zero, scaled.dtype)
        mask = (q >= low) & (q <= high)
        q = where(jnp.isnan(q), low, q)
        return _dequantized(q, zero, scale, low, high, x.dtype), mask

    single = (lax.convert_element_type(a, jnp.float32) for a in (scale, zero))
    return _straight_through(body)(x, *single)


def _number_check(input: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> None:
    _check_range(quant_min, quant_max)
    _zero_in_range(zero_point, quant_min, quant_max)


@_row(layout=Layout.PRESERVE, check=_number_check, node="FakeQuantizePerTensorAffineCachemaskBackward0")
def fake_quantize_per_tensor_affine_cachemask(
    input: Array, scale: Scalar, zero_point: TracedInt, quant_min: int, quant_max: int
) -> tuple[Array, Array]:
    """Rounded numbers and where they were in range."""
    return _per_tensor(input, jnp.asarray(scale), jnp.asarray(zero_point), quant_min, quant_max)


def _single(x: Array) -> Array:
    if x.size != 1:
        raise RuntimeError(f"a Tensor with {x.size} elements cannot be converted to Scalar")
    return x.reshape(())


@_row(
    layout=Layout.PRESERVE,
    no_gradient={NoGradient.REFUSED: ("scale", "zero_point")},
    node="FakeQuantizePerTensorAffineCachemaskTensorQparamsBackward0",
)
def _fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
    input: Array, scale: Array, zero_point: Array, quant_min: int, quant_max: int
) -> tuple[Array, Array]:
    """The same with a scale and a zero point that are tensors of one element."""
    zero = lax.convert_element_type(_single(zero_point), jnp.int64)
    return _per_tensor(input, _single(scale), zero, quant_min, quant_max)


def _check_channels(x: Array, scale: Array, zero: Array, axis: int, low: int, high: int) -> None:
    if scale.dtype not in (jnp.float32, jnp.bfloat16):
        raise RuntimeError(f"Scale must be Float or BFloat16, found {scalar_name(scale)}")
    if zero.dtype not in (jnp.int32, jnp.float32, jnp.float16):
        raise RuntimeError(f"Zero-point must be Int32, Float or Half, found {scalar_name(zero)}")
    for name, given in (("scale", scale), ("zero point", zero)):
        if given.ndim != 1:
            raise RuntimeError(f"{name} should be a 1-D tensor")
    if scale.size != zero.size:
        raise RuntimeError("scale and zero-point need to have the same dimensions")
    if not -x.ndim <= axis < x.ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-x.ndim}, {x.ndim - 1}], but got {axis})"
        )
    if scale.size != x.shape[axis]:
        raise RuntimeError("dimensions of scale and zero-point are not consistent with input tensor")
    _check_range(low, high)


def _channel_check(input: Any, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int) -> None:
    """Integers have to be in range; zero points that are no integers do not."""
    fits = -input.ndim <= axis < input.ndim and scale.shape == (input.shape[axis],)
    if fits and quant_min <= quant_max and zero_point.dtype == np.int32:
        _zero_in_range(zero_point, quant_min, quant_max)
    if axis < 0:
        raise RuntimeError("`axis` must be between 0 and number of dimensions of input")


@_row(
    layout=Layout.PRESERVE,
    no_gradient={NoGradient.REFUSED: ("scale", "zero_point")},
    check=_channel_check,
    node="FakeQuantizePerChannelAffineCachemaskBackward0",
)
def fake_quantize_per_channel_affine_cachemask(
    input: Array, scale: Array, zero_point: Array, axis: int, quant_min: int, quant_max: int
) -> tuple[Array, Array]:
    """Rounded numbers and where they were in range, with a scale and a zero point for each index of an axis."""
    _check_channels(input, scale, zero_point, axis, quant_min, quant_max)
    refuse(input, "fake_quantize_channel_cachemask_cpu_type_handling", *_NOT_FLOAT)
    rounded_zero = jnp.issubdtype(zero_point.dtype, jnp.integer)
    along = [1] * input.ndim
    along[axis] = -1

    def body(x: Array, scale: Array, zero: Array) -> tuple[Array, Array]:
        scaled = _scaled(x, scale)
        shift = lax.convert_element_type(zero, scaled.dtype)
        q = _nearest(scaled) + shift if rounded_zero else _nearest(scaled + shift)
        # C converts floats out of range to this integer.
        q = where(jnp.abs(q) < 2.0**63, q, -(2.0**63))
        mask = (q >= quant_min) & (q <= quant_max)
        zero, scale = (lax.convert_element_type(a, scaled.dtype) for a in (zero, scale))
        return _dequantized(q, zero, scale, quant_min, quant_max, x.dtype), mask

    params = (lax.convert_element_type(a, jnp.float32).reshape(along) for a in (scale, zero_point))
    return _straight_through(body)(input, *params)
