"""Array helpers of linear algebra: adjoints, triangular solves, LU factors and what is solved with them."""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays import shapes
from .._core.errors.checks import fail_if, is_traced, numpy_of, readable
from .._core.errors.messages import LinAlgError
from .._core.jax.custom_jvp import NO_TANGENT, custom_jvp
from .._core.jax.sizes import value_of
from .helpers import diagonal_of as diagonal_of, is_complex
from .registry import Array

product = functools.partial(jnp.matmul, precision=lax.Precision.HIGHEST)


def conj_t(x: Array) -> Array:
    """Conjugate transpose."""
    x = jnp.swapaxes(x, -1, -2)
    return jnp.conj(x) if is_complex(x) else x


def identity(n: int, like: Array) -> Array:
    """Identity matrices for the batch that `like` holds."""
    return jnp.broadcast_to(jnp.eye(n, dtype=like.dtype), (*like.shape[:-2], n, n))


def solve_triangular(
    a: Array, b: Array, *, lower: bool, unit: bool = False, trans: bool = False, conj: bool = True, left: bool = True
) -> Array:
    """Solve with a triangle of `a`; `trans` uses its (conjugate) transpose."""
    batch = shapes.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (jnp.broadcast_to(x, batch + x.shape[-2:]) for x in (a, b))
    if 0 in a.shape or 0 in b.shape:
        return b
    return lax.linalg.triangular_solve(
        a,
        b,
        left_side=left,
        lower=lower,
        unit_diagonal=unit,
        transpose_a=trans,
        conjugate_a=trans and conj and is_complex(a),
    )


def permutation_of(pivots: Array, rows: int) -> Array:
    return lax.linalg.lu_pivots_to_permutation(pivots - 1, rows)


def permute(x: Array, perm: Array) -> Array:
    """Rows of each matrix in the order `perm`, batches broadcasting."""
    batch = shapes.broadcast_shapes(x.shape[:-2], perm.shape[:-1])
    x = jnp.broadcast_to(x, batch + x.shape[-2:])
    perm = jnp.broadcast_to(perm, batch + perm.shape[-1:])
    return jnp.take_along_axis(x, perm[..., None], axis=-2)


def padded_factors(lu: Array) -> tuple[Array, Array]:
    """L and U of packed factors, each extended by an identity to a square matrix."""
    m, n = lu.shape[-2:]
    k = min(m, n)
    low = jnp.tril(lu[..., :k], -1)
    up = jnp.triu(lu[..., :k, :])
    if m > k:
        low = jnp.concatenate([low, jnp.zeros((*low.shape[:-1], m - k), lu.dtype)], -1)
    if n > k:
        up = jnp.concatenate([up, jnp.zeros((*up.shape[:-2], n - k, n), lu.dtype)], -2)
        up = up + jnp.broadcast_to(jnp.diag(jnp.asarray(np.arange(n) >= k, lu.dtype)), up.shape)
    return low + identity(m, lu), up


def lu_tangent(lu: Array, perm: Array, t: Array) -> Array:
    """Tangent of the packed factors: P dA = dL U + L dU, dL strictly lower, dU upper."""
    low, up = padded_factors(lu)
    x = solve_triangular(low, permute(t, perm), lower=True, unit=True)
    x = solve_triangular(up, x, lower=False, left=False)
    return product(low, jnp.tril(x, -1)) + product(jnp.triu(x), up)


def factorize(a: Array) -> tuple[Array, Array, Array]:
    """Packed LU factors, pivots and permutation; empty matrices have no pivots."""
    if 0 in a.shape:
        k = min(a.shape[-2:])
        perm = jnp.broadcast_to(jnp.arange(a.shape[-2], dtype=jnp.int32), a.shape[:-1])
        return a, jnp.zeros((*a.shape[:-2], k), jnp.int32), perm
    lu, pivots, perm = lax.linalg.lu(a)
    lu = lax.cond(jnp.isfinite(lu).all(), lambda a, lu: lu, _undefined_from_pivots, a, lu)
    return lu, pivots + 1, perm


def _undefined_from_pivots(a: Array, lu: Array) -> Array:
    """Packed factors of `a` with NaN in what was divided by a pivot that is NaN, or infinite like what it divides.

    OpenBLAS leaves rows undivided by a pivot that is NaN, and takes 0 for infinity / infinity.
    """
    m, n = lu.shape[-2:]
    pivot = diagonal_of(lu)
    endless = jnp.sum(~jnp.isfinite(a), -2) > 1
    endless |= jnp.any(~jnp.isfinite(jnp.triu(lu, 1)), -2)
    undefined = jnp.isnan(pivot) | (jnp.isinf(pivot) & endless[..., : min(m, n)])
    row, column = (lax.broadcasted_iota(jnp.int32, lu.shape, lu.ndim - d) for d in (2, 1))
    first = jnp.argmax(undefined, -1).astype(row.dtype)
    first = jnp.where(jnp.any(undefined, -1), first, value_of(m))[..., None, None]
    return jnp.where((row > first) & (column >= first), jnp.nan, lu)


