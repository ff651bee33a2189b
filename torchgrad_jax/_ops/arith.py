"""Arithmetic of two or three tensors: sums, products, quotients, remainders, interpolation."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays import dtypes, shapes, sums
from .._core.arrays.division import divide
from .._core.arrays.dtypes import BOOL, COMPLEX, FLOATING, INTEGRAL
from .._core.arrays.kernels import (
    category,
    cpp_name,
    half_as_float,
    is_half,
    refuse,
    round_half,
    scalar_name,
    where,
    widen,
)
from .._core.arrays.layouts import elementwise
from .._core.arrays.meta import Meta
from .._core.errors.checks import fail_if, readable
from .._core.host import forms
from .._core.jax.custom_jvp import custom_jvp, is_absent
from .helpers import broadcast
from .registry import (
    COMMON,
    FLOAT,
    NONE,
    Array,
    Compares,
    Fits,
    Grad,
    NumberDtype,
    Numbers,
    Scalar,
    elementwise_op,
    op,
    with_rule,
)

# --- sums and products --------------------------------------------------------------------------


def _own_dtype(x: Array, y: Array) -> tuple[Array, Array]:
    """Promotes as the engine does, for ops that have to see the dtypes that were given."""
    groups: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    for a in (x, y):
        d = dtypes.from_np(a.dtype)
        if getattr(a, "weak_type", False) and a.ndim == 0:
            kind = (bool, int, float, complex)[d.category]
            groups[2].append(dtypes.of_python(kind))
        else:
            groups[0 if a.ndim else 1].append(d)
    target = dtypes.result_type_of(*groups).np
    return lax.convert_element_type(x, target), lax.convert_element_type(y, target)


def _scaled(y: Array, alpha: Any) -> Array:
    """``alpha * y`` with torch's demands on the type of alpha; None is 1 and costs nothing."""
    if alpha is None:
        return y
    alpha = jnp.asarray(alpha)
    kind, own = category(alpha), category(y)
    if kind == BOOL and own != BOOL:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if kind >= FLOATING and own < FLOATING:
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if kind == COMPLEX and own != COMPLEX:
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
    return jnp.multiply(y, lax.convert_element_type(alpha, y.dtype))


def _plus(x: Array, y: Array, alpha: Any, sign: int) -> Array:
    if alpha is None:
        return (sums.plus if sign > 0 else sums.minus)(x, y)
    if not is_half(x):
        return x + sign * _scaled(y, alpha)
    _scaled(y, alpha)  # for its complaints about alpha
    return _plus_half(x, y, sign * jnp.asarray(alpha).astype(jnp.float32))


@custom_jvp
def _plus_half(x: Array, y: Array, alpha: Array) -> Array:
    # torch computes vectors of half types in float32, and rounds alpha to the half type
    return (widen(x) + widen(y) * round_half(alpha, x.dtype)).astype(x.dtype)


@_plus_half.defjvp
def _plus_half_jvp(primals: Any, tangents: Any) -> Any:
    # its gradient is a product with a number, which is not rounded
    (x, y, alpha), (t_x, t_y, _) = primals, tangents
    t = t_x + round_half(widen(t_y) * alpha, x.dtype).astype(x.dtype)
    return _plus_half(x, y, alpha), t


@elementwise_op(
    promote=COMMON,
    promoted=("input", "other"),
    inplace=True,
    numbers=Numbers(left_out=("alpha",), wrapped=True, fits=Fits.ALPHA),
    operators=("__add__", "__radd__", "__iadd__"),
)
def add(input: Array | Scalar, other: Array | Scalar, *, alpha: Scalar | None = None) -> Array:
    """``input + alpha * other``. `alpha` left out spares the product; it means 1."""
    x, y = broadcast(jnp.asarray(input), jnp.asarray(other))
    if category(x) == BOOL:
        return x | (y if alpha is None else _scaled(y, alpha))
    return _plus(x, y, alpha, 1)


def _sub(input: Any, other: Any, alpha: Any) -> Array:
    x, y = jnp.asarray(input), jnp.asarray(other)
    kinds = (category(x), category(y))
    if kinds == (BOOL, BOOL):
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. "
            "Use the `^` or `logical_xor()` operator instead."
        )
    if BOOL in kinds:
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "
            "to invert a mask, use the `~` or `logical_not()` operator instead."
        )
    x, y = broadcast(*_own_dtype(input, other))
    return _plus(x, y, alpha, -1)


