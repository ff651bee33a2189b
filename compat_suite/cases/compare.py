"""Comparisons, logic and bits: no derivatives."""

from __future__ import annotations

from typing import Any

from ..case import BOOL, COMPLEX, FLOATS, INTS, Case, b, case, e, et, i, s, t
from .pointwise import INF, NAN

SPECIAL = (1.0, 0.0, NAN, INF, 2.0)
OTHER = (1.0, -0.0, NAN, INF, 3.0)


def comparison(name: str, *, dtypes: tuple[str, ...] = (*FLOATS, *INTS, *BOOL)) -> Case:
    """Ties, NaNs, broadcasting, scalars, mixed dtypes."""
    return case(
        f"torch.{name}",
        s(t(2, 3), t(2, 3)),
        s(t(5, special=SPECIAL), t(5, special=OTHER)),
        s(i(2, 3, high=3), i(3, high=3)),
        s(t(3, 2, layout="transposed"), t()),
        s(t(3), 0),
        s(i(3, high=3), 1.5),
        s(t(0, 3), t(3)),
        s(b(3), i(3, high=2)),
        dtypes=dtypes,
        errors=(et(t(2), t(3)), e(t(2), "x")),
        derivatives=0,
        jvp=False,
        inplace=True,
        jax=f"jax.numpy.{JAX[name]}",
    )


JAX = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}


def predicate(name: str, **options: Any) -> Case:
    """A bool per element."""
    return case(
        f"torch.{name}",
        s(t(5, special=SPECIAL)),
        s(t(2, 3)),
        s(i(3, high=2)),
        s(t(0, 3)),
        s(t()),
        dtypes=(*FLOATS, *INTS, *BOOL, *COMPLEX),
        errors=(e("x"),),
        derivatives=0,
        jvp=False,
        jax=f"jax.numpy.{name}",
        **options,
    )


def logical(name: str) -> Case:
    """Truth of numbers of any dtype."""
    return case(
        f"torch.{name}",
        s(b(2, 3), b(3)),
        s(t(5, special=SPECIAL), i(5, high=2)),
        s(i(3, high=2), t()),
        s(t(0, 3), b(3)),
        dtypes=(),
        errors=(et(b(2), b(3)),),
        derivatives=0,
        jvp=False,
        inplace=True,
        jax=f"jax.numpy.{name}",
    )


def bits(name: str) -> Case:
    """Integers and bools; floating point is refused."""
    return case(
        f"torch.{name}",
        s(i(2, 3, high=9), i(3, high=9)),
        s(b(3), b(3)),
        s(i(3, high=9), 5),
        s(b(3), i(3, high=9)),
        s(t(3, dtype="uint8", high=9), t(3, dtype="int32", high=9)),
        errors=(e(t(3), t(3)), et(b(2), b(3))),
        derivatives=0,
        jvp=False,
        inplace=True,
        jax=f"jax.numpy.{name}",
    )


CASES: tuple[Case, ...] = (
    comparison("eq", dtypes=(*FLOATS, *INTS, *BOOL, *COMPLEX)),
    comparison("ne", dtypes=(*FLOATS, *INTS, *BOOL, *COMPLEX)),
    comparison("lt"),
    comparison("le"),
    comparison("gt"),
    comparison("ge"),
    predicate("isnan"),
    predicate("isinf"),
    predicate("isfinite"),
    case(
        "torch.isclose",
        s(t(5, special=SPECIAL), t(5, special=OTHER)),
        s(t(3, special=(1.0, 2.0, 3.0)), t(3, special=(1.0 + 1e-9, 2.1, 3.0))),
        s(t(3, special=(1.0, 2.0, 3.0)), t(3, special=(1.05, 2.3, 3.0)), rtol=0.1),
        s(t(2, special=(NAN, 1.0)), t(2, special=(NAN, 1.0)), equal_nan=True),
        s(t(2, special=(0.0, 1.0)), t(2, special=(1e-3, 1.0)), atol=1e-2),
        s(i(3, high=3), i(3, high=3)),
        errors=(e(t(3), t(3, dtype="float32")), et(t(2), t(3)), et(t(3), t(3), rtol=-1.0)),
        derivatives=0,
        jvp=False,
    ),
    case(
        "torch.allclose",
        s(t(3, special=(1.0, 2.0, 3.0)), t(3, special=(1.0, 2.0, 3.0))),
        s(t(3, special=(1.0, 2.0, 3.0)), t(3, special=(1.1, 2.0, 3.0))),
        s(t(2, special=(NAN, 1.0)), t(2, special=(NAN, 1.0)), equal_nan=True),
        s(t(0), t(0)),
        errors=(e(t(3), t(3, dtype="float32")),),
        derivatives=0,
        jvp=False,
    ),
    case(
        "torch.equal",
        s(t(3, special=(1.0, 2.0, 3.0)), t(3, special=(1.0, 2.0, 3.0))),
        s(t(3), t(3)),
        s(t(2), t(3)),
        s(t(0), t(0)),
        s(t(1, special=(NAN,)), t(1, special=(NAN,))),
        errors=(e(t(3), 3),),
        derivatives=0,
        jvp=False,
    ),
    logical("logical_and"),
    logical("logical_or"),
    case(
        "torch.logical_not",
        s(t(5, special=SPECIAL)),
        s(b(2, 3)),
        s(i(3, high=2)),
        s(t()),
        errors=(e("x"),),
        derivatives=0,
        jvp=False,
        inplace=True,
    ),
    bits("bitwise_and"),
    bits("bitwise_or"),
    case(
        "torch.bitwise_not",
        s(i(2, 3, high=9)),
        s(b(3)),
        s(t(2, dtype="uint8", high=9)),
        errors=(e(t(3)),),
        derivatives=0,
        jvp=False,
        inplace=True,
    ),
    *[
        case(
            f"torch.{name}",
            s(i(2, 3, high=9), i(3, high=9)),
            s(i(3, high=9), 5),
            s(b(3), b(3)),
            s(t(3, dtype="uint8", high=9), i(3, high=9)),
            errors=(e(t(2), t(2)),),
            inplace=True,
        )
        for name in ("bitwise_xor",)
    ],
    *[
        case(
            f"torch.bitwise_{way}_shift",
            s(i(2, 3, high=9), i(3, high=4)),
            s(i(3, low=-9, high=9), 2),
            s(i(3, high=9), i(3, low=-1, high=1)),
            s(t(2, dtype="uint8", high=9), t(2, dtype="uint8", high=9)),
            errors=(e(t(2), t(2)),),
        )
        for way in ("left", "right")
    ],
    case(
        "torch.logical_xor",
        s(t(2, 3, special=(0.0, 1.0)), t(3, special=(0.0, 0.0, 2.0))),
        s(b(3), i(3, high=2)),
        dtypes=(*FLOATS, *INTS, *BOOL, *COMPLEX),
        inplace=True,
    ),
    *[
        case(f"torch.{name}", s(t(4, special=(INF, -INF, NAN, 0.0))), s(i(3, high=3)), errors=errors)
        for name, errors in (
            ("isneginf", (e(t(2, dtype="complex128")),)),
            ("isposinf", (e(t(2, dtype="complex128")),)),
            ("isreal", ()),
            ("signbit", (e(t(2, dtype="complex128")),)),
        )
    ],
    case("torch.isreal", s(t(3, dtype="complex128", special=(1j, 1 + 0j, 0j)))),
    case("torch.signbit", s(t(3, special=(-0.0, 0.0, -1.0))), s(i(3, low=-2, high=2)), s(b(2))),
)
