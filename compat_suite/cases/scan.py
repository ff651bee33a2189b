"""Cumulative operators and differences."""

from __future__ import annotations

from ..case import BOOL, COMPLEX, FLOATS, INTS, Case, D, case, e, et, i, s, t
from .pointwise import INF, NAN

RANGE = et(t(2, 3), 2)

CASES: tuple[Case, ...] = (
    case(
        "torch.cumsum",
        s(t(2, 3), 1),
        s(t(3, 2, layout="transposed"), 0),
        s(t(0, 3), 0),
        s(t(), 0),
        s(t(3), 0, dtype=D("float32")),
        s(i(3, high=3), -1),
        dtypes=(*FLOATS, *INTS, *BOOL, *COMPLEX),
        errors=(RANGE,),
        inplace=True,
        jax="jax.numpy.cumsum",
    ),
    case(
        "torch.cumprod",
        s(t(2, 3), 1),
        s(t(4, special=(2.0, 0.0, 3.0, 1.0)), 0, second=True),
        s(t(4, special=(2.0, 0.0, 3.0, 0.0)), 0, second=True),
        s(t(0, 3), 0),
        s(t(), 0),
        s(i(3, high=3), 0),
        dtypes=(*FLOATS, *INTS, *BOOL, *COMPLEX),
        errors=(RANGE,),
        inplace=True,
        jax="jax.numpy.cumprod",
    ),
    case(
        "torch.cummax",
        s(t(2, 3), 1),
        s(t(6, special=(1.0, 3.0, 3.0, 2.0, 3.0, 0.0)), 0),
        s(t(3, special=(1.0, NAN, 2.0)), 0),
        s(t(), 0),
        s(i(3, high=3), 0),
        dtypes=(*FLOATS, *INTS, *BOOL),
        errors=(RANGE,),
    ),
    case(
        "torch.logcumsumexp",
        s(t(2, 3), 1),
        s(t(3, special=(-INF, 0.0, 1.0)), 0),
        s(t(3, special=(0.0, INF, 1.0)), 0),
        s(t(), 0),
        s(t(0, 3), 0),
        dtypes=FLOATS,
        tolerance=100.0,
        cause="torch's derivative goes through logarithms of gradients",
        errors=(RANGE,),
    ),
    case(
        "torch.diff",
        s(t(2, 4)),
        s(t(4, 2), dim=0),
        s(t(2, 5), n=2),
        s(t(2, 4), prepend=t(2, 1)),
        s(t(2, 4), 1, 1, t(2, 1), t(2, 2)),
        s(t(3), n=0),
        s(i(4, high=5)),
        dtypes=(*FLOATS, *INTS, *BOOL),
        errors=(et(t()), e(t(3), n=-1)),
        jax="jax.numpy.diff",
    ),
    case(
        "torch.cummin",
        s(t(2, 3), 1),
        s(t(4, special=(1.0, NAN, 0.0, 0.0)), 0),
        s(t(), 0),
        s(t(0, 3), 0),
        s(t(3, 2), dim=0),
        dtypes=(*FLOATS, *INTS, *BOOL),
        errors=(RANGE,),
    ),
)
