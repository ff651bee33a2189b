"""Elementwise functions where zeros, infinities, NaN, poles and ties meet, going in and coming back.

Of each function at each point: the value, the gradient for each gradient that comes in, the second
gradient and the tangent, in double and single precision.
"""

from __future__ import annotations

import cmath
from typing import Any

from ..case import CUTS, FEWER_INCOMING, INCOMING, PAIRED, POINTS, TRIPLES, Case, T, b, case, s, t
from .pointwise import INF, NAN

ONE = """
    abs acos acosh angle asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 frac i0
    lgamma log log10 log1p log2 logit nan_to_num neg reciprocal relu round rsqrt sigmoid sign sin sinc sinh sqrt
    square tan tanh trunc
    special.entr special.erfcx special.i0e special.i1 special.i1e special.log_ndtr special.ndtr
    special.ndtri
"""
ACTIVATIONS = """
    relu relu6 elu selu celu gelu silu mish softplus hardtanh hardswish hardsigmoid leaky_relu logsigmoid softsign
    tanhshrink hardshrink softshrink
"""
TWO = """
    add sub mul div atan2 pow maximum minimum fmax fmin hypot copysign logaddexp logaddexp2 xlogy special.xlog1py
    fmod remainder ldexp clamp_min clamp_max clamp
"""
LOSSES = """
    mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy_with_logits kl_div poisson_nll_loss
"""
FLOATS = ("float32", "float16", "bfloat16")
EACH = len(POINTS) * len(INCOMING)
PAIRS = len(PAIRED) ** 2 * len(FEWER_INCOMING)
POINT, LEFT, RIGHT = t(EACH, make="points"), t(PAIRS, make="left"), t(PAIRS, make="right")
# torch's loops for vectors and for the rest of a tensor disagree about what activations make of NaN, the last point.
NUMBER = t(EACH - len(INCOMING), make="points")
TRIPLE = tuple(t(len(TRIPLES) ** 3 * len(FEWER_INCOMING), make=which) for which in ("first", "second", "third"))
EXCEPTIONS: dict[str, dict[str, Any]] = {
    "special.log_ndtr": {"tolerance": 1e2, "cause": "torch's second gradient is the difference of nearly equal terms"},
    "gelu": {"dtypes": ()},  # in single precision torch's loop for vectors makes NaN of infinity
}


def of_points(op: str, *args: Any, x: T = POINT, **options: Any) -> Case:
    """The function of all points."""
    return case(op, s(x, *args, incoming=INCOMING, second=True), **{"dtypes": FLOATS} | options)


def of_several(op: str, *args: Any, options: Any = (), **keywords: Any) -> Case:
    """The function of all pairs or triples."""
    call = s(*args, incoming=FEWER_INCOMING, second=True, **keywords)
    return case(op, call, dtypes=FLOATS, **dict(options))


def of_rows(op: str, *args: Any, **keywords: Any) -> Case:
    """The reduction of rows of zeros, infinities and NaN, each with each gradient that comes in."""
    return case(
        op, s(t(20, 3, make="rows"), *args, incoming=(1.0, 0.0, INF, NAN), **keywords), derivatives=1, jvp=False
    )


ZERO = t(3, 3, special=(0.5, -1.0, 2.0, 0.0, 0.0, 0.0, 1.0, 0.25, -3.0))
F = "torch.nn.functional"


def factor_of_zero(op: str, *args: Any, **keywords: Any) -> Case:
    """A gradient that is multiplied by 0 is NaN where it is infinite; one that is masked is 0."""
    call = s(*args, incoming=(1.0, 0.0, INF, NAN, 1.0, 2.0, 3.0), **keywords)
    return case(op, call, derivatives=1, jvp=False)