@elementwise_op(
    promote=NONE,
    inplace=True,
    aliases=("subtract",),
    numbers=Numbers(left_out=("alpha",), wrapped=True, fits=Fits.ALPHA),
    operators=("__sub__", "__isub__"),
)
def sub(input: Array | Scalar, other: Array | Scalar, *, alpha: Scalar | None = None) -> Array:
    """``input - alpha * other``."""
    return _sub(input, other, alpha)


@elementwise
def _other_first(metas: Sequence[Meta], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a difference whose operands are exchanged."""
    operands = [(m.shape, m.strides) for m in reversed(metas)]
    if len(metas) == 1:  # torch makes a tensor of a number, which has another shape
        operands.append(((), ()))
    return shapes.elementwise_strides(shape, operands)


@op(
    promote=NONE,
    method=False,
    out=False,
    operators=("__rsub__",),
    layout=_other_first,
    numbers=Numbers(fits=Fits.ALPHA, left_out=("alpha",)),
    node=lambda a: "RsubBackward1" if a.get("other") == "scalar" else "RsubBackward0",
)
def rsub(input: Array, other: Array | Scalar, *, alpha: Scalar | None = None) -> Array:
    """``other - alpha * input``."""
    return _sub(other, input, alpha)


def _widely(fn: Any, x: Array, y: Array) -> Array:
    """`fn` in float32 where a tensor of half precision meets a number, since torch does not round the number first."""
    if x.dtype == y.dtype:
        return fn(x, y)
    narrow = y.dtype if x.dtype == jnp.float32 else x.dtype
    wide = fn(x.astype(jnp.float32), y.astype(jnp.float32))
    return lax.convert_element_type(wide, narrow)


def _divide_widely(fn: Any, x: Array, y: Array) -> Array:
    """`_widely` where the divisor is the number. torch rounds a dividend that is a number first."""
    return _widely(fn, x if x.dtype == y.dtype or y.dtype == jnp.float32 else x.astype(y.dtype), y)


@elementwise_op(
    promote=COMMON,
    inplace=True,
    aliases=("multiply",),
    numbers=Numbers(dtype=NumberDtype.WIDE, wrapped=True),
    operators=("__mul__", "__rmul__", "__imul__"),
)
def mul(input: Array | Scalar, other: Array | Scalar) -> Array:
    """``input * other``."""
    x, y = broadcast(jnp.asarray(input), jnp.asarray(other))
    return x & y if category(x) == BOOL else _widely(lax.mul, x, y)


# torch's forward mode divides once, so it has infinities where reverse mode has NaN if `y` is 0.
_div_forward = with_rule(divide, lambda x, y, out, tx, ty: divide(tx - ty * out, y))


def _true_divide_forward(input: Any, other: Any) -> Array:
    return _divide_widely(_div_forward, *broadcast(jnp.asarray(input), jnp.asarray(other)))


@elementwise_op(
    promote=FLOAT,
    inplace=True,
    node="DivBackward0",
    numbers=Numbers(dtype=NumberDtype.WIDE, wrapped=True),
    forward=_true_divide_forward,
    operators=("__truediv__", "__itruediv__"),
)
def true_divide(input: Array | Scalar, other: Array | Scalar) -> Array:
    """``input / other``; the quotient of integers is floating."""
    return _divide_widely(divide, *broadcast(jnp.asarray(input), jnp.asarray(other)))


def _with_number(name: str, fn: Any, node: str, promote: Any = COMMON, **options: Any) -> Any:
    """The overload with a C++ number, which torch's own compositions call: the number has no edge."""

    def impl(input: Array, other: Scalar) -> Array:
        return fn(input, other)

    impl.__name__ = impl.__qualname__ = name
    return elementwise_op(
        name=name, promote=promote, promoted=("input", "other"), function=False, method=False, node=node, **options
    )(impl)


mul_number = _with_number("mul_number", mul, "MulBackward1", numbers=Numbers(dtype=NumberDtype.WIDE))
div_number = _with_number("div_number", true_divide, "DivBackward1", FLOAT, numbers=Numbers(dtype=NumberDtype.WIDE))
add_number = _with_number("add_number", add, "AddBackward1")
sub_number = _with_number("sub_number", sub, "SubBackward1")


def _floor_div(x: Array, y: Array) -> Array:
    """Python's floor division, which is exact for floating point, as in torch. Its slope is 0."""
    if category(x) == INTEGRAL:
        q = lax.div(x, y)
        r = x - q * y
        return where((r != 0) & ((r < 0) != (y < 0)), q - 1, q)
    x, y = lax.stop_gradient(x), lax.stop_gradient(y)
    r = lax.rem(x, y)
    q = (x - r) / y
    q = where((r != 0) & ((y < 0) != (r < 0)), q - 1, q)
    whole = lax.floor(q)
    whole = where(q - whole > 0.5, whole + 1, whole)
    whole = where(q != 0, whole, jnp.copysign(jnp.zeros_like(q), x / y))
    return where(y == 0, x / y, whole)


def _trunc_div(x: Array, y: Array) -> Array:
    """Rounded towards 0. torch rounds a quotient of half types before it truncates."""
    if category(x) == INTEGRAL:
        return lax.div(x, y)
    q = lax.stop_gradient(lax.div(widen(x), widen(y)))
    info = jnp.finfo(x.dtype)
    q = lax.reduce_precision(q, info.nexp, info.nmant)
    return lax.select(q < 0, lax.ceil(q), lax.floor(q)).astype(x.dtype)


def _no_zero(input: Any, other: Any, **_: Any) -> None:
    """Integers do not divide by zero."""
    x, y = readable(input), readable(other)
    if all(a.dtype.kind in "iub" for a in (x, y)) and x.size:
        fail_if((~y.astype(bool)).any(), lambda: RuntimeError("ZeroDivisionError"))


def _no_zero_mode(input: Any, other: Any, rounding_mode: str) -> None:
    _no_zero(input, other)


def _divided_by_mode(x: Array, y: Array, rounding_mode: str) -> Array:
    return half_as_float(_floor_div)(x, y) if rounding_mode == "floor" else _trunc_div(x, y)


@elementwise_op(
    name="div_mode",
    promote=COMMON,
    numbers=Numbers(dtype=NumberDtype.WIDE, wrapped=True),
    function=False,
    method=False,
    inplace=True,
    node="DivBackward2",
    check=_no_zero_mode,
    keeps={"input": ("other",), "other": ("input", "other")},
)
def _div_mode(input: Array | Scalar, other: Array | Scalar, rounding_mode: str) -> Array:
    x, y = broadcast(jnp.asarray(input), jnp.asarray(other))
    if rounding_mode not in ("floor", "trunc"):
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'"
        )
    refuse(x, f"div_{rounding_mode}_cpu", BOOL, COMPLEX)
    by_mode = functools.partial(_divided_by_mode, rounding_mode=rounding_mode)
    return _divide_widely(by_mode, x, y)


