"""Elementwise functions of numbers: signs, rounding, powers, logarithms, trigonometry, complex parts."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
from jax import lax

from .._core import control, shapes
from .._core.custom_jvp import custom_jvp
from .._core.division import divide
from .._core.dtypes import BOOL, COMPLEX, FLOATING, INTEGRAL
from .._core.kernels import category, half_as_float, nextafter, refuse, scalar_name, where, widen
from .._core.layouts import elementwise, preserved, with_lines
from .._core.meta import Meta
from . import complexes
from .helpers import broadcast, erf, from_zero
from .registry import (
    COMMON,
    FLOAT,
    Array,
    Compares,
    Grad,
    InPlace,
    Layout,
    Scalar,
    Static,
    binary,
    op,
    unary,
    variant,
    with_rule,
)

LN2 = math.log(2.0)
_elementwise = functools.partial(op, layout=Layout.ELEMENTWISE)


def _kernel(fn: Callable[..., Any], kernel: str, *refused: int) -> Callable[..., Any]:
    """`fn` of arrays, refusing dtypes of these categories the way torch's `kernel` does."""

    def checked(x: Array, *rest: Array) -> Array:
        refuse(x, kernel, *refused)
        return fn(x, *rest)

    return checked


def _no_complex(
    fn: Callable[..., Any], message: str, error: type[Exception] = NotImplementedError
) -> Callable[..., Any]:
    def checked(x: Array, *rest: Array) -> Array:
        if category(x) == COMPLEX:
            raise error(message)
        return fn(x, *rest)

    return checked


# --- signs and rounding -------------------------------------------------------------------------


def _unit(x: Array) -> Array:
    """x / |x|, 0 at 0; for real numbers the sign, where torch has 0 for nan and for -0."""
    if category(x) == COMPLEX:
        return _unit_complex(x)
    if category(x) == BOOL:
        return x
    return (
        lax.sign(x)
        if category(x) == INTEGRAL
        else lax.select((x != x) | (x == 0), jnp.zeros_like(x), lax.sign(x))
    )


def _phase(x: Array) -> Array:
    size = lax.abs(x)
    zero = size == 0
    size = where(zero, 1, size)  # part by part, which keeps the signs of zeros
    return where(zero, jnp.zeros_like(x), lax.complex(lax.real(x) / size, lax.imag(x) / size))


_unit_complex = custom_jvp(_phase)


@_unit_complex.defjvp
def _unit_complex_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    y = _unit_complex(x)
    size = lax.abs(x)
    along = lax.real(t * lax.conj(y)).astype(x.dtype) * y
    flat = size == 0
    return y, where(flat, jnp.zeros_like(x), (t - along) / where(flat, 1, size).astype(x.dtype))


def _abs_rule(x: Array, y: Array, t: Array) -> Array:
    """torch: slope 0 at 0; JAX: 1."""
    if category(x) == COMPLEX:
        return lax.real(lax.conj(_unit(x)) * t)
    return _unit(x) * t


def _abs(x: Array) -> Array:
    return x if jnp.issubdtype(x.dtype, jnp.unsignedinteger) else complexes.size(x)


def _neg(x: Array) -> Array:
    if category(x) == BOOL:
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
            "invert a mask, use the `~` or `logical_not()` operator instead."
        )
    return lax.neg(x)


def _signbit(x: Array) -> Array:
    return jnp.signbit(x) if category(x) == FLOATING else x < jnp.zeros_like(x)


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


_SIGN_COMPLEX = "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."


def _no_complex_abs(me: Meta, result: Meta, _: Any) -> None:
    if me.dtype.is_complex:
        raise RuntimeError("In-place abs is not supported for complex tensors.")


@elementwise
@with_lines
def _as_empty_like(metas: Sequence[Meta], shape: tuple[int, ...]) -> tuple[int, ...]:
    """A complex number's result goes into memory made with `empty_like`."""
    (m,) = metas
    if m.dtype.is_complex:
        return shapes.preserve_strides(shape, m.strides)
    return shapes.elementwise_strides(shape, [(m.shape, m.strides)])


