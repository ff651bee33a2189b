"""Linear systems: LU and what stands on it, pseudo-inverse, least squares, matrix exponential.

Every rule is written in terms of the results (the inverse, the solution, the LU factors), so that a
node saves those, as torch does. `pivots` are torch's: row swaps counted from 1.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core import shapes
from .._core.kernels import scalar_name
from .._core.matrices import (
    column_major,
    require_inexact,
    require_matrix,
    require_square,
    require_supported,
    vector_rhs,
)
from .helpers import anywhere, is_complex, is_float
from .registry import Array, Grad, Scalar, op

_product = functools.partial(jnp.matmul, precision=lax.Precision.HIGHEST)


def _h(x: Array) -> Array:
    """Conjugate transpose."""
    x = jnp.swapaxes(x, -1, -2)
    return jnp.conj(x) if is_complex(x) else x


def _eye(n: int, like: Array) -> Array:
    """Identity matrices for the batch that `like` holds."""
    return jnp.broadcast_to(jnp.eye(n, dtype=like.dtype), (*like.shape[:-2], n, n))


def _diagonal(x: Array) -> Array:
    return jnp.diagonal(x, axis1=-2, axis2=-1)


def _no_tangent(x: Array) -> Any:
    """The tangent of an integer output."""
    return np.zeros(x.shape, jax.dtypes.float0)


def _triangular(
    a: Array, b: Array, *, lower: bool, unit: bool = False, trans: bool = False, left: bool = True
) -> Array:
    """Solve with a triangle of `a`; `trans` uses its conjugate transpose."""
    batch = shapes.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (jnp.broadcast_to(x, batch + x.shape[-2:]) for x in (a, b))
    return lax.linalg.triangular_solve(
        a, b, left_side=left, lower=lower, unit_diagonal=unit, transpose_a=trans,
        conjugate_a=trans and is_complex(a),
    )  # fmt: skip


def _permutation(pivots: Array, rows: int) -> Array:
    return lax.linalg.lu_pivots_to_permutation(pivots - 1, rows)


def _permute(x: Array, perm: Array) -> Array:
    """Rows of each matrix in the order `perm`, batches broadcasting."""
    batch = shapes.broadcast_shapes(x.shape[:-2], perm.shape[:-1])
    x = jnp.broadcast_to(x, batch + x.shape[-2:])
    perm = jnp.broadcast_to(perm, batch + perm.shape[-1:])
    return jnp.take_along_axis(x, perm[..., None], axis=-2)


def _padded_factors(lu: Array) -> tuple[Array, Array]:
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
    return low + _eye(m, lu), up


def _lu_tangent(lu: Array, perm: Array, t: Array) -> Array:
    """Tangent of the packed factors: P dA = dL U + L dU, dL strictly lower, dU upper."""
    low, up = _padded_factors(lu)
    x = _triangular(low, _permute(t, perm), lower=True, unit=True)
    x = _triangular(up, x, lower=False, left=False)
    return _product(low, jnp.tril(x, -1)) + _product(jnp.triu(x), up)


def _factor(a: Array) -> tuple[Array, Array, Array]:
    """Packed LU factors, pivots and permutation; empty matrices have no pivots."""
    if 0 in a.shape:
        k = min(a.shape[-2:])
        perm = jnp.broadcast_to(jnp.arange(a.shape[-2], dtype=jnp.int32), a.shape[:-1])
        return a, jnp.zeros((*a.shape[:-2], k), jnp.int32), perm
    lu, pivots, perm = lax.linalg.lu(a)
    return lu, pivots + 1, perm


def _lu_solve(lu: Array, pivots: Array, b: Array, adjoint: bool = False) -> Array:
    """Solve A x = b (or A^H x = b) from the factors of A."""
    perm = _permutation(pivots, lu.shape[-1])
    if adjoint:
        y = _triangular(lu, b, lower=False, trans=True)
        y = _triangular(lu, y, lower=True, unit=True, trans=True)
        return _permute(y, jnp.argsort(perm, axis=-1))
    y = _triangular(lu, _permute(b, perm), lower=True, unit=True)
    return _triangular(lu, y, lower=False)


def _linear_solve(a: Array, lu: Array, pivots: Array, b: Array) -> Array:
    """Solve A x = b with factors at hand, so that a second derivative goes through A.

    The factors are no differentiable outputs of the ops that compute them: a formula in terms of
    them alone would be a constant to whoever differentiates a recorded backward pass.
    """

    def solve(_: Any, y: Array) -> Array:
        return _lu_solve(lu, pivots, y)

    def solve_transposed(_: Any, y: Array) -> Array:
        return _conj(_lu_solve(lu, pivots, _conj(y), adjoint=True))

    return lax.custom_linear_solve(lambda x: _product(a, x), b, solve, solve_transposed)


def _conj(x: Array) -> Array:
    return jnp.conj(x) if is_complex(x) else x


def _first_zero(lu: Array) -> Array:
    """LAPACK's info: 1-based position of the first zero on the diagonal of U, or 0."""
    zero = _diagonal(lu) == 0
    if zero.shape[-1] == 0:
        return jnp.zeros(lu.shape[:-2], jnp.int32)
    first = jnp.argmax(zero, -1).astype(jnp.int32) + 1
    return jnp.where(jnp.any(zero, -1), first, 0)


