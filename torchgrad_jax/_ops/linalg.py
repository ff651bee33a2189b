"""Linear systems: LU factors and what stands on them, solutions, inverses, determinants.

Every rule is written in terms of the results (the inverse, the solution, the LU factors), so that a
node saves those, as torch does. `pivots` are torch's: row swaps counted from 1.
"""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays import shapes
from .._core.arrays.kernels import scalar_name
from .._core.arrays.matrices import (
    column_major,
    require_inexact,
    require_matrix,
    require_square,
    require_supported,
    vector_rhs,
)
from .._core.errors.checks import fail_if, readable
from .._core.jax.custom_jvp import NO_TANGENT, custom_jvp
from .helpers import anywhere, is_complex
from .matrix_helpers import (
    conj_t,
    conjugate,
    diagonal_of,
    factorize,
    first_zero,
    identity,
    linear_solve,
    lu_solve,
    lu_tangent,
    padded_factors,
    permutation_of,
    permute,
    product,
    solve_system,
    svd_of_finite,
)
from .registry import Array, op

# --- LU -----------------------------------------------------------------------------------------


@custom_jvp
def _lu_factor(a: Array) -> tuple[Array, Array]:
    lu, pivots, _ = factorize(a)
    return lu, pivots


@_lu_factor.defjvp
def _lu_factor_jvp(primals: Any, tangents: Any) -> Any:
    lu, pivots = _lu_factor(*primals)
    t = lu_tangent(lu, permutation_of(pivots, lu.shape[-2]), *tangents)
    return (lu, pivots), (t, NO_TANGENT)


def _need_pivoting(pivot: bool) -> None:
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")


@op(
    namespace="linalg",
    method=False,
    function=False,
    returns=("LU", "pivots", "info"),
    nondiff=(1, 2),
    layout=column_major,
)
def linalg_lu_factor_ex(A: Array, *, pivot: bool = True, check_errors: bool = False) -> tuple[Array, Array, Array]:
    """Packed LU factors with partial pivoting, and where a pivot is zero."""
    if A.ndim < 2:
        raise RuntimeError(
            f"torch.lu_factor: Expected tensor with 2 or more dimensions. Got size: {list(A.shape)} instead"
        )
    _need_pivoting(pivot)
    require_supported("lu_cpu", A)
    lu, pivots = _lu_factor(A)
    return lu, pivots, first_zero(lu)


def _permutation_matrix(perm: Array, dtype: Any) -> Array:
    """P with A = P L U, where row i of L U is row perm[i] of A."""
    n = perm.shape[-1]
    rows = jnp.broadcast_to(jnp.arange(n, dtype=perm.dtype)[:, None], (*perm.shape, n))
    return jnp.asarray(rows == jnp.broadcast_to(perm[..., None, :], rows.shape), dtype)


def _unpack(lu: Array) -> tuple[Array, Array]:
    m, n = lu.shape[-2:]
    k = min(m, n)
    low = jnp.tril(lu[..., :k], -1)
    return low + jnp.broadcast_to(jnp.eye(m, k, dtype=lu.dtype), low.shape), jnp.triu(lu[..., :k, :])


@custom_jvp
def _plu(a: Array) -> tuple[Array, Array, Array]:
    lu, _, perm = factorize(a)
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
    t = lu_tangent(packed, jnp.argmax(jnp.real(p), -2).astype(jnp.int32), *tangents)
    t_low, t_up = jnp.tril(t[..., :k], -1), jnp.triu(t[..., :k, :])
    return (p, low, up), (jnp.zeros_like(p), t_low, t_up)


@op(namespace="linalg", method=False, returns=("P", "L", "U"), nondiff=(0,))
def linalg_lu(A: Array, *, pivot: bool = True) -> tuple[Array, Array, Array]:
    """P, L, U with A = P L U."""
    require_matrix("linalg.lu", A)
    _need_pivoting(pivot)
    require_supported("lu_cpu", A)
    return _plu(A)


