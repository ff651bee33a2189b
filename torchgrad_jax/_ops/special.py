"""torch.special: functions that no other family declares, and further names of those that others declare."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
from jax import lax

from .._core.arrays.dtypes import COMPLEX
from .._core.arrays.kernels import half_as_float, refuse, scalar_name
from .._core.errors import messages as errors
from .._core.jax.custom_jvp import custom_jvp, is_absent
from .helpers import broadcast, from_zero
from .logarithms import times_log
from .registry import FLOAT, Array, Compares, Grad, Layout, Scalar, op, unary, variant

_special = functools.partial(unary, promote=FLOAT, namespace="special", inplace=False, method=False)


def _kernel(fn: Callable[..., Array], name: str, *, half: bool = True) -> Callable[..., Array]:
    """`fn` of real arrays; half precision is computed in float32, or refused as torch does."""
    wide = half_as_float(fn)

    def checked(x: Array, *rest: Array) -> Array:
        refuse(x, f"{name}_cpu", COMPLEX)
        if not half and x.dtype.itemsize < 4:
            raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{scalar_name(x)}'")
        return wide(x, *rest)

    return checked


def _in_double(fn: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """`fn` with float32 computed in float64: sums of many terms, and JAX's erfcx, lose digits otherwise."""
    return lambda x: fn(x.astype(jnp.float64)).astype(x.dtype)


# --- logarithms and the normal distribution -----------------------------------------------------


def _entr(x: Array) -> Array:
    inside = jnp.where(x > 0, x, 1)
    y = jnp.where(x > 0, -x * lax.log(inside), jnp.where(x == 0, 0, -jnp.inf))
    return jnp.where(jnp.isnan(x), x, y)


def _log_ndtr(x: Array) -> Array:
    """erfcx gives it on the left; JAX's series has only seven digits to the right of 5."""
    scaled = x * math.sqrt(0.5)
    left = x < -1
    tail = lax.log(jsp.erfcx(jnp.where(left, -scaled, 1)) / 2) - scaled * scaled
    return jnp.where(left, tail, lax.log1p(-lax.erfc(jnp.where(left, 1, scaled)) / 2))


def _log_ndtr_slope(x: Array, y: Array) -> Array:
    return lax.exp(-(y + x * x / 2)) / math.sqrt(2 * math.pi)


special_entr = _special(
    "special_entr", _kernel(_entr, "entr"), rule=half_as_float(lambda x, y, t: t * (-lax.log(x) - 1))
)
special_erfcx = _special(
    "special_erfcx",
    _kernel(_in_double(jsp.erfcx), "erfcx", half=False),
    rule=lambda x, y, t: t * (2 * x * y - 2 / math.sqrt(math.pi)),
)
special_log_ndtr = _special(
    "special_log_ndtr",
    _kernel(_in_double(_log_ndtr), "log_ndtr", half=False),
    rule=lambda x, y, t: t * _log_ndtr_slope(x, y),
)
special_ndtri = _special(
    "special_ndtri",
    _kernel(jsp.ndtri, "ndtri", half=False),
    rule=lambda x, y, t: t * (math.sqrt(2 * math.pi) * lax.exp(y * y / 2)),
)


def _mixed(name: str) -> Callable[[dict[str, Any]], str]:
    """Node name by overload: two tensors, a number first, a number second."""
    return lambda a: name + ("1" if a.get("input") == "scalar" else "2" if a.get("other") == "scalar" else "0")


def _xlog1py_value(x: Array, y: Array) -> Array:
    def body(x: Array, y: Array) -> Array:
        zero = (x == 0) & (y == y)
        return jnp.where(zero, 0, x * lax.log1p(jnp.where(zero, 0, y)))

    return half_as_float(body)(x, y)


@custom_jvp
def _xlog1py(x: Array, y: Array) -> Array:
    return _xlog1py_value(x, y)


@_xlog1py.defjvp
def _xlog1py_jvp(primals: Any, tangents: Any) -> Any:
    # torch: slope log1p(y) in x also at x = 0, unless y <= -1; and 0 for 0 where there is no logarithm
    (x, y), (tx, ty) = primals, tangents
    dead, off = (x == 0) & (y <= -1), (y <= -1) | (y == jnp.inf)
    beside = times_log(jnp.where(dead, 0, tx), jnp.where(off & ~(dead & (y < -1)), y + 1, 1))
    along = jnp.where(off, beside, tx * lax.log1p(jnp.where(off, 0, y)))
    return _xlog1py(x, y), along + ty * (x / (y + 1))