# --- LU -----------------------------------------------------------------------------------------


@jax.custom_jvp
def _lu_factor(a: Array) -> tuple[Array, Array]:
    lu, pivots, _ = _factor(a)
    return lu, pivots


@_lu_factor.defjvp
def _lu_factor_jvp(primals: Any, tangents: Any) -> Any:
    lu, pivots = _lu_factor(*primals)
    t = _lu_tangent(lu, _permutation(pivots, lu.shape[-2]), *tangents)
    return (lu, pivots), (t, _no_tangent(pivots))


def _need_pivoting(pivot: bool) -> None:
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")


@op(
    namespace="linalg", method=False, function=False, returns_name="linalg_lu_factor_ex",
    returns=("LU", "pivots", "info"), nondiff=(1, 2),
    layout=column_major,
)  # fmt: skip
def linalg_lu_factor_ex(
    A: Array, *, pivot: bool = True, check_errors: bool = False
) -> tuple[Array, Array, Array]:
    """Packed LU factors with partial pivoting, and where a pivot is zero."""
    if A.ndim < 2:
        raise RuntimeError(
            f"torch.lu_factor: Expected tensor with 2 or more dimensions. Got size: {list(A.shape)} instead"
        )
    _need_pivoting(pivot)
    require_supported("lu_cpu", A)
    lu, pivots = _lu_factor(A)
    return lu, pivots, _first_zero(lu)


def _permutation_matrix(perm: Array, dtype: Any) -> Array:
    """P with A = P L U, where row i of L U is row perm[i] of A."""
    n = perm.shape[-1]
    rows = jnp.broadcast_to(jnp.arange(n, dtype=perm.dtype)[:, None], (*perm.shape, n))
    return jnp.asarray(rows == jnp.broadcast_to(perm[..., None, :], rows.shape), dtype)


def _unpack(lu: Array) -> tuple[Array, Array]:
    m, n = lu.shape[-2:]
    k = min(m, n)
    low = jnp.tril(lu[..., :k], -1)
    return low + jnp.broadcast_to(jnp.eye(m, k, dtype=lu.dtype), low.shape), jnp.triu(
        lu[..., :k, :]
    )


@jax.custom_jvp
def _plu(a: Array) -> tuple[Array, Array, Array]:
    lu, _, perm = _factor(a)
    return (_permutation_matrix(perm, a.dtype), *_unpack(lu))


@_plu.defjvp
def _plu_jvp(primals: Any, tangents: Any) -> Any:
    p, low, up = out = _plu(*primals)
    if 0 in primals[0].shape:
        return out, tuple(jnp.zeros_like(x) for x in out)
    m, n = p.shape[-1], up.shape[-1]
    k = min(m, n)
    wide = jnp.pad(low, [(0, 0)] * (low.ndim - 1) + [(0, n - k)])
    packed = jnp.tril(wide, -1) + jnp.pad(up, [(0, 0)] * (up.ndim - 2) + [(0, m - k), (0, 0)])
    t = _lu_tangent(packed, jnp.argmax(jnp.real(p), -2).astype(jnp.int32), *tangents)
    t_low, t_up = jnp.tril(t[..., :k], -1), jnp.triu(t[..., :k, :])
    return (p, low, up), (jnp.zeros_like(p), t_low, t_up)


