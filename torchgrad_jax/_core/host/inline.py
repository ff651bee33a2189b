"""What a step of NumPy code is: a function of arrays, or an expression in the code."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

Step = Callable[..., Any]


class Unsure(Exception):
    """For these values it is not defined what XLA gives."""


class Inline:
    """A step that becomes an expression in the code, with the names of its operands. That saves a call."""

    def __init__(self, text: str, fresh: bool = False) -> None:
        self.text = text
        self.fresh = fresh
        """Whether what it gives is in new memory."""

    def line(self, target: str, ins: Sequence[str], counts: Sequence[int]) -> str:
        """The line of code; `counts` says how many elements the operands have, and last the result."""
        return f"{target} = {self.text.format(*ins)}"

    def __call__(self, *xs: Any) -> Any:
        names = tuple([f"x{i}" for i in range(len(xs))])
        return eval(_compiled(self.text, names), {**NAMES, **dict(zip(names, xs))})


@functools.lru_cache(1024)
def _compiled(text: str, names: tuple[str, ...]) -> Any:
    return compile(text.format(*names), f"{__file__}:step", "eval")


HALVES = (np.dtype(np.float16), np.dtype(jnp.bfloat16))
"""Types that steps move and convert; they compute in float32 instead. XLA does so, too, but takes the subnormal numbers
of bfloat16, which are some of float32, for zeros."""

_TYPES = [*map(np.dtype, "?bhilBHILefdFD")]

NAMES: dict[str, Any] = {
    "asarray": np.asarray,
    "where": np.where,
    "putmask": np.putmask,
    "concatenate": np.concatenate,
    "truth": (np.False_, np.True_),
    **{f.__name__: f for f in (np.add, np.divide, np.exp, np.negative, np.not_equal, np.sqrt, np.sign, np.copysign)},
    **{f.__name__: f for f in (np.maximum, np.minimum, np.subtract, np.multiply)},
    **{dt.name: dt for dt in (*_TYPES, *HALVES)},
    **{f"zero_{dt.name}": np.zeros((), dt) for dt in _TYPES},
    **{f"one_{dt.name}": np.ones((), dt) for dt in _TYPES},
    **{f"most_{dt.name}": np.full((), np.inf, dt) for dt in _TYPES if dt.kind == "f"},
    **{f"least_{dt.name}": np.full((), -np.inf, dt) for dt in _TYPES if dt.kind == "f"},
}
"""What the text of a step may name. A ufunc takes an array without dimensions faster than a number."""

SAME = Inline("{0}")


class Reshape(Inline):
    """A step that only gives its operand another shape."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(f"{{0}}.reshape({shape})")
        self.shape = shape


class Choice(Inline):
    """Elements of one array where a mask is true, and of another elsewhere.

    A copy that is written to where the mask says takes half the time of `where`.
    """

    def __init__(self) -> None:
        super().__init__("where({0}, {2}, {1})", fresh=True)

    def line(self, target: str, ins: Sequence[str], counts: Sequence[int]) -> str:
        """The line of code."""
        which, no, yes, all_of_them = counts
        if not which == no == all_of_them > 1 or yes not in (1, all_of_them):
            return super().line(target, ins, counts)
        return f"{target} = {ins[1]}.copy(); putmask({target}, {ins[0]}, {ins[2]})"


class Extreme(Inline):
    """The larger or the smaller of two floating point numbers.

    With one number for all elements a limit takes a third of the time.
    """

    def __init__(self, ufunc: np.ufunc, dt: np.dtype) -> None:
        super().__init__(f"{ufunc.__name__}({{0}}, {{1}})", fresh=True)
        most = f"most_{dt.name}"
        self._limited = f"{{0}}.clip({{1}}, {most})" if ufunc is np.maximum else f"{{0}}.clip(least_{dt.name}, {{1}})"

    def line(self, target: str, ins: Sequence[str], counts: Sequence[int]) -> str:
        """The line of code."""
        first, second, _ = counts
        if (first == 1) is (second == 1):
            return super().line(target, ins, counts)
        return f"{target} = {self._limited.format(*(ins if second == 1 else ins[::-1]))}"


WHOLE = {1: np.int8, 4: np.int32, 8: np.int64}
"""Integers by their size: a choice among many elements is made of bits, since `where` branches for each of them."""
