"""torch.linalg and its older names, as torch composes them of the factorisations."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from .._core.arrays import shapes
from .._core.arrays.dtypes import FLOATING, scalar_type_name
from .._core.arrays.matrices import require_square
from .._core.errors import warn
from .._core.errors.checks import fail_if
from .._core.errors.messages import LinAlgError
from .._core.state import GRAD, MODES, WINDOWS
from .._engine.entry.bind import NAMESPACES, composite, ops
from .._engine.entry.return_types import return_type
from .._engine.graph.deferred import now_or_later
from .._engine.graph.history import requires_grad_of
from .._engine.memory.strided import read
from .._engine.memory.tensor import Tensor
from .._ops.registry import Out
from .clones import clone
from .complex_views import conj
from .matmul import matmul
from .shape import movedim, reshape

_linalg = {"namespace": "linalg", "method": False}


def _peek(t: Tensor) -> np.ndarray | None:
    """Values, or None while they are being traced and cannot be looked at."""
    array = read(t)
    return None if isinstance(array, jax.core.Tracer) else np.asarray(array)


def _raise_if(info: Tensor, complain: Callable[[str, int], Exception]) -> None:
    """Raise for the first batch element whose `info` is not 0."""
    array = read(info)
    if array.__class__ is np.ndarray and not np.count_nonzero(array):
        return
    now_or_later((info,), lambda arrays: _complain_of(arrays[0], complain))


def _complain_of(info: Any, complain: Callable[[str, int], Exception]) -> None:
    def error() -> Exception:
        at = int(np.flatnonzero(info)[0])
        batch = f" (Batch element {at}):" if info.ndim else ""
        return complain(batch, int(info.reshape(-1)[at]))

    fail_if((info != 0).any(), error)


def _not_definite(what: str) -> Callable[[str, int], Exception]:
    return lambda batch, k: LinAlgError(
        f"{what}:{batch} The factorization could not be completed because the input is not positive-definite "
        f"(the leading minor of order {k} is not positive-definite)."
    )


def _not_invertible(what: str) -> Callable[[str, int], Exception]:
    return lambda batch, k: LinAlgError(
        f"{what}:{batch} The diagonal element {k} is zero, the inversion could not be completed because the "
        "input matrix is singular."
    )


def _not_solvable(what: str) -> Callable[[str, int], Exception]:
    return lambda batch, k: LinAlgError(f"{what}:{batch} The solver failed because the input matrix is singular.")


def _records(t: Tensor) -> bool:
    """Return whether a gradient may be asked for, so that vectors are needed besides values."""
    return bool(MODES.bits & ~(GRAD | WINDOWS)) or (bool(MODES.bits & GRAD) and requires_grad_of(t))


def _real_type(t: Tensor) -> Any:
    return t._m.dtype.to_real()


# --- Cholesky, inverse, solve -----------------------------------------------------------------------


@composite(name="cholesky", out=True, **_linalg)
def linalg_cholesky(input: Tensor, *, upper: bool = False) -> Tensor:
    """The Cholesky factor of a positive-definite matrix."""
    factor, info = ops.linalg_cholesky_ex(input, upper=upper)
    _raise_if(info, _not_definite("linalg.cholesky"))
    return factor


@composite(name="cholesky_ex", out=True, **_linalg)
def linalg_cholesky_ex(input: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    """The Cholesky factor, and where there is none."""
    out = ops.linalg_cholesky_ex(input, upper=upper)
    if check_errors:
        _raise_if(out.info, _not_definite("linalg.cholesky_ex"))
    return out


@composite(out=True)
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """The Cholesky factor (older name)."""
    warn.once(
        "torch.cholesky is deprecated in favor of torch.linalg.cholesky and will be removed in a future PyTorch "
        "release.\nL = torch.cholesky(A)\nshould be replaced with\nL = torch.linalg.cholesky(A)\nand\nU = "
        "torch.cholesky(A, upper=True)\nshould be replaced with\nU = torch.linalg.cholesky(A).mH\nThis transform "
        "will produce equivalent results for all valid (symmetric positive definite) inputs."
    )
    factor, info = ops._cholesky_factor(input, upper)
    _raise_if(info, _not_definite("cholesky"))
    return factor


def _inverse(A: Tensor, what: str = "linalg.inv") -> Tensor:
    result, info = ops.linalg_inv_ex(A)
    _raise_if(info, _not_invertible(what))
    return result


@composite(name="inv", out=True, **_linalg)
def linalg_inv(A: Tensor) -> Tensor:
    """The inverse of square matrices."""
    return _inverse(A)


@composite(out=True)
def inverse(input: Tensor) -> Tensor:
    """`linalg.inv`."""
    return _inverse(input)


@composite(name="inv_ex", out=True, **_linalg)
def linalg_inv_ex(A: Tensor, *, check_errors: bool = False) -> Any:
    """The inverse, and where there is none."""
    out = ops.linalg_inv_ex(A)
    if check_errors:
        _raise_if(out.info, _not_invertible("linalg.inv_ex"))
    return out


_SolveEx = return_type("linalg_solve_ex", ("result", "info"))


@composite(name="solve", out=True, **_linalg)
def linalg_solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """The solution of A X = B, or of X A = B."""
    result, _, _, info = ops._linalg_solve_ex(A, B, left=left)
    _raise_if(info, _not_solvable("torch.linalg.solve"))
    return result


@composite(name="solve_ex", out=True, **_linalg)
def linalg_solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    """The solution of a linear system, and where there is none."""
    result, _, _, info = ops._linalg_solve_ex(A, B, left=left)
    if check_errors:
        _raise_if(info, _not_solvable("torch.linalg.solve_ex"))
    return _SolveEx(result, info)


# --- determinants -----------------------------------------------------------------------------------


def _det(A: Tensor) -> Tensor:
    return ops._linalg_det(A)[0]


@composite(name="det", out=True, **_linalg)
def linalg_det(A: Tensor) -> Tensor:
    """The determinant of square matrices."""
    return _det(A)


@composite
def det(input: Tensor) -> Tensor:
    """`linalg.det`."""
    return _det(input)


_Slogdet = return_type("slogdet", ("sign", "logabsdet"))
_LinalgSlogdet = return_type("linalg_slogdet", ("sign", "logabsdet"))


@composite(name="slogdet", out=True, **_linalg)
def linalg_slogdet(A: Tensor) -> Any:
    """Sign and logarithm of the absolute value of the determinant."""
    return _LinalgSlogdet(*ops._linalg_slogdet(A)[:2])


@composite(out=True)
def slogdet(input: Tensor) -> Any:
    """`linalg.slogdet`."""
    return _Slogdet(*ops._linalg_slogdet(input)[:2])


@composite
def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant; nan where it is negative."""
    require_square("logdet", input)
    sign, log = ops._linalg_slogdet(input)[:2]
    if input._m.dtype.is_complex:
        return ops.add(ops.log(sign), log)
    return ops.where(ops.eq(sign, -1), math.nan, log)