@op(
    namespace="linalg",
    method=False,
    returns_name="linalg_lu",
    returns=("P", "L", "U"),
    nondiff=(0,),
)
def linalg_lu(A: Array, *, pivot: bool = True) -> tuple[Array, Array, Array]:
    """P, L, U with A = P L U."""
    require_matrix("linalg.lu", A)
    _need_pivoting(pivot)
    require_supported("lu_cpu", A)
    return _plu(A)


def _check_pivots(
    LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True
) -> None:
    p = np.asarray(LU_pivots)
    if unpack_pivots and p.size and (p.min() < 1 or p.max() > LU_data.shape[-2]):
        raise RuntimeError(
            "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
            "Did you properly pass the result of lu_factor?"
        )


@op(returns=("P", "L", "U"), method=False, nondiff=(0,), check=_check_pivots)
def lu_unpack(
    LU_data: Array, LU_pivots: Array, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Array, Array, Array]:
    """P, L, U from packed factors and pivots."""
    if LU_pivots.dtype != jnp.int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\n"
            "Note: this function is intended to be used with the output produced by torch.linalg.lu_factor"
        )
    m = LU_data.shape[-2]
    none = jnp.zeros((0,), LU_data.dtype)
    low, up = _unpack(LU_data) if unpack_data else (none, none)
    if not unpack_pivots:
        return none, low, up
    k = min(LU_data.shape[-2:])
    return _permutation_matrix(_permutation(LU_pivots[..., :k], m), LU_data.dtype), low, up


@functools.partial(jax.custom_jvp, nondiff_argnums=(3, 4))
def _solve_factored(lu: Array, pivots: Array, b: Array, left: bool, adjoint: bool) -> Array:
    if left:
        return _lu_solve(lu, pivots, b, adjoint)
    return _h(_lu_solve(lu, pivots, _h(b), not adjoint))  # X A = B  <=>  A^H X^H = B^H


@_solve_factored.defjvp
def _solve_factored_jvp(left: bool, adjoint: bool, primals: Any, tangents: Any) -> Any:
    # d(A X) = dB with A = P L U: dA X = P (dL U + L dU) X
    (lu, pivots, b), (t_lu, _, t_b) = primals, tangents
    x = _solve_factored(lu, pivots, b, left, adjoint)
    inverse = jnp.argsort(_permutation(pivots, lu.shape[-1]), axis=-1)
    low, up = _padded_factors(lu)
    t_low, t_up = jnp.tril(t_lu, -1), jnp.triu(t_lu)

    def apply(y: Array) -> Array:
        return _permute(
            _product(t_low, _product(up, y)) + _product(low, _product(t_up, y)), inverse
        )

    def apply_adjoint(y: Array) -> Array:
        y = _permute(y, _permutation(pivots, lu.shape[-1]))
        return _product(_h(up), _product(_h(t_low), y)) + _product(_h(t_up), _product(_h(low), y))

    if left:
        change = apply_adjoint(x) if adjoint else apply(x)
    else:
        change = _h(apply(_h(x)) if adjoint else apply_adjoint(_h(x)))
    return x, _solve_factored(lu, pivots, t_b - change, left, adjoint)


def _check_compatible(what: str, a: Array, b: Array, left: bool) -> None:
    n = b.shape[-2] if left else b.shape[-1]
    if a.shape[-1] != n:
        equation = "AX = B" if left else "XA = B"
        raise RuntimeError(
            f"{what}: Incompatible shapes of A and B for the equation {equation} "
            f"({a.shape[-2]}x{a.shape[-1]} and {b.shape[-2]}x{b.shape[-1]})"
        )


