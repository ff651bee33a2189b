"""Trigonometric and hyperbolic functions, their inverses, and angles."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import lax

from .._core.arrays.dtypes import BOOL, COMPLEX, INTEGRAL
from .._core.arrays.kernels import half_as_float, refuse, refusing, refusing_complex, where
from .._core.arrays.layouts import elementwise, preserved
from . import complexes
from .registry import FLOAT, Array, InPlace, binary, unary


def _no_derivative_in_place(name: str) -> dict[str, Any]:
    """The option of functions whose forms in place have no derivative in torch."""
    return {
        "inplace": InPlace(
            node=f"{name.capitalize()}Backward1",
            missing=f"the derivative for 'inplace version of {name}' is not implemented.",
        )
    }


def _sinc_rule(x: Array, y: Array, t: Array) -> Array:
    """torch: the slope next to 0 is 0, also for an infinite tangent."""
    turn, area = x * math.pi, x * x * math.pi
    slope = (turn * lax.cos(turn) - lax.sin(turn)) / area
    return where(area == 0, jnp.zeros_like(t), t) * where(area == 0, jnp.zeros_like(x), slope)


sin = unary("sin", complexes.sin, promote=FLOAT)
cos = unary("cos", complexes.cos, promote=FLOAT)
tan = unary("tan", complexes.tan, promote=FLOAT)
asin = unary("asin", half_as_float(complexes.asin), promote=FLOAT, aliases=("arcsin",))
acos = unary("acos", complexes.acos, promote=FLOAT, aliases=("arccos",))
atan = unary("atan", complexes.atan, promote=FLOAT, aliases=("arctan",))
sinh = unary("sinh", complexes.sinh, promote=FLOAT)
cosh = unary("cosh", complexes.cosh, promote=FLOAT)
tanh = unary("tanh", complexes.tanh, promote=FLOAT, rule=half_as_float(lambda x, y, t: t * (1 - y * y)))
asinh = unary("asinh", complexes.asinh, promote=FLOAT, aliases=("arcsinh",), **_no_derivative_in_place("asinh"))
acosh = unary("acosh", complexes.acosh, promote=FLOAT, aliases=("arccosh",), **_no_derivative_in_place("acosh"))
atanh = unary(
    "atanh",
    complexes.atanh,
    promote=FLOAT,
    rule=lambda x, y, t: t / (1 - x * x),
    aliases=("arctanh",),
    **_no_derivative_in_place("atanh"),
)
sinc = unary("sinc", half_as_float(jnp.sinc), promote=FLOAT, rule=half_as_float(_sinc_rule))
deg2rad = unary(
    "deg2rad",
    refusing_complex(lambda x: x * (math.pi / 180), "deg2rad is not supported for complex tensors.", RuntimeError),
    promote=FLOAT,
    layout=elementwise(preserved),
    node="Deg2RadBackward0",
)
rad2deg = unary(
    "rad2deg",
    refusing_complex(lambda x: x * (180 / math.pi), "rad2deg is not supported for complex tensors.", RuntimeError),
    promote=FLOAT,
    layout=elementwise(preserved),
    node="Rad2DegBackward0",
)


def _atan2_rule(x: Array, y: Array, out: Array, tx: Array, ty: Array) -> Array:
    """torch: both slopes are 0 at the origin, where JAX has NaN."""
    norm = x * x + y * y
    inverse = where(norm == 0, 0, 1 / norm)
    return tx * (y * inverse) - ty * (x * inverse)


def _hypot(x: Array, y: Array) -> Array:
    refuse(x, "hypot_cpu", BOOL, INTEGRAL, COMPLEX)
    return half_as_float(jnp.hypot)(x, y)


def _atan2_forward(x: Array, y: Array, out: Array, tx: Array, ty: Array) -> Array:
    """torch's forward mode divides 0 by 0 at the origin."""
    return (tx * y - ty * x) / (x * x + y * y)


atan2 = binary(
    "atan2",
    refusing(lax.atan2, "atan2_cpu", COMPLEX),
    promote=FLOAT,
    scalar=False,
    rule=_atan2_rule,
    forward=_atan2_forward,
    aliases=("arctan2",),
)
hypot = binary("hypot", _hypot, scalar=False, rule=lambda x, y, out, tx, ty: tx * x / out + ty * y / out)