@op(
    promote=FLOAT,
    namespace="special",
    method=False,
    layout=Layout.ELEMENTWISE,
    node=_mixed("SpecialXlog1PyBackward"),
    compares=Compares.IN_GRADIENTS,
)
def special_xlog1py(input: Array | Scalar, other: Array | Scalar) -> Array:
    """``input * log1p(other)``, 0 where the input is 0."""
    x, y = broadcast(jnp.asarray(input), jnp.asarray(other))
    refuse(x, "xlog1py_cpu", COMPLEX)
    return _xlog1py(x, y)


# --- zeta -------------------------------------------------------------------------------------


def _zeta_right(x: Array, q: Array) -> Array:
    """The function for positive `q`: for large exponents the first term, as XLA would divide by others that are 0."""
    y = lax.zeta(x, q)
    return jnp.where(jnp.isnan(y) & (x > 1) & (x != jnp.inf) & (q != jnp.inf), lax.pow(q, -x), y)


def _zeta_left(x: Array, q: Array) -> Array:
    """The function for negative `q`, where XLA has no correct digits.

    It adds the terms right of 0 to those left of it, which are a difference of two sums. Only whole powers of the
    latter are real.
    """
    f = q - jnp.floor(q)
    beyond = _zeta_right(x, 1 - f) - _zeta_right(x, 1 - q)
    whole = x == jnp.floor(x)
    y = jnp.where(whole, _zeta_right(x, f) + jnp.where(x % 2 == 0, beyond, -beyond), jnp.nan)
    return jnp.where(x == 1, jnp.inf, y)


@custom_jvp
def _zeta(x: Array, q: Array) -> Array:
    y = jnp.where(q < 0, _zeta_left(x, q), _zeta_right(x, q))
    # torch: a pole at every whole number up to 0; XLA has NaN there
    y = jnp.where((q <= 0) & (q == jnp.floor(q)) & ~(x <= 1), jnp.inf, y)
    # torch adds NaN to a first term of q**-inf
    beyond = jnp.where(q < 1, jnp.inf, jnp.where(q == 1, jnp.ones_like(q), jnp.nan))
    y = jnp.where(x == jnp.inf, beyond, y)
    return jnp.where(x < 1, jnp.nan, y)  # torch: nan also where q is a pole


@functools.partial(_zeta.defjvp, symbolic_zeros=True)
def _zeta_jvp(primals: Any, tangents: Any) -> Any:
    (x, q), (tx, tq) = primals, tangents
    if not is_absent(tx):
        raise errors.NoDerivative("the derivative for 'zeta' is not implemented.")
    out = _zeta(x, q)
    if is_absent(tq):
        return out, jnp.zeros_like(out)
    return out, -x * _zeta(x + 1, q) * tq


@op(promote=FLOAT, namespace="special", method=False, layout=Layout.ELEMENTWISE, node=_mixed("SpecialZetaBackward"))
def special_zeta(input: Array | Scalar, other: Array | Scalar) -> Array:
    """The Hurwitz zeta function."""
    x, q = broadcast(jnp.asarray(input), jnp.asarray(other))
    _kernel(lambda x: x, "zeta", half=False)(x)
    return _zeta(x, q)


# --- Bessel functions ---------------------------------------------------------------------------


def _away_from_zero(x: Array, slope: Array) -> Array:
    """torch: the slope of i1 and i1e is 1/2 where x is smaller than rounding errors, or NaN."""
    return jnp.where(lax.abs(x) > jnp.finfo(x.dtype).eps, slope, 0.5)


def _safe(x: Array) -> Array:
    eps = jnp.finfo(x.dtype).eps
    return jnp.where(lax.abs(x) > eps, x, jnp.asarray(eps, x.dtype))


@custom_jvp
def _i0e(x: Array) -> Array:
    return lax.bessel_i0e(x)


@custom_jvp
def _i1e(x: Array) -> Array:
    return jnp.where(x == -jnp.inf, -0.0, from_zero(lax.bessel_i1e(x)))


@custom_jvp
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


_i0e.defjvp(lambda p, t: ((y := _i0e(*p)), t[0] * _i0e_slope(p[0], y)))
_i1e.defjvp(lambda p, t: ((y := _i1e(*p)), t[0] * _i1e_slope(p[0], y)))
_i0.defjvp(lambda p, t: (_i0(*p), t[0] * _i1(*p)))


@custom_jvp
def _i1(x: Array) -> Array:
    return from_zero(jsp.i1(x))


_i1.defjvp(lambda p, t: ((y := _i1(*p)), t[0] * _i1_slope(p[0], y)))