@op(namespace="linalg", method=False, layout=column_major)
def linalg_lu_solve(
    LU: Array, pivots: Array, B: Array, *, left: bool = True, adjoint: bool = False
) -> Array:
    """Solve a linear system from the LU factors of its matrix."""
    what = "linalg.lu_solve"
    if LU.dtype != B.dtype:
        raise RuntimeError(
            f"{what}: Expected LU and B to have the same dtype, but found LU of type {scalar_name(LU)} "
            f"and B of type {scalar_name(B)} instead"
        )
    if pivots.dtype != jnp.int32:
        raise RuntimeError(f"{what}: pivots should be a Tensor of scalar type torch.int32")
    require_square(f"torch.{what}", LU)
    require_matrix(what, B, "B")
    _check_compatible(what, LU, B, left)
    if pivots.shape[-1] != LU.shape[-1]:
        raise RuntimeError(
            f"{what}: Number of pivots per batch should be same as the dimension of the matrix"
        )
    if pivots.shape[:-1] != LU.shape[:-2]:
        raise RuntimeError(f"{what}: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
                           f"{list(pivots.shape)} instead")  # fmt: skip
    batch = shapes.broadcast_shapes(LU.shape[:-2], B.shape[:-2])
    if 0 in LU.shape or 0 in B.shape:
        return jnp.zeros(batch + B.shape[-2:], B.dtype)
    return _solve_factored(LU, pivots, jnp.broadcast_to(B, batch + B.shape[-2:]), left, adjoint)


# --- solve, inverse, determinants ---------------------------------------------------------------


def _t(x: Array) -> Array:
    return jnp.swapaxes(x, -1, -2)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _solve(
    a: Array, b: Array, left: bool = True, vector: bool = False
) -> tuple[Array, Array, Array]:
    """The solution and the factors of A (of its transpose for X A = B)."""
    lu, pivots, _ = _factor(a if left else _t(a))
    return _oriented(functools.partial(_lu_solve, lu, pivots), b, left, vector), lu, pivots


def _oriented(solve: Any, b: Array, left: bool, vector: bool) -> Array:
    """`solve` for columns, applied to a right-hand side of any of the three forms."""
    if vector:
        return solve(b[..., None])[..., 0]
    return solve(b) if left else _t(solve(_t(b)))


@_solve.defjvp
def _solve_jvp(left: bool, vector: bool, primals: Any, tangents: Any) -> Any:
    (a, _), (t_a, t_b) = primals, tangents
    x, lu, pivots = _solve(*primals, left, vector)
    if vector:
        change = _product(t_a, x[..., None])[..., 0]
    else:
        change = _product(t_a, x) if left else _product(x, t_a)
    side = a if left else _t(a)
    t = _oriented(functools.partial(_linear_solve, side, lu, pivots), t_b - change, left, vector)
    return (x, lu, pivots), (t, jnp.zeros_like(lu), _no_tangent(pivots))


@op(
    node="LinalgSolveExBackward0", returns=("result", "LU", "pivots", "info"), nondiff=(1, 2, 3),
    method=False, out=False, layout=column_major,
)  # fmt: skip
def _linalg_solve_ex(
    A: Array, B: Array, *, left: bool = True, check_errors: bool = False
) -> tuple[Array, Array, Array, Array]:
    """The solution of A X = B (or X A = B), the factors of A, and where they are singular."""
    what = "linalg.solve"
    require_inexact(what, A, half=True)
    if A.dtype != B.dtype:
        raise RuntimeError(
            f"{what}: Expected A and B to have the same dtype, but found A of type {scalar_name(A)} "
            f"and B of type {scalar_name(B)} instead"
        )
    vector = vector_rhs(A.shape, B.shape)
    if vector and not left:
        raise RuntimeError(
            f"{what}: Vector broadcasting of the left hand side is not supported for left=False. In this "
            "case linalg.solve is equivalent to B / A.squeeze(-1)"
        )
    require_square(what, A)
    b = B[..., None] if vector else B
    _check_compatible(what, A, b, left)
    require_supported("lu_cpu", A)
    batch = shapes.broadcast_shapes(b.shape[:-2], A.shape[:-2])
    rhs = jnp.broadcast_to(B, (*batch, B.shape[-1]) if vector else batch + B.shape[-2:])
    if 0 in A.shape or 0 in rhs.shape:
        lu, pivots, _ = _factor(A)
        x = jnp.zeros(rhs.shape, rhs.dtype)
    else:
        x, lu, pivots = _solve(A, rhs, left, vector)
    return x, lu, pivots, _first_zero(lu)


@jax.custom_jvp
def _inverse(a: Array) -> tuple[Array, Array]:
    lu, pivots, _ = _factor(a)
    return _lu_solve(lu, pivots, _eye(a.shape[-1], a)), _first_zero(lu)


@_inverse.defjvp
def _inverse_jvp(primals: Any, tangents: Any) -> Any:
    x, info = _inverse(*primals)
    return (x, info), (-_product(x, _product(tangents[0], x)), _no_tangent(info))