@elementwise_op(
    promote=COMMON,
    inplace=True,
    grad=Grad.MISSING,
    check=_no_zero,
    numbers=Numbers(dtype=NumberDtype.WIDE),
    operators=("__floordiv__", "__ifloordiv__"),
    host=forms.by(np.floor_divide),
)
def floor_divide(input: Array | Scalar, other: Array | Scalar) -> Array:
    """The quotient rounded down; torch gives it no derivative."""
    x, y = broadcast(jnp.asarray(input), jnp.asarray(other))
    refuse(x, "div_floor_cpu", BOOL, COMPLEX)
    return _divide_widely(half_as_float(_floor_div), x, y)


@custom_jvp
def _remainder(x: Array, y: Array) -> Array:
    r = lax.rem(x, y)
    return where((r != 0) & ((y < 0) != (r < 0)), r + y, r)


@_remainder.defjvp
def _remainder_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (tx, ty) = primals, tangents
    return _remainder(x, y), tx - ty * _floor_div(x, y)


@custom_jvp
def _fmod(x: Array, y: Array) -> Array:
    return lax.rem(x, y)


@_fmod.defjvp
def _fmod_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (tx, ty) = primals, tangents
    return _fmod(x, y), tx - ty * _trunc_div(x, y)


@elementwise_op(
    promote=COMMON,
    inplace=True,
    check=_no_zero,
    operators=("__mod__", "__imod__"),
    node=lambda a: f"RemainderBackward{0 if a.get('other') == 'scalar' else 1}",
    host=forms.remainder,
)
def remainder(input: Array | Scalar, other: Array | Scalar) -> Array:
    """Return what is left of the division, with the sign of the divisor."""
    x, y = broadcast(jnp.asarray(input), jnp.asarray(other))
    refuse(x, "remainder_cpu", BOOL, COMPLEX)
    return half_as_float(_remainder)(x, y)


