"""Rounding, and the mantissa and exponent of floating-point numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from .._core.arrays.division import divide
from .._core.arrays.dtypes import BOOL, COMPLEX, FLOATING, INTEGRAL
from .._core.arrays.kernels import category, half_as_float, nextafter, refuse, refusing, where, widen
from .._core.jax.custom_jvp import NO_TANGENT, custom_jvp
from .logarithms import LN2
from .registry import COMMON, FLOAT, Array, Numbers, Out, binary, elementwise_op, unary, with_rule


def _integers_stay(fn: Callable[[Array], Array], name: str) -> Callable[[Array], Array]:
    """A rounding function: integers are already round; torch refuses bool and complex."""

    def rounded(x: Array) -> Array:
        refuse(x, f"{name}_vml_cpu", BOOL)
        if category(x) == COMPLEX:
            raise NotImplementedError(f"{name} is not supported for complex inputs")
        return x if category(x) == INTEGRAL else fn(x)

    return rounded


def _trunc(x: Array) -> Array:
    return lax.select(x < 0, lax.ceil(x), lax.floor(x))


ceil = unary("ceil", _integers_stay(lax.ceil, "ceil"), out=Out.EXACT)
floor = unary("floor", _integers_stay(lax.floor, "floor"), out=Out.EXACT)
trunc = unary("trunc", _integers_stay(_trunc, "trunc"), aliases=("fix",), out=Out.EXACT)
frac = unary("frac", refusing(lambda x: x - _trunc(x), "frac_cpu", BOOL, INTEGRAL, COMPLEX), out=Out.EXACT)


@elementwise_op(
    promote=COMMON,
    out=Out.EXACT,
    inplace=True,
    numbers=Numbers(left_out=("decimals",)),
    node=lambda a: "RoundBackward0" if a.get("decimals") is None else "RoundBackward1",
)
def round_(input: Array, *, decimals: int | None = None) -> Array:
    """Nearest integer, halves to even; `decimals` counts digits after the point."""
    decimals = decimals or 0
    refuse(input, "round_cpu" if decimals else "round_vml_cpu", BOOL, COMPLEX)
    if category(input) == INTEGRAL:
        if decimals:
            refuse(input, "round_cpu", INTEGRAL)
        return input

    def body(x: Array) -> Array:
        unit = jnp.asarray(10.0 ** abs(decimals), x.dtype)
        scaled = x if not decimals else x * unit if decimals > 0 else divide(x, unit)
        y = lax.round(scaled, lax.RoundingMethod.TO_NEAREST_EVEN)
        return y if not decimals else divide(y, unit) if decimals > 0 else y * unit

    return half_as_float(body)(input)


def _nextafter_rule(x: Array, y: Array, out: Array, tx: Array, ty: Array) -> Array:
    """torch: the slope in the input is 1, or 0 where both are equal; that in the direction is 0."""
    return where(x == y, 0, tx)


nextafter_ = binary(
    "nextafter", refusing(nextafter, "nextafter_cpu", BOOL, INTEGRAL, COMPLEX), scalar=False, rule=_nextafter_rule
)


def _ldexp(x: Array, y: Array) -> Array:
    """In two steps, so that a large power of two does not overflow before it meets a small number."""
    if category(x) == COMPLEX:
        return x * lax.pow(jnp.full_like(x, 2), y)
    half = lax.floor(y * 0.5)
    return x * lax.pow(jnp.full_like(x, 2), half) * _rest_of_power(y)


# The rest of ``2 ** y`` after the power of the half of `y`. It has the whole slope of ``2 ** y``.
_rest_of_power = with_rule(
    lambda y: lax.pow(jnp.full_like(y, 2), where(jnp.isinf(y), 0, y - lax.floor(y * 0.5))),
    lambda y, out, t: t * out * LN2,
)


ldexp = binary(
    "ldexp",
    half_as_float(_ldexp),
    promote=FLOAT,
    scalar=False,
    keeps={"input": ("result",)},
    rule=lambda x, y, out, tx, ty: _ldexp(tx, y) + ty * out * LN2,
)


def _mantissa_and_exponent(x: Array) -> tuple[Array, Array]:
    """Mantissa and exponent read off the bits: arithmetic would flush the smallest numbers to zero."""
    info = jnp.finfo(x.dtype)
    width, digits, bias = info.bits, info.nmant, 1 - info.minexp
    word = jnp.uint32 if width == 32 else jnp.uint64
    bits = lax.bitcast_convert_type(x, word)
    fraction, field = bits & word((1 << digits) - 1), (bits << word(1)) >> word(digits + 1)
    small = (field == 0) & (fraction != 0)
    shift = lax.clz(fraction) - word(width - 1 - digits)
    fraction = where(small, (fraction << shift) & word((1 << digits) - 1), fraction)
    power = where(small, 1 - shift.astype(jnp.int32), field.astype(jnp.int32)) - (bias - 1)
    sign = bits & word(1 << (width - 1))
    m = lax.bitcast_convert_type(sign | word((bias - 1) << digits) | fraction, x.dtype)
    plain = (x != 0) & jnp.isfinite(x) | small
    return where(plain, m, x), where(plain, power, 0)


@custom_jvp
def _frexp(x: Array) -> tuple[Array, Array]:
    m, e = _mantissa_and_exponent(widen(x))
    return m.astype(x.dtype), e.astype(jnp.int32)


@_frexp.defjvp
def _frexp_jvp(primals: Any, tangents: Any) -> Any:
    m, e = _frexp(*primals)
    return (m, e), (_ldexp(tangents[0], -e.astype(m.dtype)), NO_TANGENT)


@elementwise_op(returns=("mantissa", "exponent"), nondiff=(1,), out=Out.EXACT)
def frexp(input: Array) -> Any:
    """Mantissa in [1/2, 1) and exponent of two."""
    if category(input) != FLOATING:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    return _frexp(input)
