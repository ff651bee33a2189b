"""How draws from the gamma and Dirichlet distributions move with their parameters.

A draw x at concentration a stays at the same quantile, so dx/da = -(dF/da) / (dF/dx) with F the
distribution function. There is no closed form; torch uses series, saddle point expansions and fitted
rational functions, each in its region, and so its numbers (good to about 5e-4) are those of these
approximations. They are computed in double precision whatever the dtype, as torch does on the CPU.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma

from .._core.arrays import dtypes
from .._core.errors import messages as errors
from .._core.jax.custom_jvp import custom_jvp
from .helpers import broadcast
from .registry import Array, Grad, Layout, op

# torch compares with single precision constants.
_EDGE, _BELOW, _ABOVE, _TENTH = (float(np.float32(v)) for v in (0.8, 0.9, 1.1, 0.1))

# --- gamma ----------------------------------------------------------------------------------------

# Rows: powers of log(x / a); columns: those of log(a), of the numerator and then of the denominator.
_GAMMA = np.array(
    [
        [0.16009398, -0.094634809, 0.025146376, -0.0030648343, 1, 0.32668115, 0.10406089, 0.0014179084],
        [0.53487893, 0.1298071, 0.065735949, -0.0015649758, 0.16639465, 0.020070113, -0.0035938915, -0.00058392623],
        [
            0.040121004,
            -0.0065914022,
            -0.0026286047,
            -0.0013441777,
            0.017050642,
            -0.0021309326,
            0.00085092367,
            -1.5247877e-07,
        ],
    ]
)


def _horner(x: Array, coefficients: Array | list[Array]) -> Array:
    """A polynomial whose coefficients come from the constant one up."""
    out = coefficients[-1]
    for c in reversed(list(coefficients)[:-1]):
        out = c + x * out
    return out


def _gamma_small(x: Array, a: Array) -> Array:
    """From the power series of the distribution function; x below 0.8."""
    term, sums, slopes = jnp.ones_like(x), 1 / a, 1 / a**2
    for i in range(1, 6):
        term = term * (-x / i)
        sums, slopes = sums + term / (a + i), slopes + term / (a + i) ** 2
    power = x**a
    moved = (jnp.log(x) - digamma(a)) * (power * sums) - power * slopes
    out = -moved / (x ** (a - 1) * jnp.exp(-x))
    return jnp.where(jnp.isnan(out), 0, out)


def _gamma_near(x: Array, a: Array) -> Array:
    """The expansion for large a, close to its singularity at x = a."""
    left = 1 + 24 * a * (1 + 12 * a)
    right = 1440 * a**2 + 6 * x * (53 - 120 * x) - 65 * x**2 / a + a * (107 + 3600 * x)
    return left * right / (1244160 * a**4)


def _gamma_large(x: Array, a: Array) -> Array:
    """A saddle point expansion for large a, away from x = a."""
    root, ratio = jnp.sqrt(8 * a), jnp.log(x / a)
    apart = root / (a - x)
    curved = (x - a - a * ratio) ** -1.5
    both = jnp.where(x < a, apart - curved, apart + curved)
    term = ratio * both - jnp.sqrt(2 / a) * (a + x) / (a - x) ** 2
    stirling = 1 + 1 / (12 * a) * (1 + 1 / (24 * a))
    return -stirling * x * term / root


def _gamma_fitted(x: Array, a: Array) -> Array:
    """The exponential of a rational function of log(x / a) and log(a)."""
    u, v = jnp.log(x / a), jnp.log(a)
    columns = [_horner(u, list(c)) for c in _GAMMA.T]
    return jnp.exp(_horner(v, columns[:4]) / _horner(v, columns[4:]))


def gamma_grad(a: Array, x: Array) -> Array:
    """dx/da of gamma draws x with concentration a."""
    near = (_BELOW * a <= x) & (x <= _ABOVE * a)
    large = jnp.where(near, _gamma_near(x, a), _gamma_large(x, a))
    rest = jnp.where(a > 8, large, _gamma_fitted(x, a))
    return jnp.where(x < _EDGE, _gamma_small(x, a), rest)


@custom_jvp
def moved(a: Array, x: Array) -> Array:
    """`gamma_grad` in the dtype of a; a backward pass through it raises."""
    wide = (v.astype(jnp.float64) for v in (a, x))
    return gamma_grad(*wide).astype(a.dtype)


@moved.defjvp
def _refuse(primals: object, tangents: object) -> tuple[Array, Array]:
    raise errors.NoDerivative("the derivative for '_standard_gamma_grad' is not implemented.")


def _floats(*arrays: Array) -> None:
    first = dtypes.BY_NP[np.dtype(arrays[0].dtype)]
    for x in arrays[1:]:
        other = dtypes.BY_NP[np.dtype(x.dtype)]
        if other is not first:
            names = [dtypes.scalar_type_name(d) for d in (other, first)]
            raise RuntimeError(f"Found dtype {names[0]} but expected {names[1]}")


def _need(kernel: str, x: Array) -> None:
    dt = dtypes.BY_NP[np.dtype(x.dtype)]
    if dt not in (dtypes.float32, dtypes.float64):
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{dtypes.scalar_type_name(dt)}'")


@op(name="_standard_gamma_grad", method=False, out=False, layout=Layout.ELEMENTWISE)
def standard_gamma_grad(input: Array, output: Array) -> Array:
    """How a gamma draw `output` moves with its concentration `input`."""
    _floats(input, output)
    _need("_standard_gamma_grad_cpu", input)
    return moved(*broadcast(input, output))


# --- beta and Dirichlet ---------------------------------------------------------------------------

# [numerator, denominator][power of log x][power of log(alpha / x)][power of log(total x / alpha)]
_BETA = np.array([
    [[[1.003668233, -0.01061107488, -0.0657888334, 0.01201642863],
      [0.6336835991, -0.3557432599, 0.05486251648, -0.001465281033],
      [-0.03276231906, 0.004474107445, 0.002429354597, -0.0001557569013]],
     [[0.221950385, -0.3187676331, 0.01799915743, 0.01074823814],
      [-0.2951249643, 0.06219954479, 0.01535556598, 0.001550077057],
      [0.02155310298, 0.004170831599, 0.001292462449, 6.976601077e-05]],
     [[-0.05980841433, 0.008441916499, 0.01085618172, 0.002319392565],
      [0.02911413504, 0.01400243777, -0.002721828457, 0.000751041181],
      [0.005900514878, -0.001936558688, -9.495446725e-06, 5.385558597e-05]]],
    [[[1, -0.02924021934, -0.04438342661, 0.007285809825],
      [0.6357567472, -0.3473456711, 0.05454656494, -0.002407477521],
      [-0.03301322327, 0.004845219414, 0.00231480583, -0.0002307248149]],
     [[0.5925320577, -0.1757678135, 0.01505928619, 0.000564515273],
      [0.1014815858, -0.06589186703, 0.01272886114, -0.0007316646956],
      [-0.007258481865, 0.001096195486, 0.0003934994223, -4.12701925e-05]],
     [[0.06469649321, -0.0236701437, 0.002902096474, -5.896963079e-05],
      [0.001925008108, -0.002869809258, 0.0008000589141, -6.063713228e-05],
      [-0.0003477407336, 6.959756487e-05, 1.097287507e-05, -1.650964693e-06]]],
])  # fmt: skip


def _beta_low(x: Array, alpha: Array, beta: Array) -> Array:
    """The derivative by alpha from a series in x, for x close to 0."""
    factor = digamma(alpha) - digamma(alpha + beta) - jnp.log(x)
    term = jnp.ones_like(x)
    series = (factor + 1 / alpha) / alpha
    for i in range(1, 11):
        term = term * (i - beta) * x / i
        series = series + term / (alpha + i) * (factor + 1 / (alpha + i))
    out = x * (1 - x) ** -beta * series
    return jnp.where(jnp.isnan(out), 0, out)


def _beta_high(x: Array, alpha: Array, beta: Array) -> Array:
    """The derivative by beta from a series in x, for x close to 0."""
    factor = digamma(alpha + beta) - digamma(beta)
    term, product, slope = jnp.ones_like(x), jnp.ones_like(x), jnp.zeros_like(x)
    series = factor / alpha
    for i in range(1, 9):
        term = term * (-x / i)
        slope = slope * (beta - i) + product
        product = product * (beta - i)
        series = series + term / (alpha + i) * (slope + factor * product)
    out = -((1 - x) ** (1 - beta)) * series
    return jnp.where(jnp.isnan(out), 0, out)


def _beta_mean(x: Array, alpha: Array, beta: Array) -> Array:
    """The expansion for large parameters, close to its singularity at the mean."""
    total, y = alpha + beta, 1 - x
    inner = _horner(
        alpha,
        [
            47 * x * beta**4,
            (43 + 20 * (16 + 27 * beta) * x) * beta**3,
            3 * (59 + 180 * beta - 90 * x) * beta**2,
            (453 + 1620 * beta * y - 455 * x) * beta,
            8 * y * (135 * beta - 11),
        ],
    )
    above = (1 + 12 * alpha) * (1 + 12 * beta) / total**2
    below = 12960 * alpha**3 * beta**2 * (1 + 12 * total)
    return above / y * inner / below


def _stirling(x: Array) -> Array:
    return 1 + 1 / (12 * x) + 1 / (288 * x**2)


def _beta_large(x: Array, alpha: Array, beta: Array) -> Array:
    """A saddle point expansion for large parameters, away from the mean."""
    total, y = alpha + beta, 1 - x
    gap = beta * x - alpha * y
    scale = jnp.sqrt(8 * alpha * beta / total)
    steep = -(2 * alpha**2 * y + alpha * beta * y + x * beta**2)
    first = steep / (jnp.sqrt(2 * alpha / beta) * total**1.5 * gap**2)
    spread = beta * jnp.log(beta / (total * y)) + alpha * jnp.log(alpha / (total * x))
    curved = jnp.where(x < alpha / total, 1.0, -1.0) * spread**-1.5
    second = 0.5 * jnp.log(alpha / (total * x)) * (scale / gap + curved)
    stirling = _stirling(alpha) * _stirling(beta) / _stirling(total)
    return stirling * -x / jnp.sqrt(2 * alpha * beta / total) * (first + second)


def _beta_fitted(x: Array, alpha: Array, total: Array) -> Array:
    """A simple approximation times a rational correction."""
    u = jnp.log(x)
    a = jnp.log(alpha) - u
    b = jnp.log(total) - a
    above, below = (_horner(u, [_horner(a, [_horner(b, list(c)) for c in row]) for row in half]) for half in _BETA)
    return above / below * (x * (digamma(total) - digamma(alpha)) / (total - alpha))


def beta_grad(x: Array, alpha: Array, total: Array) -> Array:
    """dx/dalpha of a beta draw x with parameters alpha and total - alpha."""
    beta = total - alpha
    edge = total * x * (1 - x)
    mean = alpha / total
    near = jnp.abs(x - mean) <= _TENTH * jnp.sqrt(alpha * beta / (total + 1)) / total
    large = jnp.where(near, _beta_mean(x, alpha, beta), _beta_large(x, alpha, beta))
    rest = jnp.where((alpha > 6) & (beta > 6), large, _beta_fitted(x, alpha, total))
    high = jnp.where((x >= 0.5) & (edge < 0.75), -_beta_high(1 - x, beta, alpha), rest)
    return jnp.where((x <= 0.5) & (edge < 2.5), _beta_low(x, alpha, beta), high)


@op(name="_dirichlet_grad", method=False, out=False, grad=Grad.MISSING, layout=Layout.ELEMENTWISE)
def dirichlet_grad(x: Array, alpha: Array, total: Array) -> Array:
    """How a beta draw `x` moves with `alpha`, where `total` is the sum of both parameters."""
    _floats(x, alpha, total)
    _need("_dirichlet_grad_cpu", x)
    wide = (v.astype(jnp.float64) for v in broadcast(x, alpha, total))
    return beta_grad(*wide).astype(x.dtype)