# --- QR, SVD, eigenvalues ---------------------------------------------------------------------------

_Qr = return_type("qr", ("Q", "R"))


@composite(out=True)
def qr(input: Tensor, some: bool = True) -> Any:
    """`linalg.qr` (older name)."""
    warn.once(
        "torch.qr is deprecated in favor of torch.linalg.qr and will be removed in a future PyTorch release.\nThe "
        "boolean parameter 'some' has been replaced with a string parameter 'mode'.\nQ, R = torch.qr(A, some)\nshould "
        "be replaced with\nQ, R = torch.linalg.qr(A, 'reduced' if some else 'complete')"
    )
    return _Qr(*ops.linalg_qr(input, "reduced" if some else "complete"))


_Svd = return_type("svd", ("U", "S", "V"))
_LinalgSvd = return_type("linalg_svd", ("U", "S", "Vh"))


@composite(name="svd", out=True, **_linalg)
def linalg_svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """Singular values and vectors."""
    out = _LinalgSvd(*ops._linalg_svd(A, full_matrices, True, driver=driver))
    _guard_phase(out.U, lambda u, gu, gvh: _svd_phase(u, out.Vh, gu, gvh), (out.U, out.Vh))
    return out


@composite(name="svdvals", out=True, **_linalg)
def linalg_svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """Singular values."""
    return ops._linalg_svd(A, False, _records(A), driver=driver)[1]


