"""Elementwise arithmetic, powers, rounding, trigonometry, complex parts."""

from __future__ import annotations

from typing import Any

from ..case import BOOL, COMPLEX, FLOATS, INTS, Case, b, case, e, et, i, s, t

INF, NAN = float("inf"), float("nan")
ALL = (*FLOATS, *INTS, *BOOL, *COMPLEX)


def unary(
    name: str,
    *,
    low: float = -2.0,
    high: float = 2.0,
    special: tuple[float, ...] = (),
    dtypes: tuple[str, ...] = ALL,
    smooth: bool = True,
    errors: Any = (),
    **options: Any,
) -> Case:
    """Plain, transposed, 0-dim, empty and special inputs."""
    options.setdefault("inplace", True)
    samples = [
        s(t(2, 3, low=low, high=high), smooth=smooth),
        s(t(3, 2, low=low, high=high, layout="transposed"), smooth=smooth, second=False),
        s(t(low=low, high=high), smooth=smooth, second=False),
        s(t(0, 3), second=False),
    ]
    if special:
        samples.append(s(t(len(special), special=special), second=True))
    return case(f"torch.{name}", *samples, dtypes=dtypes, errors=errors or (e("text"),), **options)


def binary(
    name: str,
    *,
    special: tuple[tuple[float, float], ...] = (),
    low: float = -2.0,
    high: float = 2.0,
    dtypes: tuple[str, ...] = (*FLOATS, *INTS, *COMPLEX),
    scalar: Any = 2.5,
    extra: Any = (),
    mixed: bool = True,
    **options: Any,
) -> Case:
    """Broadcasting, scalars, mixed dtypes, 0-dim and empty operands, ties and kinks."""
    options.setdefault("inplace", True)

    def x(*shape: int, **more: Any) -> Any:
        return t(*shape, low=low, high=high, **more)

    samples = [
        s(x(2, 3), x(2, 3)),
        s(x(2, 3), x(3)),
        s(x(2, 1), x(3), second=False),
        s(x(3, 2, layout="transposed"), x()),
    ]
    samples.append(s(x(0, 3), x(3), second=False))
    if scalar is not None:
        samples.append(s(x(3), scalar, second=True))
    if mixed:
        samples += [s(x(3, dtype="float32"), x()), s(x(3, dtype="int64", special=(1, 2, 1)), x(3), second=False)]
    if special:
        left, right = zip(*special)
        n = len(special)
        samples.append(s(t(n, special=left), t(n, special=right), second=True))
    errors = [et(x(2), x(3)), e(x(2), "text")]
    return case(f"torch.{name}", *samples, *extra, dtypes=dtypes, errors=tuple(errors), **options)


ROUNDING = (-2.5, -1.5, -0.5, -0.0, 0.0, 0.5, 1.5, 2.5, INF, NAN)
TIES = ((1.0, 1.0), (-0.0, 0.0), (2.0, -1.0), (NAN, 1.0), (1.0, NAN), (INF, 1.0))
DIVISION = ((1.0, 0.0), (-1.0, 0.0), (0.0, 0.0), (7.0, -3.0), (-7.0, 3.0), (6.0, 3.0), (INF, 2.0), (1.0, INF))
POWERS = ((0.0, 0.0), (0.0, 1.0), (0.0, 2.0), (0.0, -1.0), (-2.0, 2.0), (-2.0, 0.5), (1.0, INF), (NAN, 0.0))

