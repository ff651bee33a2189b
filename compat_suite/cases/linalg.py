"""Linear algebra: decompositions are judged by what does not depend on signs and phases."""

from __future__ import annotations

from typing import Any

from ..case import FLOATS, INTS, Case, case, e, et, i, s, t
from .pointwise import INF

L = "torch.linalg"
LAPACK = "the factors come from other LAPACK drivers and orders of elimination"
A = t(3, 3, make="regular")
BATCH = t(2, 2, 2, make="regular")
SPD = t(3, 3, make="spd")
H = t(3, 3, make="hermitian")
WIDE, TALL = t(2, 3), t(3, 2)
LOWER = t(3, 3, make="spd")
PIVOTS = t(3, dtype="int32", special=(3, 2, 3))
PIVOTS_OF_TWO = t(2, dtype="int32", special=(2, 2))
SINGULAR = t(2, 2, make="singular")
SQUARE = (e(t(2, 3)), e(t(3)), e(i(2, 2, high=3)))


def products(out: Any) -> Any:
    """Q and R, freed from the signs of columns and rows."""
    q, r = out
    return q @ r, q.abs(), r.abs()


def singular(out: Any) -> Any:
    """Singular values, and vectors up to their phase."""
    u, values, vh = out
    return u.abs(), values, vh.abs()


def eigen(out: Any) -> Any:
    """Eigenvalues, and vectors up to their phase."""
    values, vectors = out
    return values, vectors.abs()


def symmetric(x: Any) -> Any:
    """The Hermitian part."""
    return (x + x.mH) / 2


LOOSE = {"tolerance": 100.0, "cause": LAPACK}