@composite(out=True)
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> Any:
    """Singular values and vectors, V not transposed (older name)."""
    if input._m.ndim < 2:
        raise RuntimeError(
            f"linalg.svd: input should have at least 2 dimensions, but has {input._m.ndim} dimensions instead"
        )
    if not compute_uv:
        m, n = input._m.shape[-2:]
        zeros = NAMESPACES[""]["zeros"]
        batch = input._m.shape[:-2]
        like = {"dtype": input.dtype, "device": input.device}
        values = linalg_svdvals(input)
        return _Svd(zeros((*batch, m, m), **like), values, zeros((*batch, n, n), **like))
    u, s, vh = linalg_svd(input, not some)
    return _Svd(u, s, conj(ops.transpose(vh, -2, -1)))


_LinalgEigh = return_type("linalg_eigh", ("eigenvalues", "eigenvectors"))


@composite(name="eigh", out=True, **_linalg)
def linalg_eigh(input: Tensor, UPLO: str = "L") -> Any:
    """Eigenvalues and vectors of Hermitian matrices."""
    out = _LinalgEigh(*ops._linalg_eigh(input, UPLO, True))
    _guard_phase(out.eigenvectors, _eigen_phase("eigh"), (out.eigenvectors,))
    return out


@composite(name="eigvalsh", out=True, **_linalg)
def linalg_eigvalsh(input: Tensor, UPLO: str = "L") -> Tensor:
    """Eigenvalues of Hermitian matrices."""
    return ops._linalg_eigh(input, UPLO, _records(input))[0]


@composite(name="eig", out=True, **_linalg)
def linalg_eig(input: Tensor) -> Any:
    """Eigenvalues and vectors of square matrices."""
    out = ops.linalg_eig(input)
    _guard_phase(out.eigenvectors, _eigen_phase("eig"), (out.eigenvectors,))
    return out


@composite(name="eigvals", out=True, **_linalg)
def linalg_eigvals(input: Tensor) -> Tensor:
    """Eigenvalues of square matrices."""
    return ops.linalg_eig(input)[0]


def _phase_error(name: str) -> RuntimeError:
    if name == "svd":
        return RuntimeError(
            "svd_backward: The singular vectors in the complex case are specified up to multiplication by "
            "e^{i phi}. The specified loss function depends on this phase term, making it ill-defined."
        )
    return RuntimeError(
        f"linalg_{name}_backward: The eigenvectors in the complex case are specified up to multiplication by "
        "e^{i phi}. The specified loss function depends on this quantity, so it is ill-defined."
    )


def _depends(along: np.ndarray) -> bool:
    return not np.allclose(along.imag, 0, rtol=1e-2, atol=1e-2)


def _eigen_phase(name: str) -> Callable[..., None]:
    def check(v: np.ndarray, g: np.ndarray | None) -> None:
        if g is not None and _depends(np.sum(v.conj() * g, -2)):
            raise _phase_error(name)

    return check


def _svd_phase(u: np.ndarray, vh: Tensor, gu: np.ndarray | None, gvh: np.ndarray | None) -> None:
    k = min(u.shape[-1], vh._m.shape[-2])
    total: Any = 0
    if gu is not None:
        total = np.sum(u[..., :k].conj() * gu[..., :k], -2)
    if gvh is not None:
        other = _peek(vh)
        if other is None:
            return
        total = total + np.sum(other[..., :k, :] * gvh[..., :k, :].conj(), -1)
    if np.ndim(total) and _depends(total):
        raise _phase_error("svd")


def _guard_phase(vectors: Tensor, check: Callable[..., None], outputs: Sequence[Tensor]) -> None:
    """Refuse a backward pass whose loss depends on the arbitrary phase of complex vectors."""
    node = vectors.grad_fn
    if node is None or not vectors._m.dtype.is_complex:
        return
    values = _peek(vectors)
    if values is None:
        return
    numbers = [t._onr for t in outputs]

    def look(grads: tuple[Any, ...]) -> None:
        given = [None if grads[n] is None else _peek(grads[n]) for n in numbers]
        if any(grads[n] is not None and g is None for n, g in zip(numbers, given)):
            return
        check(values, *given)

    node.register_prehook(look)


