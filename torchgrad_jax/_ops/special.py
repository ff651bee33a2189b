"""torch.special: what no other family declares, and the special names of what others do."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
from jax import lax

from .._core.dtypes import COMPLEX
from .._core.kernels import half_as_float, refuse, scalar_name
from .helpers import broadcast
from .registry import FLOAT, Array, Grad, Layout, Scalar, op, unary, variant

_special = functools.partial(unary, promote=FLOAT, namespace="special", inplace=False, method=False)


def _kernel(fn: Callable[..., Array], name: str, *, half: bool = True) -> Callable[..., Array]:
    """`fn` of real arrays; half precision is computed in float32, or refused as torch does."""
    wide = half_as_float(fn)

    def checked(x: Array, *rest: Array) -> Array:
        refuse(x, f"{name}_cpu", COMPLEX)
        if not half and x.dtype.itemsize < 4:
            raise NotImplementedError(f'"{name}_cpu" not implemented for \'{scalar_name(x)}\'')
        return wide(x, *rest)

    return checked


# --- logarithms and the normal distribution -----------------------------------------------------


def _entr(x: Array) -> Array:
    inside = jnp.where(x > 0, x, 1)
    y = jnp.where(x > 0, -x * lax.log(inside), jnp.where(x == 0, 0, -jnp.inf))
    return jnp.where(jnp.isnan(x), x, y)


def _log_ndtr_slope(x: Array, y: Array) -> Array:
    return lax.exp(-(y + x * x / 2)) / math.sqrt(2 * math.pi)


_special("special_entr", _kernel(_entr, "entr"), rule=half_as_float(lambda x, y, t: t * (-lax.log(x) - 1)))
_special("special_erfcx", _kernel(jsp.erfcx, "erfcx", half=False),
         rule=lambda x, y, t: t * (2 * x * y - 2 / math.sqrt(math.pi)))  # fmt: skip
_special("special_log_ndtr", _kernel(jsp.log_ndtr, "log_ndtr", half=False),
         rule=lambda x, y, t: t * _log_ndtr_slope(x, y))  # fmt: skip
_special("special_ndtri", _kernel(jsp.ndtri, "ndtri", half=False),
         rule=lambda x, y, t: t * (math.sqrt(2 * math.pi) * lax.exp(y * y / 2)))  # fmt: skip


def _mixed(name: str) -> Callable[[dict[str, Any]], str]:
    """Node name by overload: two tensors, a number first, a number second."""
    return lambda a: name + ("1" if a.get("input") == "scalar" else "2" if a.get("other") == "scalar" else "0")


def _xlog1py_value(x: Array, y: Array) -> Array:
    def body(x: Array, y: Array) -> Array:
        zero = (x == 0) & (y == y)
        return jnp.where(zero, 0, x * lax.log1p(jnp.where(zero, 0, y)))

    return half_as_float(body)(x, y)


@jax.custom_jvp
def _xlog1py(x: Array, y: Array) -> Array:
    return _xlog1py_value(x, y)


@_xlog1py.defjvp
def _xlog1py_jvp(primals: Any, tangents: Any) -> Any:
    # torch: slope log1p(y) in x also at x = 0, unless y <= -1
    (x, y), (tx, ty) = primals, tangents
    dead = (x == 0) & (y <= -1)
    slope = jnp.where(dead, 0, lax.log1p(jnp.where(dead, 0, y)))
    return _xlog1py(x, y), tx * slope + ty * (x / (y + 1))


@op(promote=FLOAT, namespace="special", method=False, layout=Layout.ELEMENTWISE,
    node=_mixed("SpecialXlog1PyBackward"))  # fmt: skip
def special_xlog1py(input: Array | Scalar, other: Array | Scalar) -> Array:
    """``input * log1p(other)``, 0 where the input is 0."""
    x, y = broadcast(jnp.asarray(input), jnp.asarray(other))
    refuse(x, "xlog1py_cpu", COMPLEX)
    return _xlog1py(x, y)


# --- gamma and zeta -----------------------------------------------------------------------------


def _zeta_value(x: Array, q: Array) -> Array:
    return lax.zeta(x, q)


@jax.custom_jvp
def _zeta(x: Array, q: Array) -> Array:
    return _zeta_value(x, q)


@functools.partial(_zeta.defjvp, symbolic_zeros=True)
def _zeta_jvp(primals: Any, tangents: Any) -> Any:
    (x, q), (tx, tq) = primals, tangents
    if type(tx) is not jax.custom_derivatives.SymbolicZero:
        raise NotImplementedError("the derivative for 'zeta' is not implemented.")
    out = _zeta(x, q)
    if type(tq) is jax.custom_derivatives.SymbolicZero:
        return out, jnp.zeros_like(out)
    return out, -x * _zeta(x + 1, q) * tq


@op(promote=FLOAT, namespace="special", method=False, layout=Layout.ELEMENTWISE,
    node=_mixed("SpecialZetaBackward"))  # fmt: skip
def special_zeta(input: Array | Scalar, other: Array | Scalar) -> Array:
    """The Hurwitz zeta function."""
    x, q = broadcast(jnp.asarray(input), jnp.asarray(other))
    _kernel(lambda x: x, "zeta", half=False)(x)
    return _zeta(x, q)


def _gamma_density(a: Array, x: Array) -> Array:
    return lax.exp((a - 1) * lax.log(x) - x - lax.lgamma(a))


def _incomplete_gamma(name: str, fn: Callable[[Array, Array], Array], sign: float) -> None:
    """torch has the slope in the second argument only; the other comes from JAX."""

    def check(x: Array, name: str = name) -> None:
        refuse(x, f"{name}_cpu", COMPLEX)

    @jax.custom_jvp
    def body(a: Array, x: Array) -> Array:
        return half_as_float(fn)(a, x)

    @functools.partial(body.defjvp, symbolic_zeros=True)
    def jvp(primals: Any, tangents: Any) -> Any:
        (a, x), (ta, tx) = primals, tangents
        t = jnp.zeros_like(a)
        if type(tx) is not jax.custom_derivatives.SymbolicZero:
            t = t + sign * half_as_float(_gamma_density)(a, x) * tx
        if type(ta) is not jax.custom_derivatives.SymbolicZero:
            t = t + sign * half_as_float(lax.igamma_grad_a)(a, x) * ta
        return body(a, x), t

    def impl(input: Array, other: Array) -> Array:
        a, x = broadcast(input, other)
        check(a)
        return body(a, x)

    impl.__name__ = impl.__qualname__ = name
    impl.__doc__ = "The regularised incomplete gamma function."
    op(impl, promote=FLOAT, inplace=True, layout=Layout.ELEMENTWISE)


def _igamma(a: Array, x: Array) -> Array:
    # XLA gives nan where torch takes the limit of a large argument
    return jnp.where((x == jnp.inf) & (a >= 0) & (a != jnp.inf), 1, lax.igamma(a, x))


def _igammac(a: Array, x: Array) -> Array:
    return jnp.where((x == jnp.inf) & (a >= 0) & (a != jnp.inf), 0, lax.igammac(a, x))


_incomplete_gamma("igamma", _igamma, 1.0)
_incomplete_gamma("igammac", _igammac, -1.0)


# --- Bessel functions ---------------------------------------------------------------------------


def _away_from_zero(x: Array, slope: Array) -> Array:
    """torch: the slope of i1 and i1e is 1/2 where x is below rounding, nan included."""
    return jnp.where(lax.abs(x) > jnp.finfo(x.dtype).eps, slope, 0.5)


def _safe(x: Array) -> Array:
    eps = jnp.finfo(x.dtype).eps
    return jnp.where(lax.abs(x) > eps, x, jnp.asarray(eps, x.dtype))


@jax.custom_jvp
def _i0e(x: Array) -> Array:
    return lax.bessel_i0e(x)


@jax.custom_jvp
def _i1e(x: Array) -> Array:
    return lax.bessel_i1e(x)


@jax.custom_jvp
def _i0(x: Array) -> Array:
    return jsp.i0(x)


def _i0e_slope(x: Array, y: Array) -> Array:
    return _i1e(x) - lax.sign(x) * y


def _i1e_slope(x: Array, y: Array) -> Array:
    z = _safe(x)
    return _away_from_zero(x, _i0e(z) - y * (lax.sign(z) + 1 / z))


def _i1_slope(x: Array, y: Array) -> Array:
    z = _safe(x)
    return _away_from_zero(x, _i0(z) - y / z)


_i0e.defjvp(lambda p, t: ((y := _i0e(*p)), t[0] * _i0e_slope(*p, y)))
_i1e.defjvp(lambda p, t: ((y := _i1e(*p)), t[0] * _i1e_slope(*p, y)))
_i0.defjvp(lambda p, t: (_i0(*p), t[0] * _i1(*p)))


@jax.custom_jvp
def _i1(x: Array) -> Array:
    return jsp.i1(x)


_i1.defjvp(lambda p, t: ((y := _i1(*p)), t[0] * _i1_slope(*p, y)))

_special("special_i0e", _kernel(_i0e, "i0e"), node="SpecialI0EBackward0",
         rule=half_as_float(lambda x, y, t: t * _i0e_slope(x, y)))  # fmt: skip
_special("special_i1", _kernel(_i1, "i1"), rule=half_as_float(lambda x, y, t: t * _i1_slope(x, y)))
_special("special_i1e", _kernel(_i1e, "i1e"), node="SpecialI1EBackward0",
         rule=half_as_float(lambda x, y, t: t * _i1e_slope(x, y)))  # fmt: skip

_STEP, _POINTS = 0.25, 36


def _decaying(nu: float, z: Array) -> Array:
    """exp(z) K_nu(z) for |z| >= 1 in the right half plane, by the trapezoidal rule.

    With cosh t - 1 = w^2 / (2 z) the integral of exp(-z cosh t) cosh(nu t) becomes a Gaussian times
    a slowly varying factor, for which equally spaced points converge to rounding.
    """
    w = jnp.asarray(np.arange(_POINTS) * _STEP, jnp.finfo(z.dtype).dtype)
    weight = np.full(_POINTS, _STEP)
    weight[0] /= 2
    gauss = jnp.asarray(weight * np.exp(-((np.arange(_POINTS) * _STEP) ** 2) / 2), z.dtype)
    half = w.astype(z.dtype) / (2 * jnp.sqrt(z)[..., None]) if z.ndim == 0 else _outer_ratio(w, z)
    total = gauss * _order(nu, half) / jnp.sqrt(1 + half * half) if z.ndim == 0 else _weigh(gauss, nu, half)
    return jnp.sum(total, -1) / jnp.sqrt(z)