@op(
    namespace="linalg",
    method=False,
    function=False,
    returns_name="linalg_inv_ex",
    returns=("inverse", "info"),
    nondiff=(1,),
    layout=column_major,
)
def linalg_inv_ex(A: Array, *, check_errors: bool = False) -> tuple[Array, Array]:
    """Inverse matrices, and where they do not exist."""
    require_inexact("linalg.inv", A)
    require_square("linalg.inv", A)
    if 0 in A.shape:
        return A, jnp.zeros(A.shape[:-2], jnp.int32)
    return _inverse(A)


def _odd_swaps(pivots: Array) -> Array:
    still = jnp.broadcast_to(jnp.arange(1, pivots.shape[-1] + 1, dtype=pivots.dtype), pivots.shape)
    return jnp.sum(pivots != still, -1) % 2 == 1


def _trace_of_solution(a: Array, lu: Array, pivots: Array, t: Array) -> Array:
    return jnp.trace(_linear_solve(a, lu, pivots, t), axis1=-2, axis2=-1)


def _determinant_of(lu: Array, pivots: Array) -> Array:
    d = jnp.prod(_diagonal(lu), -1)
    return jnp.where(_odd_swaps(pivots), -d, d)


@jax.custom_jvp
def _det(a: Array) -> tuple[Array, Array, Array]:
    lu, pivots, _ = _factor(a)
    return _determinant_of(lu, pivots), lu, pivots


def _others(s: Array) -> Array:
    """For each entry of the last dimension, the product of all the others."""
    one = jnp.ones((*s.shape[:-1], 1), s.dtype)
    before = jnp.cumprod(jnp.concatenate([one, s[..., :-1]], -1), -1)
    after = jnp.flip(jnp.cumprod(jnp.flip(jnp.concatenate([s[..., 1:], one], -1), -1), -1), -1)
    return before * after


@jax.custom_jvp
def _unphased_svd(a: Array) -> tuple[Array, Array, Array]:
    """U, S, V of square matrices; differentiated, the phases of S move and those of U and V do not.

    With real singular values the phase of a pair of vectors turns infinitely fast where its value
    is 0; here nothing does, and the determinants of U and V are constants.
    """
    u, s, vh = lax.linalg.svd(a, full_matrices=False)
    return u, s.astype(a.dtype), _h(vh)


@_unphased_svd.defjvp
def _unphased_svd_jvp(primals: Any, tangents: Any) -> Any:
    u, s, v = out = _unphased_svd(*primals)
    p = _product(_h(u), _product(tangents[0], v))
    ph, off = _h(p), ~np.eye(p.shape[-1], dtype=bool)
    row, column = s[..., None, :], s[..., :, None]
    gap = row * _conj(row) - column * _conj(column)
    factor = jnp.where(off, 1 / jnp.where(off, gap, 1), 0)
    x = (p * _conj(row) + column * ph) * factor
    y = (p * _conj(column) + row * ph) * factor
    return out, (_product(u, x), _diagonal(p), _product(v, y))


def _cofactor_product(a: Array, t: Array) -> Array:
    """tr(adj(A) dA) from the singular values, which exists and is smooth where A^-1 does not."""
    u, s, v = _unphased_svd(a)
    phase = lax.stop_gradient(
        _determinant_of(*_factor(u)[:2]) * _conj(_determinant_of(*_factor(v)[:2]))
    )
    return phase * jnp.sum(_others(s) * _diagonal(_product(_h(u), _product(t, v))), -1)


@_det.defjvp
def _det_jvp(primals: Any, tangents: Any) -> Any:
    # d det = det * tr(A^-1 dA), which near a singular matrix is 0 * inf
    (a,), (t,) = primals, tangents
    det, lu, pivots = _det(a)
    size = jnp.abs(_diagonal(lu))
    eps = 100 * float(jnp.finfo(size.dtype).eps)
    singular = anywhere(jnp.min(size, -1) <= eps * jnp.max(size, -1))
    t_det = lax.cond(
        singular,
        lambda a, lu, pivots, det, t: _cofactor_product(a, t),
        lambda a, lu, pivots, det, t: det * _trace_of_solution(a, lu, pivots, t),
        a, lu, pivots, det, t,
    )  # fmt: skip
    return (det, lu, pivots), (t_det, jnp.zeros_like(lu), _no_tangent(pivots))


