"""A few eigenpairs of symmetric matrices.

torch iterates over blocks of vectors, since it has sparse matrices in mind. Matrices are dense here,
and a whole decomposition is both faster and exact.
"""

from __future__ import annotations

from collections.abc import Callable

from .._engine.entry.bind import NAMESPACES, composite, ops
from .._engine.memory.tensor import Tensor

torch = NAMESPACES[""]
_linalg = NAMESPACES["linalg"]


@composite(method=False)
def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Callable[..., None] | None = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """The `k` largest or smallest eigenvalues of A (or of A x = e B x) and their vectors.

    The arguments of torch's iteration (`X`, `n`, `iK`, `niter`, `tol`, `method` and the `ortho` settings)
    have no effect: the pairs are exact to rounding.
    """
    if tracker is not None:
        raise NotImplementedError("lobpcg(): there is no iteration that a tracker could follow")
    rows = A._m.shape[-2]
    if A._m.shape[-1] != rows:
        raise AssertionError(f"A must be square, got shape {A.shape}")
    if k is None:
        k = 1 if X is None else X._m.shape[-1]
    if k < 1:
        raise ValueError(f"lobpcg(): expected at least one eigenpair to be asked for, but got k={k}")
    if rows < 3 * k:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={rows}) is smaller than 3 x the "
            f"number of requested eigenpairs (={k})"
        )
    if X is not None and X._m.shape[-2] != rows:
        raise AssertionError(f"X shape mismatch: got {X.shape}, expected ({rows}, {k})")
    values, vectors = _pairs(A, B)
    if largest is None or largest:
        values, vectors = (ops.flip(x, (-1,)) for x in (values, vectors))
    return ops.slice(values, -1, 0, k, 1), ops.slice(vectors, -1, 0, k, 1)


def _pairs(A: Tensor, B: Tensor | None) -> tuple[Tensor, Tensor]:
    """All pairs, values ascending."""
    if B is None:
        out = _linalg["eigh"](_symmetric(A))
        return out.eigenvalues, out.eigenvectors
    factor = _linalg["cholesky"](B)
    half = _linalg["solve_triangular"](factor, _symmetric(A), upper=False)
    turned = ops.transpose(factor, -2, -1)
    whole = _linalg["solve_triangular"](turned, half, upper=True, left=False)
    out = _linalg["eigh"](_symmetric(whole))
    vectors = _linalg["solve_triangular"](turned, out.eigenvectors, upper=True)
    return out.eigenvalues, vectors


def _symmetric(A: Tensor) -> Tensor:
    return torch["mul"](torch["add"](A, ops.transpose(A, -2, -1)), 0.5)