@elementwise
def _contiguous_of_complex(metas: Sequence[Meta], shape: tuple[int, ...]) -> tuple[int, ...] | None:
    (m,) = metas
    return None if m.dtype.is_complex else shapes.elementwise_strides(shape, [(m.shape, m.strides)])


unary(
    "abs", _kernel(_abs, "abs_cpu", BOOL), rule=_abs_rule, operators=("__abs__",), aliases=("absolute",),
    inplace=InPlace(check=_no_complex_abs), layout=_as_empty_like,
)  # fmt: skip
unary("neg", _neg, operators=("__neg__",), aliases=("negative",))
unary("sign", _no_complex(_unit, _SIGN_COMPLEX))
unary(
    "sgn", _unit, keeps=("input", "result"),
    )  # fmt: skip
unary(
    "signbit",
    _no_complex(_signbit, "signbit is not implemented for complex tensors."),
    grad=Grad.NO,
    inplace=False,
)
unary("ceil", _integers_stay(lax.ceil, "ceil"))
unary("floor", _integers_stay(lax.floor, "floor"))
unary("trunc", _integers_stay(_trunc, "trunc"), aliases=("fix",))
unary("frac", _kernel(lambda x: x - _trunc(x), "frac_cpu", BOOL, INTEGRAL, COMPLEX))


@_elementwise(promote=COMMON, inplace=True, left_out=("decimals",),
              node=lambda a: "RoundBackward0" if a.get("decimals") is None else "RoundBackward1")  # fmt: skip
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


# --- powers, exponentials, logarithms -----------------------------------------------------------


def _scaled_parts(x: Array, factor: float) -> Array:
    """Both parts times a real number: a complex one would turn infinities into NaN."""
    return lax.complex(lax.real(x) * factor, lax.imag(x) * factor)


def _log2(x: Array) -> Array:
    """Through the exponent, so that powers of two come out exact: XLA has no log2 of its own."""
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
    return (
        complexes.exp(_scaled_parts(x, LN2))
        if category(x) == COMPLEX
        else lax.pow(jnp.full_like(x, 2), x)
    )


unary(
    "reciprocal",
    lambda x: divide(jnp.ones_like(x), x),
    promote=FLOAT,
    rule=lambda x, y, t: -t * (y * y),
)
unary("sqrt", complexes.sqrt, promote=FLOAT)
unary(
    "rsqrt",
    half_as_float(complexes.rsqrt),
    promote=FLOAT,
    rule=lambda x, y, t: -0.5 * t * (y * y * y),
)
unary("exp", complexes.exp, promote=FLOAT)
unary("exp2", half_as_float(_exp2), promote=FLOAT, rule=lambda x, y, t: t * y * LN2)
unary("expm1", complexes.expm1, promote=FLOAT)
unary("log", lax.log, promote=FLOAT)
unary("log2", half_as_float(_log2), promote=FLOAT, rule=lambda x, y, t: t / (x * LN2))
unary("log10", half_as_float(_log10), promote=FLOAT, rule=lambda x, y, t: t / (x * math.log(10.0)))
unary("log1p", complexes.log1p, promote=FLOAT, node="Log1PBackward0")

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
        # torch takes roots of every other dtype, and here a power: inf of -inf, and 0 of -0.0
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
    if e == 0:  # flat, whatever comes in
        return _pow_const(x, e), lax.select(x == x, jnp.zeros_like(t), jnp.zeros_like(t))
    return _pow_const(x, e), t * (_pow_const(x, e - 1) * jnp.asarray(e, x.dtype))


def _repeated_squares(out: Array, x: Array, y: Array, bits: int) -> tuple[Array, Array, Array]:
    """`out` times `x` to the power of the lowest `bits` bits of `y`; and what of base and exponent is left."""
    for _ in range(bits):
        out = where((y & 1) == 1, out * x, out)
        x, y = x * x, lax.shift_right_logical(y, jnp.ones_like(y))
    return out, x, y