@op(
    node="LinalgDetBackward0", returns=("result", "LU", "pivots"), nondiff=(1, 2), method=False,
    layout=column_major,
)  # fmt: skip
def _linalg_det(A: Array) -> tuple[Array, Array, Array]:
    """Determinants, with the LU factors they were computed from."""
    require_inexact("linalg.det", A)
    require_square("linalg.det", A)
    if 0 in A.shape:
        lu, pivots, _ = _factor(A)
        return jnp.ones(A.shape[:-2], A.dtype), lu, pivots
    return _det(A)


@jax.custom_jvp
def _slogdet(a: Array) -> tuple[Array, Array, Array, Array]:
    lu, pivots, _ = _factor(a)
    diagonal = _diagonal(lu)
    sign = jnp.prod(jnp.sign(diagonal), -1)
    sign = jnp.where(_odd_swaps(pivots), -sign, sign)
    return sign, jnp.sum(jnp.log(jnp.abs(diagonal)), -1), lu, pivots


@_slogdet.defjvp
def _slogdet_jvp(primals: Any, tangents: Any) -> Any:
    sign, _, lu, pivots = out = _slogdet(*primals)
    (a,), (t,) = primals, tangents
    t = _trace_of_solution(a, lu, pivots, t)
    if is_complex(sign):
        t_sign, t_log = lax.complex(jnp.zeros_like(jnp.imag(t)), jnp.imag(t)) * sign, jnp.real(t)
    else:
        t_sign, t_log = jnp.zeros_like(sign), t
    return out, (t_sign, t_log, jnp.zeros_like(lu), _no_tangent(pivots))


@op(
    node="LinalgSlogdetBackward0", returns=("sign", "logabsdet", "LU", "pivots"), nondiff=(2, 3),
    method=False, layout=column_major,
)  # fmt: skip
def _linalg_slogdet(A: Array) -> tuple[Array, Array, Array, Array]:
    """Sign and logarithm of determinants, with the LU factors they were computed from."""
    require_inexact("linalg.slogdet", A)
    require_square("linalg.slogdet", A)
    if 0 in A.shape:
        lu, pivots, _ = _factor(A)
        real = jnp.finfo(A.dtype).dtype
        return jnp.ones(A.shape[:-2], A.dtype), jnp.zeros(A.shape[:-2], real), lu, pivots
    return _slogdet(A)


# --- pseudo-inverse and least squares -----------------------------------------------------------


def _tolerance(values: Array, shape: tuple[int, ...], atol: Any, rtol: Any) -> Array:
    """max(atol, rtol * largest value) per matrix; rtol defaults to 0 when only atol is given."""
    real = values.dtype
    if rtol is None:
        rtol = jnp.asarray(float(jnp.finfo(real).eps) * max(shape[-2:]), real)
        if atol is not None:
            rtol = jnp.where(jnp.asarray(atol, real) > 0, 0, rtol)
    atol, rtol = jnp.asarray(0 if atol is None else atol, real), jnp.asarray(rtol, real)
    largest = jnp.max(values, -1, initial=0)
    batch = shapes.broadcast_shapes(atol.shape, rtol.shape, largest.shape)
    atol, rtol, largest = (jnp.broadcast_to(x, batch) for x in (atol, rtol, largest))
    return jnp.maximum(atol, rtol * largest)


def _scale_columns(x: Array, s: Array) -> Array:
    return x * s[..., None, :].astype(x.dtype)


def _pinv_value(a: Array, atol: Any, rtol: Any, hermitian: bool) -> Array:
    m, n = a.shape[-2:]
    if 0 in a.shape:
        return jnp.zeros((*a.shape[:-2], n, m), a.dtype)
    if hermitian:
        v, values = lax.linalg.eigh(a, lower=True, symmetrize_input=False)
        size, left, right = jnp.abs(values), v, v
    else:
        u, size, vh = lax.linalg.svd(a, full_matrices=False)
        values, left, right = size, _h(vh), u
    kept = size > _tolerance(size, a.shape, atol, rtol)[..., None]
    inverse = jnp.where(kept, 1 / jnp.where(kept, values, 1), 0)
    return _product(_scale_columns(left, inverse), _h(right))