special_i0e = _special(
    "special_i0e",
    _kernel(_i0e, "i0e"),
    node="SpecialI0EBackward0",
    rule=half_as_float(lambda x, y, t: t * _i0e_slope(x, y)),
)
special_i1 = _special("special_i1", _kernel(_i1, "i1"), rule=half_as_float(lambda x, y, t: t * _i1_slope(x, y)))
special_i1e = _special(
    "special_i1e",
    _kernel(_i1e, "i1e"),
    node="SpecialI1EBackward0",
    rule=half_as_float(lambda x, y, t: t * _i1e_slope(x, y)),
)

_STEP, _POINTS = 0.25, 36
_GRID = np.arange(_POINTS) * _STEP
_WEIGHTS = np.where(_GRID == 0, _STEP / 2, _STEP) * np.exp(-(_GRID**2) / 2)


def _scaled_bessel_k(nu: float, z: Array) -> Array:
    """exp(z) K_nu(z) for |z| >= 1 in the right half plane, by the trapezoidal rule.

    With cosh t = 1 + w^2 / (2 z) the integral of exp(-z cosh t) cosh(nu t) becomes a Gaussian times
    a slowly varying factor, for which equally spaced points converge to rounding.
    """
    shape = (*z.shape, _POINTS)
    root = jnp.sqrt(z)
    grid, weights = (jnp.broadcast_to(jnp.asarray(c, z.dtype), shape) for c in (_GRID, _WEIGHTS))
    u = grid / jnp.broadcast_to(2 * root[..., None], shape)  # sinh(t / 2)
    if nu == 0:
        order = weights
    elif nu == 1:
        order = weights * (1 + 2 * u * u)
    else:
        order = weights * jnp.cosh(2 * nu * jnp.arcsinh(u))
    return jnp.sum(order / jnp.sqrt(1 + u * u), -1) / root


def _hankel(nu: float, x: Array) -> Array:
    """The first Hankel function of positive x, from K on the imaginary axis."""
    z = lax.complex(jnp.zeros_like(x), -x)
    turn = np.exp(-0.5j * math.pi * nu) * 2 / (1j * math.pi)
    return jnp.asarray(turn, z.dtype) * _scaled_bessel_k(nu, z) * lax.complex(lax.cos(x), lax.sin(x))


