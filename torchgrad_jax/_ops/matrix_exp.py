"""The matrix exponential."""

from __future__ import annotations

import math

import jax.numpy as jnp
from jax import lax

from .._core.arrays.matrices import require_inexact, require_square
from .helpers import anywhere, is_float
from .matrix_helpers import identity, product, solve_system
from .registry import Array, op

_MAX_SQUARINGS = 24
_PADE = {  # degree -> largest 1-norm for which the approximant is exact to rounding
    7: 3.925724783138660,
    13: 5.371920351148152,
}


def _pade_terms(degree: int) -> list[float]:
    """Coefficients of the diagonal Pade approximant of exp, scaled so that the highest is 1."""
    q = degree
    return [math.factorial(2 * q - j) / (math.factorial(j) * math.factorial(q - j)) for j in range(q + 1)]


def _pade(a: Array, degree: int) -> Array:
    c = _pade_terms(degree)
    eye = identity(a.shape[-1], a)
    square = product(a, a)
    powers = [eye, square]
    while len(powers) < (degree + 1) // 2:
        powers.append(product(powers[-1], square))
    odd = sum(c[2 * i + 1] * p for i, p in enumerate(powers))
    even = sum(c[2 * i] * p for i, p in enumerate(powers))
    odd = product(a, odd)
    return solve_system(even - odd, even + odd)[0]


@op(namespace="linalg", method=False, out=False)
def linalg_matrix_exp(input: Array) -> Array:
    """Matrix exponentials: a Pade approximant of the scaled matrix, squared back."""
    require_inexact("linalg.matrix_exp", input, half=True)
    require_square("linalg.matrix_exp", input)
    if 0 in input.shape:
        return input
    a = input.astype(jnp.float32) if input.dtype.itemsize < 4 and is_float(input) else input
    if a.shape[-1] == 1:
        return jnp.exp(a).astype(input.dtype)
    degree = 7 if a.dtype in (jnp.float32, jnp.complex64) else 13
    norm = lax.stop_gradient(jnp.max(jnp.sum(jnp.abs(a), -2), -1))
    halvings = jnp.ceil(jnp.log2(jnp.maximum(norm / _PADE[degree], 1)))
    too_large = ~(halvings <= _MAX_SQUARINGS)
    times = jnp.where(too_large, 0, halvings)
    scale = jnp.where(too_large, jnp.nan, jnp.exp2(-times))
    x = _pade(a * scale[..., None, None].astype(a.dtype), degree)

    def square(x: Array, i: Array) -> tuple[Array, None]:
        again = (i < times)[..., None, None]
        return lax.cond(anywhere(i < times), lambda x: jnp.where(again, product(x, x), x), lambda x: x, x), None

    x, _ = lax.scan(square, x, jnp.arange(_MAX_SQUARINGS, dtype=times.dtype))
    return x.astype(input.dtype)
