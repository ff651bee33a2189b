"""exp, erf and their like, as NumPy or Python computes them: for the table of `steps`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .inline import Step


def one_by_one(fn: Callable[[float], float]) -> Callable[..., Step | None]:
    """Calls a function of Python for each element, where NumPy has no such function."""

    def make(params: Any, ins: Any, outs: Any) -> Step | None:
        dt = ins[0].dtype

        def each(x: Any) -> Any:
            x = np.asarray(x)
            return np.array([fn(v) for v in x.ravel().tolist()], dt).reshape(x.shape)

        return each

    return make


def power(x: Any, y: Any) -> Any:
    """As C has it: NumPy takes the root where there is one exponent, 0.5, also of -inf and -0.0."""
    if y.size == 1 and y.item() == 0.5:
        return np.sqrt(np.where(np.isneginf(x), -x, x + np.abs(y * 0)))  # -0.0 + 0.0 is 0.0
    return np.power(x, y)


def erf(params: Any, ins: Any, outs: Any) -> Step | None:
    few = ins[0].size <= _FEW or ins[0].dtype != np.float32
    return one_by_one(math.erf)(params, ins, outs) if few else _error_function


_FEW = 64
"""So many calls of a function of Python take less time than twenty of NumPy's."""


def erf_cost(eqn: Any) -> float:
    aval = eqn.invars[0].aval
    return 15 + aval.size * (4e-3 if aval.dtype == np.float32 else 50e-3)


def _error_function(x: Any) -> Any:
    """erf in float32, to three units in the last place: x times a quotient of polynomials of x * x."""
    x = x.clip(-_ERF_END, _ERF_END)
    square = x * x
    top, bottom = (_polynomial(square, c) for c in (_ERF_TOP, _ERF_BOTTOM))
    x *= top
    x /= bottom
    return x.clip(-_ONE, _ONE, out=x)


def _polynomial(x: Any, coefficients: Any) -> Any:
    out = x * coefficients[0]
    for c in coefficients[1:-1]:
        out += c
        out *= x
    out += coefficients[-1]
    return out


_ONE, _ERF_END = np.float32(1), np.float32(3.95)

_ERF_TOP = np.array(
    [
        2.0258458903302784e-06,
        0.0002846876659239195,
        0.003808284055644545,
        0.05287581323897599,
        0.19155354360704346,
        1.1283791437320263,
    ],
    np.float32,
)

_ERF_BOTTOM = np.array(
    [3.7831154736578135e-05, 0.0011707502473703025, 0.015055336707677749, 0.11456090490628652, 0.5030925833724899, 1.0],
    np.float32,
)
"""The quotient is within 2e-8 of erf(x) / x up to 3.95, where erf is 1 in float32."""


def log_gamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (OverflowError, ValueError):  # too large, or a pole
        return math.inf


def cost(eqn: Any) -> float:
    """The cost of exp, tanh and their like, of which NumPy computes several float32 numbers at a time."""
    aval = eqn.outvars[0].aval
    return 0.5 + aval.size * (0.6e-3 if aval.dtype.itemsize == 4 else 2e-3)


def of_floats(fn: Step) -> Callable[..., Step | None]:
    """A function of floating point numbers, all of the dtype of the result."""

    def make(params: Any, ins: Any, outs: Any) -> Step | None:
        return fn if all(a.dtype == outs[0].dtype and a.dtype.kind == "f" for a in ins) else None

    return make
