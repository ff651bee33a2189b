"""Sorting, selecting, counting."""

from __future__ import annotations

from ..case import BOOL, FLOATS, INTS, Case, b, case, e, et, i, s, t
from .pointwise import NAN

TIES = (2.0, 1.0, 2.0, 0.0, 1.0, 3.0)
RANGE = et(t(2, 3), 2)
SORTED = t(4, special=(0.0, 1.0, 1.0, 3.0))

CASES: tuple[Case, ...] = (
    case(
        "torch.sort",
        s(t(2, 3, make="distinct"), 1),
        s(t(2, 3, make="distinct"), 0, True),
        s(t(6, special=TIES), stable=True, dim=0),
        s(t(3, special=(1.0, NAN, 0.0))),
        s(t(), second=False),
        s(t(0, 3), second=False),
        dtypes=(*FLOATS, *INTS),
        errors=(RANGE,),
    ),
    case(
        "torch.argsort",
        s(t(2, 3, make="distinct"), 1),
        s(t(2, 3, make="distinct"), 0, True),
        s(t(6, special=TIES), stable=True, dim=0),
        s(t(3, special=(1.0, NAN, 0.0))),
        s(t()),
        dtypes=(*FLOATS, *INTS),
        derivatives=0,
        jvp=False,
        errors=(RANGE,),
    ),
    case(
        "torch.topk",
        s(t(2, 3, make="distinct"), 2),
        s(t(3, 2, make="distinct"), 2, 0, False),
        s(t(3, special=(1.0, NAN, 0.0)), 2),
        s(t(), 1, second=False),
        s(t(3, make="distinct"), 0, second=False),
        dtypes=(*FLOATS, *INTS),
        errors=(et(t(3), 4), e(t(3), 1, 1)),
    ),
    case(
        "torch.kthvalue",
        s(t(2, 3, make="distinct"), 2),
        s(t(3, 2, make="distinct"), 1, 0, True),
        s(t(), 1, second=False),
        dtypes=FLOATS,
        errors=(e(t(3), 4), e(t(3), 0), e(t(3), 1, 1)),
    ),
    case(
        "torch.unique",
        s(t(6, special=TIES)),
        s(t(6, special=TIES), return_inverse=True),
        s(t(6, special=TIES), return_inverse=True, return_counts=True),
        s(i(2, 3, high=2)),
        s(t(3, 2, special=(1.0, 2.0, 0.0, 1.0, 1.0, 2.0)), dim=0),
        s(t(0)),
        dtypes=INTS,
        derivatives=0,
        jvp=False,
    ),
    case(
        "torch.searchsorted",
        s(SORTED, t(3)),
        s(SORTED, t(3, special=(1.0, 0.0, 3.0)), right=True),
        s(SORTED, 1.0),
        s(t(2, 3, special=(0.0, 1.0, 2.0, 1.0, 2.0, 3.0)), t(2, 2)),
        s(SORTED, t(2), out_int32=True),
        s(SORTED, t(2), side="right"),
        derivatives=0,
        jvp=False,
        errors=(e(t(2, 3), t(3, 2)), e(SORTED, t(2), side="up")),
    ),
    case(
        "torch.bucketize",
        s(t(2, 3), SORTED),
        s(t(3, special=(1.0, 0.0, 3.0)), SORTED, right=True),
        s(1.0, SORTED),
        derivatives=0,
        jvp=False,
        errors=(e(t(2), t(2, 2)),),
    ),
    case(
        "torch.bincount",
        s(i(6, high=4)),
        s(i(4, high=3), t(4)),
        s(i(4, high=3), minlength=6),
        s(t(0, dtype="int64")),
        derivatives=0,
        jvp=False,
        errors=(e(t(3)), e(t(2, dtype="int64", special=(-1, 0))), e(i(2, 2, high=2)), e(i(3, high=2), t(2))),
    ),
    case(
        "torch.mode",
        s(t(2, 4, special=(1.0, 1.0, 2.0, 2.0, 3.0, 2.0, 2.0, 3.0))),
        s(t(3, 2, special=(1.0, 2.0, 1.0, 3.0, 0.0, 3.0)), 0, True),
        s(t()),
        dtypes=(*FLOATS, *INTS, *BOOL),
        errors=(e(t(2, 3), 2), e(t(0))),
    ),
    case("torch.msort", s(t(3, 2)), s(t(3, 2, special=(1.0, 1.0, 0.0, NAN))), s(t()), dtypes=(*FLOATS, *INTS)),
    case(
        "torch.unique_consecutive",
        s(i(6, high=2)),
        s(i(6, high=2), True, True),
        s(t(2, 3, special=(1.0, 1.0, 2.0, 1.0, 1.0, 2.0)), dim=0),
    ),
    case("torch.argwhere", s(t(2, 3, special=(0.0, 1.0, 2.0, 0.0))), s(b(3)), s(t())),
)