@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def _pinv(a: Array, atol: Any, rtol: Any, hermitian: bool) -> Array:
    return _pinv_value(a, atol, rtol, hermitian)


def _pinv_tangent(a: Array, p: Array, t: Array) -> Array:
    """Golub and Pereyra's derivative for matrices of locally constant rank."""
    ph, th = _h(p), _h(t)
    ap, pa = _product(a, p), _product(p, a)
    first = _product(p, _product(t, p))
    x = _product(_product(p, ph), th)
    y = _product(th, _product(ph, p))
    return x - _product(x, ap) + y - _product(pa, y) - first


@_pinv.defjvp
def _pinv_jvp(hermitian: bool, primals: Any, tangents: Any) -> Any:
    p = _pinv(*primals, hermitian)
    return p, _pinv_tangent(primals[0], p, tangents[0])


@op(namespace="linalg", method=False, undifferentiable=("rcond", "atol", "rtol"))
def linalg_pinv(
    input: Array, rcond: Array | Scalar | None = None, hermitian: bool = False, *,
    atol: Array | Scalar | None = None, rtol: Array | Scalar | None = None,
) -> Array:  # fmt: skip
    """Moore-Penrose pseudo-inverses; singular values below the tolerance count as zero."""
    if input.ndim < 2 or not (is_float(input) or is_complex(input)) or input.dtype.itemsize < 4:
        raise RuntimeError(
            f"linalg.pinv({scalar_name(input)}{{{list(input.shape)}}}): expected a tensor with 2 or more dimensions of "
            "float, double, cfloat or cdouble types"
        )
    if hermitian:
        require_square("linalg.eigh", input)
    return _pinv(input, atol, rcond if rtol is None else rtol, hermitian)


@op(namespace="linalg", method=False, grad=Grad.NO)
def linalg_matrix_rank(
    input: Array, tol: Array | Scalar | None = None, hermitian: bool = False, *,
    atol: Array | Scalar | None = None, rtol: Array | Scalar | None = None,
) -> Array:  # fmt: skip
    """How many singular values exceed the tolerance."""
    require_matrix("torch.linalg.matrix_rank", input, "input")
    if not (is_float(input) or is_complex(input)):
        raise RuntimeError("This function doesn't handle types other than float and double")
    if hermitian:
        require_square("linalg.eigh", input)
    require_supported("linalg_eigh_cpu" if hermitian else "linalg_svd_cpu", input)
    if 0 in input.shape:
        return jnp.zeros(input.shape[:-2], jnp.int64)
    if hermitian:
        size = jnp.abs(lax.linalg.eigh(input, lower=True, symmetrize_input=False)[1])
    else:
        size = lax.linalg.svd(input, compute_uv=False)
    if tol is not None:  # an absolute tolerance, unlike pinv's rcond
        atol, rtol = tol, 0.0
    return jnp.sum(size > _tolerance(size, input.shape, atol, rtol)[..., None], -1, dtype=jnp.int64)


_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def _lstsq_value(a: Array, b: Array, rcond: Any) -> tuple[Array, Array, Array, Array]:
    u, s, vh = lax.linalg.svd(a, full_matrices=False)
    largest = jnp.max(s, -1, keepdims=True, initial=0)
    kept = s > jnp.asarray(rcond, s.dtype) * largest
    inverse = jnp.where(kept, 1 / jnp.where(kept, s, 1), 0)
    x = _product(_h(vh), inverse[..., :, None].astype(a.dtype) * _product(_h(u), b))
    left = _product(a, x) - b
    squares = jnp.sum(jnp.square(jnp.abs(left)), -2)
    return x, squares, jnp.sum(kept, -1, dtype=jnp.int64), s


@jax.custom_jvp
def _lstsq(a: Array, b: Array, rcond: Any) -> tuple[Array, Array, Array, Array]:
    return _lstsq_value(a, b, rcond)


@_lstsq.defjvp
def _lstsq_jvp(primals: Any, tangents: Any) -> Any:
    # x = pinv(A) b; the residual is orthogonal to the range of A, so dx does not move its norm
    (a, b, rcond), (t_a, t_b, _) = primals, tangents
    x, _, rank, s = out = _lstsq(a, b, rcond)
    p = _pinv(a, None, None, False)
    t_x = _product(_pinv_tangent(a, p, t_a), b) + _product(p, t_b)
    left, t_left = _product(a, x) - b, _product(t_a, x) - t_b
    t_squares = 2 * jnp.sum(jnp.real(jnp.conj(left) * t_left), -2)
    return out, (t_x, t_squares, _no_tangent(rank), jnp.zeros_like(s))


