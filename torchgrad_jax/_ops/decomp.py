"""Factorisations: Cholesky, triangular systems, QR, SVD, eigenvalues, Householder products.

The rules are written in terms of the factors, so that a node saves those, as torch does. Eigen- and
singular vectors are differentiated with torch's choice of gauge.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays import shapes
from .._core.arrays.kernels import scalar_name
from .._core.arrays.matrices import column_major, require_inexact, require_matrix, require_square, require_supported
from .._core.errors import messages as errors, warn
from .._core.errors.checks import fail_if, numpy_of, readable
from .._core.errors.messages import LinAlgError
from .._core.jax.custom_jvp import NO_TANGENT, custom_jvp
from .helpers import is_complex
from .inner import inner_op
from .matrix_helpers import (
    conj_t,
    converges_for_eigh,
    converges_for_svd,
    diagonal_of,
    identity,
    product,
    solve_triangular,
    svd_of_finite,
    transposed,
)
from .registry import Array, Grad, Out, op, with_rule


def _imaginary(x: Array) -> Array:
    """The imaginary part of `x`, times i."""
    return lax.complex(jnp.zeros_like(jnp.imag(x)), jnp.imag(x))


def _divide(x: Array, by: Array) -> Array:
    """x / by, which stays linear in x where `by` is 0: there 0 gives 0, and anything else overflows.

    Equal eigenvalues leave the derivative of their vectors undefined, but a loss of the values alone
    sends zeros down this path and must not see nan.
    """
    zero = by == 0
    huge = jnp.finfo(by.dtype).max
    factor = jnp.where(zero, jnp.asarray(huge, by.dtype), 1 / jnp.where(zero, 1, by))
    x = x * factor if is_complex(by) else _scale(x, factor)
    return _scale(x, jnp.where(zero, huge, jnp.ones(by.shape, huge.dtype)))


def _scale(x: Array, by: Array) -> Array:
    """x * by with `by` real: componentwise, so that overflow stays in its component."""
    by = jnp.broadcast_to(by, jnp.broadcast_shapes(x.shape, by.shape))
    if is_complex(x):
        x = jnp.broadcast_to(x, by.shape)
        return lax.complex(jnp.real(x) * by, jnp.imag(x) * by)
    return x * by.astype(x.dtype)


def _gaps(values: Array) -> Array:
    """Differences of every two values: entry (i, j) is values[j] - values[i], 1 on the diagonal."""
    n = values.shape[-1]
    return values[..., None, :] - values[..., :, None] + identity(n, values[..., None])


def _off_diagonal(x: Array) -> Array:
    return jnp.where(jnp.eye(x.shape[-1], dtype=bool), 0, x)


# --- Cholesky -----------------------------------------------------------------------------------


def _leading_minor(a: Array) -> Array:
    """LAPACK's info of matrices without a factor: the order of the first leading minor that is not positive definite.

    Elimination finds the first pivot that is not positive. Where rounding hides it, that is the last.
    """

    def eliminate(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        rest, info = state
        column = lax.dynamic_index_in_dim(rest, k, -1, keepdims=True)
        pivot = lax.dynamic_index_in_dim(column, k, -2)
        rest = rest - column * conj_t(column) / pivot
        return rest, jnp.where((info == n) & ~(jnp.real(pivot[..., 0, 0]) > 0), k + 1, info)

    n = a.shape[-1]
    whole = jnp.tril(a) + conj_t(jnp.tril(a, -1))
    return lax.fori_loop(0, n, eliminate, (whole, jnp.full(a.shape[:-2], n, jnp.int32)))[1]


@functools.partial(custom_jvp, nondiff_argnums=(1, 2))
def _cholesky(a: Array, upper: bool, forward: bool = False) -> tuple[Array, Array]:
    none = jnp.zeros(a.shape[:-2], jnp.int32)
    if 0 in a.shape:
        return a, none
    a = conj_t(a) if upper else a
    low = lax.linalg.cholesky(a, symmetrize_input=False)
    pivots = jnp.real(diagonal_of(low))  # LAPACK divides by one that is infinite, and stops at the next
    bad = jnp.isnan(pivots).any(-1) | jnp.isinf(pivots[..., :-1]).any(-1)
    info = lax.cond(jnp.any(bad), lambda _: jnp.where(bad, _leading_minor(a), 0), lambda _: none, 0)
    return (conj_t(low) if upper else low), info


@_cholesky.defjvp
def _cholesky_jvp(upper: bool, forward: bool, primals: Any, tangents: Any) -> Any:
    # dL = L phi(L^-1 dA L^-H), phi the lower half. In reverse mode torch treats any change of A as a Hermitian one,
    # except on the diagonal, where it keeps an imaginary part; in forward mode it takes the change as it is.
    factor, info = _cholesky(*primals, upper, forward)
    low, (t,) = (conj_t(factor) if upper else factor), tangents
    x = solve_triangular(low, solve_triangular(low, t, lower=True), lower=True, trans=True, left=False)
    diagonal = identity(x.shape[-1], x)
    if forward:
        phi = jnp.tril(x) - 0.5 * x * diagonal
    else:
        phi = (jnp.tril(x + conj_t(x)) - conj_t(x) * diagonal) * 0.5
    t_low = product(low, phi)
    return (factor, info), (conj_t(t_low) if upper else t_low, NO_TANGENT)


def _cholesky_of(what: str, a: Array, upper: bool, forward: bool = False) -> tuple[Array, Array]:
    require_inexact(what, a, half=True)
    require_square(what, a)
    require_supported("cholesky_cpu", a)
    return _cholesky(a, upper, forward)


def _cholesky_forward(input: Array, upper: bool = False, check_errors: bool = False) -> Any:
    return _cholesky_of("linalg.cholesky", input, upper, forward=True)


@op(
    namespace="linalg",
    method=False,
    function=False,
    returns=("L", "info"),
    nondiff=(1,),
    layout=column_major,
    forward=_cholesky_forward,
)
def linalg_cholesky_ex(input: Array, *, upper: bool = False, check_errors: bool = False) -> tuple[Array, Array]:
    """Cholesky factors, and the order of the first minor that is not positive definite."""
    return _cholesky_of("linalg.cholesky", input, upper)


def _columns_unless_empty(metas: Sequence[Any], shape: tuple[int, ...]) -> tuple[int, ...]:
    return column_major(metas, shape) if metas[0].numel else shapes.contiguous_strides(shape)


@inner_op(node="CholeskyBackward0", returns=("result", "info"), nondiff=(1,), layout=_columns_unless_empty)
def _cholesky_factor(input: Array, upper: bool = False) -> tuple[Array, Array]:
    """Cholesky factors under the name of the older function."""
    return _cholesky_of("cholesky", input, upper)


def _raw_factor(low: Array, upper: bool) -> Array:
    """The factor L with A = L L^H; torch takes the whole matrix as its variable here."""
    return conj_t(low) if upper else low


def _chol_apply(low: Array, b: Array) -> Array:
    y = solve_triangular(low, b, lower=True)
    return solve_triangular(low, y, lower=True, trans=True)


@custom_jvp
def _chol_solve(b: Array, low: Array) -> Array:
    return _chol_apply(low, b)


@_chol_solve.defjvp
def _chol_solve_jvp(primals: Any, tangents: Any) -> Any:
    (b, low), (t_b, t_low) = primals, tangents
    x = _chol_solve(b, low)
    change = product(t_low, product(conj_t(low), x)) + product(low, product(conj_t(t_low), x))

    def solve(_: Any, y: Array) -> Array:
        return _chol_apply(low, y)

    def solve_transposed(_: Any, y: Array) -> Array:
        return jnp.conj(_chol_apply(low, jnp.conj(y))) if is_complex(y) else _chol_apply(low, y)

    # a second derivative goes through the whole of L too, not its lower triangle alone
    t = lax.custom_linear_solve(lambda y: product(low, product(conj_t(low), y)), t_b - change, solve, solve_transposed)
    return x, t


@op(layout=column_major, keeps={"input": ("input", "input2", "result"), "input2": ("input",)}, out=Out.CAST)
def cholesky_solve(input: Array, input2: Array, upper: bool = False) -> Array:
    """Solve with the matrix whose Cholesky factor is `input2`."""
    if input.ndim < 2 or input2.ndim < 2:
        name, x = ("b", input) if input.ndim < 2 else ("u", input2)
        raise RuntimeError(f"{name} should have at least 2 dimensions, but has {x.ndim} dimensions instead")
    if input.dtype != input2.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {scalar_name(input)} "
            f"and A of type {scalar_name(input2)} instead."
        )
    if input2.shape[-1] != input2.shape[-2]:
        raise RuntimeError(
            f"A must be batches of square matrices, but they are {input2.shape[-2]} by {input2.shape[-1]} matrices"
        )
    if input.shape[-2] != input2.shape[-1]:
        raise RuntimeError(
            f"Incompatible matrix sizes for cholesky_solve: each A matrix is {input2.shape[-1]} by "
            f"{input2.shape[-1]} but each b matrix is {input.shape[-2]} by {input.shape[-1]}"
        )
    require_supported("cholesky_solve_cpu", input)
    batch = shapes.broadcast_shapes(input.shape[:-2], input2.shape[:-2])
    b, low = (jnp.broadcast_to(x, batch + x.shape[-2:]) for x in (input, input2))
    return _chol_solve(b, _raw_factor(low, upper))


@custom_jvp
def _chol_inverse(low: Array) -> Array:
    return _chol_apply(low, identity(low.shape[-1], low))


@_chol_inverse.defjvp
def _chol_inverse_jvp(primals: Any, tangents: Any) -> Any:
    (low,), (t,) = primals, tangents
    x = _chol_inverse(low)
    change = product(t, conj_t(low))
    return x, -product(x, product(change + conj_t(change), x))


def _nonzero_diagonal(input: Any) -> None:
    zero = readable(input).diagonal(axis1=-2, axis2=-1) == 0

    def error() -> Exception:
        *where, at = np.argwhere(zero)[0]
        batch = f" (Batch element {np.ravel_multi_index(where, input.shape[:-2])}):" if where else ""
        return LinAlgError(
            f"cholesky_inverse:{batch} The diagonal element {at + 1} is zero, the inversion could not "
            "be completed because the input matrix is singular."
        )

    fail_if(zero.any(), error)


def _check_cholesky_inverse(input: Any, upper: bool = False) -> None:
    # The implementation complains about shapes.
    if input.ndim >= 2 and input.shape[-1] == input.shape[-2]:
        _nonzero_diagonal(input)


@op(layout=column_major, check=_check_cholesky_inverse, out=Out.CAST)
def cholesky_inverse(input: Array, upper: bool = False) -> Array:
    """Inverse of the matrix whose Cholesky factor is given."""
    require_square("cholesky_inverse", input)
    require_supported("cholesky_inverse_out_cpu", input)
    return _chol_inverse(_raw_factor(input, upper)) if 0 not in input.shape else input


# --- triangular systems -------------------------------------------------------------------------


@op(namespace="linalg", method=False, layout=column_major)
def linalg_solve_triangular(
    input: Array, B: Array, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Array:
    """Solve A X = B (or X A = B) with one triangle of A."""
    what = "linalg.solve_triangular"
    require_square(what, input)
    require_matrix(what, B, "B")
    if input.shape[-1] != B.shape[-2 if left else -1]:
        raise RuntimeError(
            f"{what}: Incompatible shapes of A and B for the equation {'AX' if left else 'XA'} = B "
            f"({input.shape[-2]}x{input.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
        )
    require_supported("triangular_solve_cpu", input)
    if input.dtype != B.dtype:
        raise RuntimeError(
            f"{what}: Expected A and B to have the same dtype, but found A of type {scalar_name(input)} "
            f"and B of type {scalar_name(B)} instead"
        )
    return solve_triangular(input, B, lower=not upper, unit=unitriangular, left=left)


def _deprecated(*_: Any, **__: Any) -> None:
    warn.once(
        "torch.triangular_solve is deprecated in favor of torch.linalg.solve_triangularand will be removed in a future "
        "PyTorch release.\ntorch.linalg.solve_triangular has its arguments reversed and does not return a copy of one "
        "of the inputs.\nX = torch.triangular_solve(B, A).solution\nshould be replaced with\nX = "
        "torch.linalg.solve_triangular(A, B)."
    )


def _triangular_solve_forward(
    input: Array, A: Array, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Array, Array]:
    """torch's forward mode counts the tangent of the whole matrix, also that of the half that is not read."""

    def solve(a: Array, b: Array) -> Array:
        return solve_triangular(a, b, lower=not upper, unit=unitriangular, trans=transpose, conj=False)

    def rule(a: Array, b: Array, x: Array, t_a: Array, t_b: Array) -> Array:
        return solve(a, t_b - product(transposed(t_a) if transpose else t_a, x))

    x = with_rule(solve, rule)(A, input)
    return x, jnp.broadcast_to(A, x.shape[:-2] + A.shape[-2:])