_NEAR = 4.0
_ANGLES = 24
_THETA = (np.arange(_ANGLES) + 0.5) * math.pi / _ANGLES
_HARMONICS = sum((-1) ** k / k * np.cos(2 * k * _THETA) for k in range(1, _ANGLES // 2)) / _ANGLES


def _bessel_integral(x: Array, odd: bool, weights: Any) -> Array:
    """Sums over angles of Bessel's integral, which converge to rounding for small arguments."""
    shape = (*x.shape, _ANGLES)
    sine = jnp.broadcast_to(jnp.asarray(np.sin(_THETA), x.dtype), shape)
    phase = x[..., None] * sine
    wave = lax.sin(phase) * sine if odd else lax.cos(phase)
    return jnp.sum(wave * jnp.broadcast_to(jnp.asarray(weights, x.dtype), shape), -1)


_FLAT = np.full(_ANGLES, 1 / _ANGLES)


def _first_kind(order: int, x: Array) -> Array:
    size = lax.abs(x)
    near = size < _NEAR
    small = _bessel_integral(jnp.where(near, size, 0), order == 1, _FLAT)
    far = jnp.where(near, _NEAR, size)
    large = jnp.real(_hankel(order, far))
    y = jnp.where(near, small, large)
    return jnp.where(jnp.isnan(x), x, lax.sign(x) * y if order == 1 else y)


def _second_kind(order: int, x: Array) -> Array:
    near = x < _NEAR
    z = jnp.where(near & (x > 0), x, 1)
    log = lax.log(z / 2) + np.euler_gamma
    if order == 0:
        small = 2 / math.pi * log * _bessel_integral(z, False, _FLAT) - 4 / math.pi * _bessel_integral(
            z, False, _HARMONICS
        )
    else:
        small = -2 / math.pi * (_bessel_integral(z, False, _FLAT) / z - log * _bessel_integral(z, True, _FLAT))
        small = small - 4 / math.pi * _bessel_integral(z, True, _HARMONICS)
    far = jnp.where(near, _NEAR, x)
    large = jnp.imag(_hankel(order, far))
    y = jnp.where(near, small, large)
    y = jnp.where(x == 0, -jnp.inf, jnp.where(x < 0, jnp.nan, y))
    return jnp.where(jnp.isnan(x), x, y)


_TERMS = 14


def _series(x: Array, coefficients: Any) -> Array:
    """A power series by Horner's rule."""
    y = jnp.zeros_like(x)
    for c in reversed(coefficients):
        y = y * x + c
    return y


_HARMONIC = [sum(1 / j for j in range(1, k + 1)) for k in range(_TERMS + 1)]
_FACT = [math.factorial(k) for k in range(_TERMS + 1)]
_K0_SERIES = [(_HARMONIC[k] - np.euler_gamma) / _FACT[k] ** 2 for k in range(_TERMS)]
_I0_SERIES = [1 / _FACT[k] ** 2 for k in range(_TERMS)]
_I1_SERIES = [1 / (_FACT[k] * _FACT[k + 1]) for k in range(_TERMS)]
_K1_SERIES = [(_HARMONIC[k] + _HARMONIC[k + 1] - 2 * np.euler_gamma) / (_FACT[k] * _FACT[k + 1]) for k in range(_TERMS)]


def _modified_second_kind(order: int, scaled: bool, x: Array) -> Array:
    near = x < 1
    z = jnp.where(near & (x > 0), x, 1)
    q, log = z * z / 4, lax.log(z / 2)
    if order == 0:
        small = _series(q, _K0_SERIES) - log * _series(q, _I0_SERIES)
    else:
        small = 1 / z + z / 2 * (log * _series(q, _I1_SERIES) - _series(q, _K1_SERIES) / 2)
    far = jnp.where(near, 1, x)
    large = jnp.where(jnp.isinf(far), 0, _scaled_bessel_k(order, far))
    if scaled:
        small = small * lax.exp(z)
    else:
        large = large * lax.exp(-far)
    y = jnp.where(near, small, large)
    y = jnp.where(x == 0, jnp.inf, jnp.where(x < 0, jnp.nan, y))
    return jnp.where(jnp.isnan(x), x, y)


def _airy_series() -> tuple[list[float], list[float]]:
    """Coefficients in x^3 of the two solutions of y'' = x y that make up Ai."""
    f, g = [1.0], [1.0]
    for k in range(1, 30):
        f.append(f[-1] / ((3 * k - 1) * (3 * k)))
        g.append(g[-1] / ((3 * k) * (3 * k + 1)))
    return f, g


_AIRY_F, _AIRY_G = _airy_series()
_AIRY_0 = 3 ** (-2 / 3) / math.gamma(2 / 3)
_AIRY_1 = 3 ** (-1 / 3) / math.gamma(1 / 3)
_AIRY_LOW, _AIRY_HIGH = -3.5, 1.4
"""Outside of these the arguments of K_{1/3} are large enough for its integral."""


def _airy_ai(x: Array) -> Array:
    near = (x > _AIRY_LOW) & (x < _AIRY_HIGH)
    z = jnp.where(near, x, 0)
    cube = z * z * z
    small = _AIRY_0 * _series(cube, _AIRY_F) - _AIRY_1 * z * _series(cube, _AIRY_G)
    size = jnp.where(near | jnp.isnan(x), 3.0, lax.abs(x))
    arg = 2 / 3 * size * jnp.sqrt(size)
    right = jnp.sqrt(size / 3) / math.pi * _scaled_bessel_k(1 / 3, arg) * lax.exp(-arg)
    wave = _hankel(1 / 3, arg) * np.exp(1j * math.pi / 6)
    left = jnp.sqrt(size / 3) * jnp.real(wave)
    y = jnp.where(near, small, jnp.where(x > 0, right, left))
    return jnp.where(jnp.isfinite(x), y, jnp.nan)


def _spherical_j0(x: Array) -> Array:
    z = jnp.where(x == 0, 1, x)
    return jnp.where(jnp.isinf(x), 0, jnp.where(x == 0, 1, lax.sin(z) / z))


for _name, _fn in {
    "bessel_j0": functools.partial(_first_kind, 0),
    "bessel_j1": functools.partial(_first_kind, 1),
    "bessel_y0": functools.partial(_second_kind, 0),
    "bessel_y1": functools.partial(_second_kind, 1),
    "modified_bessel_k0": functools.partial(_modified_second_kind, 0, False),
    "modified_bessel_k1": functools.partial(_modified_second_kind, 1, False),
    "scaled_modified_bessel_k0": functools.partial(_modified_second_kind, 0, True),
    "scaled_modified_bessel_k1": functools.partial(_modified_second_kind, 1, True),
    "airy_ai": _airy_ai,
}.items():
    _special(f"special_{_name}", _kernel(_in_double(_fn), _name, half=False), grad=Grad.NO)
special_modified_bessel_i0 = _special(
    "special_modified_bessel_i0", _kernel(jsp.i0, "modified_bessel_i0", half=False), grad=Grad.NO
)
special_modified_bessel_i1 = _special(
    "special_modified_bessel_i1", _kernel(jsp.i1, "modified_bessel_i1", half=False), grad=Grad.NO
)
special_spherical_bessel_j0 = _special(
    "special_spherical_bessel_j0", _kernel(_spherical_j0, "spherical_bessel_j0", half=False), grad=Grad.NO
)


# --- orthogonal polynomials ---------------------------------------------------------------------

Step = Callable[[Array, Array, Array, Array], Array]


def _polynomial(name: str, first: Callable[[Array], Array], step: Step, shifted: bool = False) -> None:
    """Value by the three-term recurrence: p_0 = 1, p_1 = first(x), p_{k+1} = step(k, x, p_k, p_{k-1})."""

    def value(x: Array, n: Array) -> Array:
        x = 2 * x - 1 if shifted else x
        # In C++ an infinite degree counts as none. XLA makes the largest integer of it, which the loop never reaches.
        degree = jnp.where(lax.is_finite(n), lax.convert_element_type(n, jnp.int64), -1)
        top = jnp.max(degree, initial=0)

        def advance(state: Any) -> Any:
            k, p, q = state
            new = step(k.astype(x.dtype), x, q, p)
            go = k < degree
            return k + 1, jnp.where(go, q, p), jnp.where(go, new, q)

        start = jnp.ones((), jnp.int64), jnp.ones_like(x), first(x)
        _, _, y = lax.while_loop(lambda s: s[0] < top, advance, start)
        y = jnp.where(degree == 0, 1, y)
        return jnp.where(degree < 0, 0, y)

    checked = _kernel(value, name, half=False)

    def impl(input: Array | Scalar, n: Array | Scalar) -> Array:
        return checked(*broadcast(jnp.asarray(input), jnp.asarray(n)))

    impl.__name__ = impl.__qualname__ = f"special_{name}"
    impl.__annotations__ = {"input": Array | Scalar, "n": Array | Scalar, "return": Array}
    impl.__doc__ = f"The {name.replace('_', ' ')} of degree n."
    op(impl, promote=FLOAT, namespace="special", method=False, layout=Layout.ELEMENTWISE, grad=Grad.NO)


def _chebyshev(k: Array, x: Array, q: Array, p: Array) -> Array:
    return 2 * x * q - p


for _kind, _start in {
    "t": lambda x: x,
    "u": lambda x: 2 * x,
    "v": lambda x: 2 * x - 1,
    "w": lambda x: 2 * x + 1,
}.items():
    _polynomial(f"chebyshev_polynomial_{_kind}", _start, _chebyshev)
    _polynomial(f"shifted_chebyshev_polynomial_{_kind}", _start, _chebyshev, shifted=True)
_polynomial("hermite_polynomial_h", lambda x: 2 * x, lambda k, x, q, p: 2 * (x * q - k * p))
_polynomial("hermite_polynomial_he", lambda x: x, lambda k, x, q, p: x * q - k * p)
_polynomial("laguerre_polynomial_l", lambda x: 1 - x, lambda k, x, q, p: ((2 * k + 1 - x) * q - k * p) / (k + 1))
_polynomial("legendre_polynomial_p", lambda x: x, lambda k, x, q, p: ((2 * k + 1) * x * q - k * p) / (k + 1))


# --- other families' ops under their special names ----------------------------------------------

_SAME = {
    "digamma": ("special_digamma", "special_psi"),
    "erf": ("special_erf",),
    "erfc": ("special_erfc",),
    "erfinv": ("special_erfinv",),
    "exp2": ("special_exp2",),
    "expm1": ("special_expm1",),
    "sigmoid": ("special_expit",),
    "lgamma": ("special_gammaln",),
    "i0": ("special_i0",),
    "log1p": ("special_log1p",),
    "logit": ("special_logit",),
    "logsumexp": ("special_logsumexp",),
    "mvlgamma": ("special_multigammaln",),
    "sinc": ("special_sinc",),
    "xlogy": ("special_xlogy",),
    "igamma": ("special_gammainc",),
    "igammac": ("special_gammaincc",),
}

for _of, _names in _SAME.items():
    for _name in _names:
        variant(_of, _name, namespace="special", method=False, function=True, inplace=False, aliases=(), operators=())
round_ = variant(
    "round", "special_round", namespace="special", method=False, inplace=False, operators=(), node="RoundBackward1"
)