def _whole_power(x: Array, y: Array) -> Array:
    """Wraps around as torch's product does, modulo 2 to the number of bits; `y` is not negative."""
    bits = jnp.iinfo(y.dtype).bits
    first = bits if bits == 8 else 6
    out, x, y = _repeated_squares(jnp.ones_like(x), x, y, first)
    if first == bits:
        return out
    # Exponents from 64 on are rare, and the steps for them many.
    return control.cond(
        jnp.any(y != 0), lambda o, x, y: _repeated_squares(o, x, y, bits - first)[0], lambda o, x, y: o, out, x, y
    )  # fmt: skip


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
    """torch: 0 to the 0 is flat in the base, and 0 to a power >= 0 flat in the exponent."""
    (x, y), (tx, ty) = primals, tangents
    out = _pow(x, y)
    slope = where(y == 0, jnp.zeros_like(x), y * _pow(x, y - 1))
    flat = (x == 0) & (lax.real(y) >= 0 if category(y) == COMPLEX else y >= 0)
    if category(y) == COMPLEX:
        flat &= lax.imag(y) == 0
    zero = jnp.zeros_like(out)
    along = where(y == 0, zero, tx) * slope
    return out, along + ty * where(flat, zero, out * lax.log(x))


@_elementwise(name="pow_const", function=False, method=False, inplace=True, node="PowBackward0",
              keeps=("input",))  # fmt: skip
def _pow_const_row(input: Array, exponent: Static) -> Array:
    """A power that is known when the kernel is compiled: squares are products, not logarithms."""
    refuse(input, "pow", BOOL)
    return _pow_const(input, exponent)


@_elementwise(name="pow_tensor", promote=COMMON, function=False, method=False, inplace=True,
              node=lambda a: "PowBackward0" if a.get("exponent") == "scalar"
              else "PowBackward2" if a.get("input") == "scalar" else "PowBackward1",
              keeps={"input": ("result",)}, compares=Compares.IN_GRADIENTS)  # fmt: skip
def _pow_row(input: Array | Scalar, exponent: Array | Scalar) -> Array:
    x, y = broadcast(jnp.asarray(input), jnp.asarray(exponent))
    return _pow(x, y)


# torch makes the result of a number to the power of a tensor itself, without a look at the tensor's order.
variant("pow_tensor", "pow_base", layout=Layout.CONTIGUOUS, inplace=False)


def _not_in_place(name: str) -> dict[str, Any]:
    """torch derives these, but not their in-place forms."""
    return {
        "inplace": InPlace(
            node=f"{name.capitalize()}Backward1",
            missing=f"the derivative for 'inplace version of {name}' is not implemented.",
        )
    }


# --- trigonometry -------------------------------------------------------------------------------


def _sinc_rule(x: Array, y: Array, t: Array) -> Array:
    """torch: flat next to 0, whatever comes in."""
    turn, area = x * math.pi, x * x * math.pi
    slope = (turn * lax.cos(turn) - lax.sin(turn)) / area
    return where(area == 0, jnp.zeros_like(t), t) * where(area == 0, jnp.zeros_like(x), slope)