ELEMENTWISE = (
    *(of_points(f"torch.{name}", **EXCEPTIONS.get(name, {})) for name in ONE.split()),
    *(of_points(f"{F}.{name}", x=NUMBER, **EXCEPTIONS.get(name, {})) for name in ACTIVATIONS.split()),
    *(of_points("torch.pow", p) for p in (0, 1, 2, 3, -1, -2, 0.5, -0.5, 2.5)),
    *(of_points("Tensor.__rpow__", p) for p in (0.0, 1.0, 2.0, -1.5)),
    of_points("torch.logit", 0.25, x=NUMBER),  # with bounds the gradient of NaN is NaN, or 0 if it is recorded
    *(of_several(f"torch.{name}", LEFT, RIGHT) for name in TWO.split()),
    *(of_several(f"{F}.{name}", LEFT, RIGHT, reduction="none") for name in LOSSES.split()),
    of_several("torch.heaviside", LEFT, RIGHT, options={"jvp": False}),
    of_several(f"{F}.smooth_l1_loss", LEFT, RIGHT, reduction="none", beta=0.5),
    of_several(f"{F}.huber_loss", LEFT, RIGHT, reduction="none", delta=0.5),
    of_several(
        f"{F}.binary_cross_entropy_with_logits",
        LEFT,
        RIGHT,
        pos_weight=t(low=2.0, high=2.0, grad=False),
        reduction="none",
    ),
    of_several("torch.lerp", LEFT, RIGHT, 0.3),
    of_several("torch.clamp", LEFT, None, RIGHT),
    of_several("torch.clamp", LEFT, RIGHT, RIGHT),
    of_several(f"{F}.prelu", t(1, PAIRS, make="left"), RIGHT),
    of_several("torch.where", b(PAIRS), LEFT, RIGHT),
    *(of_several(f"torch.{name}", *TRIPLE) for name in ("lerp", "clamp", "addcmul", "addcdiv")),
)

OTHERS = (
    *(of_rows(f"torch.{name}", 1) for name in ("nansum", "nanmean", "logsumexp", "std", "prod", "amax", "softmax")),
    *(of_rows("torch.linalg.vector_norm", p, 1) for p in (2, 3, 1.5)),
    of_rows("torch.norm", 2, 1),
    factor_of_zero("torch.addmm", ZERO, ZERO, ZERO, beta=0),
    factor_of_zero("torch.baddbmm", t(1, 3, 3), t(1, 3, 3, special=ZERO.special), t(1, 3, 3), beta=0, alpha=2),
    factor_of_zero("torch.addr", ZERO, t(3, special=(0.5, 0.0, 2.0)), t(3, special=(0.0, -1.0, 0.0)), beta=0),
    factor_of_zero("torch.addmv", t(3), ZERO, t(3, special=(0.0, 1.0, 0.0)), beta=0),
    *(
        factor_of_zero("torch.cdist", ZERO, t(2, 3, special=(0.5, -1.0, 2.0, 1.0, 1.0, 0.0)), p)
        for p in (2.0, INF, 0.5, 3.0)
    ),
    *(factor_of_zero(f"{F}.pdist", ZERO, p) for p in (2.0, INF)),
    case(
        "torch.prod",
        *(
            s(t(3, special=row), *dim)
            for row in ((0, 0, NAN), (0, 0, INF), (0, NAN, 1), (0, INF, 2), (0, 0, 2), (0, 3, 2))
            for dim in ((), (0,))
        ),
        derivatives=1,
        jvp=False,
    ),
    case(
        "torch.special.log_ndtr",
        s(t(7, special=(-30.0, -5.0, -1.0, 0.5, 5.5, 6.0, 9.0))),
        **EXCEPTIONS["special.log_ndtr"] | {"dtypes": ("float32",)},
    ),
    case(
        "torch.special.bessel_j0",
        s(t(5, special=(0.0, 1.0, INF, -INF, NAN))),
        tolerance=1e3,
        cause="torch's is off in the tenth digit",
    ),
    case(
        "torch.div",
        s(
            t(4, dtype="float32", special=(1e-30, 0.0, 3e-20, 1e30)),
            t(4, dtype="float32", special=(1e-30, 1e-30, 2e-25, 1e25)),
            second=False,
        ),
    ),
    case("torch.ldexp", s(*[t(8, special=(0.0, -1.0, 1.0, 2.0, -2.0, 0.5, -3.0, 4.0))] * 2)),
    case("torch.dist", s(t(2, special=(1.0, 2.0)), t(2, special=(1.0, 3.0), grad=False), 0)),
    case(
        f"{F}.soft_margin_loss",
        s(t(3, special=(1000.0, -1000.0, 2.0)), t(3, special=(-1.0,) * 3, grad=False), reduction="none"),
    ),
    case(
        f"{F}.cosine_embedding_loss",
        s(
            t(2, 3, special=(0.0,) * 6),
            t(2, 3, special=(0.5, 1.0, 2.0, 1.0, 0.0, 0.0), grad=False),
            t(2, dtype="int64", special=(1, -1)),
            second=False,
        ),
    ),
    case(
        f"{F}.embedding_bag",
        s(
            t(3, 2, dtype="int64", special=(0, 1, 1, 2, 2, 0)),
            t(3, 2, special=(1.0, 2.0, NAN, 3.0, 2.0, NAN)),
            mode="max",
            second=False,
        ),
    ),
    case(f"{F}.softplus", s(t(5, special=(0.5, 1.0, 0.2, 0.4999, -3.0)), 2, 1)),
)
INTO, OF = (t(16, 3, make="bases"), 1, t(16, 6, make="places", dtype="int64")), t(16, 6, make="sources")
SCATTERED = tuple(
    case("torch.scatter_reduce", s(*INTO, OF, reduce, include_self=kept, second=True), jvp=False)
    for reduce in ("sum", "mean", "prod", "amax", "amin")
    for kept in (True, False)
)

