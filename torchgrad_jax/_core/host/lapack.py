"""Factorizations of matrices and what is solved with them, by LAPACK: for the table of `steps`.

SciPy's functions are the ones that XLA calls, so that the results are the same; what a call of XLA's takes beside
them, and OpenBLAS's threads, are left out. `choice.of_lapack` says up to how many products.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np

from . import choice
from .inline import Step
from .one_thread import alone

_ONE_THREAD = 32
"""Sides of matrices up to which OpenBLAS needs no thread but the one that calls it."""


def _function(name: str, ins: Any, wrapped: bool = True) -> Step:
    """A function of LAPACK or BLAS for matrices of this size and dtype."""
    module = importlib.import_module("scipy.linalg._fblas" if name == "trsm" else "scipy.linalg._flapack")
    letter = {"f": "s", "d": "d", "F": "c", "D": "z"}[ins[0].dtype.char]
    if letter in "cz":
        name = {"syevd": "heevd", "orgqr": "ungqr"}.get(name, name)
    fn = getattr(module, letter + name)
    return alone(fn, module) if wrapped and max(ins[0].shape[-2:]) > _ONE_THREAD else fn


def _taken(ins: Any) -> bool:
    return all(a.dtype.char in "fdFD" for a in ins) and choice.of_lapack(ins)


def _of_each(fn: Step, batch: tuple[int, ...], outs: Any) -> Step:
    """`fn`, which gives several results of a matrix, for all matrices of a batch."""
    if not batch:
        return fn

    def of_batch(*xs: Any) -> list[Any]:
        found = [np.empty(a.shape, a.dtype) for a in outs]
        for at in np.ndindex(batch):
            for whole, out in zip(found, fn(*[x[at] for x in xs])):
                whole[at] = out
        return found

    return of_batch


def _one(fn: Step, batch: tuple[int, ...], outs: Any) -> Step:
    """The same for a function with one result."""
    if not batch:
        return fn
    of_batch = _of_each(lambda *xs: [fn(*xs)], batch, outs)
    return lambda *xs: of_batch(*xs)[0]


def _or_nan(outs: list[Any], failed: bool) -> list[Any]:
    """The results, with NaN in the place of those of which LAPACK says that they are none."""
    if failed:
        for out in outs:
            out[...] = np.nan
    return outs


def triangular_solve(params: Any, ins: Any, outs: Any) -> Step | None:
    """`triangular_solve`. LAPACK goes by columns, and so it is given all matrices as their transposes."""
    if not _taken(ins) or (params["conjugate_a"] and not params["transpose_a"]):
        return None
    trsm = _function("trsm", ins)
    how = 2 if params["conjugate_a"] else int(params["transpose_a"])
    side, lower, unit = int(params["left_side"]), int(not params["lower"]), int(params["unit_diagonal"])

    return _one(lambda a, b: trsm(1.0, a.T, b.T, side, lower, how, unit).T, ins[0].shape[:-2], outs)


def lu(params: Any, ins: Any, outs: Any) -> Step | None:
    """`lu`: packed factors, row swaps, and the order of rows that they make."""
    if not _taken(ins):
        return None
    getrf, rows = _function("getrf", ins), ins[0].shape[-2]

    def factorize(a: Any) -> list[Any]:
        packed, pivots, _ = getrf(a)
        return [packed, pivots, _order(pivots, rows)]

    return _of_each(factorize, ins[0].shape[:-2], outs)


def _order(pivots: Any, rows: int) -> Any:
    order = [*range(rows)]
    for place, other in enumerate(pivots.tolist()):
        order[place], order[other] = order[other], order[place]
    return np.array(order, np.int32)


def permutation(params: Any, ins: Any, outs: Any) -> Step | None:
    """`lu_pivots_to_permutation`."""
    rows = params["permutation_size"]
    return _one(lambda pivots: _order(pivots, rows), ins[0].shape[:-1], outs) if math.prod(outs[0].shape) else None


def cholesky(params: Any, ins: Any, outs: Any) -> Step | None:
    """`cholesky`, which leaves what is above the diagonal; NaN where the matrix is not positive."""
    if not _taken(ins):
        return None
    potrf = _function("potrf", ins)

    def factorize(a: Any) -> Any:
        factor, info = potrf(a.T, lower=0, clean=0)
        return _or_nan([factor.T], info != 0)[0]

    return _one(factorize, ins[0].shape[:-2], outs)


def eigh(params: Any, ins: Any, outs: Any) -> Step | None:
    """`eigh`: eigenvectors and eigenvalues."""
    plain = params["algorithm"] is None and params["subset_by_index"] is None
    if not _taken(ins) or not plain:
        return None
    syevd, lower = _function("syevd", ins), int(params["lower"])

    def decompose(a: Any) -> list[Any]:
        values, vectors, info = syevd(a, lower=lower)
        return _or_nan([vectors, values], info != 0)

    return _of_each(decompose, ins[0].shape[:-2], outs)


def svd(params: Any, ins: Any, outs: Any) -> Step | None:
    """`svd`: singular values, and the vectors of both sides."""
    plain = params["algorithm"] is None and params["subset_by_index"] is None
    if not _taken(ins) or not plain:
        return None
    vectors, full = int(params["compute_uv"]), int(params["full_matrices"])
    gesdd = _function("gesdd", ins)
    work, _ = _function("gesdd_lwork", ins, False)(*ins[0].shape[-2:], vectors, full)
    room = int(work.real)

    def decompose(a: Any) -> list[Any]:
        u, s, vt, info = gesdd(a, vectors, full, room)
        return _or_nan([s, u, vt] if vectors else [s], info != 0)

    return _of_each(decompose, ins[0].shape[:-2], outs)


def qr(params: Any, ins: Any, outs: Any) -> Step | None:
    """`qr`: orthogonal columns and an upper triangle."""
    rows, columns = ins[0].shape[-2:]
    if not _taken(ins) or params["pivoting"] or (params["full_matrices"] and rows > columns):
        return None
    geqrf, orgqr, least = _function("geqrf", ins), _function("orgqr", ins), min(rows, columns)
    room = 32 * columns

    def decompose(a: Any) -> list[Any]:
        packed, scales, _, _ = geqrf(a, room)
        q, _, _ = orgqr(packed[:, :least], scales, room)
        return [q, np.triu(packed[:least])]

    return _of_each(decompose, ins[0].shape[:-2], outs)


def cost(eqn: Any) -> float:
    """Microseconds: mostly those of the calls, since XLA takes as long for what LAPACK does."""
    return 5.0 * math.prod(eqn.invars[0].aval.shape[:-2])


STEPS = {
    "lu": lu,
    "lu_pivots_to_permutation": permutation,
    "triangular_solve": triangular_solve,
    "cholesky": cholesky,
    "eigh": eigh,
    "svd": svd,
    "qr": qr,
}
"""The rows of the table of `steps` that are here."""
