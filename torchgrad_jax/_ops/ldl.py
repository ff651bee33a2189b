"""Factorisations L D L^T of symmetric (or L D L^H of Hermitian) matrices, and solutions from them.

XLA has no such factorisation. This is the method of Bunch and Kaufman with LAPACK's choice of pivots
and its packed form: D has blocks of one or two rows; `pivots` counts from 1, and a block of two rows
has the same negative number twice. The matrix is kept whole, so that a swap of rows and columns is a
permutation.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .._core.arrays import shapes
from .._core.arrays.kernels import scalar_name
from .._core.arrays.matrices import column_major, require_inexact, require_square, require_supported, size_text
from .helpers import diagonal_of, is_bool, is_complex, is_integral
from .registry import Array, Grad, op

_ALPHA = (1 + 17**0.5) / 8
"""How much smaller than its column a pivot of one row may be."""


def _size(x: Array) -> Array:
    return jnp.abs(jnp.real(x)) + jnp.abs(jnp.imag(x)) if is_complex(x) else jnp.abs(x)


def _turned(x: Array, hermitian: bool) -> Array:
    return jnp.conj(x) if hermitian and is_complex(x) else x


def _rows(a: Array) -> Array:
    return jnp.arange(a.shape[0], dtype=jnp.int32)


def _symmetric(a: Array, hermitian: bool) -> Array:
    """The symmetric matrix whose lower triangle is given."""
    low = jnp.tril(a, -1)
    d = diagonal_of(a)
    if hermitian and is_complex(a):
        d = jnp.real(d).astype(a.dtype)
    return low + _turned(low, hermitian).T + jnp.diag(d)


def _pivot(a: Array, k: Array) -> tuple[Array, Array, Array]:
    """The row to swap in, whether the block has two rows, and whether the column is 0."""
    i = _rows(a)
    own = _size(a[k, k])
    column = jnp.where(i > k, _size(a[:, k]), -1)
    at = jnp.argmax(column).astype(jnp.int32)
    below = jnp.maximum(column[at], 0)
    row = jnp.max(jnp.where((i >= k) & (i != at), _size(a[at]), 0))
    dead = (jnp.maximum(own, below) == 0) | jnp.isnan(own)
    one = dead | (own >= _ALPHA * below) | (own * row >= _ALPHA * below * below)
    swapped = ~one & (_size(a[at, at]) >= _ALPHA * row)
    return jnp.where(one, k, at), ~one & ~swapped, dead


def _swap(a: Array, k: Array, i: Array, j: Array) -> Array:
    """Rows and columns i and j of what is left of the matrix from k on, exchanged."""
    r = _rows(a)
    order = jnp.where(r == i, j, jnp.where(r == j, i, r))
    left = (r >= k)[:, None] & (r >= k)[None, :]
    return jnp.where(left, a[order][:, order], a)


def _single(a: Array, k: Array, hermitian: bool) -> Array:
    r = _rows(a)
    v = jnp.where(r > k, a[:, k], 0)
    low = v / a[k, k]
    rest = a - jnp.outer(low, _turned(v, hermitian))
    return jnp.where((r[None, :] == k) & (r[:, None] > k), low[:, None], rest)


def _inverse_block(p: Array, q: Array, c: Array, hermitian: bool) -> tuple[Array, ...]:
    """The inverse of ((p, c*), (c, q)), scaled as LAPACK does so that nothing overflows."""
    if hermitian and is_complex(c):
        d = jnp.abs(c).astype(c.dtype)
        p, q, unit = p / d, q / d, c / d
        t = 1 / (p * q - 1) / d
        return t * q, -t * jnp.conj(unit), -t * unit, t * p
    p, q = p / c, q / c
    t = 1 / (p * q - 1) / c
    return t * q, -t, -t, t * p


def _double(a: Array, k: Array, hermitian: bool) -> Array:
    n = a.shape[0]
    r = jnp.arange(n, dtype=jnp.int32)
    after = jnp.minimum(k + 1, n - 1)
    b11, b12, b21, b22 = _inverse_block(a[k, k], a[after, after], a[after, k], hermitian)
    v, w = (jnp.where(r > k + 1, a[:, j], 0) for j in (k, after))
    low = v * b11 + w * b21, v * b12 + w * b22
    turned = [_turned(x, hermitian) for x in (v, w)]
    rest = a - jnp.outer(low[0], turned[0]) - jnp.outer(low[1], turned[1])
    below = (r > k + 1)[:, None]
    for j, x in ((k, low[0]), (after, low[1])):
        rest = jnp.where((r[None, :] == j) & below, x[:, None], rest)
    return rest


def _factor(a: Array, hermitian: bool) -> tuple[Array, Array, Array]:
    n = a.shape[0]

    def step(state: Any) -> Any:
        k, a, pivots, info = state
        row, two, dead = _pivot(a, k)
        at = jnp.where(two, k + 1, k)
        a = _swap(a, k, at, row)
        r = jnp.arange(n, dtype=jnp.int32)
        once, twice = _single(a, k, hermitian), _double(a, k, hermitian)
        new = jnp.where(dead, a, jnp.where(two, twice, once))
        if hermitian and is_complex(a):
            new = jnp.where(jnp.eye(n, dtype=bool), jnp.real(new).astype(a.dtype), new)
        taken = (r == k) | (two & (r == k + 1))
        pivots = jnp.where(taken, jnp.where(two, -(row + 1), row + 1), pivots)
        info = jnp.where(dead & (info == 0), k + 1, info)
        return k + jnp.where(two, jnp.int32(2), jnp.int32(1)), new, pivots, info

    start = (jnp.int32(0), _symmetric(a, hermitian), jnp.zeros(n, jnp.int32), jnp.int32(0))
    _, a, pivots, info = lax.while_loop(lambda s: s[0] < n, step, start)
    return jnp.tril(a), pivots, info


def _solve(ld: Array, pivots: Array, b: Array, hermitian: bool) -> Array:
    n = ld.shape[0]
    r = jnp.arange(n, dtype=jnp.int32)

    def swapped(b: Array, i: Array, j: Array) -> Array:
        return b[jnp.where(r == i, j, jnp.where(r == j, i, r))]

    def forward(state: Any) -> Any:
        k, b = state
        two = pivots[k] < 0
        after = jnp.minimum(k + 1, n - 1)
        b = swapped(b, jnp.where(two, after, k), jnp.abs(pivots[k]) - 1)
        low = jnp.where((r > k + 1) | ((r > k) & ~two), ld[:, k], 0)
        next_low = jnp.where(two & (r > k + 1), ld[:, after], 0)
        rest = b - jnp.outer(low, b[k]) - jnp.outer(next_low, b[after])
        b11, b12, b21, b22 = _inverse_block(ld[k, k], ld[after, after], ld[after, k], hermitian)
        pair = b11 * b[k] + b12 * b[after], b21 * b[k] + b22 * b[after]
        rest = rest.at[k].set(jnp.where(two, pair[0], b[k] / ld[k, k]))
        rest = rest.at[after].set(jnp.where(two, pair[1], rest[after]))
        return k + jnp.where(two, jnp.int32(2), jnp.int32(1)), rest

    def backward(state: Any) -> Any:
        k, b = state
        two = pivots[k] < 0
        before = jnp.where(two, k - 1, k)
        turned = _turned(ld, hermitian)
        own = b[k] - jnp.where(r > k, turned[:, k], 0) @ b
        other = b[before] - jnp.where(r > k, turned[:, before], 0) @ b
        b = b.at[before].set(other).at[k].set(own)
        return before - 1, swapped(b, k, jnp.abs(pivots[k]) - 1)

    _, b = lax.while_loop(lambda s: s[0] < n, forward, (jnp.int32(0), b))
    return lax.while_loop(lambda s: s[0] >= 0, backward, (jnp.int32(n - 1), b))[1]


@op(
    namespace="linalg",
    method=False,
    function=False,
    returns=("LD", "pivots", "info"),
    nondiff=(1, 2),
    grad=Grad.MISSING,
    layout=column_major,
)
def linalg_ldl_factor_ex(
    A: Array, *, hermitian: bool = False, check_errors: bool = False
) -> tuple[Array, Array, Array]:
    """Packed factors L and D with pivots, and where a pivot is 0."""
    what = "torch.linalg.ldl_factor_ex"
    require_square(what, A)
    require_inexact(what, A, half=True)
    require_supported("ldl_factor_kernel_cpu", A)
    batch, n = A.shape[:-2], A.shape[-1]
    if 0 in A.shape:
        return A, jnp.zeros((*batch, n), jnp.int32), jnp.zeros(batch, jnp.int32)
    ld, pivots, info = jax.vmap(functools.partial(_factor, hermitian=hermitian))(A.reshape(-1, n, n))
    return ld.reshape(A.shape), pivots.reshape(*batch, n), info.reshape(batch)


def _by_columns(_: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shapes.contiguous_strides(shape)[:-2], 1, max(shape[-2], 1))


@op(namespace="linalg", method=False, grad=Grad.MISSING, layout=_by_columns)
def linalg_ldl_solve(LD: Array, pivots: Array, B: Array, *, hermitian: bool = False) -> Array:
    """The solution of A X = B from the factors of A."""
    what = "torch.linalg.ldl_solve"
    require_square(what, LD, "LD")
    require_inexact(what, LD, half=True)
    if B.ndim < 2:
        shapes.wrap_dim(-2, B.ndim)
    if B.dtype != LD.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {scalar_name(B)} and A "
            f"of type {scalar_name(LD)} instead."
        )
    n = LD.shape[-1]
    if B.shape[-2] != n:
        raise RuntimeError(
            f"Incompatible matrix sizes for {what}: each A matrix is {n} by {n} but each b matrix "
            f"is {' by '.join(size_text((s,)) for s in B.shape[-2:])}"
        )
    if pivots.shape != LD.shape[:-1]:
        raise RuntimeError(
            f"{what}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with "
            f"shape {list(pivots.shape)} instead"
        )
    if not is_integral(pivots) or is_bool(pivots):
        raise RuntimeError(f"{what}: Expected pivots to be integers. Got {scalar_name(pivots)}")
    batch = shapes.broadcast_shapes(LD.shape[:-2], B.shape[:-2])
    shape = batch + B.shape[-2:]
    if 0 in shape:
        return jnp.zeros(shape, B.dtype)
    ld = jnp.broadcast_to(LD, (*batch, n, n)).reshape(-1, n, n)
    at = jnp.broadcast_to(pivots.astype(jnp.int32), (*batch, n)).reshape(-1, n)
    b = jnp.broadcast_to(B, shape).reshape(-1, *shape[-2:])
    solve = functools.partial(_solve, hermitian=hermitian)
    return jax.vmap(solve)(ld, at, b).reshape(shape)
