"""Linear algebra: decompositions are judged by what does not depend on signs and phases."""

from __future__ import annotations

from typing import Any

from ..case import Case, case, e, et, i, s, t

L = "torch.linalg"
LAPACK = "the factors come from other LAPACK drivers and orders of elimination"
A = t(3, 3, make="regular")
BATCH = t(2, 2, 2, make="regular")
SPD = t(3, 3, make="spd")
H = t(3, 3, make="hermitian")
WIDE, TALL = t(2, 3), t(3, 2)
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
    case(f"{L}.qr", s(TALL), s(A), s(WIDE, second=False), errors=(e(t(3)), e(A, "full")), process=products, **LOOSE),
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
)