# --- LU ---------------------------------------------------------------------------------------------

_LuFactor = return_type("linalg_lu_factor", ("LU", "pivots"))


def _singular_factor(batch: str, k: int, name: str = "lu_factor") -> Exception:
    return RuntimeError(
        f"torch.linalg.{name}:{batch} U[{k},{k}] is zero and using it on lu_solve would result in a division "
        "by zero. If you still want to perform the factorization, consider calling linalg.lu(A, pivot) or "
        "linalg.lu_factor_ex(A, pivot)"
    )


@composite(name="lu_factor", out=True, **_linalg)
def linalg_lu_factor(A: Tensor, *, pivot: bool = True) -> Any:
    """Packed LU factors and pivots of matrices that have them."""
    lu, pivots, info = ops.linalg_lu_factor_ex(A, pivot=pivot)
    _raise_if(info, _singular_factor)
    return _LuFactor(lu, pivots)


@composite(name="lu_factor_ex", out=True, **_linalg)
def linalg_lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """Packed LU factors and pivots, and where a pivot is zero."""
    out = ops.linalg_lu_factor_ex(A, pivot=pivot)
    if check_errors:
        _raise_if(out.info, functools.partial(_singular_factor, name="lu_factor_ex"))
    return out


def _lu_is_deprecated() -> None:
    warn.once(
        "torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex and will be removed in "
        "a future PyTorch release.\nLU, pivots = torch.lu(A, compute_pivots)\nshould be replaced with\nLU, pivots = "
        "torch.linalg.lu_factor(A, compute_pivots)\nand\nLU, pivots, info = torch.lu(A, compute_pivots, "
        "get_infos=True)\nshould be replaced with\nLU, pivots, info = torch.linalg.lu_factor_ex(A, compute_pivots)"
    )