@op(
    returns=("solution", "cloned_coefficient"),
    layout=column_major,
    keeps={"input": ("input",), "A": ("input",)},
    check=_deprecated,
    forward=_triangular_solve_forward,
)
def triangular_solve(
    input: Array, A: Array, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Array, Array]:
    """Solve a triangular system (the older function); also gives a copy of the matrix."""
    for name, x in (("b", input), ("A", A)):
        if x.ndim < 2:
            raise RuntimeError(
                f"torch.triangular_solve: Expected {name} to have at least 2 dimensions, but it has "
                f"{x.ndim} dimensions instead"
            )
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices"
        )
    if input.shape[-2] != A.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for triangular_solve: each A matrix is {A.shape[-2]} by {A.shape[-1]} "
            f"but each b matrix is {input.shape[-2]} by {input.shape[-1]}"
        )
    require_supported("triangular_solve_cpu", A)
    if input.dtype != A.dtype:
        raise RuntimeError(
            "triangular_solve: expected b and A to have the same dtype, but got "
            f"{scalar_name(input)} and {scalar_name(A)}"
        )
    x = solve_triangular(A, input, lower=not upper, unit=unitriangular, trans=transpose, conj=False)
    return x, jnp.broadcast_to(A, x.shape[:-2] + A.shape[-2:])