ARITHMETIC = (
    binary(
        "add",
        extra=(s(t(2, 3), t(3), alpha=3), s(t(3), 2, alpha=2, second=False)),
        jax="jax.numpy.add",
        dtypes=(*FLOATS, *INTS, *BOOL, *COMPLEX),
    ),
    binary("sub", extra=(s(t(2, 3), t(3), alpha=0.5),), jax="jax.numpy.subtract"),
    binary(
        "mul",
        special=((0.0, INF), (2.0, NAN), (0.0, 3.0)),
        jax="jax.numpy.multiply",
        dtypes=(*FLOATS, *INTS, *BOOL, *COMPLEX),
    ),
    binary(
        "div",
        special=DIVISION,
        low=0.5,
        jax="jax.numpy.divide",
        extra=(
            s(t(4), t(4, low=0.5), rounding_mode="floor", smooth=False, second=False),
            s(t(4), t(4, low=0.5), rounding_mode="trunc", smooth=False, second=False),
            s(i(3, high=5), i(3, low=1, high=5)),
            s(i(4, low=-7, high=7), i(4, low=1, high=4), rounding_mode="floor"),
            s(i(4, low=-7, high=7), i(4, low=1, high=4), rounding_mode="trunc"),
        ),
    ),
    binary(
        "floor_divide",
        special=DIVISION,
        low=0.5,
        dtypes=(*FLOATS, *INTS),
        derivatives=0,
        jvp=False,
        scalar=2,
        extra=(s(i(4, low=-7, high=7), -2),),
    ),
    binary(
        "fmod",
        special=DIVISION[3:6],
        low=0.5,
        dtypes=(*FLOATS, *INTS),
        jax="jax.numpy.fmod",
        extra=(s(i(4, low=-7, high=7), 3),),
    ),
    binary(
        "remainder",
        special=DIVISION[3:6],
        low=0.5,
        dtypes=(*FLOATS, *INTS),
        jax="jax.numpy.remainder",
        extra=(s(i(4, low=-7, high=7), 3), s(-7.5, t(3, low=0.5), grads=False)),
    ),
    binary(
        "pow",
        low=0.3,
        special=POWERS,
        dtypes=FLOATS,
        extra=(
            s(t(3), 2),
            s(t(3), 3, second=False),
            s(t(3, low=0.5), 0.5, second=True),
            s(t(3), 0),
            s(t(3), 1),
            s(t(3), -1, second=False),
            s(2, t(3), second=True),
            s(0.0, t(3, special=(0.0, 1.0, 2.0))),
            s(i(3, high=4), 2),
            s(i(3, high=4), i(3, high=3)),
            s(t(3, special=(0.0, 0.0, -1.0)), 2.0),
            s(t(2, dtype="complex128"), 2),
            s(t(2, dtype="complex128"), t(2, dtype="complex128"), second=False),
        ),
    ),
    binary("float_power", low=0.3, special=POWERS, dtypes=(*FLOATS, *INTS), extra=(s(t(3), 2), s(2, t(3)))),
    binary(
        "atan2",
        special=((0.0, 1.0), (1.0, 0.0), (0.0, -1.0), (-0.0, -1.0), (0.0, 0.0)),
        scalar=None,
        dtypes=(*FLOATS, *INTS),
        jax="jax.numpy.arctan2",
    ),
    binary(
        "maximum", special=TIES, scalar=None, dtypes=(*FLOATS, *INTS, *BOOL), inplace=False, jax="jax.numpy.maximum"
    ),
    binary(
        "minimum", special=TIES, scalar=None, dtypes=(*FLOATS, *INTS, *BOOL), inplace=False, jax="jax.numpy.minimum"
    ),
    binary(
        "logaddexp",
        special=((1.0, 1.0), (-INF, 0.0), (-INF, -INF), (INF, INF)),
        scalar=None,
        dtypes=FLOATS,
        inplace=False,
        mixed=False,
        jax="jax.numpy.logaddexp",
    ),
    binary(
        "xlogy",
        special=((0.0, 0.0), (0.0, 2.0), (1.0, 0.0), (0.0, NAN)),
        low=0.3,
        dtypes=(*FLOATS, *INTS),
        extra=(s(2.0, t(3, low=0.5)),),
    ),
    case("Tensor.__radd__", s(t(2, 3), 2), s(t(3), 1.5), s(i(3, high=3), 1.5), dtypes=FLOATS),
    case("Tensor.__rmul__", s(t(2, 3), 2), s(t(3), 1.5), s(i(3, high=3), 1.5), dtypes=FLOATS),
    case("Tensor.__rsub__", s(t(2, 3), 2), s(t(3), 1.5), s(i(3, high=3), 1.5), dtypes=FLOATS),
    case("Tensor.__rdiv__", s(t(2, 3, low=0.5), 2), s(t(3, low=0.5), 1.5), s(i(3, low=1, high=4), 2), dtypes=FLOATS),
    case("Tensor.__rpow__", s(t(2, 3), 2), s(t(3), 1.5), s(i(3, high=3), 2), s(t(2), 0.0), dtypes=FLOATS),
    case(
        "torch.lerp",
        s(t(2, 3), t(2, 3), t(2, 3)),
        s(t(2, 3), t(3), 0.25),
        s(t(3), t(3), 0.75, second=False),
        s(t(2, 1), t(3), t(), second=False),
        s(t(2), t(2), t(special=(INF,)), second=False),
        s(t(2, special=(INF, 1.0)), t(2), t(), second=False),
        dtypes=FLOATS,
        errors=(et(t(2), t(3), 0.5), e(t(3), t(3, dtype="float32"), 0.5)),
        inplace=True,
    ),
    case(
        "torch.addcmul",
        s(t(2, 3), t(2, 3), t(2, 3)),
        s(t(3), t(2, 1), t(3), value=2),
        s(t(2, 3), t(), t(3), value=-0.5),
        s(i(3, high=3), i(3, high=3), i(3, high=3), value=2),
        dtypes=FLOATS,
        errors=(et(t(2), t(3), t(3)),),
        inplace=True,
    ),
    case(
        "torch.addcdiv",
        s(t(2, 3), t(2, 3), t(2, 3, low=0.5)),
        s(t(3), t(2, 1), t(3, low=0.5), value=2),
        s(t(2), t(2), t(2, special=(0.0, 1.0)), second=False),
        dtypes=FLOATS,
        errors=(et(t(2), t(3), t(3)), e(i(3, high=3), i(3, high=3), i(3, high=3))),
        inplace=True,
    ),
)

