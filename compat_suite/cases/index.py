"""Indexing, gathering, scattering, masks."""

from __future__ import annotations

from typing import Any

from ..case import BOOL, COMPLEX, FLOATS, INTS, Case, b, case, e, et, i, s, t

ANY = (*FLOATS, *INTS, *BOOL, *COMPLEX)
ROW = t(3, dtype="int64", special=(2, 0, 2))
PAIR = t(2, dtype="int64", special=(1, 0))
GRID = t(2, 2, dtype="int64", special=(0, 2, 1, 1))
UNIQUE = t(2, 2, dtype="int64", special=(0, 2, 1, 0))
WITHIN = t(2, 3, dtype="int64", special=(0, 1, 0, 1, 0, 1))
MASK = t(2, 3, dtype="bool", special=(True, False, True, False, False, True))
FAR = t(1, dtype="int64", special=(9,))
DOTS = ...
# Shapes of an input, of an index into it and of a source, and a dimension: some fit, for others the text says why not.
FITTING = (((2, 3), (2,), (2, 2), 1), ((), (), (), 0), ((2, 0), (1,), (1, 0), 0))
SHAPES = (
    ((2, 3), (), (), 0), ((2, 3), (1,), (2,), 1), ((2, 3), (1,), (3,), 0), ((2, 3), (1,), (1, 2), 0),
    ((2, 3), (2, 3), (2, 3), 5), ((3,), (2,), (3,), 0), ((3,), (1,), (1, 1), 0), ((2, 3), (2, 3), (2, 3), 0),
)  # fmt: skip


def slices(make: Any, shapes: Any) -> Any:
    """Calls with these shapes."""
    return [make(t(*x), dim, i(*index, high=1), t(*source)) for x, index, source, dim in shapes]