def _check_pivots(LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> None:
    p = readable(LU_pivots)
    if unpack_pivots and p.size:
        fail_if(
            ((p < 1) | (p > LU_data.shape[-2])).any(),
            lambda: RuntimeError(
                "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
                "Did you properly pass the result of lu_factor?"
            ),
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
    return _permutation_matrix(permutation_of(LU_pivots[..., :k], m), LU_data.dtype), low, up


def _solution(lu: Array, pivots: Array, b: Array, left: bool, adjoint: bool) -> Array:
    if left:
        return lu_solve(lu, pivots, b, adjoint)
    return conj_t(lu_solve(lu, pivots, conj_t(b), not adjoint))  # X A = B  <=>  A^H X^H = B^H


@functools.partial(custom_jvp, nondiff_argnums=(3, 4))
def _solve_factored(lu: Array, pivots: Array, b: Array, left: bool, adjoint: bool) -> Array:
    return _solution(lu, pivots, b, left, adjoint)


@_solve_factored.defjvp
def _solve_factored_jvp(left: bool, adjoint: bool, primals: Any, tangents: Any) -> Any:
    # d(A X) = dB with A = P L U: dA X = P (dL U + L dU) X
    (lu, pivots, b), (t_lu, _, t_b) = primals, tangents
    x = _solve_factored(lu, pivots, b, left, adjoint)
    inverse = jnp.argsort(permutation_of(pivots, lu.shape[-1]), axis=-1)
    low, up = padded_factors(lu)
    t_low, t_up = jnp.tril(t_lu, -1), jnp.triu(t_lu)

    def apply(y: Array) -> Array:
        return permute(product(t_low, product(up, y)) + product(low, product(t_up, y)), inverse)

    def apply_adjoint(y: Array) -> Array:
        y = permute(y, permutation_of(pivots, lu.shape[-1]))
        return product(conj_t(up), product(conj_t(t_low), y)) + product(conj_t(t_up), product(conj_t(low), y))

    if left:
        change = apply_adjoint(x) if adjoint else apply(x)
    else:
        change = conj_t(apply(conj_t(x)) if adjoint else apply_adjoint(conj_t(x)))
    # By itself it would be derived by this rule, and so on without end.
    return x, _solution(lu, pivots, t_b - change, left, adjoint)


def _check_compatible(what: str, a: Array, b: Array, left: bool) -> None:
    n = b.shape[-2] if left else b.shape[-1]
    if a.shape[-1] != n:
        equation = "AX = B" if left else "XA = B"
        raise RuntimeError(
            f"{what}: Incompatible shapes of A and B for the equation {equation} "
            f"({a.shape[-2]}x{a.shape[-1]} and {b.shape[-2]}x{b.shape[-1]})"
        )


def _solve_layout(metas: Any, shape: tuple[int, ...], statics: Any, which: int) -> tuple[int, ...]:
    """Solutions of A X = B lie by columns, those of X A = B by rows."""
    strides = shapes.contiguous_strides(shape)
    if which > 1 or (which == 0 and not statics["left"]):
        return strides
    return (*strides[:-2], 1, max(shape[-2], 1))


_solve_layout.statics = _solve_layout.numbered = True


def _check_pivots_to_solve(LU: Any, pivots: Any, B: Any, **_: Any) -> None:
    p = readable(pivots)
    if not p.size or LU.ndim < 2 or p.dtype != np.int32:  # the implementation complains about these
        return
    for wrong, bound in ((p < 1, "greater or equal to 1"), (p > LU.shape[-2], "smaller or equal to LU.size(-2)")):
        fail_if(
            wrong.any(),
            lambda bound=bound: RuntimeError(
                f"Pivots given to lu_solve must all be {bound}. Did you properly pass the result of lu_factor?"
            ),
        )


@op(namespace="linalg", method=False, layout=_solve_layout, check=_check_pivots_to_solve)
def linalg_lu_solve(LU: Array, pivots: Array, B: Array, *, left: bool = True, adjoint: bool = False) -> Array:
    """Solve a linear system from the LU factors of its matrix."""
    what = "linalg.lu_solve"
    require_inexact(f"torch.{what}", LU)
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
        raise RuntimeError(f"{what}: Number of pivots per batch should be same as the dimension of the matrix")
    if pivots.shape[:-1] != LU.shape[:-2]:
        raise RuntimeError(
            f"{what}: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
            f"{list(pivots.shape)} instead"
        )
    batch = shapes.broadcast_shapes(LU.shape[:-2], B.shape[:-2])
    if 0 in LU.shape or 0 in B.shape:
        return jnp.zeros(batch + B.shape[-2:], B.dtype)
    return _solve_factored(LU, pivots, jnp.broadcast_to(B, batch + B.shape[-2:]), left, adjoint)


# --- solve, inverse, determinants ---------------------------------------------------------------


@op(
    node="LinalgSolveExBackward0",
    returns=("result", "LU", "pivots", "info"),
    nondiff=(1, 2, 3),
    method=False,
    out=False,
    layout=_solve_layout,
)
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
    require_square(what, A)
    b = B[..., None] if vector else B
    _check_compatible(what, A, b, left)
    if vector and not left:
        raise RuntimeError(
            f"{what}: Vector broadcasting of the left hand side is not supported for left=False. In this "
            "case linalg.solve is equivalent to B / A.squeeze(-1)"
        )
    require_supported("lu_cpu", A)
    batch = shapes.broadcast_shapes(b.shape[:-2], A.shape[:-2])
    rhs = jnp.broadcast_to(B, (*batch, B.shape[-1]) if vector else batch + B.shape[-2:])
    if 0 in A.shape or 0 in rhs.shape:
        lu, pivots, _ = factorize(A)
        x = jnp.zeros(rhs.shape, rhs.dtype)
    else:
        x, lu, pivots = solve_system(A, rhs, left, vector)
    return x, lu, pivots, first_zero(lu)


@custom_jvp
def _inverse(a: Array) -> tuple[Array, Array]:
    lu, pivots, _ = factorize(a)
    return lu_solve(lu, pivots, identity(a.shape[-1], a)), first_zero(lu)


@_inverse.defjvp
def _inverse_jvp(primals: Any, tangents: Any) -> Any:
    x, info = _inverse(*primals)
    return (x, info), (-product(x, product(tangents[0], x)), NO_TANGENT)


@op(namespace="linalg", method=False, function=False, returns=("inverse", "info"), nondiff=(1,), layout=column_major)
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
    return jnp.trace(linear_solve(a, lu, pivots, t), axis1=-2, axis2=-1)


def _determinant_of(lu: Array, pivots: Array) -> Array:
    d = jnp.prod(diagonal_of(lu), -1)
    return jnp.where(_odd_swaps(pivots), -d, d)


@custom_jvp
def _det(a: Array) -> tuple[Array, Array, Array]:
    lu, pivots, _ = factorize(a)
    return _determinant_of(lu, pivots), lu, pivots


def _products_of_others(s: Array) -> Array:
    """For each entry of the last dimension, the product of all the others."""
    one = jnp.ones((*s.shape[:-1], 1), s.dtype)
    before = jnp.cumprod(jnp.concatenate([one, s[..., :-1]], -1), -1)
    after = jnp.flip(jnp.cumprod(jnp.flip(jnp.concatenate([s[..., 1:], one], -1), -1), -1), -1)
    return before * after


@custom_jvp
def _unphased_svd(a: Array) -> tuple[Array, Array, Array]:
    """U, S, V of square matrices. In derivatives the phases of S move, and those of U and V do not.

    With real singular values the phase of a pair of vectors turns infinitely fast where its value
    is 0; here nothing does, and the determinants of U and V are constants.
    """
    u, s, vh = svd_of_finite(a, full_matrices=False)
    return u, s.astype(a.dtype), conj_t(vh)


@_unphased_svd.defjvp
def _unphased_svd_jvp(primals: Any, tangents: Any) -> Any:
    u, s, v = out = _unphased_svd(*primals)
    p = product(conj_t(u), product(tangents[0], v))
    ph, off = conj_t(p), ~np.eye(p.shape[-1], dtype=bool)
    row, column = s[..., None, :], s[..., :, None]
    gap = row * conjugate(row) - column * conjugate(column)
    factor = jnp.where(off, 1 / jnp.where(off, gap, 1), 0)
    x = (p * conjugate(row) + column * ph) * factor
    y = (p * conjugate(column) + row * ph) * factor
    return out, (product(u, x), diagonal_of(p), product(v, y))


def _cofactor_product(a: Array, t: Array) -> Array:
    """tr(adj(A) dA) from the singular values, which exists and is smooth where A^-1 does not."""
    u, s, v = _unphased_svd(a)
    phase = lax.stop_gradient(_determinant_of(*factorize(u)[:2]) * conjugate(_determinant_of(*factorize(v)[:2])))
    return phase * jnp.sum(_products_of_others(s) * diagonal_of(product(conj_t(u), product(t, v))), -1)


@_det.defjvp
def _det_jvp(primals: Any, tangents: Any) -> Any:
    # d det = det * tr(A^-1 dA), which near a singular matrix is 0 * inf
    (a,), (t,) = primals, tangents
    det, lu, pivots = _det(a)
    size = jnp.abs(diagonal_of(lu))
    eps = 100 * float(jnp.finfo(size.dtype).eps)
    singular = anywhere(jnp.min(size, -1) <= eps * jnp.max(size, -1))
    t_det = lax.cond(
        singular,
        lambda a, lu, pivots, det, t: _cofactor_product(a, t),
        lambda a, lu, pivots, det, t: det * _trace_of_solution(a, lu, pivots, t),
        a,
        lu,
        pivots,
        det,
        t,
    )
    return (det, lu, pivots), (t_det, jnp.zeros_like(lu), NO_TANGENT)


@op(node="LinalgDetBackward0", returns=("result", "LU", "pivots"), nondiff=(1, 2), method=False, layout=column_major)
def _linalg_det(A: Array) -> tuple[Array, Array, Array]:
    """Determinants, with the LU factors they were computed from."""
    require_inexact("linalg.det", A)
    require_square("linalg.det", A)
    if 0 in A.shape:
        lu, pivots, _ = factorize(A)
        return jnp.ones(A.shape[:-2], A.dtype), lu, pivots
    return _det(A)


@custom_jvp
def _slogdet(a: Array) -> tuple[Array, Array, Array, Array]:
    lu, pivots, _ = factorize(a)
    diagonal = diagonal_of(lu)
    signs = jnp.sign(diagonal)
    if not is_complex(a):  # torch's sign of NaN is 0
        signs = jnp.where(jnp.isnan(signs), 0, signs)
    sign = jnp.prod(signs, -1)
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
    return out, (t_sign, t_log, jnp.zeros_like(lu), NO_TANGENT)


@op(
    node="LinalgSlogdetBackward0",
    returns=("sign", "logabsdet", "LU", "pivots"),
    nondiff=(2, 3),
    method=False,
    layout=column_major,
    keeps={"A": ("sign",)},
)
def _linalg_slogdet(A: Array) -> tuple[Array, Array, Array, Array]:
    """Sign and logarithm of determinants, with the LU factors they were computed from."""
    require_inexact("linalg.slogdet", A)
    require_square("linalg.slogdet", A)
    if 0 in A.shape:
        lu, pivots, _ = factorize(A)
        real = jnp.finfo(A.dtype).dtype
        return jnp.ones(A.shape[:-2], A.dtype), jnp.zeros(A.shape[:-2], real), lu, pivots
    return _slogdet(A)