UNARY = (
    unary("neg", dtypes=(*FLOATS, *INTS, *COMPLEX), errors=(et(b(3)),), jax="jax.numpy.negative"),
    unary(
        "abs",
        special=(0.0, -0.0, 1.0, -INF, NAN),
        dtypes=(*FLOATS, *INTS, *COMPLEX),
        jax="jax.numpy.abs",
        smooth=False,
        inplace=True,
    ),
    unary("sign", special=(0.0, -0.0, -2.0, NAN), dtypes=(*FLOATS, *INTS, *BOOL), jax="jax.numpy.sign"),
    unary("reciprocal", low=0.5, special=(0.0, INF, -1.0), jax="jax.numpy.reciprocal"),
    unary("square", special=(0.0, INF), jax="jax.numpy.square"),
    unary("sqrt", low=0.2, special=(0.0, -1.0, 4.0, INF), jax="jax.numpy.sqrt"),
    unary("rsqrt", low=0.2, special=(0.0, -1.0, 4.0, INF)),
    unary("exp", special=(0.0, INF, -INF, 1000.0), jax="jax.numpy.exp"),
    unary("expm1", special=(0.0, 1e-9, -INF), jax="jax.numpy.expm1"),
    unary("log", low=0.2, special=(0.0, -1.0, 1.0, INF), jax="jax.numpy.log"),
    unary("log2", low=0.2, special=(0.0, 1.0, 8.0), jax="jax.numpy.log2"),
    unary("log10", low=0.2, special=(0.0, 1.0, 100.0), jax="jax.numpy.log10"),
    unary("log1p", low=-0.8, special=(-1.0, 0.0, -2.0, 1e-9), jax="jax.numpy.log1p"),
    unary("sin", special=(0.0, 1e4), jax="jax.numpy.sin"),
    unary("cos", special=(0.0, 1e4), jax="jax.numpy.cos"),
    unary("tan", low=-1.2, high=1.2, jax="jax.numpy.tan"),
    unary("asin", low=-0.9, high=0.9, special=(1.0, -1.0, 2.0), jax="jax.numpy.arcsin"),
    unary("acos", low=-0.9, high=0.9, special=(1.0, -1.0, 2.0), jax="jax.numpy.arccos"),
    unary("atan", special=(0.0, INF), jax="jax.numpy.arctan"),
    unary("sinh", jax="jax.numpy.sinh"),
    unary("cosh", jax="jax.numpy.cosh"),
    unary("tanh", special=(0.0, 30.0, -INF), jax="jax.numpy.tanh"),
    unary("ceil", special=ROUNDING, dtypes=(*FLOATS, *INTS), jax="jax.numpy.ceil"),
    unary("floor", special=ROUNDING, dtypes=(*FLOATS, *INTS), jax="jax.numpy.floor"),
    unary("trunc", special=ROUNDING, dtypes=(*FLOATS, *INTS), jax="jax.numpy.trunc"),
    case(
        "torch.round",
        s(t(2, 3), smooth=False),
        s(t(10, special=ROUNDING)),
        s(t(4, special=(1.2345, -2.675, 0.5, 12.5)), decimals=2),
        s(t(3, low=-50, high=50), decimals=-1, smooth=False),
        s(i(3, high=9)),
        s(t()),
        dtypes=(*FLOATS, *INTS),
        inplace=True,
        errors=(e("text"),),
    ),
    unary("sigmoid", special=(0.0, 100.0, -100.0, INF), jax="jax.nn.sigmoid"),
    unary("angle", special=(0.0, -1.0, 2.0), inplace=False, jax="jax.numpy.angle"),
    unary("conj", inplace=False, dtypes=(*FLOATS, *COMPLEX)),
)

