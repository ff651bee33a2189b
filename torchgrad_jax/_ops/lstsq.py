"""Pseudo-inverse, matrix rank, least squares."""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays import shapes
from .._core.arrays.kernels import scalar_name
from .._core.arrays.matrices import require_matrix, require_square, require_supported
from .._core.jax.custom_jvp import NO_TANGENT, custom_jvp
from .helpers import anywhere, is_complex, is_float
from .matrix_helpers import conj_t, converges_for_eigh, converges_for_svd, product, solve_triangular, svd_of_finite
from .registry import Array, Grad, NoGradient, Out, Scalar, op


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


def _pinv_value(a: Array, atol: Any, rtol: Any, hermitian: bool) -> Array:
    m, n = a.shape[-2:]
    if 0 in a.shape:
        return jnp.zeros((*a.shape[:-2], n, m), a.dtype)
    if hermitian:
        v, values = lax.linalg.eigh(a, lower=True, symmetrize_input=False)
        size, left, right = jnp.abs(values), v, v
    else:
        u, size, vh = svd_of_finite(a, full_matrices=False)
        values, left, right = size, conj_t(vh), u
    kept = size > _tolerance(size, a.shape, atol, rtol)[..., None]
    inverse = jnp.where(kept, 1 / jnp.where(kept, values, 1), 0)
    return product(left * inverse[..., None, :].astype(left.dtype), conj_t(right))


@functools.partial(custom_jvp, nondiff_argnums=(3,))
def _pinv(a: Array, atol: Any, rtol: Any, hermitian: bool) -> Array:
    return _pinv_value(a, atol, rtol, hermitian)


def _pinv_tangent(a: Array, p: Array, t: Array) -> Array:
    """Golub and Pereyra's derivative for matrices of locally constant rank."""
    ph, th = conj_t(p), conj_t(t)
    ap, pa = product(a, p), product(p, a)
    first = product(p, product(t, p))
    x = product(product(p, ph), th)
    y = product(th, product(ph, p))
    return x - product(x, ap) + y - product(pa, y) - first


@_pinv.defjvp
def _pinv_jvp(hermitian: bool, primals: Any, tangents: Any) -> Any:
    p = _pinv(*primals, hermitian)
    return p, _pinv_tangent(primals[0], p, tangents[0])


def _converges(input: Any, tolerance: Any = None, hermitian: bool = False, **_: Any) -> None:
    if hermitian:
        converges_for_eigh(input, compute_v=False)
    else:
        converges_for_svd(input)


@op(
    namespace="linalg",
    method=False,
    no_gradient={NoGradient.REFUSED: ("rcond", "atol", "rtol")},
    check=_converges,
    out=Out.CAST,
)
def linalg_pinv(
    input: Array,
    rcond: Array | Scalar | None = None,
    hermitian: bool = False,
    *,
    atol: Array | Scalar | None = None,
    rtol: Array | Scalar | None = None,
) -> Array:
    """Moore-Penrose pseudo-inverses; singular values below the tolerance count as zero."""
    if input.ndim < 2 or not (is_float(input) or is_complex(input)) or input.dtype.itemsize < 4:
        raise RuntimeError(
            f"linalg.pinv({scalar_name(input)}{{{list(input.shape)}}}): expected a tensor with 2 or more dimensions of "
            "float, double, cfloat or cdouble types"
        )
    if hermitian:
        require_square("linalg.eigh", input)
    return _pinv(input, atol, rcond if rtol is None else rtol, hermitian)


@op(namespace="linalg", method=False, grad=Grad.NO, check=_converges)
def linalg_matrix_rank(
    input: Array,
    tol: Array | Scalar | None = None,
    hermitian: bool = False,
    *,
    atol: Array | Scalar | None = None,
    rtol: Array | Scalar | None = None,
) -> Array:
    """Return how many singular values exceed the tolerance."""
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
        size = svd_of_finite(input, compute_uv=False)
    if tol is not None:  # the tolerance is absolute, other than pinv's rcond
        atol, rtol = tol, 0.0
    return jnp.sum(size > _tolerance(size, input.shape, atol, rtol)[..., None], -1, dtype=jnp.int64)


_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def _lstsq_value(a: Array, b: Array, rcond: Any, values: bool) -> tuple[Array, Array, Array, Array]:
    """The solutions, sums of squares of what is left, ranks, and with `values` the singular values."""
    if values:
        x, rank, s = _by_singular_values(a, b, rcond)
    else:
        tall = a.shape[-2] >= a.shape[-1]
        q, r = lax.linalg.qr(a if tall else conj_t(a), full_matrices=False)
        eye = jnp.broadcast_to(jnp.eye(r.shape[-1], dtype=r.dtype), r.shape)
        inverse = solve_triangular(r, eye, lower=False)
        # The Frobenius norms are bounds of the largest singular value, and of 1 over the smallest one.
        squares = jnp.sum(jnp.square(jnp.abs(r)), (-2, -1)) * jnp.sum(jnp.square(jnp.abs(inverse)), (-2, -1))
        whole = jnp.sqrt(squares) * jnp.asarray(rcond, squares.dtype) < 1

        def solved(a: Array, b: Array, q: Array, inverse: Array) -> tuple[Array, Array]:
            x = product(inverse, product(conj_t(q), b)) if tall else product(q, product(conj_t(inverse), b))
            return x, jnp.full(a.shape[:-2], r.shape[-1], np.int64)

        def of_lower_rank(a: Array, b: Array, q: Array, inverse: Array) -> tuple[Array, Array]:
            return _by_singular_values(a, b, rcond)[:2]

        x, rank = lax.cond(anywhere(~whole), of_lower_rank, solved, a, b, q, inverse)
        s = jnp.zeros((*a.shape[:-2], 0), squares.dtype)
    left = product(a, x) - b
    return x, jnp.sum(jnp.square(jnp.abs(left)), -2), rank, s


