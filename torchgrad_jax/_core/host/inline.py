"""What a step of NumPy code is: a function of arrays, or an expression in the code."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

Step = Callable[..., Any]


class Unsure(Exception):
    """For these values it is not defined what XLA gives."""


class Inline:
    """A step that becomes an expression in the code, with the names of its operands. That saves a call."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __call__(self, *xs: Any) -> Any:
        names = tuple([f"x{i}" for i in range(len(xs))])
        return eval(_compiled(self.text, names), {**NAMES, **dict(zip(names, xs))})


@functools.lru_cache(1024)
def _compiled(text: str, names: tuple[str, ...]) -> Any:
    return compile(text.format(*names), f"{__file__}:step", "eval")


HALF = np.dtype(np.float16)
"""A type that steps move and convert, but don't compute in. XLA computes `bfloat16` with subnormals as zeros."""

NAMES: dict[str, Any] = {
    "asarray": np.asarray,
    "where": np.where,
    "concatenate": np.concatenate,
    **{dt.name: dt for dt in map(np.dtype, "?bhilBHILefdFD")},
}
"""What the text of a step may name."""

SAME = Inline("{0}")


class Reshape(Inline):
    """A step that only gives its operand another shape."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(f"{{0}}.reshape({shape})")
        self.shape = shape


WHOLE = {1: np.int8, 4: np.int32, 8: np.int64}
"""Integers by their size: a choice among many elements is made of bits, since `where` branches for each of them."""
