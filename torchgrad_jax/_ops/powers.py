"""Powers, roots, exponentials and logarithms."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays.division import divide
from .._core.arrays.dtypes import BOOL, COMPLEX, INTEGRAL
from .._core.arrays.kernels import category, half_as_float, refuse, refusing, where
from .._core.host import forms
from .._core.jax.custom_jvp import custom_jvp
from . import complexes
from .helpers import broadcast
from .logarithms import LN2
from .registry import COMMON, FLOAT, Array, Compares, Layout, Scalar, Static, binary, elementwise_op, unary, variant


def _scaled_parts(x: Array, factor: float) -> Array:
    """Both parts times a real number; a complex factor would turn infinities into NaN."""
    return lax.complex(lax.real(x) * factor, lax.imag(x) * factor)


def _log2(x: Array) -> Array:
    """The logarithm by way of the exponent, so that powers of two are exact. XLA has no log2 of its own."""
    if category(x) == COMPLEX:
        return _scaled_parts(lax.log(x), 1 / LN2)
    m, e = jnp.frexp(x)
    low = m < math.sqrt(0.5)
    m, e = where(low, 2 * m, m), where(low, e - 1, e)
    plain = (x > 0) & (x < jnp.inf)
    return where(plain, e.astype(x.dtype) + lax.log(where(plain, m, 1)) / LN2, lax.log(x))


def _log10(x: Array) -> Array:
    if x.dtype == jnp.float32:  # powers of ten come out exact
        return (lax.log(x.astype(jnp.float64)) * (1 / math.log(10.0))).astype(jnp.float32)
    y, factor = lax.log(x), 1 / math.log(10.0)
    return _scaled_parts(y, factor) if category(x) == COMPLEX else y * factor


def _exp2(x: Array) -> Array:
    """XLA's exp2 is exp(x ln 2), inexact for whole numbers; its pow is not."""
    return complexes.exp(_scaled_parts(x, LN2)) if category(x) == COMPLEX else lax.pow(jnp.full_like(x, 2), x)


reciprocal = unary(
    "reciprocal", lambda x: divide(jnp.ones_like(x), x), promote=FLOAT, rule=lambda x, y, t: -t * (y * y)
)
sqrt = unary("sqrt", complexes.sqrt, promote=FLOAT)
rsqrt = unary("rsqrt", half_as_float(complexes.rsqrt), promote=FLOAT, rule=lambda x, y, t: -0.5 * t * (y * y * y))
exp_ = unary("exp", complexes.exp, promote=FLOAT)
exp2 = unary("exp2", half_as_float(_exp2), promote=FLOAT, rule=lambda x, y, t: t * y * LN2)
# JAX's own rule saves the result up to 0.10 and the input from 0.11 on; torch saves the result.
expm1 = unary("expm1", complexes.expm1, promote=FLOAT, rule=lambda x, y, t: t * (y + 1))
log = unary("log", lax.log, promote=FLOAT)
log2 = unary(
    "log2",
    half_as_float(_log2),
    promote=FLOAT,
    rule=lambda x, y, t: t / (x * LN2),
    host=forms.by(np.log2, forms.floats),
)
log10 = unary("log10", half_as_float(_log10), promote=FLOAT, rule=lambda x, y, t: t / (x * math.log(10.0)))
log1p_ = unary("log1p", complexes.log1p, promote=FLOAT, node="Log1PBackward0")

_EXACT = 8
"""Whole exponents up to this size are products; larger ones, like torch's above 3, a `pow`."""


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _pow_const(x: Array, e: Any) -> Array:
    if e == 0:  # read from x, as JAX cannot batch a rule whose value is a constant
        return lax.select(x == x, jnp.ones_like(x), jnp.ones_like(x))
    if category(x) == INTEGRAL:
        if e < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        return lax.integer_pow(x, int(e))
    if x.dtype == jnp.float16 and abs(e) == 0.5:
        # torch takes roots for all other dtypes, but here a power, which is inf for -inf, and 0 for -0.0
        return half_as_float(complexes.power)(x, jnp.full_like(x, e))
    return half_as_float(_pow_const_float)(x, e)


def _pow_const_float(x: Array, e: Any) -> Array:
    if not isinstance(e, complex):
        if e == int(e) and abs(e) <= _EXACT:
            if category(x) == COMPLEX and e < 0:
                return divide(jnp.ones_like(x), lax.integer_pow(x, -int(e)))
            return lax.integer_pow(x, int(e))
        if e == 0.5:
            return complexes.sqrt(x)
        if e == -0.5:
            return complexes.rsqrt(x)
    return complexes.power(x, jnp.full_like(x, e))