@op(
    namespace="linalg", method=False, returns_name="linalg_lstsq",
    returns=("solution", "residuals", "rank", "singular_values"),
    nondiff=(2, 3), function=False, layout=column_major,
)  # fmt: skip
def linalg_lstsq(
    input: Array, b: Array, rcond: Scalar | None = None, *, driver: str | None = None
) -> tuple[Array, Array, Array, Array]:
    """Least squares solutions of smallest norm."""
    what = "torch.linalg.lstsq"
    if input.ndim < 2:
        raise RuntimeError(f"{what}: input must have at least 2 dimensions.")
    if b.ndim < 1:
        raise RuntimeError(f"{what}: other must have at least 1 dimension.")
    if input.dtype != b.dtype:
        raise RuntimeError(
            f"{what}: Expected input and other to have the same dtype, but got input's dtype "
            f"{scalar_name(input)} and other's dtype {scalar_name(b)}"
        )
    if driver is not None and driver not in _DRIVERS:
        raise RuntimeError(
            f"{what}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)"
        )
    if not (is_float(input) or is_complex(input)):
        raise RuntimeError("This function doesn't handle types other than float and double")
    m, n = input.shape[-2:]
    vector = vector_rhs(input.shape, b.shape)
    rhs = b[..., None] if vector else b
    if rhs.shape[-2] != m:
        raise RuntimeError(f"{what}: input.size(-2) should match other.size(-{1 if vector else 2})")
    batch = shapes.broadcast_shapes(input.shape[:-2], rhs.shape[:-2])
    a = jnp.broadcast_to(input, (*batch, m, n))
    rhs = jnp.broadcast_to(rhs, batch + rhs.shape[-2:])
    real = jnp.finfo(input.dtype).dtype
    rcond = float(jnp.finfo(real).eps) * max(m, n) if rcond is None else rcond
    if 0 in a.shape:
        x = jnp.zeros((*batch, n, rhs.shape[-1]), b.dtype)
        squares = jnp.sum(jnp.square(jnp.abs(rhs)), -2)
        rank, s = jnp.zeros(batch, jnp.int64), jnp.zeros((*batch, min(m, n)), real)
    else:
        x, squares, rank, s = _lstsq(a, rhs, jnp.asarray(rcond, real))
    none = jnp.zeros((0,), real)
    return (
        x[..., 0] if vector else x,
        squares if m > n and driver not in (None, "gelsy") else none,
        jnp.zeros((0,), jnp.int64) if driver == "gels" else rank,
        s if driver in ("gelsd", "gelss") else none,
    )


# --- matrix exponential -------------------------------------------------------------------------

_MAX_SQUARINGS = 24
_PADE = {  # degree -> largest 1-norm for which the approximant is exact to rounding
    7: 3.925724783138660,
    13: 5.371920351148152,
}


def _pade_terms(degree: int) -> list[float]:
    """Coefficients of the diagonal Pade approximant of exp, scaled so that the highest is 1."""
    q = degree
    return [
        math.factorial(2 * q - j) / (math.factorial(j) * math.factorial(q - j))
        for j in range(q + 1)
    ]


def _pade(a: Array, degree: int) -> Array:
    c = _pade_terms(degree)
    eye = _eye(a.shape[-1], a)
    square = _product(a, a)
    powers = [eye, square]
    while len(powers) < (degree + 1) // 2:
        powers.append(_product(powers[-1], square))
    odd = sum(c[2 * i + 1] * p for i, p in enumerate(powers))
    even = sum(c[2 * i] * p for i, p in enumerate(powers))
    odd = _product(a, odd)
    return _solve(even - odd, even + odd)[0]


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
        return lax.cond(
            anywhere(i < times), lambda x: jnp.where(again, _product(x, x), x), lambda x: x, x
        ), None

    x, _ = lax.scan(square, x, jnp.arange(_MAX_SQUARINGS, dtype=times.dtype))
    return x.astype(input.dtype)