PIECEWISE = (
    case(
        "torch.clamp",
        s(t(2, 3), -0.5, 0.5),
        s(t(4, special=(-1.0, 1.0, 0.0, 2.0)), -1.0, 1.0),
        s(t(2, 3), min=0.2),
        s(t(2, 3), max=0.2, second=False),
        s(t(2, 3), t(3), t(2, 1, low=2.0, high=3.0)),
        s(t(3, special=(1.0, 2.0, NAN)), t(3, special=(1.0, 3.0, 0.0))),
        s(t(3), 1.0, -1.0, smooth=False),
        s(i(4, high=9), 2, 5),
        s(i(4, high=9), 1.5),
        dtypes=(*FLOATS, *INTS),
        inplace=True,
        errors=(et(t(3)), et(t(2), t(3))),
    ),
    case(
        "torch.clamp_min",
        s(t(2, 3), 0.2),
        s(t(3, special=(1.0, 0.0, 2.0)), 1.0),
        s(t(2, 3), t(3)),
        s(t(2, special=(1.0, 2.0)), t(2, special=(1.0, 3.0))),
        dtypes=(*FLOATS, *INTS),
        inplace=True,
        errors=(et(t(2), t(3)),),
    ),
    case(
        "torch.clamp_max",
        s(t(2, 3), 0.2),
        s(t(3, special=(1.0, 0.0, 2.0)), 1.0),
        s(t(2, 3), t(3)),
        s(t(2, special=(1.0, 2.0)), t(2, special=(1.0, 3.0))),
        dtypes=(*FLOATS, *INTS),
        inplace=True,
        errors=(et(t(2), t(3)),),
    ),
    case(
        "torch.nan_to_num",
        s(t(2, 3)),
        s(t(4, special=(NAN, INF, -INF, 1.0))),
        s(t(4, special=(NAN, INF, -INF, 1.0)), 1.0, 2.0, -3.0),
        s(i(3, high=4)),
        s(t(3, 1, layout="transposed"), second=False),
        dtypes=(*FLOATS, *INTS, *BOOL),
        inplace=True,
        errors=(e("text"),),
    ),
)

