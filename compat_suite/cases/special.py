"""Special functions."""

from __future__ import annotations

from typing import Any

from ..case import BOOL, FLOATS, INTS, Case, case, e, et, i, s, t
from .pointwise import INF, NAN, unary

# Poles other than 0 are left out: there torch divides by sin(pi x), which rounding keeps from being 0.
TRIGAMMA = {"tolerance": 1e2, "cause": "torch's trigamma is accurate to 1e-9 only"}
LOOSE: dict[str, Any] = {
    "tolerance": 10.0,
    "cause": "recurrences and series are summed in other orders",
    "derivatives": 1,
}
BESSEL = """
    airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1 modified_bessel_k0
    modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0
"""
POLYNOMIALS = [
    *[("chebyshev", kind) for kind in "tuvw"],
    *[("shifted_chebyshev", kind) for kind in "tuvw"],
    ("hermite", "h"),
    ("hermite", "he"),
    ("laguerre", "l"),
    ("legendre", "p"),
]
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
    *[
        case(f"torch.special.{name}", s(t(2, 3, low=0.1, high=2.5)), s(t(4, special=(0.0, -0.5, 20.0, NAN))), **LOOSE)
        for name in BESSEL.split()
    ],
    *[
        case(
            f"torch.special.{name}_polynomial_{kind}",
            s(t(2, 3, low=-1.0, high=1.0), i(3, high=9)),
            s(t(3, special=(1.0, -1.0, 1.5)), 4),
            s(0.5, i(3, high=4)),
            s(t(2), i(2, low=-2, high=0)),
            **LOOSE,
        )
        for name, kind in POLYNOMIALS
    ],
    *[
        case(
            f"torch.special.{name}",
            s(t(2, 3, low=0.5, high=4.0, grad=False), t(3, low=0.1, high=6.0)),
            s(t(4, special=(0.0, 1.0, 1.0, 2.0), grad=False), t(4, special=(1.0, 0.0, INF, -1.0))),
            dtypes=FLOATS,
            tolerance=10.0,
            cause="continued fractions end a little earlier or later",
        )
        for name in ("gammainc", "gammaincc")
    ],
    case("torch.special.gammaln", s(t(2, 3, low=0.3, high=4.0)), dtypes=FLOATS, **TRIGAMMA),
    case("torch.special.psi", s(t(2, 3, low=0.3, high=4.0)), dtypes=FLOATS, **TRIGAMMA),
    case("torch.special.multigammaln", s(t(2, 3, low=2.0, high=5.0), 3), errors=(et(t(2), 0),), **TRIGAMMA),
    case("torch.mvlgamma", s(t(2, 3, low=2.0, high=5.0), 3), s(t(low=1.0, high=3.0), 1), inplace=True, **TRIGAMMA),
    case(
        "torch.special.zeta",
        s(t(3, low=1.5, high=4.0, grad=False), t(3, low=0.5, high=3.0)),
        s(t(4, special=(1.0, 0.5, 2.0, 3.0), grad=False), t(4, special=(2.0, 2.0, 0.0, -1.0))),
        s(2.5, t(2, low=0.5, high=3.0)),
    ),
    case("torch.polygamma", s(1, t(2, 3, low=0.5, high=4.0)), s(3, t(3, special=(1.0, 0.0, 2.5))), **TRIGAMMA),
)
