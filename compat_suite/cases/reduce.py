"""Reductions: all elements, one dimension, several, kept or not; 0-dim, empty, ties."""

from __future__ import annotations

from typing import Any

from ..case import BOOL, COMPLEX, FLOATS, INTS, Case, D, b, case, e, et, i, s, t
from .pointwise import INF, NAN

ALL = (*FLOATS, *INTS, *BOOL, *COMPLEX)
TIES = (1.0, 2.0, 2.0, 0.0, 2.0, 1.0)
RANGE = et(t(2, 3), 2)
REPEATED = e(t(2, 3), (0, 0))


def over_dims(
    name: str,
    *extra: Any,
    dtypes: tuple[str, ...] = ALL,
    errors: Any = (RANGE, REPEATED),
    empty: bool = True,
    **options: Any,
) -> Case:
    """A reduction over any set of dimensions."""
    samples = [
        s(t(2, 3)),
        s(t(2, 3), 1),
        s(t(2, 3, 2), (0, -1)),
        s(t(2, 3), 0, keepdim=True, second=False),
        s(t(3, 2, layout="transposed"), -1, second=False),
        s(t(), second=False),
    ]
    if empty:
        samples += [s(t(0, 3), 0, second=False), s(t(0), second=False)]
    return case(f"torch.{name}", *samples, *extra, dtypes=dtypes, errors=errors, **options)