COMPLEX_PARTS = (
    case(
        "torch.real",
        s(t(2, 3, dtype="complex128")),
        s(t(3)),
        s(t(3, 2, dtype="complex64", layout="transposed"), second=False),
        errors=(e(3),),
    ),
    case(
        "torch.imag",
        s(t(2, 3, dtype="complex128")),
        s(t(3, 2, dtype="complex64", layout="transposed"), second=False),
        errors=(et(t(3)),),
    ),
    case(
        "torch.view_as_real", s(t(2, 3, dtype="complex128")), s(t(dtype="complex128"), second=False), errors=(et(t(3)),)
    ),
    case(
        "torch.view_as_complex",
        s(t(2, 2)),
        s(t(3, 2, dtype="float32"), second=False),
        errors=(et(t(3, 3)), et(i(3, 2, high=3)), e(t())),
    ),
    case(
        "torch.mul",
        s(t(2, 3, dtype="complex128"), t(3)),
        s(t(3), t(3, dtype="complex64"), second=False),
        s(t(3, dtype="complex128"), 2j),
    ),
    case("torch.exp", s(t(2, 2, dtype="complex64"))),
    case("torch.abs", s(t(3, dtype="complex128", special=(0j, 1 + 1j, -1j))), core="abs"),
    case(
        "torch.add",
        s(t(2, 3, dtype="float16"), t(3, dtype="float32")),
        s(t(2, dtype="bfloat16"), t(2, dtype="float16")),
        s(t(2, dtype="uint8", high=9), i(2, high=9)),
        s(b(3), b(3)),
        s(t(2, dtype="float32"), 1j),
        s(i(2, high=3), 1.5),
        s(b(2), 2),
    ),
)

SEEN_AT_POINTS = """
    acosh asinh atanh deg2rad erfc exp2 frac i0 sgn sinc special.entr special.erfcx special.i0e special.i1 special.i1e
    special.log_ndtr special.ndtr special.ndtri nn.functional.celu nn.functional.softsign nn.functional.tanhshrink
    nn.functional.hardshrink nn.functional.softshrink
"""
TWO_SEEN_AT_POINTS = "fmax fmin hypot copysign logaddexp2 special.xlog1py ldexp heaviside"
RARER = (
    *[
        case(
            f"torch.{name}",
            s(t(2, 3, low=1.1, high=2.0) if name == "acosh" else t(2, 3, low=0.1, high=0.9), second=False),
            s(t(3, 2, low=1.1, high=2.0, layout="transposed"), grads=False),
            errors=() if name.startswith("nn.") else (e("x"),),
            jvp=False,
        )
        for name in SEEN_AT_POINTS.split()
    ],
    *[
        case(
            f"torch.{name}",
            s(t(2, 3), t(3, grad=name != "heaviside"), second=False, grads=name != "heaviside"),
            errors=(e(t(2), t(3)),),
            jvp=False,
        )
        for name in TWO_SEEN_AT_POINTS.split()
    ],
    unary("rad2deg", dtypes=(*FLOATS, *INTS, *BOOL), special=(INF, NAN)),
    case(
        "torch.frexp",
        s(t(2, 3)),
        s(t(5, special=(0.0, INF, NAN, 1.0, -8.0)), grads=False),
        dtypes=("float32", "float16"),
        errors=(et(i(3, high=3)),),
    ),
    case(
        "torch.nextafter",
        s(t(2, 3), t(3)),
        s(t(4, special=(0.0, 1.0, INF, NAN)), t(4, special=(1.0, 1.0, 0.0, 0.0))),
        dtypes=("float32",),
        inplace=True,
        errors=(e(i(2, high=3), i(2, high=3)),),
    ),
    case(
        "torch.complex",
        s(t(2, 3), t(3)),
        s(t(2, dtype="float32"), t(2, dtype="float32")),
        errors=(et(t(2), t(2, dtype="float32")), et(i(2, high=3), i(2, high=3))),
    ),
    case(
        "torch.polar",
        s(t(2, 3), t(3)),
        s(t(2, dtype="float32"), t(2, dtype="float32")),
        errors=(et(i(2, high=3), t(2)),),
    ),
    case(
        "torch.rsub",
        s(t(2, 3), t(3)),
        s(t(3), 2, alpha=3),
        s(i(3, high=5), 1.5),
        dtypes=(*FLOATS, *INTS),
        errors=(e(b(2), b(2)),),
    ),
    case(
        "torch.true_divide",
        s(t(2, 3), t(3, low=0.5)),
        s(i(3, high=5), i(3, low=1, high=5)),
        s(i(3, high=5), 2),
        s(t(3, special=(1.0, 0.0, -1.0)), 0.0),
        dtypes=(*FLOATS, *INTS),
        inplace=True,
    ),
)
CASES: tuple[Case, ...] = (*ARITHMETIC, *UNARY, *PIECEWISE, *COMPLEX_PARTS, *RARER)