@elementwise_op(
    promote=COMMON,
    inplace=True,
    check=_no_zero,
    node=lambda a: "FmodBackward0" if a.get("other") == "scalar" else "FmodBackward1",
)
def fmod(input: Array, other: Array | Scalar) -> Array:
    """Return what is left of the division, with the sign of the dividend."""
    x, y = broadcast(input, jnp.asarray(other))
    refuse(x, "fmod_cpu", BOOL, COMPLEX)
    return half_as_float(_fmod)(x, y)


# --- sums of products, interpolation ------------------------------------------------------------


_SCALED_BY_VALUE = Numbers(left_out=("value",), fits=Fits.AS_FLOAT, dtype=NumberDtype.AS_GIVEN)
"""What the number `value` is to the operators that add a scaled product or quotient of two tensors."""


@elementwise_op(promote=COMMON, promoted=("input", "tensor1", "tensor2"), inplace=True, numbers=_SCALED_BY_VALUE)
def addcmul(input: Array, tensor1: Array, tensor2: Array, *, value: Scalar | None = None) -> Array:
    """``input + value * tensor1 * tensor2``."""
    refuse(input, "addcmul_cpu_out", BOOL)
    if tensor1.dtype == tensor2.dtype != input.dtype:
        return input + _finer_product(input, tensor1, tensor2, _value(value, tensor1))
    x, a, b = broadcast(input, *_converted(input, tensor1, tensor2))
    return half_as_float(lambda x, a, b: x + _value(value, x) * a * b if value is not None else x + a * b)(x, a, b)


def _check_addcdiv(input: Any, tensor1: Any, tensor2: Any, value: Any = None) -> None:
    """torch refuses to divide two integer tensors, whatever the quotient is added to."""
    if category(tensor1) < FLOATING and category(tensor2) < FLOATING:
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported, and in a future  release addcdiv "
            "will perform a true division of tensor1 and tensor2. The historic addcdiv behavior can "
            "be implemented as (input + value * torch.trunc(tensor1 / tensor2)).to(input.dtype) for "
            "integer inputs and as (input + value * tensor1 / tensor2) for float inputs. The future "
            "addcdiv behavior is just the latter implementation: (input + value * tensor1 / "
            "tensor2), for all dtypes."
        )


def _divides_in_place(metas: dict[str, Any], outs: Sequence[Meta], wanted: set[str]) -> tuple[str, str] | None:
    """torch's gradient of the numerator is the value divided in place by the denominator."""
    by = metas["tensor2"].dtype
    if "tensor1" not in wanted or by.category >= dtypes.FLOATING:
        return None
    have = dtypes.scalar_type_name(dtypes.get_default_dtype())
    made = dtypes.scalar_type_name(by)
    return f"result type {have} can't be cast to the desired output type {made}", "tensor1"


@elementwise_op(
    promote=COMMON,
    promoted=("input", "tensor1", "tensor2"),
    inplace=True,
    numbers=_SCALED_BY_VALUE,
    check=_check_addcdiv,
    refused=_divides_in_place,
    keeps={"input": ("tensor2",)},
)
def addcdiv(input: Array, tensor1: Array, tensor2: Array, *, value: Scalar | None = None) -> Array:
    """``input + value * tensor1 / tensor2``."""
    if category(tensor1) == BOOL:
        _check_addcdiv(input, tensor1, tensor2)  # the trace comes before the check
    if tensor1.dtype == tensor2.dtype != input.dtype:
        return input + _finer_quotient(input, tensor1, tensor2, _value(value, tensor1))
    x, a, b = broadcast(input, *_converted(input, tensor1, tensor2))
    return half_as_float(lambda x, a, b: x + _quotient(a if value is None else _value(value, x) * a, b))(x, a, b)


