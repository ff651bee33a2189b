"""Square roots of positive definite matrices, and polar factors.

Their derivatives solve `X Y + Y X = C` for Y. That is well defined where eigenvalues or singular values are equal,
and the derivatives of eigenvectors and singular vectors are not.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import custom_jvp, lax

from .._core.arrays.matrices import require_inexact, require_matrix, require_square
from .matrix_helpers import conj_t, converges_for_eigh, converges_for_svd, product, solve_system, svd_of_finite
from .registry import Array, op


def _eigh_of(x: Array) -> tuple[Array, Array]:
    """The eigenvectors and eigenvalues of Hermitian matrices, of which the lower triangle is read."""
    v, w = lax.linalg.eigh(x, lower=True, symmetrize_input=False)
    return v, w


def _sylvester(x: Array, c: Array) -> Array:
    """The Y of `X Y + Y X = C` for positive definite X. JAX derives it from the equation, and never by eigenvectors."""
    v, w = _eigh_of(lax.stop_gradient(x))
    sums = (w[..., :, None] + w[..., None, :]).astype(x.dtype)

    def solve(v: Array, c: Array) -> Array:
        return product(product(v, product(product(conj_t(v), c), v) / sums), conj_t(v))

    return lax.custom_linear_solve(
        lambda y: product(x, y) + product(y, x),
        c,
        lambda _, c: solve(v, c),
        lambda _, c: solve(jnp.conj(v), c),  # the transpose of a Hermitian X is its conjugate
    )


@custom_jvp
def _square_root(a: Array) -> Array:
    v, w = _eigh_of(a)
    return product(v * jnp.sqrt(w).astype(a.dtype)[..., None, :], conj_t(v))


@_square_root.defjvp
def _square_root_jvp(primals: Any, tangents: Any) -> Any:
    x, (t,) = _square_root(*primals), tangents
    return x, _sylvester(x, (t + conj_t(t)) * 0.5)  # as of `eigh`, any change counts as a Hermitian one


def _check_square_root(input: Any) -> None:
    converges_for_eigh(input)


@op(namespace="linalg", method=False, out=False, check=_check_square_root)
def linalg_matrix_sqrth(input: Array) -> Array:
    """The positive definite square roots of positive definite matrices, of which the lower triangle is read."""
    require_inexact("linalg.matrix_sqrth", input)
    require_square("linalg.matrix_sqrth", input)
    return input if 0 in input.shape else _square_root(input)


@custom_jvp
def _polar(a: Array) -> tuple[Array, Array]:
    w, s, vh = svd_of_finite(a)
    return product(w, vh), product(conj_t(vh) * s.astype(a.dtype)[..., None, :], vh)


@_polar.defjvp
def _polar_jvp(primals: Any, tangents: Any) -> Any:
    # A = U H: within the space of U's columns it turns by a skew matrix, outside of it it follows A.
    (u, h), (t,) = _polar(*primals), tangents
    inside = product(conj_t(u), t)
    turn = _sylvester(h, inside - conj_t(inside))
    outside = t - product(u, inside)
    t_u = product(u, turn) + conj_t(solve_system(h, conj_t(outside))[0])
    return (u, h), (t_u, inside - product(turn, h))


@op(namespace="linalg", method=False, returns=("U", "H"), check=converges_for_svd)
def linalg_polar(A: Array) -> tuple[Array, Array]:
    """Factors with orthonormal columns, and Hermitian positive semidefinite ones, whose product is the matrix."""
    require_matrix("linalg.polar", A)
    require_inexact("linalg.polar", A)
    if A.shape[-2] < A.shape[-1]:
        raise RuntimeError(
            f"linalg.polar: expected matrices with at least as many rows as columns, got {A.shape[-2]} by {A.shape[-1]}"
        )
    if 0 in A.shape:
        return A, jnp.zeros((*A.shape[:-2], A.shape[-1], A.shape[-1]), A.dtype)
    return _polar(A)