CASES: tuple[Case, ...] = (
    over_dims(
        "sum",
        s(t(2, 3), dtype=D("float32")),
        s(i(3, high=3), dtype=D("float64")),
        s(t(), 0),
        s(b(3)),
        jax="jax.numpy.sum",
    ),
    over_dims(
        "mean",
        s(t(2, 3), 1, dtype=D("float32")),
        dtypes=(*FLOATS, *COMPLEX),
        errors=(RANGE, e(i(3, high=3))),
        jax="jax.numpy.mean",
    ),
    over_dims(
        "nansum",
        s(t(2, 2, special=(NAN, 1.0, 2.0, NAN))),
        s(t(2, 2, special=(NAN, 1.0, NAN, 2.0)), 0),
        dtypes=(*FLOATS, *INTS),
        jax="jax.numpy.nansum",
    ),
    case(
        "torch.prod",
        s(t(2, 3)),
        s(t(2, 3), 1),
        s(t(3, special=(0.0, 2.0, 3.0))),
        s(t(2, 3, special=(0.0, 2.0, 0.0, 3.0, 1.0, 2.0)), 1, second=True),
        s(t(2, 3), 0, keepdim=True, second=False),
        s(t(0, 3), 0),
        s(t()),
        s(t(3, 2, layout="transposed"), 0),
        s(i(3, high=3)),
        s(b(3)),
        s(t(2, 3), dtype=D("float32")),
        dtypes=ALL,
        errors=(RANGE,),
        jax="jax.numpy.prod",
    ),
    over_dims(
        "std",
        s(t(2, 3), 1, correction=0),
        s(t(2, 3), unbiased=False),
        s(t(3, special=(1.0, 1.0, 1.0))),
        s(t(2, 1), 1, second=False),
        dtypes=(*FLOATS, *COMPLEX),
        errors=(RANGE, et(i(3, high=3)), et(i(3, high=3), 5)),
    ),
    over_dims(
        "var",
        s(t(2, 3), 1, correction=0),
        s(t(2, 3), unbiased=False),
        s(t(3, special=(1.0, 1.0, 1.0))),
        s(t(2, 1), 1, second=False),
        dtypes=(*FLOATS, *COMPLEX),
        errors=(RANGE, et(i(3, high=3)), et(i(3, high=3), 5)),
    ),
    over_dims(
        "std_mean", s(t(2, 3), 1, correction=0), dtypes=FLOATS, errors=(RANGE, et(i(3, high=3)), et(i(3, high=3), 5))
    ),
    over_dims(
        "var_mean", s(t(2, 3), 1, correction=0), dtypes=FLOATS, errors=(RANGE, et(i(3, high=3)), et(i(3, high=3), 5))
    ),
    over_dims(
        "amax",
        s(t(2, 3, special=TIES), 1, second=True),
        s(t(6, special=TIES)),
        s(t(3, special=(1.0, NAN, 2.0))),
        dtypes=(*FLOATS, *INTS, *BOOL),
        empty=False,
        errors=(RANGE, REPEATED, e(t(0, 3), 0)),
        jax="jax.numpy.max",
    ),
    over_dims(
        "amin",
        s(t(2, 3, special=TIES), 1, second=True),
        s(t(6, special=TIES)),
        s(t(3, special=(1.0, NAN, 2.0))),
        dtypes=(*FLOATS, *INTS, *BOOL),
        empty=False,
        errors=(RANGE, REPEATED, e(t(0, 3), 0)),
        jax="jax.numpy.min",
    ),
    *(
        case(
            f"torch.{name}",
            s(t(2, 3)),
            s(t(2, 3), 1),
            s(t(2, 3, special=TIES), 1),
            s(t(6, special=TIES)),
            s(t(3, special=(1.0, NAN, 2.0)), 0),
            s(t(2, 3), 0, keepdim=True, second=False),
            s(t(3, 2, layout="transposed"), 1),
            s(t(), 0),
            s(t(2, 3), t(3)),
            s(t(3, special=(1.0, 2.0, NAN)), t(3, special=(1.0, 3.0, 0.0))),
            s(i(2, 3, high=3), 1),
            dtypes=(*FLOATS, *INTS, *BOOL),
            errors=(RANGE, e(t(0)), e(t(0, 3), 0), et(t(2), t(3))),
        )
        for name in ("max", "min")
    ),
    *(
        case(
            f"torch.{name}",
            s(t(2, 3)),
            s(t(2, 3), 1),
            s(t(2, 3, special=TIES), 1, keepdim=True),
            s(t(6, special=TIES)),
            s(t(3, special=(1.0, NAN, NAN))),
            s(t()),
            s(t(0, 3), -1),
            s(i(2, 3, high=3), 0),
            dtypes=(*FLOATS, *INTS),
            errors=(RANGE, e(t(0))),
            derivatives=0,
            jvp=False,
            jax=f"jax.numpy.{name}",
        )
        for name in ("argmax", "argmin")
    ),
    *(
        case(
            f"torch.{name}",
            s(b(2, 3)),
            s(b(2, 3), 1),
            s(b(2, 3), 0, keepdim=True),
            s(t(3, special=(0.0, 1.0, NAN))),
            s(b(0, 3), 0),
            s(b(0)),
            s(b()),
            s(i(2, 3, high=2), 1),
            s(t(3, dtype="uint8", high=1)),
            s(b(2, 3, 2), (0, 2)),
            errors=(et(b(2), 1),),
            derivatives=0,
            jvp=False,
            jax=f"jax.numpy.{name}",
        )
        for name in ("all", "any")
    ),
    case(
        "torch.logsumexp",
        s(t(2, 3), 1),
        s(t(2, 3), (0, 1)),
        s(t(2, 3), 0, keepdim=True, second=False),
        s(t(3, special=(-INF, 0.0, 1.0)), 0),
        s(t(2, special=(-INF, -INF)), 0),
        s(t(2, special=(INF, 1.0)), 0),
        s(t(), 0),
        s(i(3, high=3), 0),
        dtypes=FLOATS,
        errors=(RANGE,),
        jax="jax.scipy.special.logsumexp",
    ),
    case(
        "torch.norm",
        s(t(2, 3)),
        s(t(2, 3), 1, 0),
        s(t(2, 3), 3, 1, True),
        s(t(2, 3), "fro"),
        s(t(3, special=(0.0, 0.0, 0.0))),
        s(t(2, 3), INF),
        s(t(2, 3), -INF, 1),
        s(t(2, 3), 0, 1, second=False),
        s(t(3, 3, make="regular"), "nuc", second=False),
        s(t(3, special=(2.0, -2.0, 1.0)), INF),
        dtypes=(*FLOATS, *COMPLEX),
        errors=(et(t(2, 3), 2, 2), e(i(3, high=3))),
    ),
    case(
        "torch.linalg.norm",
        s(t(2, 3)),
        s(t(3), 1),
        s(t(3, 3, make="regular"), "fro"),
        s(t(3, 3, make="regular"), "nuc", second=False),
        s(t(3, 3, make="regular"), 2, second=False),
        s(t(2, 3), 1, second=False),
        s(t(2, 3), INF, second=False),
        s(t(2, 3, 2), dim=1),
        s(t(2, 3, 2), dim=(0, 2), keepdim=True),
        s(t(3, special=(0.0, 0.0, 0.0))),
        s(t(2, 2, special=(0.0,) * 4), "fro"),
        dtypes=(*FLOATS, *COMPLEX),
        errors=(e(i(3, high=3)), e(t(2, 3, 2), "fro"), e(t(3), "x")),
        tolerance=10.0,
        cause="norms of singular values go through different LAPACK drivers",
    ),
    case(
        "torch.linalg.vector_norm",
        s(t(2, 3)),
        s(t(2, 3), 1, 0),
        s(t(2, 3), 3.5, (0, 1), True),
        s(t(3, special=(0.0, 0.0, 0.0))),
        s(t(3, special=(0.0, 1.0, 0.0)), 1),
        s(t(2, 3), INF),
        s(t(3, special=(2.0, -2.0, 1.0)), INF),
        s(t(2, 3), -INF),
        s(t(2, 3), 0, second=False),
        s(t(3, dtype="float32"), dtype=D("float64")),
        s(t()),
        s(t(0), 2),
        dtypes=(*FLOATS, *COMPLEX),
        errors=(et(t(2, 3), 2, 2), e(i(3, high=3)), e(t(3), dtype=D("float32"))),
    ),
    case(
        "torch.median",
        s(t(2, 3)),
        s(t(2, 3), 1),
        s(t(4, special=(1.0, 2.0, 3.0, 4.0))),
        s(t(3, special=(1.0, NAN, 0.0))),
        s(t(2, 3), 0, keepdim=True),
        s(t()),
        s(i(4, high=9), 0),
        dtypes=FLOATS,
        errors=(RANGE,),
    ),
    case(
        "torch.count_nonzero",
        s(t(2, 3, special=(0.0, 1.0, NAN))),
        s(i(2, 3, high=2), 1),
        s(b(2, 3), (0, 1)),
        s(t(0)),
        s(t()),
        derivatives=0,
        jvp=False,
        errors=(et(t(2), 1),),
        jax="jax.numpy.count_nonzero",
    ),
    case(
        "torch.aminmax",
        s(t(2, 3)),
        s(t(2, 3), dim=1),
        s(t(3, 2, special=(1.0, 1.0, 0.0, 2.0, 0.0, 2.0)), dim=0, keepdim=True),
        s(t(3, special=(1.0, NAN, 0.0)), dim=0, grads=False),
        s(t(), dim=0),
        dtypes=(*FLOATS, *INTS, *BOOL),
        errors=(et(t(0)), e(t(2, 3), dim=2)),
    ),
    *[
        case(
            f"torch.{name}",
            s(t(2, 5), 0.3),
            s(t(2, 5), t(2, special=(0.25, 1.0), grad=False), 1, second=False),
            s(t(3, 2), 0.5, 0, True, interpolation="nearest", second=False),
            s(t(4, special=(NAN, 1.0, 3.0, 2.0)), 0.4, second=False),
            *[s(t(5), 0.3, interpolation=way, second=False) for way in ("lower", "higher", "midpoint")],
            dtypes=("float32",),
            errors=(e(t(3), 1.5), e(i(3, high=3), 0.5), e(t(3), 0.5, 1)),
        )
        for name in ("quantile", "nanquantile")
    ],
    case(
        "torch.nanmedian",
        s(t(2, 5)),
        s(t(2, 4), 1),
        s(t(5, special=(NAN, 3.0, 1.0, NAN, 2.0)), 0, True),
        s(t(2, special=(NAN, NAN))),
        dtypes=(*FLOATS, *INTS),
        errors=(e(t(2), 1),),
    ),
    case(
        "torch.cov",
        s(t(3, 4)),
        s(t(2, 4), correction=0, second=False),
        s(t(2, 3), fweights=i(3, low=1, high=4), second=False),
        s(t(4)),
        s(t(2, 3), aweights=t(3, low=0.1, grad=False), second=False),
        errors=(e(t(2, 2, 2)), e(t(2, 3), fweights=t(3))),
    ),
    case("torch.corrcoef", s(t(3, 4)), s(t(4), second=False), s(t(2, 3, dtype="complex128"), second=False)),
    case("torch.frobenius_norm", s(t(2, 3), 1), s(t(2, 3), (0, 1), True)),
    case(
        "torch.trapezoid",
        s(t(2, 4)),
        s(t(2, 4), t(4)),
        s(t(2, 4), dx=0.5, dim=0),
        s(t(1)),
        dtypes=("float32",),
        errors=(e(t()), e(t(3), t(2))),
    ),
    case("torch.cumulative_trapezoid", s(t(2, 4)), s(t(2, 4), t(4)), s(t(2, 4), dx=0.5, dim=0), errors=(e(t()),)),
    case(
        "torch.nn.functional.pairwise_distance",
        s(t(2, 3), t(2, 3)),
        s(t(2, 3), t(3), 1.0, keepdim=True, second=False),
        s(t(3), t(3), INF, second=False),
    ),
    case("Tensor.sum_to_size", s(t(2, 3), (1, 3)), s(t(2, 3), (3,)), s(t(2, 3), ()), errors=(e(t(2, 3), (2, 2)),)),
)
