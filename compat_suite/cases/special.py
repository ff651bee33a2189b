"""Special functions."""

from __future__ import annotations

from ..case import BOOL, FLOATS, INTS, Case, case, e, s, t
from .pointwise import INF, NAN, unary

# Poles other than 0 are left out: there torch divides by sin(pi x), which rounding keeps from being 0.
TRIGAMMA = {"tolerance": 1e2, "cause": "torch's trigamma is accurate to 1e-9 only"}
REAL = (*FLOATS, *INTS, *BOOL)

CASES: tuple[Case, ...] = (
    unary("erf", special=(0.0, 10.0, -INF), dtypes=REAL, jax="jax.scipy.special.erf"),
    unary("erfinv", low=-0.9, high=0.9, special=(0.0, 1.0, -1.0, 2.0), dtypes=REAL),
    unary(
        "lgamma",
        low=0.3,
        high=4.0,
        special=(1.0, 2.0, 0.0, -0.5),
        dtypes=REAL,
        jax="jax.scipy.special.gammaln",
        **TRIGAMMA,
    ),
    unary(
        "digamma", low=0.3, high=4.0, special=(1.0, 0.0, -0.5), dtypes=REAL, jax="jax.scipy.special.digamma", **TRIGAMMA
    ),
    case(
        "torch.logit",
        s(t(2, 3, low=0.1, high=0.9)),
        s(t(4, special=(0.0, 1.0, 0.5, -1.0))),
        s(t(4, special=(0.0, 1.0, 0.2, 0.9)), 0.2),
        s(t(low=0.1, high=0.9)),
        dtypes=FLOATS,
        inplace=True,
        errors=(e("x"),),
    ),
    case("torch.special.expit", s(t(2, 3)), s(t(2, special=(NAN, INF))), core="sigmoid", dtypes=FLOATS),
)