def _by_singular_values(a: Array, b: Array, rcond: Any) -> tuple[Array, Array, Array]:
    """The solutions, ranks and singular values of matrices of any rank."""
    u, s, vh = svd_of_finite(a, full_matrices=False)
    largest = jnp.max(s, -1, keepdims=True, initial=0)
    kept = s > jnp.asarray(rcond, s.dtype) * largest
    inverse = jnp.where(kept, 1 / jnp.where(kept, s, 1), 0)
    x = product(conj_t(vh), inverse[..., :, None].astype(a.dtype) * product(conj_t(u), b))
    return x, jnp.sum(kept, -1, dtype=jnp.int64), s


@functools.partial(custom_jvp, nondiff_argnums=(3,))
def _lstsq(a: Array, b: Array, rcond: Any, values: bool) -> tuple[Array, Array, Array, Array]:
    return _lstsq_value(a, b, rcond, values)


@_lstsq.defjvp
def _lstsq_jvp(values: bool, primals: Any, tangents: Any) -> Any:
    # x = pinv(A) b; the residual is orthogonal to the range of A, so dx does not move its norm
    (a, b, rcond), (t_a, t_b, _) = primals, tangents
    x, _, _, s = out = _lstsq(a, b, rcond, values)
    p = _pinv(a, None, None, False)
    t_x = product(_pinv_tangent(a, p, t_a), b) + product(p, t_b)
    left, t_left = product(a, x) - b, product(t_a, x) - t_b
    t_squares = 2 * jnp.sum(jnp.real(jnp.conj(left) * t_left), -2)
    return out, (t_x, t_squares, NO_TANGENT, jnp.zeros_like(s))


def _lstsq_layout(metas: Any, shape: tuple[int, ...], which: int) -> tuple[int, ...]:
    """The solution lies in the first rows of a buffer that holds right-hand sides too."""
    a, b = metas[0], metas[1]
    if which:
        return shapes.contiguous_strides(shape)
    rows = max(*a.shape[-2:], 1)
    if a.ndim > b.ndim:
        inner, block = (1,), rows
    else:
        inner, block = (1, rows), rows * max(shape[-1], 1)
    batch = shapes.contiguous_strides((*shape[: len(shape) - len(inner)], 1))[:-1]
    return (*[n * block for n in batch], *inner)


_lstsq_layout.numbered = True


@op(
    namespace="linalg",
    method=False,
    returns=("solution", "residuals", "rank", "singular_values"),
    nondiff=(2, 3),
    function=False,
    layout=_lstsq_layout,
    keeps={"input": ("solution",), "b": ("solution",)},
)
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
    if input.ndim - b.ndim not in (0, 1):
        raise RuntimeError(
            f"{what}: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1"
        )
    if driver is not None and driver not in _DRIVERS:
        raise RuntimeError(f"{what}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    if not (is_float(input) or is_complex(input)):
        raise RuntimeError("This function doesn't handle types other than float and double")
    m, n = input.shape[-2:]
    vector = b.ndim < input.ndim
    rhs = b[..., None] if vector else b
    batch = shapes.broadcast_shapes(input.shape[:-2], rhs.shape[:-2])
    if rhs.shape[-2] != m:
        raise RuntimeError(f"{what}: input.size(-2) should match other.size(-{1 if vector else 2})")
    a = jnp.broadcast_to(input, (*batch, m, n))
    rhs = jnp.broadcast_to(rhs, batch + rhs.shape[-2:])
    real = jnp.finfo(input.dtype).dtype
    rcond = float(jnp.finfo(real).eps) * max(m, n) if rcond is None else rcond
    if 0 in a.shape:
        x = jnp.zeros((*batch, n, rhs.shape[-1]), b.dtype)
        squares = jnp.sum(jnp.square(jnp.abs(rhs)), -2)
        rank, s = jnp.zeros(batch, jnp.int64), jnp.zeros((*batch, min(m, n)), real)
    else:
        x, squares, rank, s = _lstsq(a, rhs, jnp.asarray(rcond, real), driver in ("gelsd", "gelss"))
    none = jnp.zeros((0,), real)
    # Whatever is returned for a matrix is returned once.
    first = tuple([slice(k) for k in input.shape[:-2]])
    return (
        x[..., 0] if vector else x,
        squares if m > n and driver not in (None, "gelsy") else none,
        jnp.zeros((0,), jnp.int64) if driver == "gels" else rank[first],
        s[first] if driver in ("gelsd", "gelss") else none,
    )