unary("sin", complexes.sin, promote=FLOAT)
unary("cos", complexes.cos, promote=FLOAT)
unary("tan", complexes.tan, promote=FLOAT)
unary("asin", half_as_float(complexes.asin), promote=FLOAT, aliases=("arcsin",))
unary("acos", complexes.acos, promote=FLOAT, aliases=("arccos",))
unary("atan", complexes.atan, promote=FLOAT, aliases=("arctan",))
unary("sinh", complexes.sinh, promote=FLOAT)
unary("cosh", complexes.cosh, promote=FLOAT)
unary("tanh", complexes.tanh, promote=FLOAT, rule=half_as_float(lambda x, y, t: t * (1 - y * y)))
unary("asinh", complexes.asinh, promote=FLOAT, aliases=("arcsinh",), **_not_in_place("asinh"))
unary("acosh", complexes.acosh, promote=FLOAT, aliases=("arccosh",), **_not_in_place("acosh"))
unary(
    "atanh",
    complexes.atanh,
    promote=FLOAT,
    rule=lambda x, y, t: t / (1 - x * x),
    aliases=("arctanh",),
    **_not_in_place("atanh"),
)
unary("sinc", half_as_float(jnp.sinc), promote=FLOAT, rule=half_as_float(_sinc_rule))
unary(
    "deg2rad",
    _no_complex(
        lambda x: x * (math.pi / 180), "deg2rad is not supported for complex tensors.", RuntimeError
    ),
    promote=FLOAT,
    layout=elementwise(preserved),
    node="Deg2RadBackward0",
)
unary(
    "rad2deg",
    _no_complex(
        lambda x: x * (180 / math.pi), "rad2deg is not supported for complex tensors.", RuntimeError
    ),
    promote=FLOAT,
    layout=elementwise(preserved),
    node="Rad2DegBackward0",
)


def _atan2_rule(x: Array, y: Array, out: Array, tx: Array, ty: Array) -> Array:
    """torch: both slopes are 0 at the origin; theirs are NaN there."""
    norm = x * x + y * y
    inverse = where(norm == 0, 0, 1 / norm)
    return tx * (y * inverse) - ty * (x * inverse)


def _hypot(x: Array, y: Array) -> Array:
    refuse(x, "hypot_cpu", BOOL, INTEGRAL, COMPLEX)
    return half_as_float(jnp.hypot)(x, y)


def _atan2_forward(x: Array, y: Array, out: Array, tx: Array, ty: Array) -> Array:
    """torch's forward mode divides 0 by 0 at the origin."""
    return (tx * y - ty * x) / (x * x + y * y)


binary("atan2", _kernel(lax.atan2, "atan2_cpu", COMPLEX), promote=FLOAT, scalar=False,
       rule=_atan2_rule, forward=_atan2_forward, aliases=("arctan2",))  # fmt: skip
binary("hypot", _hypot, scalar=False, rule=lambda x, y, out, tx, ty: tx * x / out + ty * y / out)

# --- special functions --------------------------------------------------------------------------


def _logit_rule(x: Array, t: Array, eps: float | None) -> Array:
    low, high = (0.0, 1.0) if eps is None else (eps, 1.0 - eps)
    inside = (x >= low) & (x <= high)
    slope = _logit_slope(low, high)(x)
    if eps is None:
        return t * where(inside, slope, jnp.asarray(jnp.nan, x.dtype))
    slope = where(x == x, slope, x)
    return where(inside | (x != x), t * slope, 0)  # 0 outside, whatever comes in


def _logit_slope(low: float, high: float) -> Callable[[Array], Array]:
    """1 outside, but with 0 times the true slope's derivative there, which is NaN where that one is not finite."""

    def inside(x: Array) -> Array:
        return (x >= low) & (x <= high)

    def steeper(square: Array, x: Array) -> Array:
        return square * x - square * (1 - x)

    return with_rule(
        lambda x: where(inside(x), 1 / (x * (1 - x)), jnp.ones_like(x)),
        lambda x, y, t: where(inside(x), t, t * 0) * steeper(lax.square(1 / (x * (1 - x))), x),
    )


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _logit(x: Array, eps: float | None) -> Array:
    def body(x: Array) -> Array:
        z = x if eps is None else jnp.clip(x, eps, 1.0 - eps)
        return lax.log(z / (1 - z))

    return half_as_float(body)(x)