# --- QR and Householder products ----------------------------------------------------------------


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _qr(a: Array, mode: str) -> tuple[Array, Array]:
    m, n = a.shape[-2:]
    if 0 in a.shape:
        k = m if mode == "complete" else min(m, n)
        q = jnp.broadcast_to(jnp.eye(m, k, dtype=a.dtype), (*a.shape[:-2], m, k))
        return q, jnp.zeros((*a.shape[:-2], k, n), a.dtype)
    q, r = lax.linalg.qr(a, full_matrices=mode == "complete")
    return q, r


_NO_Q = (
    "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
    "linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr."
)
_TOO_TALL = "The QR decomposition is not differentiable when mode='complete' and nrows > ncols."


@_qr.defjvp
def _qr_jvp(mode: str, primals: Any, tangents: Any) -> Any:
    (a,), (t,) = primals, tangents
    m, n = a.shape[-2:]
    if mode == "r" or (mode == "complete" and m > n):
        raise errors.NoDerivative(_NO_Q if mode == "r" else _TOO_TALL, RuntimeError)
    q, r = _qr(a, mode)
    k = min(m, n)
    square = r[..., :k]
    # This is DA R^-1 of the leading columns.
    x = solve_triangular(square, t[..., :k], lower=False, left=False)
    qx = product(conj_t(q), x)
    low = jnp.tril(qx, -1)
    turn = low - conj_t(low)  # q^H dq: antihermitian, and such that the diagonal of R stays real
    if is_complex(a):
        turn = turn + identity(k, a) * _imaginary(qx)
    t_q = product(q, turn - qx) + x
    if n > m:  # the remaining columns follow from R = Q^H A
        t_r = product(conj_t(t_q), product(q, r)) + product(conj_t(q), t)
        t_r = jnp.triu(t_r)
    else:
        t_r = jnp.triu(product(qx - turn, square))
    return (q, r), (t_q, t_r)