def lu_solve(lu: Array, pivots: Array, b: Array, adjoint: bool = False) -> Array:
    """Solve A x = b (or A^H x = b) from the factors of A."""
    perm = permutation_of(pivots, lu.shape[-1])
    if adjoint:
        y = solve_triangular(lu, b, lower=False, trans=True)
        y = solve_triangular(lu, y, lower=True, unit=True, trans=True)
        return permute(y, jnp.argsort(perm, axis=-1))
    y = solve_triangular(lu, permute(b, perm), lower=True, unit=True)
    return solve_triangular(lu, y, lower=False)


def linear_solve(a: Array, lu: Array, pivots: Array, b: Array) -> Array:
    """Solve A x = b with factors at hand, so that a second derivative goes through A.

    The ops that compute the factors return them without a derivative. A formula in terms of the factors alone would
    be a constant in a recorded backward pass.
    """

    def solve(_: Any, y: Array) -> Array:
        return lu_solve(lu, pivots, y)

    def solve_transposed(_: Any, y: Array) -> Array:
        return conjugate(lu_solve(lu, pivots, conjugate(y), adjoint=True))

    return lax.custom_linear_solve(lambda x: product(a, x), b, solve, solve_transposed)


def conjugate(x: Array) -> Array:
    return jnp.conj(x) if is_complex(x) else x


def first_zero(lu: Array) -> Array:
    """LAPACK's info: 1-based position of the first zero on the diagonal of U, or 0."""
    zero = diagonal_of(lu) == 0
    if zero.shape[-1] == 0:
        return jnp.zeros(lu.shape[:-2], jnp.int32)
    first = jnp.argmax(zero, -1).astype(jnp.int32) + 1
    return jnp.where(jnp.any(zero, -1), first, 0)


def transposed(x: Array) -> Array:
    return jnp.swapaxes(x, -1, -2)


@functools.partial(custom_jvp, nondiff_argnums=(2, 3))
def solve_system(a: Array, b: Array, left: bool = True, vector: bool = False) -> tuple[Array, Array, Array]:
    """The solution and the factors of A (of its transpose for X A = B)."""
    lu, pivots, _ = factorize(a if left else transposed(a))
    return _oriented(functools.partial(lu_solve, lu, pivots), b, left, vector), lu, pivots


def _oriented(solve: Any, b: Array, left: bool, vector: bool) -> Array:
    """`solve` for columns, applied to a right-hand side of any of the three forms."""
    if vector:
        return solve(b[..., None])[..., 0]
    return solve(b) if left else transposed(solve(transposed(b)))


@solve_system.defjvp
def _solve_system_jvp(left: bool, vector: bool, primals: Any, tangents: Any) -> Any:
    (a, _), (t_a, t_b) = primals, tangents
    x, lu, pivots = solve_system(*primals, left, vector)
    if vector:
        change = product(t_a, x[..., None])[..., 0]
    else:
        change = product(t_a, x) if left else product(x, t_a)
    side = a if left else transposed(a)
    t = _oriented(functools.partial(linear_solve, side, lu, pivots), t_b - change, left, vector)
    return (x, lu, pivots), (t, jnp.zeros_like(lu), NO_TANGENT)


def svd_of_finite(a: Array, full_matrices: bool = False, compute_uv: bool = True) -> Any:
    """`lax.linalg.svd`, but NaN for matrices with infinities or NaN: for some of them LAPACK does not end."""
    bad = ~jnp.isfinite(a).all((-2, -1), keepdims=True)
    found: Any = lax.linalg.svd(jnp.where(bad, 0, a), full_matrices=full_matrices, compute_uv=compute_uv)
    if not compute_uv:
        return jnp.where(bad[..., 0], jnp.nan, found)
    u, s, vh = found
    return (jnp.where(bad, jnp.nan, u), jnp.where(bad[..., 0], jnp.nan, s), jnp.where(bad, jnp.nan, vh))


def _refuse_infinite(name: str, x: Any, why: str) -> None:
    """LAPACK's complaint about NaN in any matrix. Infinities make its results NaN, where it ends."""
    bad = ~numpy_of(x).isfinite(x).all((-2, -1))

    def error() -> Exception:
        which = f" (Batch element {bad.reshape(-1).argmax()}):" if bad.ndim else ""
        return LinAlgError(f"linalg.{name}:{which} The algorithm failed to converge because {why}.")

    fail_if(bad.any(), error)


def _is_finite(x: Any) -> bool:
    """Return whether all elements are known to be finite."""
    return not is_traced(x) and np.count_nonzero(np.isfinite(x)) == x.size


def converges_for_svd(A: Any, *_: Any, **__: Any) -> None:
    """The check of singular values."""
    x = readable(A)
    if not _is_finite(x):
        _refuse_infinite("svd", x, "the input matrix contained non-finite values")


def converges_for_eigh(A: Any, UPLO: str = "L", compute_v: bool = True) -> None:
    """The check of the eigenvalues of a Hermitian matrix, of which one triangle is read."""
    x = readable(A)
    if _is_finite(x):
        return
    np_ = numpy_of(x)
    code = max(A.shape[-1] - 1, 1) if compute_v else 1
    why = "the input matrix is ill-conditioned or has too many repeated eigenvalues"
    read = np_.tril(x) if UPLO.upper() == "L" else np_.triu(x)
    _refuse_infinite("eigh", read, f"{why} (error code: {code})")