@_pow_const.defjvp
def _pow_const_jvp(e: Any, primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    if e == 0:  # the slope is 0, also for an infinite tangent
        return _pow_const(x, e), lax.select(x == x, jnp.zeros_like(t), jnp.zeros_like(t))
    return _pow_const(x, e), t * (_pow_const(x, e - 1) * jnp.asarray(e, x.dtype))


def _repeated_squares(out: Array, x: Array, y: Array, bits: int) -> tuple[Array, Array, Array]:
    """`out` times `x` to the power of the lowest `bits` bits of `y`; and what is left of base and exponent."""
    for _ in range(bits):
        out = where((y & 1) == 1, out * x, out)
        x, y = x * x, lax.shift_right_logical(y, jnp.ones_like(y))
    return out, x, y


def _whole_power(x: Array, y: Array) -> Array:
    """A power of integers, which overflows as torch's products do; `y` is not negative."""
    bits = jnp.iinfo(y.dtype).bits
    first = bits if bits == 8 else 6
    out, x, y = _repeated_squares(jnp.ones_like(x), x, y, first)
    if first == bits:
        return out
    # Exponents from 64 on are rare, and the steps for them many.
    return lax.cond(
        jnp.any(y != 0), lambda o, x, y: _repeated_squares(o, x, y, bits - first)[0], lambda o, x, y: o, out, x, y
    )


def _pow_integers(x: Array, y: Array) -> Array:
    size = _whole_power(x, lax.max(y, jnp.zeros_like(y)))
    sign = where((y & 1) == 1, x, x * x)
    unit = (x == 1) | (x == jnp.full_like(x, -1))
    return where(y < 0, where(unit, sign, 0), size)


@custom_jvp
def _pow(x: Array, y: Array) -> Array:
    refuse(x, "pow", BOOL)
    if category(x) == INTEGRAL:
        return _pow_integers(x, y)
    return half_as_float(complexes.power)(x, y)


@_pow.defjvp
def _pow_jvp(primals: Any, tangents: Any) -> Any:
    """torch: the slope in the base is 0 if the exponent is 0; that in the exponent is 0 for 0 to a power >= 0."""
    (x, y), (tx, ty) = primals, tangents
    out = _pow(x, y)
    slope = where(y == 0, jnp.zeros_like(x), y * _pow(x, y - 1))
    flat = (x == 0) & (lax.real(y) >= 0 if category(y) == COMPLEX else y >= 0)
    if category(y) == COMPLEX:
        flat &= lax.imag(y) == 0
    zero = jnp.zeros_like(out)
    along = where(y == 0, zero, tx) * slope
    return out, along + ty * where(flat, zero, out * lax.log(x))


@elementwise_op(name="pow_const", function=False, method=False, inplace=True, node="PowBackward0", keeps=("input",))
def _pow_const_row(input: Array, exponent: Static) -> Array:
    """A power that is known when the kernel is compiled: squares are products, not logarithms."""
    refuse(input, "pow", BOOL)
    return _pow_const(input, exponent)


@elementwise_op(
    name="pow_tensor",
    promote=COMMON,
    function=False,
    method=False,
    inplace=True,
    node=lambda a: (
        "PowBackward0"
        if a.get("exponent") == "scalar"
        else "PowBackward2"
        if a.get("input") == "scalar"
        else "PowBackward1"
    ),
    keeps={"input": ("result",)},
    compares=Compares.IN_GRADIENTS,
)
def _pow_row(input: Array | Scalar, exponent: Array | Scalar) -> Array:
    x, y = broadcast(jnp.asarray(input), jnp.asarray(exponent))
    return _pow(x, y)


# torch allocates the result of a number to the power of a tensor as row-major, whatever the tensor's strides are.
pow_tensor = variant("pow_tensor", "pow_base", layout=Layout.CONTIGUOUS, inplace=False)


def _log_add(exp: Callable[[Array], Array], log1p: Callable[[Array], Array]) -> Callable[..., Array]:
    def body(x: Array, y: Array) -> Array:
        same = (x == y) & (lax.abs(x) == jnp.inf)  # inf - inf
        high = where(x >= y, x, y)
        high = where((x != x) | (y != y), x + y, high)
        gap = where(same, 0, lax.abs(x - y))
        return where(same, x, high + log1p(exp(-gap)))

    return half_as_float(body)


def _logaddexp_complex(x: Array, y: Array) -> Array:
    swap = lax.real(x) < lax.real(y)
    high, low = where(swap, y, x), where(swap, x, y)
    return high + lax.log1p(lax.exp(low - high))


_logaddexp_real = _log_add(lax.exp, lax.log1p)
_logaddexp2_real = _log_add(_exp2, lambda z: lax.log1p(z) / LN2)


def _logaddexp(x: Array, y: Array) -> Array:
    refuse(x, "logaddexp_cpu", BOOL, INTEGRAL)
    return _logaddexp_complex(x, y) if category(x) == COMPLEX else _logaddexp_real(x, y)


def _logaddexp_rule(x: Array, y: Array, out: Array, tx: Array, ty: Array) -> Array:
    return tx / (1 + lax.exp(y - x)) + ty / (1 + lax.exp(x - y))


def _logaddexp2_rule(x: Array, y: Array, out: Array, tx: Array, ty: Array) -> Array:
    return tx / (1 + lax.exp2(y - x)) + ty / (1 + lax.exp2(x - y))


logaddexp = binary(
    "logaddexp", _logaddexp, scalar=False, inplace=False, rule=_logaddexp_rule, host=forms.by(np.logaddexp)
)
logaddexp2 = binary(
    "logaddexp2",
    refusing(_logaddexp2_real, "logaddexp2_cpu", BOOL, INTEGRAL, COMPLEX),
    scalar=False,
    inplace=False,
    rule=_logaddexp2_rule,
)