# Arguments of incomplete gamma functions, large, huge and at the edges; of the first one torch has no derivative.
LARGE = [(a, a * r) for a in (9.9, 10.0, 150.0, 1e3, 3e4) for r in (0.59, 0.61, 0.9, 1.0, 1.001, 1.1, 1.39, 1.41)]
HUGE = [(1e9, 1e9), (1e17, 1e17), (1e30, 1e30), (1e30, 2e30), (1e30, 3e29)]
AT_THE_EDGES = [(a, x) for a in (0.0, 1.0, 50.0, INF) for x in (0.0, 0.5, 50.0, INF)]


def gamma(name: str, pairs: list[tuple[float, float]], tolerance: float, cause: str, **options: Any) -> Case:
    """An incomplete gamma function of pairs."""
    a, x = zip(*pairs)
    call = s(t(len(a), special=a, grad=False), t(len(x), special=x), second=True)
    return case(f"torch.{name}", call, tolerance=tolerance, cause=cause, **options)


GAMMA = tuple(
    made
    for name in ("igamma", "igammac")
    for made in (
        gamma(name, LARGE, 1e4, "torch's have nine digits", dtypes=("float32",), jvp=False),
        gamma(name, HUGE, 1e9, "torch's have three digits", derivatives=0, jvp=False),
        gamma(
            name, AT_THE_EDGES, 1e4, "torch's have nine digits", dtypes=("float32", "float16"), derivatives=0, jvp=False
        ),
    )
)
COMPLEX = """
    abs acos acosh angle asin asinh atan atanh cos exp exp2 log reciprocal rsqrt sgn sigmoid sinh sqrt square tanh
"""
CUT = t(len(CUTS), make="cuts", dtype="complex128")
FINITE = t(sum(map(cmath.isfinite, CUTS)), make="finite", dtype="complex128")
BESIDE = (complex(-2, 0.0), complex(-2, -0.0), complex(2, -0.0), complex(0.5, 1), complex(-0.0, 2), complex(0.0, -2))


def merged(z: Any) -> Any:
    """Complex numbers that are not finite made one: which part of them is is up to the order of a kernel's steps."""
    return z.masked_fill(~z.isfinite(), NAN)


def on_cuts(op: str, z: T, *args: Any) -> Case:
    """A function of complex infinities and of both sides of branch cuts."""
    return case(op, s(z, *args, grads=False), process=merged)


CUT_CASES = (
    *(on_cuts(f"torch.{name}", FINITE if name in ("atan", "atanh") else CUT) for name in COMPLEX.split()),
    *(on_cuts("torch.pow", CUT, p) for p in (2, -1, -2, 0.5, -0.5, 2.5)),
    on_cuts("Tensor.__rpow__", FINITE, 2.0),
    *(
        case(f"torch.{name}", s(t(6, dtype="complex128", special=BESIDE), second=True), jvp=False)
        for name in ("sqrt", "asin", "acos", "atan", "asinh", "acosh", "atanh", "rsqrt", "exp")
    ),
)

CASES: tuple[Case, ...] = (*ELEMENTWISE, *OTHERS, *SCATTERED, *GAMMA, *CUT_CASES)