# Here torch does square the denominator.
_quotient = with_rule(divide, lambda x, y, out, tx, ty: divide(tx, y) - ty * divide(x, y * y))


def _converted(x: Array, *others: Array) -> list[Array]:
    return [lax.convert_element_type(y, x.dtype) for y in others]


def _like(x: Array, y: Array) -> Array:
    """A number as an array of the dtype and shape of `x`."""
    return lax.broadcast(lax.convert_element_type(y, x.dtype), x.shape)


# Both factors are numbers in tensors of a finer dtype. torch's gradients multiply them with each other first.
_finer_product = with_rule(
    lambda x, a, b, v: _like(x, v) * _like(x, a) * _like(x, b),
    lambda x, a, b, v, out, tx, ta, tb, tv: _like(x, ta) * _like(x, b * v) + _like(x, tb) * _like(x, a * v),
)
_finer_quotient = with_rule(
    lambda x, a, b, v: divide(_like(x, v) * _like(x, a), _like(x, b)),
    lambda x, a, b, v, out, tx, ta, tb, tv: (
        _like(x, ta) * _like(x, divide(v, b)) - _like(x, tb) * _like(x, divide(v * a, b * b))
    ),
)


def _value(value: Any, x: Array) -> Array:
    if value is None:
        return jnp.ones((), x.dtype)
    # A later check refuses it if it is not real.
    if category(value) == COMPLEX and category(x) != COMPLEX:
        value = lax.real(value)
    return lax.convert_element_type(value, x.dtype)


def _between_value(x: Array, y: Array, w: Array) -> Array:
    return where(lax.abs(w) < 0.5, x + w * (y - x), y - (y - x) * (1 - w))


# Each term has a product of its own, so that an infinite weight does not make NaN of all terms.
_between = with_rule(_between_value, lambda x, y, w, out, tx, ty, tw: tx * (1 - w) + ty * w + tw * (y - x))
_between_forward = custom_jvp(_between_value)


def _between_forward_jvp(primals: Any, tangents: Any) -> Any:
    """torch's forward mode interpolates between the two tangents, and takes an absent one for 0."""
    (x, y, w), (tx, ty, tw) = primals, tangents
    tx, ty = (jnp.zeros_like(p) if is_absent(t) else t for p, t in ((x, tx), (y, ty)))
    along = _between_value(tx, ty, w)
    return _between_value(x, y, w), along if is_absent(tw) else along + tw * (y - x)


_between_forward.defjvp(_between_forward_jvp, symbolic_zeros=True)


def _lerp_forward(input: Array, end: Array, weight: Any) -> Array:
    return _lerp(_between_forward, input, end, weight)


@elementwise_op(
    promote=NONE,
    inplace=True,
    compares=Compares.IN_GRADIENTS,
    numbers=Numbers(fits=Fits.AS_FLOAT),
    keeps={"weight": ("weight",)},
    forward=_lerp_forward,
    node=lambda a: "LerpBackward0" if a.get("weight") == "scalar" else "LerpBackward1",
)
def lerp(input: Array, end: Array, weight: Array | Scalar) -> Array:
    """``input + weight * (end - input)``, from the nearer end so that weight 1 gives `end` exactly."""
    return _lerp(_between, input, end, weight)


def _lerp(between: Any, input: Array, end: Array, weight: Any) -> Array:
    weight = jnp.asarray(weight)
    number = getattr(weight, "weak_type", False)
    for name, other in (("end", end), ("weight", weight)):
        if name == "weight" and not other.ndim and other.dtype != input.dtype:
            if not number and category(other) == COMPLEX and category(input) != COMPLEX:
                raise RuntimeError(
                    f"result type {scalar_name(other)} can't be cast to the desired output type {scalar_name(input)}"
                )
            number = True  # torch reads such a tensor as a number
        elif other.dtype != input.dtype:
            raise RuntimeError(f"expected dtype {cpp_name(input)} for `{name}` but got dtype {cpp_name(other)}")
    operands = broadcast(input, end, weight)
    refuse(input, "lerp_kernel_scalar" if number else "lerp_kernel_tensor", BOOL, INTEGRAL)

    def body(x: Array, y: Array, w: Array) -> Array:
        return between(x, y, _value(w, x))

    return half_as_float(body)(*operands)