@op(namespace="linalg", method=False, returns=("Q", "R"), layout=column_major)
def linalg_qr(A: Array, mode: str = "reduced") -> tuple[Array, Array]:
    """Q with orthonormal columns and upper triangular R with A = Q R."""
    require_matrix("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    require_inexact("linalg.qr", A, half=True)
    require_supported("linalg_qr_cpu", A)
    q, r = _qr(A, mode)
    return (jnp.zeros((0,), A.dtype), r) if mode == "r" else (q, r)


def _reflectors(a: Array, tau: Array) -> tuple[Array, Array]:
    """V and T of H_1 ... H_k = I - V T V^H, for the reflectors packed in `a` and `tau`."""
    k = tau.shape[-1]
    v = jnp.tril(a[..., :k], -1)
    v = v + jnp.broadcast_to(jnp.eye(a.shape[-2], k, dtype=a.dtype), v.shape)
    scale = tau[..., :, None]
    upper = scale * jnp.triu(product(conj_t(v), v), 1)
    t = solve_triangular(upper, scale * identity(k, a), lower=False, unit=True)
    return v, t


def _check_reflectors(a: Array, tau: Array) -> None:
    what = "torch.linalg.householder_product"
    if a.ndim < 2:
        raise RuntimeError(f"{what}: input must have at least 2 dimensions.")
    if a.shape[-2] < a.shape[-1]:
        raise RuntimeError(f"{what}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if a.shape[-1] < tau.shape[-1]:
        raise RuntimeError(f"{what}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    if a.ndim - tau.ndim != 1:
        raise RuntimeError(
            f"{what}: Expected tau to have one dimension less than input, but got tau.ndim equal to "
            f"{tau.ndim} and input.ndim is equal to {a.ndim}"
        )
    if a.shape[:-2] != tau.shape[:-1]:
        raise RuntimeError(
            f"{what}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {list(tau.shape[:-1])}"
        )
    if a.dtype != tau.dtype:
        raise RuntimeError(f"{what}: tau dtype {scalar_name(tau)} does not match input dtype {scalar_name(a)}")
    require_supported("orgqr_cpu", a)


def _nothing_reflected(keys: Any, **_: Any) -> tuple[int, ...]:
    """torch's formula gives no gradients where there are no reflections or no elements."""
    return (0, 1) if any(m.numel == 0 for m in keys[:2]) else ()


@op(namespace="linalg", method=False, layout=column_major, severed=_nothing_reflected, keeps=("result",))
def linalg_householder_product(input: Array, tau: Array) -> Array:
    """The first columns of a product of Householder reflectors."""
    _check_reflectors(input, tau)
    if 0 in input.shape or tau.shape[-1] == 0:
        return jnp.broadcast_to(jnp.eye(*input.shape[-2:], dtype=input.dtype), input.shape)
    v, t = _reflectors(input, tau)
    first = conj_t(v[..., : input.shape[-1], :])
    q = product(v, product(t, first))
    return jnp.broadcast_to(jnp.eye(*q.shape[-2:], dtype=q.dtype), q.shape) - q


@op(layout=column_major, severed=_nothing_reflected)
def ormqr(input: Array, input2: Array, input3: Array, left: bool = True, transpose: bool = False) -> Array:
    """Multiply `input3` by the orthogonal matrix of a QR factorisation."""
    what = "torch.ormqr"
    if input.ndim < 2:
        raise RuntimeError(f"{what}: input must have at least 2 dimensions.")
    if input3.ndim < 2:
        raise RuntimeError(f"{what}: other must have at least 2 dimensions.")
    side = -2 if left else -1
    if input3.shape[side] < input2.shape[-1]:
        raise RuntimeError(f"{what}: other.shape[{side}] must be greater than or equal to tau.shape[-1]")
    if input3.shape[side] != input.shape[-2]:
        raise RuntimeError(f"{what}: other.shape[{side}] must be equal to input.shape[-2]")
    if input2.shape[-1] != min(input3.shape[side], input.shape[-1]):
        raise RuntimeError(f"{what}: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])")
    if input.ndim - input2.ndim != 1:
        raise RuntimeError(
            f"{what}: Expected tau to have one dimension less than input, but got tau.ndim equal to {input2.ndim} and "
            f"input.ndim is equal to {input.ndim}"
        )
    require_supported("ormqr_cpu", input)
    v, t = _reflectors(input, input2)
    t = conj_t(t) if transpose else t
    if left:
        return input3 - product(v, product(t, product(conj_t(v), input3)))
    return input3 - product(product(product(input3, v), t), conj_t(v))


@op(returns=("a", "tau"), grad=Grad.MISSING, node="GeqrfBackward0", layout=column_major)
def geqrf(input: Array) -> tuple[Array, Array]:
    """The packed form of a QR factorisation, as LAPACK returns it."""
    if input.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    require_supported("geqrf_cpu", input)
    if 0 in input.shape:
        k = min(input.shape[-2:])
        return input, jnp.zeros((*input.shape[:-2], k), input.dtype)
    h, tau = jnp.linalg.qr(input, mode="raw")
    return jnp.swapaxes(h, -1, -2), tau


# --- singular values ----------------------------------------------------------------------------


@custom_jvp
def _svd(a: Array) -> tuple[Array, Array, Array]:
    m, n = a.shape[-2:]
    if 0 in a.shape:
        batch, k = a.shape[:-2], min(m, n)
        u = jnp.broadcast_to(jnp.eye(m, k, dtype=a.dtype), (*batch, m, k))
        vh = jnp.broadcast_to(jnp.eye(k, n, dtype=a.dtype), (*batch, k, n))
        return u, jnp.zeros((*batch, k), jnp.finfo(a.dtype).dtype), vh
    u, s, vh = svd_of_finite(a, full_matrices=False)
    return u, s, vh


def _svd_tangents(u: Array, s: Array, vh: Array, t: Array) -> tuple[Array, Array, Array]:
    """Tangents of the thin factors."""
    (m, k), n = u.shape[-2:], vh.shape[-1]
    v = conj_t(vh)
    p = product(conj_t(u), product(t, v))
    wide, tall = s[..., None, :], s[..., :, None]
    # (s_j - s_i)(s_j + s_i) keeps more digits than the difference of the squares
    gap = _gaps(s) * (wide + tall + identity(k, wide) * (1 - wide - tall))
    ps, sp = _scale(p, wide), _scale(p, tall)
    in_u = _divide(_off_diagonal(ps + conj_t(ps)), gap)
    in_v = _divide(_off_diagonal(sp + conj_t(sp)), gap)
    if is_complex(t):  # the common phase of a pair of vectors moves with U
        phase = _divide(_imaginary(diagonal_of(p)), s)
        in_u = in_u + phase[..., None, :] * identity(k, t)
    t_u, t_v = product(u, in_u), product(v, in_v)
    if m > k:
        x = product(t, v)
        t_u = t_u + _divide(x - product(u, product(conj_t(u), x)), wide)
    if n > k:
        x = product(conj_t(t), u)
        t_v = t_v + _divide(x - product(v, product(vh, x)), wide)
    return t_u, jnp.real(diagonal_of(p)), conj_t(t_v)


@_svd.defjvp
def _svd_jvp(primals: Any, tangents: Any) -> Any:
    out = _svd(*primals)
    return out, _svd_tangents(*out, *tangents)


@custom_jvp
def _full_svd(a: Array) -> tuple[Array, Array, Array]:
    if 0 in a.shape:
        (m, n), batch = a.shape[-2:], a.shape[:-2]
        u, vh = (jnp.broadcast_to(identity(k, a), (*batch, k, k)) for k in (m, n))
        return u, jnp.zeros((*batch, min(m, n)), jnp.finfo(a.dtype).dtype), vh
    u, s, vh = svd_of_finite(a, full_matrices=True)
    return u, s, vh


@_full_svd.defjvp
def _full_svd_jvp(primals: Any, tangents: Any) -> Any:
    # torch refuses losses that depend on the vectors beyond the rank, which are arbitrary.
    u, s, vh = out = _full_svd(*primals)
    k = s.shape[-1]
    t_u, t_s, t_vh = _svd_tangents(u[..., :k], s, vh[..., :k, :], *tangents)
    same = [(0, 0)] * (u.ndim - 2)
    t_u = jnp.pad(t_u, [*same, (0, 0), (0, u.shape[-1] - k)])
    t_vh = jnp.pad(t_vh, [*same, (0, vh.shape[-2] - k), (0, 0)])
    return out, (t_u, t_s, t_vh)


@op(node="LinalgSvdBackward0", returns=("U", "S", "Vh"), method=False, layout=column_major, check=converges_for_svd)
def _linalg_svd(
    A: Array, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> tuple[Array, Array, Array]:
    """Singular values and, unless told otherwise, vectors."""
    require_matrix("linalg.svd", A)
    if driver is not None:
        raise RuntimeError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )
    require_inexact("linalg.svd", A, half=True)
    require_supported("linalg_svd_cpu", A)
    if compute_uv:
        return _full_svd(A) if full_matrices and A.shape[-1] != A.shape[-2] else _svd(A)
    none = jnp.zeros((0,), A.dtype)
    if 0 in A.shape:
        return none, _svd(A)[1], none
    return none, svd_of_finite(A, compute_uv=False), none


# --- eigenvalues --------------------------------------------------------------------------------


@functools.partial(custom_jvp, nondiff_argnums=(1, 2))
def _eigh(a: Array, lower: bool, forward: bool = False) -> tuple[Array, Array]:
    if 0 in a.shape:
        return jnp.zeros(a.shape[:-1], jnp.finfo(a.dtype).dtype), a
    v, w = lax.linalg.eigh(a, lower=lower, symmetrize_input=False)
    return w, v


@_eigh.defjvp
def _eigh_jvp(lower: bool, forward: bool, primals: Any, tangents: Any) -> Any:
    w, v = _eigh(*primals, lower, forward)
    (t,) = tangents  # in reverse mode torch treats any change of A as a Hermitian one
    p = product(conj_t(v), product(t if forward else (t + conj_t(t)) * 0.5, v))
    turn = _divide(_off_diagonal(p), _gaps(w))
    return (w, v), (jnp.real(diagonal_of(p)), product(v, turn))


def _eigh_forward(A: Array, UPLO: str = "L", compute_v: bool = True) -> tuple[Array, Array]:
    w, v = _eigh(A, UPLO.upper() == "L", True)
    return w, (v if compute_v else jnp.zeros((0,), A.dtype))


@op(
    node="LinalgEighBackward0",
    returns=("eigenvalues", "eigenvectors"),
    method=False,
    layout=column_major,
    forward=_eigh_forward,
    check=converges_for_eigh,
)
def _linalg_eigh(A: Array, UPLO: str = "L", compute_v: bool = True) -> tuple[Array, Array]:
    """Eigenvalues and vectors of Hermitian matrices, of which one triangle is read."""
    require_square("linalg.eigh", A)
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    require_supported("linalg_eigh_cpu", A)
    w, v = _eigh(A, UPLO.upper() == "L")
    return w, (v if compute_v else jnp.zeros((0,), A.dtype))


@custom_jvp
def _eig(a: Array) -> tuple[Array, Array]:
    if 0 in a.shape:
        dtype = jnp.result_type(a.dtype, jnp.complex64)
        return jnp.zeros(a.shape[:-1], dtype), a.astype(dtype)
    w, v = lax.linalg.eig(a, compute_left_eigenvectors=False)
    return w, v


@_eig.defjvp
def _eig_jvp(primals: Any, tangents: Any) -> Any:
    w, v = _eig(*primals)
    t = tangents[0].astype(v.dtype)
    p = jnp.linalg.solve(v, product(t, v))
    turn = _divide(_off_diagonal(p), _gaps(w))
    t_v = product(v, turn)
    # the vectors keep their length: take out the part of dv along v
    along = jnp.real(jnp.sum(jnp.conj(v) * t_v, -2, keepdims=True)).astype(v.dtype)
    return (w, v), (diagonal_of(p), t_v - v * along)


def _finite_for_eig(input: Any) -> None:
    x = readable(input)
    fail_if(
        ~numpy_of(x).isfinite(x).all(),
        lambda: RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs."),
    )


@op(
    namespace="linalg",
    method=False,
    function=False,
    returns=("eigenvalues", "eigenvectors"),
    layout=column_major,
    check=_finite_for_eig,
)
def linalg_eig(input: Array) -> tuple[Array, Array]:
    """Eigenvalues and unit eigenvectors of square matrices, always complex."""
    require_square("linalg.eig", input)
    if not jnp.issubdtype(input.dtype, jnp.inexact):
        raise RuntimeError(f"Unknown Complex ScalarType for {scalar_name(input)}")
    require_supported("linalg_eig_out_cpu", input)
    return _eig(input)
