"""Singular values and principal components of low rank, by random projection (Halko, Martinsson, Tropp)."""

from __future__ import annotations

from typing import Any

from .._core.arrays import dtypes
from .._engine.entry.bind import NAMESPACES, composite, ops
from .._engine.memory.tensor import Tensor

torch = NAMESPACES[""]
_linalg = NAMESPACES["linalg"]


def _adjoint(x: Tensor) -> Tensor:
    turned = ops.transpose(x, -2, -1)
    return torch["conj"](turned) if x._m.dtype.is_complex else turned


def _less(a: Tensor, mean: Tensor | None, q: Tensor) -> Tensor:
    """``(a - mean) @ q``, without forming the difference."""
    out = torch["matmul"](a, q)
    return out if mean is None else ops.sub(out, torch["matmul"](mean, q))


def _basis(a: Tensor, q: int, niter: int, mean: Tensor | None) -> Tensor:
    """Orthonormal columns that nearly span the range of a matrix."""
    dtype = a._m.dtype if a._m.dtype.category >= dtypes.FLOATING else dtypes.get_default_dtype()
    drawn = torch["randn"](a._m.shape[-1], q, dtype=dtype, device=a._m.device)
    out = _linalg["qr"](_less(a, mean, drawn))[0]
    for _ in range(niter):
        out = _linalg["qr"](_less(_adjoint(a), None if mean is None else _adjoint(mean), out))[0]
        out = _linalg["qr"](_less(a, mean, out))[0]
    return out


@composite(method=False)
def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Singular vectors and values of ``A - M``, approximated by a matrix of rank `q`."""
    rank, rounds = 6 if q is None else q, 2 if niter is None else niter
    if M is not None:
        M = torch["broadcast_to"](M, A._m.shape)
    turned = A._m.shape[-2] < A._m.shape[-1]
    if turned:
        A, M = _adjoint(A), None if M is None else _adjoint(M)
    found = _basis(A, rank, rounds, M)
    small = torch["matmul"](_adjoint(found), A)
    if M is not None:
        small = ops.sub(small, torch["matmul"](_adjoint(found), M))
    u, s, vh = _linalg["svd"](small, full_matrices=False)
    u, v = torch["matmul"](found, u), _adjoint(vh)
    return (v, s, u) if turned else (u, s, v)


@composite(method=False)
def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Principal components of the rows of a matrix, approximated by a matrix of rank `q`."""
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not (0 <= q <= min(m, n)):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if not niter >= 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if not center:
        return svd_lowrank(A, q, niter=niter, M=None)
    centre = torch["mean"](A, (-2,), True)
    return svd_lowrank(ops.sub(A, centre), q, niter=niter, M=None)