@composite(function=False)
def lu(self: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """Packed LU factors and pivots (older name)."""
    _lu_is_deprecated()
    out = tuple(ops.linalg_lu_factor_ex(self, pivot=pivot))
    return out if get_infos else out[:2]


_LU = return_type("_lu_with_info", ("LU", "pivots", "info"))


@composite(name="lu", method=False)
def _lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """Packed LU factors and pivots, with `get_infos` also what went wrong (older name)."""
    _lu_is_deprecated()
    found = tuple(ops.linalg_lu_factor_ex(A, pivot=pivot))[: 3 if get_infos else 2]
    if out is not None:
        if not isinstance(out, tuple | list):
            raise TypeError(f"argument 'out' must be tuple of Tensors, not {type(out).__name__}")
        if len(out) != len(found):
            raise TypeError(f"expected tuple of {len(found)} elements but got {len(out)}")
        for target, result in zip(out, found):
            target.resize_as_(result).copy_(result)
        return out
    return _LU(*found) if get_infos else found


@composite(out=True)
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """`linalg.lu_solve` (older name)."""
    return ops.linalg_lu_solve(LU_data, LU_pivots, input)


# --- least squares, pseudo-inverse, rank, condition --------------------------------------------------


@composite(name="lstsq", out=Out.CAST, **_linalg)
def linalg_lstsq(input: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """Least squares solutions."""
    out = ops.linalg_lstsq(input, b, rcond, driver=driver)
    if driver in ("gelsd", "gelss") and out.residuals._m.numel:
        rank = _peek(out.rank)
        if rank is not None and (rank != input._m.shape[-1]).any():
            empty = ops.slice(reshape(out.residuals, (-1,)), 0, 0, 0, 1)
            out = type(out)(out.solution, empty, out.rank, out.singular_values)
    return out


@composite
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """`linalg.pinv` (older name)."""
    return ops.linalg_pinv(input, rcond=rcond)


@composite(name="cond", out=True, **_linalg)
def linalg_cond(input: Tensor, p: Any = None) -> Tensor:
    """The condition number in a matrix norm."""
    if input._m.ndim < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    known = (None, 2, -2, 1, -1, math.inf, -math.inf, "fro", "nuc")
    if p not in known:
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    batch = input._m.shape[:-2]
    if p in (None, 2, -2):
        if 0 in input._m.shape:
            return NAMESPACES[""]["zeros"](batch, dtype=_real_type(input), device=input.device)
        s = linalg_svdvals(input)
        n = s._m.shape[-1]
        first, last = ops.slice(s, -1, 0, 1, 1), ops.slice(s, -1, n - 1, 1, 1)
        pair = (last, first) if p == -2 else (first, last)
        return ops.squeeze_dim(ops.true_divide(*pair), -1)
    require_square(f"linalg.cond(ord={p})", input)
    if 0 in input._m.shape:
        return NAMESPACES[""]["zeros"](batch, dtype=_real_type(input), device=input.device)
    if p == "nuc":
        s = linalg_svdvals(input)
        return ops.mul(ops.sum(s, -1), ops.sum(ops.reciprocal(s), -1))
    inverse_of, info = ops.linalg_inv_ex(input)
    mask = ops.unsqueeze(ops.unsqueeze(ops.gt(info, 0), -1), -1)
    inverse_of = ops.masked_fill(inverse_of, mask, math.inf)
    return ops.nan_to_num(ops.mul(_matrix_norm(input, p), _matrix_norm(inverse_of, p)), math.inf, math.inf, -math.inf)


def _matrix_norm(input: Tensor, p: Any) -> Tensor:
    if p == "fro":
        return ops.linalg_vector_norm(input, 2, (-2, -1))
    sums = ops.linalg_vector_norm(input, 1, (-2,) if abs(p) == 1 else (-1,))
    return (ops.amax if p > 0 else ops.amin)(sums, -1)


# --- powers and others ------------------------------------------------------------------------------


def _power(input: Tensor, n: int) -> Tensor:
    require_square("linalg.matrix_power", input)
    if n == 0:
        out = clone(input)
        return out.copy_(NAMESPACES[""]["eye"](input._m.shape[-1], dtype=input.dtype, device=input.device))
    if n == 1:
        return clone(input)
    if n < 0:
        input, n = _inverse(input), -n
        if n == 1:
            return input
    if n == 2:
        return matmul(input, input)
    if n == 3:
        return matmul(matmul(input, input), input)
    result: Tensor | None = None
    square: Tensor | None = None
    while n:
        square = input if square is None else matmul(square, square)
        if n & 1:
            result = square if result is None else matmul(result, square)
        n >>= 1
    assert result is not None
    return result


@composite(name="matrix_power", out=True, **_linalg)
def linalg_matrix_power(input: Tensor, n: int) -> Tensor:
    """Integer powers of square matrices."""
    return _power(input, n)


@composite(out=Out.CAST)
def matrix_power(input: Tensor, n: int) -> Tensor:
    """`linalg.matrix_power`."""
    return _power(input, n)


@composite
def matrix_exp(input: Tensor) -> Tensor:
    """`linalg.matrix_exp`."""
    return ops.linalg_matrix_exp(input)


@composite(out=True)
def orgqr(input: Tensor, input2: Tensor) -> Tensor:
    """`linalg.householder_product` (older name)."""
    return ops.linalg_householder_product(input, input2)


@composite(name="diagonal", **_linalg)
def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Diagonals of matrices, as a view."""
    return ops.diagonal(A, offset, dim1, dim2)


@composite(name="tensorinv", out=True, **_linalg)
def linalg_tensorinv(input: Tensor, ind: int = 2) -> Tensor:
    """The inverse of a tensor as a linear map of its last to its first dimensions."""
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    shape = input._m.shape
    rows, cols = math.prod(shape[:ind]), math.prod(shape[ind:])
    if rows != cols:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
            f"{cols} != {rows}"
        )
    inverse_of = _inverse(reshape(input, (rows, cols)), "inv")
    return reshape(inverse_of, (*shape[ind:], *shape[:ind]))


@composite(name="tensorsolve", out=True, **_linalg)
def linalg_tensorsolve(input: Tensor, other: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """The solution of tensordot(input, X, X.ndim) = other."""
    a = input
    if dims is not None:
        dims = tuple(shapes.wrap_dim(d, input._m.ndim) for d in dims)
        a = movedim(input, dims, tuple(range(input._m.ndim - len(dims), input._m.ndim)))
    shape = a._m.shape[other._m.ndim :]
    cols, rows = math.prod(shape), math.prod(a._m.shape[: other._m.ndim])
    if cols != rows or other._m.numel != rows:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {cols} != {other._m.numel if cols == rows else rows}"
        )
    x = linalg_solve(reshape(a, (rows, cols)), reshape(other, (rows,)))
    return reshape(x, shape)


@composite(name="vander", **_linalg)
def linalg_vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Vandermonde matrices, powers increasing."""
    dtype = x._m.dtype
    if dtype.name == "bool":
        raise RuntimeError(
            f"linalg.vander supports floating point, complex, and integer tensors, but got {scalar_type_name(dtype)}"
        )
    columns = (x._m.shape[-1] if x._m.ndim else 1) if N is None else N
    if columns <= 1:
        raise RuntimeError("N must be greater than 1.")
    if not x._m.ndim:
        x = ops.unsqueeze(x, 0)
    powers = ops.cumprod(ops.expand(ops.unsqueeze(x, -1), (*x._m.shape, columns - 1)), -1)
    ones = NAMESPACES[""]["ones"]((*x._m.shape, 1), dtype=powers.dtype, device=x.device)
    return ops.cat([ones, powers], -1)


@composite(name="vander", method=False)
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """A Vandermonde matrix, powers decreasing unless told otherwise."""
    if x._m.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    n = x._m.shape[0] if N is None else N
    if n < 0:
        raise RuntimeError("N must be non-negative.")
    dtype = x.dtype if x._m.dtype.category >= FLOATING else NAMESPACES[""]["tensor"](0).dtype
    if not MODES.run.at_once:  # in such a run no code may write to memory from outside
        ones = NAMESPACES[""]["ones"]((x._m.shape[0], 1), dtype=dtype)
        powers = x.to(dtype).unsqueeze(1).expand(-1, max(n - 1, 0)).cumprod(1)
        result = ops.cat([ones, powers], 1)[:, :n]
        return result if increasing else ops.flip(result, (1,))
    result = NAMESPACES[""]["empty"]((x._m.shape[0], n), dtype=dtype, device=x.device)
    if n > 0:
        ops.slice(result, 1, 0, 1, 1).copy_(NAMESPACES[""]["ones"]((x._m.shape[0], 1), dtype=dtype))
    if n > 1:
        tail = ops.slice(result, 1, 1, n - 1, 1)
        tail.copy_(ops.unsqueeze(x, 1))
        tail = ops.slice(result, 1, 1, n - 1, 1)
        tail.copy_(ops.cumprod(tail, 1))
    return result if increasing else ops.flip(result, (1,))


# --- L D L^T ----------------------------------------------------------------------------------------

_LdlFactor = return_type("linalg_ldl_factor", ("LD", "pivots"))


def _no_ldl(what: str) -> Callable[[str, int], Exception]:
    return lambda batch, k: RuntimeError(
        f"{what}:{batch} The diagonal block {k} is zero: the matrix has no factors to solve with."
    )


@composite(name="ldl_factor_ex", out=True, known_as={"input": "A"}, **_linalg)
def linalg_ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """Packed factors of symmetric matrices, and where a pivot is zero."""
    out = ops.linalg_ldl_factor_ex(A, hermitian=hermitian)
    if check_errors:
        _raise_if(out.info, _no_ldl("torch.linalg.ldl_factor_ex"))
    return out


@composite(name="ldl_factor", out=True, known_as={"input": "A"}, **_linalg)
def linalg_ldl_factor(A: Tensor, *, hermitian: bool = False) -> Any:
    """Packed factors of symmetric matrices that have them."""
    ld, pivots, info = ops.linalg_ldl_factor_ex(A, hermitian=hermitian)
    _raise_if(info, _no_ldl("torch.linalg.ldl_factor"))
    return _LdlFactor(ld, pivots)


NAMESPACES["linalg"]["LinAlgError"] = LinAlgError