CASES: tuple[Case, ...] = (
    case(
        "Tensor.__getitem__",
        s(t(2, 3), 0),
        s(t(2, 3), -1),
        s(t(2, 3), (slice(None), 1)),
        s(t(2, 3), slice(1, None)),
        s(t(2, 3), (DOTS, 0)),
        s(t(2, 3), None),
        s(t(4, 2), slice(0, 4, 2)),
        s(t(3, 2), ROW),
        s(t(2, 3), (slice(None), ROW), second=True),
        s(t(2, 3), MASK, second=True),
        s(t(2, 3), (PAIR, PAIR)),
        s(t(2, 3), (PAIR, 0)),
        s(t(2, 3), (PAIR, slice(1, None))),
        s(t(2, 3, 2), (PAIR, slice(None), PAIR)),
        s(t(2, 3, 2), (slice(None), PAIR, PAIR)),
        s(t(2, 3), [0, -1]),
        s(t(2, 3), (0, ROW)),
        s(t(3), b(3)),
        s(t(2, 3), True),
        s(t(2, 3), (None, PAIR)),
        s(t(), ()),
        s(t(), True),
        s(t(0, 3), slice(0, 1)),
        s(t(2, 3), t(2, 2, dtype="int64", special=(0, 1, 1, 0))),
        s(t(2, 3), (slice(None), slice(2, None))),
        s(t(2, 3), i(high=2)),
        dtypes=ANY,
        errors=(
            et(t(2, 3), 2),
            et(t(2, 3), (0, 0, 0)),
            et(t(), 0),
            et(t(2, 3), FAR),
            et(t(2, 3), b(3)),
            e(t(2, 3), 0.5),
            e(t(2, 3), slice(None, None, -1)),
            e(t(2, 3), (t(2),)),
            e(t(2, 3), (PAIR, ROW)),
        ),
    ),
    case(
        "torch.index_select",
        s(t(2, 3), 1, ROW),
        s(t(3, 2), 0, t(2, dtype="int64", special=(0, 0))),
        s(t(), 0, t(1, dtype="int64", special=(0,)), second=False),
        s(t(3), 0, t(0, dtype="int64"), second=False),
        dtypes=ANY,
        errors=(
            et(t(2, 3), 0, FAR),
            et(t(2, 3), 1, FAR),
            e(t(2, 3), 0, t(2)),
            e(t(2, 3), 0, WITHIN),
            et(t(2, 3), 2, PAIR),
        ),
    ),
    case(
        "torch.index_add",
        s(t(3, 2), 0, ROW, t(3, 2)),
        s(t(2, 3), 1, PAIR, t(2, 2), alpha=2),
        s(t(), 0, t(1, dtype="int64", special=(0,)), t(), second=False),
        *slices(s, FITTING),
        dtypes=(*FLOATS, *INTS),
        errors=(
            *slices(et, (*SHAPES, ((3,), (1,), (), 0), ((), (1,), (1,), 0))),
            e(t(3, 2), 0, FAR, t(1, 2)),
            e(t(3, 2), 0, ROW, t(2, 2)),
            e(t(3, 2), 0, ROW, t(3, 2, dtype="float32")),
            et(t(3, 2), 2, ROW, t(3, 2)),
        ),
        inplace=True,
    ),
    case(
        "torch.index_copy",
        s(t(3, 2), 0, PAIR, t(2, 2)),
        s(t(2, 3), 1, PAIR, t(2, 2)),
        *slices(s, (*FITTING, ((3,), (1,), (), 0), ((), (1,), (1,), 0))),
        dtypes=(*FLOATS, *INTS),
        errors=(
            *slices(et, SHAPES),
            e(t(3, 2), 0, FAR, t(1, 2)),
            e(t(3, 2), 0, ROW, t(2, 2)),
            e(t(3, 2), 0, PAIR, t(2, 2, dtype="float32")),
        ),
        inplace=True,
    ),
    case(
        "torch.index_fill",
        s(t(3, 2), 0, PAIR, 1.5),
        s(t(2, 3), 1, ROW, t()),
        dtypes=(*FLOATS, *INTS),
        errors=(e(t(3, 2), 0, FAR, 1.0), e(t(3, 2), 0, t(1), 1.0), e(t(3, 2), 0, PAIR, t(2))),
        inplace=True,
    ),
    case(
        "torch.index_put",
        s(t(2, 3), (PAIR, PAIR), t(2)),
        s(t(2, 3), (PAIR,), t(3)),
        s(t(2, 3), (MASK,), t(), second=False),
        s(t(3), (ROW,), t(3), accumulate=True, second=True),
        s(t(2, 3), (PAIR, PAIR), t(), accumulate=True, second=False),
        dtypes=FLOATS,
        errors=(
            e(t(2, 3), (FAR,), t(3)),
            e(t(2, 3), (PAIR, PAIR), t(3)),
            e(t(2, 3), (PAIR,), t(3, dtype="float32")),
            e(t(2, 3), (PAIR, PAIR, PAIR), t(2)),
        ),
        inplace=True,
    ),
    case(
        "torch.gather",
        s(t(2, 3), 1, GRID),
        s(t(2, 3), 0, WITHIN),
        s(t(), 0, t(dtype="int64", special=(0,)), second=False),
        s(t(2, 3), 1, t(2, 0, dtype="int64"), second=False),
        dtypes=ANY,
        errors=(
            e(t(2, 3), 1, t(1, 1, dtype="int64", special=(5,))),
            e(t(2, 3), 0, ROW),
            e(t(2, 3), 0, t(2, 3)),
            et(t(2, 3), 2, GRID),
            e(t(2, 2), 0, t(3, 3, dtype="int64", special=(0,) * 9)),
        ),
    ),
    case(
        "torch.scatter",
        s(t(2, 3), 1, UNIQUE, t(2, 2)),
        s(t(2, 3), 0, t(1, 3, dtype="int64", special=(0, 1, 0)), 1.5),
        s(t(2, 3), 0, t(1, 3, dtype="int64", special=(0, 1, 1)), t(1, 3), second=False),
        s(t(3), 0, ROW, t(3), reduce="add", second=False, grads=False),
        dtypes=(*FLOATS, *INTS),
        errors=(
            e(t(2, 3), 1, t(1, 1, dtype="int64", special=(5,)), t(1, 1)),
            e(t(2, 3), 0, ROW, t(3)),
            e(t(2, 3), 1, UNIQUE, t(2, 2, dtype="float32")),
            e(t(2, 3), 1, t(2, 2), t(2, 2)),
        ),
        inplace=True,
    ),
    case(
        "torch.scatter_add",
        s(t(2, 3), 1, GRID, t(2, 2)),
        s(t(3), 0, ROW, t(3)),
        dtypes=(*FLOATS, *INTS),
        errors=(
            e(t(2, 3), 1, t(1, 1, dtype="int64", special=(5,)), t(1, 1)),
            e(t(2, 3), 0, ROW, t(3)),
            e(t(2, 3), 1, GRID, t(1, 1)),
        ),
        inplace=True,
    ),
    case(
        "torch.scatter_reduce",
        *(s(t(2, 3), 1, GRID, t(2, 2), reduce=r) for r in ("sum", "prod", "mean", "amax", "amin")),
        s(t(3), 0, ROW, t(3), reduce="amax", include_self=False),
        s(t(3), 0, ROW, t(3), reduce="mean", include_self=False),
        s(t(3, special=(1.0, 2.0, 3.0)), 0, ROW, t(3, special=(3.0, 1.0, 3.0)), reduce="amax"),
        s(t(3), 0, ROW, t(3, special=(0.0, 1.0, 2.0)), reduce="prod"),
        dtypes=FLOATS,
        errors=(e(t(3), 0, ROW, t(3), reduce="median"), e(t(3), 0, FAR, t(3), reduce="sum")),
        inplace=True,
    ),
    case(
        "torch.take",
        s(t(2, 3), t(3, dtype="int64", special=(5, 0, -1))),
        s(t(2, 3), GRID),
        s(t(), t(dtype="int64", special=(0,)), second=False),
        s(t(2, 3, layout="transposed"), t(2, dtype="int64", special=(1, 4)), second=False),
        dtypes=ANY,
        errors=(e(t(2, 3), FAR), e(t(2, 3), t(2))),
    ),
    case(
        "torch.take_along_dim",
        s(t(2, 3), GRID, 1),
        s(t(2, 3), t(3, dtype="int64", special=(5, 0, 3))),
        s(t(2, 3), t(1, 3, dtype="int64", special=(0, 1, 0)), 0, second=False),
        dtypes=FLOATS,
        errors=(e(t(2, 3), ROW, 0), e(t(2, 3), t(2, 2), 1)),
    ),
    case(
        "torch.masked_fill",
        s(t(2, 3), MASK, 1.5),
        s(t(2, 3), MASK, t()),
        s(t(2, 3), b(3), 0, second=False),
        s(t(3), b(2, 1), 2.0, second=False),
        s(i(2, 3, high=3), MASK, 7),
        dtypes=(*FLOATS, *INTS, *COMPLEX),
        errors=(et(t(2), b(3), 0), e(t(2, 3), t(2, 3), 0), e(t(2, 3), MASK, t(2))),
        inplace=True,
    ),
    case("torch.masked_fill", s(i(2, 3, high=3), MASK, 1.5)),
    case(
        "torch.masked_select",
        s(t(2, 3), MASK),
        s(t(3), b(2, 1)),
        s(t(2, 3), b(3), second=False),
        s(t(), b(), second=False),
        dtypes=ANY,
        errors=(et(t(2), b(3)), e(t(2, 3), i(2, 3, high=2))),
    ),
    case(
        "torch.masked_scatter",
        s(t(2, 3), MASK, t(4)),
        s(t(2, 3), b(3), t(6)),
        dtypes=(*FLOATS, *INTS),
        errors=(e(t(2, 3), MASK, t(2)), e(t(2, 3), MASK, t(6, dtype="float32")), e(t(2), b(3), t(3))),
        inplace=True,
    ),
    case(
        "torch.where",
        s(MASK, t(2, 3), t(2, 3)),
        s(b(3), t(2, 1), t(3)),
        s(b(2, 3), 1.0, t(2, 3), second=False),
        s(b(3), t(3, dtype="float32"), 2.0, second=False),
        s(b(3), t(3, dtype="float32"), t(3), second=False),
        s(b(3), 1, 2),
        s(MASK),
        s(b(), t(), t()),
        dtypes=ANY,
        errors=(et(b(2), t(3), t(3)), e(t(3), t(3), t(3))),
    ),
    case(
        "torch.nonzero",
        s(MASK),
        s(t(3, special=(0.0, 1.0, -1.0))),
        s(t()),
        s(MASK, as_tuple=True),
        s(t(0, 3)),
        derivatives=0,
        jvp=False,
    ),
    case(
        "torch.nonzero_static",
        s(MASK, size=2),
        s(t(3, special=(0.0, 1.0, -1.0)), size=4, fill_value=7),
        s(t(), size=2),
        s(t(0, 3), size=2),
        s(MASK, size=0),
        errors=(et(MASK, size=-1),),
        derivatives=0,
        jvp=False,
    ),
    case(
        "torch.select_scatter",
        s(t(2, 3), t(3), 0, 1),
        s(t(2, 3), t(2), -1, -1),
        dtypes=ANY,
        errors=(e(t(2, 3), t(2), 0, 1), e(t(2, 3), t(3), 0, 2), et(t(2, 3), t(3), 2, 0)),
    ),
    case(
        "torch.slice_scatter",
        s(t(4, 2), t(2, 2), 0, 1, 3),
        s(t(2, 4), t(2, 2), 1, 0, 4, 2),
        s(t(3), t(3), second=False),
        dtypes=ANY,
        errors=(e(t(4, 2), t(3, 2), 0, 1, 3), et(t(4), t(2), 1, 0, 2)),
    ),
)
