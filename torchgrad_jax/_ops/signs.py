"""Signs, absolute values and phases of numbers, and complex numbers made of their parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from .._core.arrays import shapes
from .._core.arrays.dtypes import BOOL, COMPLEX, FLOATING, INTEGRAL
from .._core.arrays.kernels import category, refusing, refusing_complex, scalar_name, where
from .._core.arrays.layouts import elementwise, with_lines
from .._core.arrays.meta import Meta
from .._core.host import forms
from .._core.jax.custom_jvp import custom_jvp
from . import complexes
from .helpers import broadcast
from .registry import FLOAT, Array, Grad, InPlace, Out, binary, elementwise_op, unary


def _unit(x: Array) -> Array:
    """x / |x|, 0 at 0; for real numbers the sign, where torch has 0 for nan and for -0."""
    if category(x) == COMPLEX:
        return _unit_complex(x)
    if category(x) == BOOL:
        return x
    return lax.sign(x) if category(x) == INTEGRAL else lax.select((x != x) | (x == 0), jnp.zeros_like(x), lax.sign(x))


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


abs_ = unary(
    "abs",
    refusing(_abs, "abs_cpu", BOOL),
    rule=_abs_rule,
    operators=("__abs__",),
    aliases=("absolute",),
    inplace=InPlace(check=_no_complex_abs),
    layout=_as_empty_like,
)
neg = unary("neg", _neg, operators=("__neg__",), aliases=("negative",), out=Out.EXACT)
sign = unary("sign", refusing_complex(_unit, _SIGN_COMPLEX), out=Out.EXACT, host=forms.sign)
sgn = unary("sgn", _unit, keeps=("input", "result"), out=Out.EXACT)
signbit = unary(
    "signbit",
    refusing_complex(_signbit, "signbit is not implemented for complex tensors."),
    grad=Grad.NO,
    inplace=False,
    out=Out.EXACT,
)


def _copysign_rule(x: Array, y: Array, out: Array, tx: Array, ty: Array) -> Array:
    """torch: the slope in the input is 0 where that is 0; the slope in the sign is always 0."""
    return tx * where(x == 0, 0, out / x)


copysign = binary(
    "copysign",
    refusing(jnp.copysign, "copysign_cpu", COMPLEX),
    promote=FLOAT,
    rule=_copysign_rule,
    keeps={"other": ("result",)},
    node=lambda a: "CopysignBackward1" if a.get("other") == "scalar" else "CopysignBackward0",
)


conj_physical = unary(
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


angle_ = unary(
    "angle", _angle, promote=FLOAT, rule=_angle_rule, inplace=False, keeps=("input",), layout=_contiguous_of_complex
)


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


@elementwise_op(method=False, keeps=("real", "imag"))
def complex_(real: Array, imag: Array) -> Array:
    """``real + imag * 1j``."""
    _same_real(real, imag)
    return lax.complex(*broadcast(real, imag))


@custom_jvp
def _polar(size: Array, angle: Array) -> Array:
    return lax.complex(size * lax.cos(angle), size * lax.sin(angle))


@_polar.defjvp
def _polar_jvp(primals: Any, tangents: Any) -> Any:
    """The slopes read the result, which torch saves. That in `abs` is 0 at 0."""
    (size, angle), (t_size, t_angle) = primals, tangents
    out = _polar(size, angle)
    return out, t_size.astype(out.dtype) * _unit(out) + t_angle.astype(out.dtype) * out * 1j


def _polar_forward(abs: Array, angle: Array) -> Array:
    """torch's forward mode goes through both arguments, so that a size below 0 and one of 0 have their slope."""
    return _polar.fun(*broadcast(abs, angle))


@elementwise_op(method=False, forward=_polar_forward)
def polar(abs: Array, angle: Array) -> Array:
    """``abs * exp(1j * angle)``."""
    _same_real(abs, angle)
    return _polar(*broadcast(abs, angle))