CASES: tuple[Case, ...] = (
    case(
        f"{L}.inv",
        s(A),
        s(BATCH, second=False),
        s(t(0, 0), second=False),
        s(t(2, 2, make="regular", dtype="complex128"), second=False),
        dtypes=("float32",),
        errors=(*SQUARE, et(SINGULAR)),
        **LOOSE,
    ),
    case(
        f"{L}.solve",
        s(A, t(3, 2)),
        s(A, t(3)),
        s(BATCH, t(2, 2, 1), second=False),
        s(A, t(2, 3), left=False, second=False),
        s(A, t(2, 3, 2), second=False),
        s(BATCH, t(2, 2), second=False),
        s(t(1, 3, 3, make="regular"), t(2, 3), left=False, second=False),
        dtypes=("float32",),
        errors=(
            e(t(2, 3), t(3)),
            et(SINGULAR, t(2)),
            e(A, t(2, 2)),
            et(A, t(3), left=False),
            et(BATCH, t(2, 2), left=False),
        ),
        **LOOSE,
    ),
    case(
        f"{L}.solve_triangular",
        s(A, t(3, 2), upper=True),
        s(A, t(3, 2), upper=False),
        s(A, t(2, 3), upper=True, left=False, second=False),
        s(A, t(3, 2), upper=True, unitriangular=True, second=False),
        errors=(e(t(2, 3), t(3, 2), upper=True), e(A, t(3), upper=True), e(A, t(2, 2), upper=True)),
        **LOOSE,
    ),
    case(
        f"{L}.det",
        s(A),
        s(BATCH, second=False),
        s(SINGULAR, second=False),
        s(t(0, 0), second=False),
        dtypes=("float32",),
        errors=SQUARE,
        **LOOSE,
    ),
    case(
        f"{L}.slogdet",
        s(A),
        s(BATCH, second=False),
        s(t(2, 2, make="regular", dtype="complex128"), second=False),
        errors=SQUARE,
        **LOOSE,
    ),
    case(
        f"{L}.cholesky",
        s(SPD),
        s(SPD, upper=True, second=False),
        s(t(2, 2, 2, make="spd"), second=False),
        s(t(2, 2, make="spd", dtype="complex128"), second=False),
        dtypes=("float32",),
        errors=(et(t(2, 2, special=(-1.0, 0.0, 0.0, 1.0))),),
        prepare=symmetric,
        **LOOSE,
    ),
    case(f"{L}.cholesky", s(SPD, grads=False), core="linalg.cholesky", errors=(e(t(2, 3)), e(t(3)))),
    case(  # they read one triangle, whatever stands in the other one
        f"{L}.eigh", s(A, grads=False), s(A, "U", grads=False), errors=(e(t(2, 3)), e(t(3))), process=eigen, **LOOSE
    ),
    case(f"{L}.eigvalsh", s(A, grads=False), s(A, "U", grads=False), **LOOSE),
    case(
        f"{L}.qr",
        s(TALL),
        s(A),
        s(WIDE, second=False),
        s(t(2, 2, dtype="complex128", make="regular"), second=False),
        errors=(e(t(3)), e(A, "full")),
        process=products,
        **LOOSE,
    ),
    case(
        f"{L}.qr",
        s(TALL, "complete", grads=False),
        core="linalg.qr",
        process=lambda out: (out[0] @ out[1], out[1].abs()),
        **LOOSE,
    ),
    case(
        f"{L}.svd",
        s(TALL, full_matrices=False),
        s(WIDE, full_matrices=False, second=False),
        s(A, second=False),
        errors=(e(t(3)),),
        process=singular,
        **LOOSE,
    ),
    case(
        f"{L}.eigh",
        s(H),
        s(H, "U", second=False),
        s(t(2, 2, 2, make="hermitian"), second=False),
        errors=(e(H, "X"),),
        process=eigen,
        prepare=symmetric,
        **LOOSE,
    ),
    case(f"{L}.pinv", s(TALL), s(WIDE, second=False), errors=(e(t(3)),), **LOOSE),
    case(f"{L}.pinv", s(H, hermitian=True), prepare=symmetric, **LOOSE),
    case(
        f"{L}.matrix_power",
        s(A, 2),
        s(A, 3, second=False),
        s(A, 0, second=False),
        s(A, -1, second=False),
        s(A, -2, second=False),
        dtypes=("float32",),
        errors=(e(t(2, 3), 2), e(t(3), 2)),
        **LOOSE,
    ),
    case(
        f"{L}.lstsq",
        s(TALL, t(3, 2)),
        s(A, t(3, 1), second=False),
        s(TALL, t(3), second=False),
        s(t(2, 3, 2), t(2, 3, 4), driver="gelsd", second=False),
        s(t(1, 2, 3), t(2, 2, 1), second=False),
        s(t(2, 3, 2), t(2, 3), driver="gels", second=False),
        process=lambda out: out[0],
        jvp=True,
        errors=(e(t(3), t(3)), e(TALL, t(2, 2)), et(TALL, t(4, 3, 2)), et(t(4, 3, 2), t(3, 2))),
        **LOOSE,
    ),
    case(
        f"{L}.ldl_factor",
        s(t(3, 3, make="hermitian")),
        s(t(2, 4, 4)),
        s(t(4, 4, special=(1e-3, 1.0, 2.0, 3.0, 4.0, 1e-3))),
        s(t(3, 3, make="hermitian", dtype="complex128"), hermitian=True),
        s(t(3, 3, dtype="complex128")),
        s(t(0, 0)),
        dtypes=("float32",),
        derivatives=0,
        jvp=False,
        errors=(*SQUARE, e(t(2, 2, special=(0.0,) * 4))),
        **LOOSE,
    ),
    case(
        f"{L}.ldl_factor_ex",
        s(t(2, 2, special=(0.0,) * 4)),
        s(t(2, 3, 3)),
        derivatives=0,
        jvp=False,
        errors=SQUARE,
        **LOOSE,
    ),
    case(
        f"{L}.ldl_solve",
        s(A, t(3, dtype="int32", special=(1, 3, 3)), t(3, 2)),
        s(A, t(3, dtype="int32", special=(1, -3, -3)), t(3, 2)),
        s(A, t(3, dtype="int32", special=(-2, -2, 3)), t(2, 3, 1)),
        s(BATCH, t(2, 2, dtype="int32", special=(1, 2, -2, -2)), t(2, 2, 3)),
        s(
            t(3, 3, make="hermitian", dtype="complex128"),
            t(3, dtype="int32", special=(-3, -3, 3)),
            t(3, 2, dtype="complex128"),
            hermitian=True,
        ),
        derivatives=0,
        jvp=False,
        errors=(
            et(A, t(3, dtype="int32", special=(1, 2, 3)), t(2, 2)),
            et(A, t(2, dtype="int32", special=(1, 2)), t(3, 2)),
            et(A, t(3), t(3, 2)),
        ),
        **LOOSE,
    ),
    case(
        "torch.matrix_exp",
        s(A),
        s(BATCH, second=False),
        s(t(2, 2, special=(0.0,) * 4), second=False),
        s(t(0, 0), second=False),
        dtypes=("float32",),
        errors=SQUARE,
        tolerance=100.0,
        cause="other polynomials of other degrees",
    ),
    case(
        "torch.cholesky_inverse",
        s(LOWER, smooth=False),
        s(LOWER, True, smooth=False, second=False),
        jvp=False,  # torch's moves with the other triangle, which is not read
        dtypes=("float32",),
        errors=(e(t(2, 3)),),
        **LOOSE,
    ),
    case(
        "torch.cholesky_solve",
        s(t(3, 2), LOWER, smooth=False),
        s(t(3, 1), LOWER, True, grads=False),
        errors=(e(t(2, 2), LOWER),),
        **LOOSE,
    ),
    case(
        "torch.triangular_solve",
        s(t(3, 2), LOWER),
        s(t(3, 2), LOWER, False, second=False),
        s(t(3, 2), LOWER, True, True, second=False),
        s(t(3, 2), LOWER, False, False, True, second=False),
        s(t(2, 1, dtype="complex128"), t(2, 2, dtype="complex128", make="regular"), True, True, second=False),
        errors=(e(t(2, 2), LOWER), e(t(3), LOWER)),
        **LOOSE,
    ),
    case(
        "torch.vdot",
        s(t(3), t(3)),
        s(t(3, dtype="complex128"), t(3, dtype="complex128")),
        errors=(e(t(3), t(2)), e(t(2, 2), t(2, 2))),
    ),
    case(
        f"{L}.cross",
        s(t(2, 3), t(1, 3)),
        s(t(3, 2), t(3, 2), dim=0),
        s(t(1, 3, dtype="complex128"), t(1, 3, dtype="complex128")),
        dtypes=(*FLOATS, *INTS),
        errors=(e(t(2, 2), t(2, 2)), e(t(3), t(2))),
    ),
    case(
        f"{L}.householder_product",
        s(t(3, 2), t(2)),
        s(t(3, 3), t(2), second=False),
        errors=(e(t(2, 3), t(2)), e(t(3, 2), t(3))),
        **LOOSE,
    ),
    case(
        "torch.geqrf",
        s(TALL, grads=False),
        s(WIDE, grads=False),
        errors=(e(t(3)),),
        process=lambda out: (out[0].abs(), out[1]),
        **LOOSE,
    ),
    case(
        "torch.ormqr",
        s(TALL, t(2), t(3, 2)),
        s(TALL, t(2), t(2, 3), False, True, grads=False),
        errors=(e(TALL, t(3), t(3, 2)),),
        **LOOSE,
    ),
    case(
        f"{L}.lu",
        s(A),
        s(WIDE, second=False),
        s(TALL, second=False),
        errors=(e(t(3)),),
        process=lambda out: out[1:],
        **LOOSE,
    ),
    case(
        f"{L}.lu_solve",
        s(A, PIVOTS, t(3, 2)),
        s(A, PIVOTS, t(2, 3), left=False, second=False),
        s(A, PIVOTS, t(3, 2), adjoint=True, second=False),
        errors=(e(A, PIVOTS, t(2, 2)),),
        **LOOSE,
    ),
    case(
        "torch.lu_unpack",
        s(A, PIVOTS),
        s(WIDE, PIVOTS_OF_TWO, second=False),
        s(A, PIVOTS, True, False, grads=False),
        errors=(e(A, t(3)),),
        **LOOSE,
    ),
    case(
        f"{L}.matrix_rank",
        s(A),
        s(t(2, 2, make="singular")),
        s(t(2, 2, 2, make="regular"), atol=0.5, rtol=0.1),
        s(H, hermitian=True),
        errors=(e(t(3)),),
    ),
    case(
        f"{L}.cond",
        s(A),
        s(A, 2, second=False),
        *[s(A, way, grads=False) for way in ("fro", 1)],  # torch's gradients of these raise an error
        s(t(2, 2, make="singular"), -2, grads=False),
        errors=(e(t(3)), e(A, 3)),
        **LOOSE,
    ),
    case(
        f"{L}.eigvals",
        s(A, second=False),
        errors=(e(t(2, 3)),),
        process=lambda out: (out.real.sort()[0], out.imag.sort()[0]),
        **LOOSE,
    ),
    case(f"{L}.eig", s(H, grads=False), errors=(e(t(2, 3)),), process=lambda out: out[0].real.sort()[0], **LOOSE),
    case(
        f"{L}.inv_ex",
        s(A),
        s(t(2, 2, make="singular"), grads=False),
        errors=(e(t(2, 3)),),
        process=lambda out: (out[0].nan_to_num(0, 0, 0), out[1]),
        **LOOSE,
    ),
    case(f"{L}.lu_factor", s(A), s(TALL, second=False), errors=(e(t(3)),), **LOOSE),
    case(
        f"{L}.matrix_norm",
        s(t(2, 3)),
        *[s(t(2, 3), way, second=False) for way in ("nuc", 1, -1, 2, -2, INF, -INF)],
        s(t(2, 3, 2), dim=(0, 2), keepdim=True, second=False),
        errors=(e(t(3)), e(t(2, 2), 3)),
        **LOOSE,
    ),
    case(
        f"{L}.solve_ex",
        s(A, t(3, 2)),
        s(A, t(3), second=False),
        s(A, t(2, 3), left=False, second=False),
        errors=(e(t(2, 3), t(2)),),
        **LOOSE,
    ),
    case(f"{L}.svdvals", s(t(2, 3)), s(BATCH, second=False), errors=(e(t(3)),), **LOOSE),
    case(
        f"{L}.tensorinv", s(t(2, 3, 6)), s(t(6, 2, 3), ind=1, second=False), errors=(e(t(2, 3)), e(t(2, 2), 0)), **LOOSE
    ),
    case(f"{L}.tensorsolve", s(t(2, 3, 6), t(2, 3)), errors=(e(t(2, 3), t(2)),), **LOOSE),
    case(f"{L}.vander", s(t(3)), s(t(2, 2), N=3), errors=(e(t()), e(t(2), N=1))),
    case(
        f"{L}.vecdot",
        s(t(2, 3), t(3)),
        s(t(2, dtype="complex128"), t(2, dtype="complex128")),
        s(t(2, 3), t(2, 3), dim=0),
        errors=(e(t(2), t(3)),),
    ),
    case("torch.logdet", s(SPD), s(t(2, 2, special=(0.0, 1.0, 1.0, 0.0)), grads=False), **LOOSE),
    case("torch.chain_matmul", s(t(2, 3), t(3, 2), t(2, 2))),
    case("torch.nuclear_norm", s(t(2, 3)), s(t(2, 3), (0, 1), True, second=False), **LOOSE),
)
