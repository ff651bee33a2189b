"""Whole numbers that overflow, the least of them, membership, and histograms."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ..case import Case, T, b, case, et, i, s, t
from .pointwise import INF, NAN

NONE: dict[str, Any] = {"derivatives": 0, "jvp": False}
DTYPES = ("uint8", "int8", "int16", "int32", "int64")
BASES = (0, 1, 2, 3, 7, 10, 127, -1, -2, -3, -128)
EXPONENTS = (0, 1, 2, 7, 8, 31, 32, 63, 64, 65, 100, 127)
EDGES = {
    "uint8": (0, 1, 2, 6, 12, 128, 254, 255),
    "int8": (-128, -127, -64, -12, -2, -1, 0, 1, 3, 6, 64, 127),
    "int16": (-32768, -32767, -16384, -12, 0, 1, 3, 6, 16384, 32767),
}


def of(dtype: str, values: tuple[Any, ...], *tail: int) -> T:
    """A tensor of those values that the dtype holds."""
    info = np.iinfo(dtype)
    held = tuple(v for v in values if info.min <= v <= info.max)
    return t(len(held), *tail, dtype=dtype, special=held)


def least(dtype: str, *values: int) -> T:
    """A tensor of values, of which 0 stands for the least one of the dtype."""
    return t(len(values), dtype=dtype, special=tuple(v or np.iinfo(dtype).min for v in values))


POWERS = (
    case(
        "torch.pow",
        *(
            s(of(x, BASES, 1), of(y, EXPONENTS))
            for x, y in (*zip(DTYPES, DTYPES), ("int8", "int64"), ("uint8", "int16"))
        ),
        *(s(base, of(name, EXPONENTS)) for name in DTYPES for base in (0, 1, 2, -1, 3)),
        *(s(of(name, BASES), k) for name in DTYPES for k in (0, 3, 64, 127)),
        *(s(of("int64", (0, 1, -1, 2, -2)), of("int64", (k,))) for k in (-1, -2, -63, -64, -65, -(2**63))),
        s(of("int64", (3, -5, 2, 7)), of("int64", (2**62, 2**53 - 1, 2**40, 2**33 + 3))),
        **NONE,
    ),
    case("torch.float_power", s(2, of("int64", (1, 63, 64))), **NONE),
    case(
        "Tensor.pow_",
        s(of("int32", (3, 5, -2)), i(high=71, low=70)),
        s(of("int8", (3, 5, -2)), of("int64", (70, 71, 100))),
        **NONE,
    ),
    *(
        case(
            f"torch.{name}",
            *(s(of(dtype, values, 1), of(dtype, values)) for dtype, values in EDGES.items()),
            # Not by what makes torch divide the least integer by -1, which ends the process there.
            *(s(least(d, 0, 0, 3, 0, 6, -6), least(d, 3, 12, 0, 0, 0, 0)) for d in ("int32", "int64")),
            **NONE,
        )
        for name in ("gcd", "lcm")
    ),
)
SQUARE = t(2, 2, dtype="int64", special=(1, 2, 3, 4))
MEMBERS = (
    case(
        "torch.isin",
        s(SQUARE, of("int64", (2, 3))),
        s(SQUARE, 2.0),
        s(2, SQUARE),
        s(SQUARE, t(0), invert=True),
        s(t(2, special=(NAN, INF)), t(2, special=(NAN, INF))),
        s(SQUARE, of("int64", (1, 2)), assume_unique=True),
        s(t(2, 2, dtype="uint8", special=(1, 2, 3, 4)), of("int64", (1, 3, 5))),
        errors=(
            *(et(b(2), x) for x in (b(2), t(1), True, 1, 1.5, t(1, dtype="complex64"))),
            et(t(1), b(2)),
            et(True, b(2)),
            et(t(1), True),
            et(i(1, high=2), t(1, dtype="complex64")),
            et(t(1, dtype="complex64"), b(2)),
            et(b(0), t(1)),
        ),
        **NONE,
    ),
)


def f(*values: Any, dtype: str = "float32") -> T:
    """A row of numbers, in single precision."""
    return t(len(values), dtype=dtype, special=values)


SAME = [f(v, v, v) for v in (0.0, 1.0, -3.0, 1e8, 16777216.0, 8388608.0, 1e30)]
ROWS = [f(-2.0, -0.0, 2.0, -4.0), f(3.0, -2.0, 0.1, 4.0, -4.0, 0.0), f(0.25, -1.9, 3.7)]
WEIGHED: dict[str, Any] = {"range": (0.0, 4.0), "weight": f(0.5, 2.0, 0.0, 1.0)}
ONE = f(1.0, 1.0, 1.0, 1.0)
GRID = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 4.0, 1.0, 3.9, 4.9)


def grids(dtype: str) -> tuple[tuple[tuple[Any, ...], dict[str, Any]], ...]:
    """Bins, and what else a histogram of points is made with."""
    return (
        (([2, 3],), {}),
        ((2,), {"weight": f(1.0, 3.0, 5.0, 5.0, 4.9, dtype=dtype)}),
        (([2, 3],), {"range": [0.0, 4.0, 0.0, 5.0], "density": True}),
        (([f(0.0, 2.0, 4.0, dtype=dtype), f(0.0, 1.0, 9.0, dtype=dtype)],), {}),
    )


HISTOGRAMS = (
    case(
        "torch.histc",
        *(s(x, bins) for x in SAME for bins in (1, 2, 5)),
        *(s(x, bins, *ends) for x in ROWS for bins in range(2, 10) for ends in ((), (-5, 5))),
        s(f(1e8, 1e8 + 8), 4),
        errors=(et(ONE, 4, 2, 1),),
        **NONE,
    ),
    case(
        "torch.histogram",
        *(s(x, bins) for x in SAME for bins in (1, 2, 5)),
        *(s(x, bins) for x in ROWS for bins in range(2, 10)),
        *(
            s(x, 4, range=ends, density=density)
            for x in (ONE, t(0, dtype="float32"))
            for ends in (None, (1.0, 1.0), (2.0, 2.0), (0.0, 0.0))
            for density in (False, True)
        ),
        s(f(1e8, 1e8 + 8), 4),
        *(s(f(1.0, 1.0, 3.0, NAN), 4, density=density, **WEIGHED) for density in (False, True)),
        s(f(1.0, 1.0), 3, weight=f(0.0, 0.0), density=True),
        *(s(f(0.0, 1.0, 1.0, 2.0, INF, NAN), f(*ends)) for ends in ((0.0, 1.0, 1.0, 2.0), (1.0, 1.0), (0.0, INF))),
        errors=(
            et(ONE, t(0, dtype="float32")),
            et(ONE, f(0.0)),
            *(et(ONE, 4, range=ends) for ends in ((0.0, INF), (NAN, 1.0), (1.0,), (2.0, 1.0))),
            et(ONE, 4, weight=t(4)),
            et(ONE, 0),
            et(f(INF, INF), 4),
        ),
        **NONE,
    ),
    case(
        "torch.histogramdd",
        *(
            s(t(5, 2, dtype=dtype, special=GRID), *args, **keywords)
            for dtype in ("float32", "float64")
            for args, keywords in grids(dtype)
        ),
        s(t(1, 5, 2, special=GRID), 2, weight=t(1, 5)),
        # The edges are numbers that float32 has, which few are there.
        *(
            s(t(4, 2, dtype="float32", special=(x, 1.0, x + 64, 2.0, x + 128, 3.0, x + 200, 1.5)), bins)
            for x, bins in itertools.product((1e9, 16777216.0, 3e4), ([3, 2], [7, 1], 5))
        ),
        s(t(0, 2, dtype="float32"), 2),
        s(t(3, 2, special=(1.0,) * 6), 2, range=[0.0, 1.0, 0.0, 1.0]),
        errors=(
            et(t(2, 2, special=(0.0, INF, 1.0, 2.0)), 2),
            et(t(1, 2), [2, 0]),
            et(t(1, 2), [2]),
            et(t(3, 2), 2, range=[0.0, 1.0]),
        ),
        **NONE,
    ),
)

CASES: tuple[Case, ...] = (*POWERS, *MEMBERS, *HISTOGRAMS)
