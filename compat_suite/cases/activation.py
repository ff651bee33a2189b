"""Activations, with their kinks."""

from __future__ import annotations

from typing import Any

from ..case import FLOATS, Case, D, case, e, et, i, s, t
from .pointwise import INF, NAN

F = "torch.nn.functional"
KINKS = (0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 6.0, 30.0, -30.0, NAN)


def activation(name: str, *extra: Any, special: tuple[float, ...] = KINKS, **options: Any) -> Case:
    """Smooth points, kinks, a transposed and an empty input."""
    return case(
        f"{F}.{name}",
        s(t(2, 3)),
        s(t(len(special), special=special), second=True),
        s(t(3, 2, layout="transposed"), second=False),
        s(t(0, 3), second=False),
        s(t(), second=False),
        *extra,
        dtypes=FLOATS,
        errors=(e("x"),),
        **options,
    )


CASES: tuple[Case, ...] = (
    activation("relu", s(t(3), inplace=True, grads=False), s(i(3, low=-2, high=3)), jax="jax.nn.relu"),
    activation("relu6", jax="jax.nn.relu6"),
    activation("leaky_relu", s(t(3), 0.2), s(t(3), -0.1, second=False), jax="jax.nn.leaky_relu"),
    activation("elu", s(t(3), 0.5), jax="jax.nn.elu"),
    activation("selu", jax="jax.nn.selu"),
    activation("gelu", s(t(3), approximate="tanh", second=True)),
    activation("silu", jax="jax.nn.silu"),
    activation("mish", jax="jax.nn.mish"),
    activation("hardtanh", s(t(4, special=(-0.5, 0.5, 0.0, 1.0)), -0.5, 0.5)),
    case(f"{F}.hardtanh", s(t(3, dtype="uint8"), 0.0, 1.0), errors=(et(t(3, dtype="uint8")),)),
    activation("hardswish"),
    activation("hardsigmoid", tolerance=1e3, cause="torch's backward multiplies by 1/6 rounded to float32"),
    activation("softplus", s(t(3), 2.0), s(t(3, special=(1.0, 0.5, 3.0)), 2.0, 1.0), jax="jax.nn.softplus"),
    activation("logsigmoid", jax="jax.nn.log_sigmoid"),
    case(
        f"{F}.prelu",
        s(t(2, 3), t(1)),
        s(t(2, 3), t(3)),
        s(t(3, special=(0.0, -1.0, 1.0)), t(1)),
        s(t(2, 3, 2), t(3), second=False),
        s(t(), t(1), second=False),
        dtypes=FLOATS,
        errors=(e(t(2, 3), t(2)), e(t(2, 3), t(1, dtype="float32"))),
    ),
    case(
        f"{F}.glu", s(t(2, 4)), s(t(4, 2), 0), dtypes=FLOATS, errors=(e(t(3)), et(t(2, 4), 2), e(t())), jax="jax.nn.glu"
    ),
    *(
        case(
            f"torch.{name}",
            s(t(2, 3), 1),
            s(t(2, 3), 0),
            s(t(3, 2, layout="transposed"), -1, second=False),
            s(t(3, special=(INF, 0.0, 1.0)), 0),
            s(t(3, special=(-INF, 0.0, 1.0)), 0),
            s(t(2, special=(-INF, -INF)), 0),
            s(t(), 0, second=False),
            s(t(0, 3), 1, second=False),
            s(t(2, 3, dtype="float32"), 1, dtype=D("float64"), second=False),
            s(i(3, high=3), 0, dtype=D("float32")),
            dtypes=FLOATS,
            errors=(et(t(2, 3), 2), e(i(3, high=3), 0)),
            jax=f"jax.nn.{name}",
        )
        for name in ("softmax", "log_softmax")
    ),
    case(f"{F}.threshold", s(t(2, 3), 0.5, 2.0), s(t(3, special=(0.5, NAN, 1.0)), 0.5, -1), dtypes=FLOATS),
    case(f"{F}.softmin", s(t(2, 3), 1), s(t(2, 3), 0, dtype=D("float32"), second=False)),
)