@_logit.defjvp
def _logit_jvp(eps: float | None, primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _logit(x, eps), _logit_rule(x, t, eps)


@_elementwise(promote=FLOAT, inplace=True)
def logit(input: Array, eps: float | None = None) -> Array:
    """The inverse of sigmoid, on ``[eps, 1 - eps]`` when `eps` is given."""
    refuse(input, "logit_cpu", COMPLEX)
    return _logit(input, eps)


def _digamma(x: Array) -> Array:
    """torch: the poles at 0 and -0 are infinite with opposite signs; XLA: nan."""
    return where(x == 0, -lax.div(jnp.ones_like(x), x), lax.digamma(x))


def _trigamma(x: Array) -> Array:
    """Stirling's series six steps to the right, as torch cuts it short: ten digits, and a pole is as high as the sine
    of a rounded multiple of pi is small."""
    left = x < 0.5
    z = where(left, 1 - x, x)
    y = jnp.zeros_like(x)
    for _ in range(6):
        y, z = y + 1 / lax.square(z), z + 1
    w = 1 / lax.square(z)
    y += (1 + 0.5 / z + w * (1 / 6 - w * (1 / 30 - w / 42))) / z
    pole = math.pi**2 / lax.square(lax.sin(jnp.asarray(math.pi, x.dtype) * x))
    return where(left, pole - y, y)


def _cot_derivative(n: int) -> np.ndarray:
    """Coefficients, highest first, of the n-th derivative of cot as a polynomial in cot."""
    p = np.array([1.0, 0.0])
    for _ in range(n):
        p = np.polymul(-np.polyder(p), [1.0, 0.0, 1.0])
    return p


@functools.partial(custom_jvp, nondiff_argnums=(0,))
def _polygamma(n: int, x: Array) -> Array:
    """Left of 0 by reflection: XLA's zeta loses all digits there."""
    if n < 2:
        return _trigamma(x) if n else _digamma(x)
    if x.dtype != jnp.float64:  # where it cancels, float32 keeps few digits
        return _polygamma(n, x.astype(jnp.float64)).astype(x.dtype)
    sign = 1.0 if n % 2 else -1.0
    left = x < 0
    y = sign * math.gamma(n + 1) * lax.zeta(jnp.full_like(x, n + 1), where(left, 1 - x, x))
    y = where(
        x == 0, sign * jnp.inf, where(x == jnp.inf, jnp.nan, y)
    )  # torch: NaN, not its limit 0
    turn = x - lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
    cot = 1 / lax.tan(jnp.pi * where(left, turn, 0.5))
    wave = math.pi ** (n + 1) * jnp.polyval(jnp.asarray(_cot_derivative(n), x.dtype), cot)
    pole = left & ((turn == 0) | (x == -jnp.inf))
    return where(pole, sign * jnp.inf, where(left, -sign * y - wave, y))


@_polygamma.defjvp
def _polygamma_jvp(n: int, primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _polygamma(n, x), t * _polygamma(n + 1, x)


def _sigmoid(x: Array) -> Array:
    if category(x) != COMPLEX:
        return lax.logistic(x)
    return divide(jnp.ones_like(x), 1 + complexes.exp(-x))


_log_gamma = with_rule(lax.lgamma, lambda x, y, t: t * _polygamma(0, x))


def _lgamma(x: Array) -> Array:
    # in float64, as XLA's float32 kernel has few correct digits next to the zeros at 1 and 2
    return lax.lgamma(x.astype(jnp.float64)).astype(x.dtype)


@custom_jvp
def _i1(x: Array) -> Array:
    return from_zero(jsp.i1(x))


@_i1.defjvp
def _i1_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    y, small = _i1(x), ~(lax.abs(x) > jnp.finfo(x.dtype).eps)  # torch: nan included
    return y, t * where(small, 0.5, jsp.i0(x) - y / where(small, 1, x))


unary("sigmoid", _sigmoid, promote=FLOAT,
      rule=half_as_float(lambda x, y, t: t * (y * (1 - y))))  # fmt: skip
unary("erf", _kernel(half_as_float(erf), "erf_vml_cpu", COMPLEX), promote=FLOAT)
unary("erfc", _kernel(half_as_float(lax.erfc), "erfc_vml_cpu", COMPLEX), promote=FLOAT)
unary("erfinv", _kernel(half_as_float(lax.erf_inv), "erfinv_vml_cpu", COMPLEX), promote=FLOAT,
      # through the input, not the result: that is what torch saves
      rule=lambda x, y, t: t * (0.5 * math.sqrt(math.pi)) * lax.exp(lax.square(lax.erf_inv(x))))  # fmt: skip
unary("lgamma", _kernel(_lgamma, "lgamma_vml_cpu", COMPLEX), promote=FLOAT,
      rule=lambda x, y, t: t * _polygamma(0, x))  # fmt: skip
unary(
    "digamma", _kernel(half_as_float(lambda x: _polygamma(0, x)), "digamma", COMPLEX), promote=FLOAT
)
# JAX's slope of i0 at 0 is not 0
unary("i0", _kernel(half_as_float(jsp.i0), "i0_vml_cpu", COMPLEX), promote=FLOAT,
      rule=half_as_float(lambda x, y, t: t * _i1(x)))  # fmt: skip


@_elementwise(
    promote=FLOAT, function=False, method=False, inplace=InPlace(node="PolygammaBackward1")
)
def polygamma(input: Array, n: int) -> Array:
    """The `n`-th derivative of digamma."""
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    refuse(input, {0: "digamma", 1: "trigamma"}.get(n, "polygamma"), COMPLEX)
    return half_as_float(lambda x: _polygamma(n, x))(input)


@_elementwise(promote=FLOAT, inplace=True, layout=Layout.CONTIGUOUS)
def mvlgamma(input: Array, p: int) -> Array:
    """The logarithm of the multivariate gamma function of dimension `p`."""
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    refuse(input, "mvlgamma", COMPLEX)

    def body(x: Array) -> Array:
        total = jnp.full_like(x, p * (p - 1) / 4 * math.log(math.pi))
        for j in range(p):
            total += _log_gamma(x - j / 2)
        return total

    return half_as_float(body)(input)


def _log_add(
    exp: Callable[[Array], Array], log1p: Callable[[Array], Array]
) -> Callable[..., Array]:
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


binary("logaddexp", _logaddexp, scalar=False, inplace=False, rule=_logaddexp_rule)
binary("logaddexp2", _kernel(_logaddexp2_real, "logaddexp2_cpu", BOOL, INTEGRAL, COMPLEX),
       scalar=False, inplace=False, rule=_logaddexp2_rule)  # fmt: skip


# --- bits of floating-point numbers -------------------------------------------------------------


def _copysign_rule(x: Array, y: Array, out: Array, tx: Array, ty: Array) -> Array:
    """torch: slope 0 where the input is 0, and always 0 in the sign."""
    return tx * where(x == 0, 0, out / x)


def _nextafter_rule(x: Array, y: Array, out: Array, tx: Array, ty: Array) -> Array:
    """torch: the input's slope is 1 except where both are equal, the direction's 0."""
    return where(x == y, 0, tx)


binary("copysign", _kernel(jnp.copysign, "copysign_cpu", COMPLEX), promote=FLOAT, rule=_copysign_rule,
       keeps={"other": ("result",)},
       node=lambda a: "CopysignBackward1" if a.get("other") == "scalar" else "CopysignBackward0")  # fmt: skip
binary("nextafter", _kernel(nextafter, "nextafter_cpu", BOOL, INTEGRAL, COMPLEX), scalar=False,
       rule=_nextafter_rule)  # fmt: skip


def _ldexp(x: Array, y: Array) -> Array:
    """In two steps, so that a large power of two does not overflow before it meets a small number."""
    if category(x) == COMPLEX:
        return x * lax.pow(jnp.full_like(x, 2), y)
    half = lax.floor(y * 0.5)
    return x * lax.pow(jnp.full_like(x, 2), half) * _rest_of_power(y)


# Of ``2 ** y``, what a half of `y` leaves, the whole of the slope included.
_rest_of_power = with_rule(
    lambda y: lax.pow(jnp.full_like(y, 2), where(jnp.isinf(y), 0, y - lax.floor(y * 0.5))),
    lambda y, out, t: t * out * LN2,
)


binary("ldexp", half_as_float(_ldexp), promote=FLOAT, scalar=False,
       keeps={"input": ("result",)},
       rule=lambda x, y, out, tx, ty: _ldexp(tx, y) + ty * out * LN2)  # fmt: skip


def _split(x: Array) -> tuple[Array, Array]:
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
    m, e = _split(widen(x))
    return m.astype(x.dtype), e.astype(jnp.int32)


@_frexp.defjvp
def _frexp_jvp(primals: Any, tangents: Any) -> Any:
    m, e = _frexp(*primals)
    return (m, e), (_ldexp(tangents[0], -e.astype(m.dtype)), np.zeros(e.shape, jax.dtypes.float0))


@_elementwise(returns=("mantissa", "exponent"), nondiff=(1,))
def frexp(input: Array) -> Any:
    """Mantissa in [1/2, 1) and exponent of two."""
    if category(input) != FLOATING:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    return _frexp(input)


# --- complex numbers ----------------------------------------------------------------------------

unary(
    "conj_physical",
    lambda x: lax.conj(x) if category(x) == COMPLEX else x,
    inplace=InPlace(node="ConjPhysicalBackward1"),
    function=False,
    method=False,
    out=False,
    layout=_as_empty_like,
)


def _angle(x: Array) -> Array:
    if category(x) != COMPLEX:
        return where(x != x, x, where(x < 0, jnp.asarray(math.pi, x.dtype), jnp.zeros_like(x)))
    return lax.atan2(lax.imag(x), lax.real(x))


def _angle_rule(x: Array, y: Array, t: Array) -> Array:
    """torch: slope 0 at 0."""
    if category(x) != COMPLEX:
        return jnp.zeros_like(t)
    flat = x == 0
    safe = where(flat, jnp.ones_like(x), x)
    return where(flat, 0, lax.imag(t / safe))


unary(
    "angle", _angle, promote=FLOAT, rule=_angle_rule, inplace=False, keeps=("input",),
    layout=_contiguous_of_complex,
)  # fmt: skip


def _same_real(first: Array, second: Array) -> None:
    if category(first) != FLOATING or category(second) != FLOATING or first.dtype == jnp.bfloat16:
        raise RuntimeError(
            "Expected both inputs to be Half, Float or Double tensors but got "
            f"{scalar_name(first)} and {scalar_name(second)}"
        )
    if first.dtype == jnp.float16:
        raise NotImplementedError("complex32, the complex dtype of two float16, is not supported")
    if first.dtype != second.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {scalar_name(first)} but got scalar type "
            f"{scalar_name(second)} for second argument"
        )


@_elementwise(method=False, keeps=("real", "imag"))  # fmt: skip
def complex_(real: Array, imag: Array) -> Array:
    """``real + imag * 1j``."""
    _same_real(real, imag)
    return lax.complex(*broadcast(real, imag))


@custom_jvp
def _polar(size: Array, angle: Array) -> Array:
    return lax.complex(size * lax.cos(angle), size * lax.sin(angle))


@_polar.defjvp
def _polar_jvp(primals: Any, tangents: Any) -> Any:
    """Through the result, which is what torch saves; slope 0 in `abs` at 0."""
    (size, angle), (t_size, t_angle) = primals, tangents
    out = _polar(size, angle)
    return out, t_size.astype(out.dtype) * _unit(out) + t_angle.astype(out.dtype) * out * 1j


def _polar_forward(abs: Array, angle: Array) -> Array:
    """torch's forward mode goes through both arguments, so that a size below 0 and one of 0 have their slope."""
    return _polar.fun(*broadcast(abs, angle))


@_elementwise(method=False, forward=_polar_forward)
def polar(abs: Array, angle: Array) -> Array:
    """``abs * exp(1j * angle)``."""
    _same_real(abs, angle)
    return _polar(*broadcast(abs, angle))
