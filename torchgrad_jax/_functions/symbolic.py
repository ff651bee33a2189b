"""Sizes as expressions, which no tensor here has, and control flow as functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from .._engine.tensor import Tensor
from .arguments import register


class _Symbol:
    """A number that stands for a size not yet known. There is none: programs ask with `isinstance`."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{cls.__name__} is not supported: all sizes are numbers here")


class SymInt(_Symbol):
    """An integer that is not yet known."""


class SymFloat(_Symbol):
    """A floating-point number that is not yet known."""


class SymBool(_Symbol):
    """A truth value that is not yet known."""


class OutOfMemoryError(RuntimeError):
    """Memory that could not be had."""


class AcceleratorError(RuntimeError):
    """An error of the device."""


for _kind in (SymInt, SymFloat, SymBool, OutOfMemoryError, AcceleratorError):
    _kind.__module__ = "torch"


def sym_int(a: Any) -> int:
    """`int`, towards zero."""
    return int(a)


def sym_float(a: Any) -> float:
    """`float`."""
    return float(a)


def sym_not(a: Any) -> Any:
    """`not`."""
    return ~a if hasattr(a, "__sym_not__") else not a


def _larger(a: Any, b: Any, pick: Callable[..., Any]) -> Any:
    for v in (a, b):
        if not isinstance(v, int | float | np.integer | np.floating):
            kinds = (np.integer, np.floating, int, float)
            raise AssertionError(f"expected {kinds}, got {type(v)}")
    found = pick(a, b)
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def sym_max(a: Any, b: Any) -> Any:
    """The larger number, floating where either is."""
    return _larger(a, b, max)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller number, floating where either is."""
    return _larger(a, b, min)


def sym_sqrt(a: Any) -> float:
    """The square root."""
    return math.sqrt(a)


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """`t` if `b` else `f`."""
    if not isinstance(b, bool):
        raise AssertionError(f"expected SymBool or bool, got {type(b)}")
    if type(t) is not type(f):
        raise AssertionError(f"type mismatch: {type(t)} vs {type(f)}")
    return t if b else f


def sym_sum(*args: Any) -> Any:
    """The sum of numbers, given one by one or as a sequence."""
    return sum(args[0] if len(args) == 1 and isinstance(args[0], list | tuple) else args)


def _assert(condition: Any, message: str) -> None:
    """`assert` as a function."""
    assert condition, message


def cond(
    pred: bool | int | float | Tensor,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: Sequence[Any] = (),
) -> Any:
    """What one of two functions makes of the operands; only that one runs.

    Args:
        pred: which: a number or a tensor of one element.
        true_fn: the function where it holds.
        false_fn: the function where it does not.
        operands: the arguments.
    """
    if isinstance(pred, Tensor):
        if pred._m.numel != 1:
            raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    elif not isinstance(pred, bool | int | float):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    return true_fn(*operands) if bool(pred) else false_fn(*operands)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]
) -> tuple[Any, ...]:
    """Apply a function to the values it gave last for as long as a condition on them holds.

    Args:
        cond_fn: the condition, of all values.
        body_fn: gives the next values, as many and alike.
        carried_inputs: the first values.
    """
    if not isinstance(carried_inputs, tuple | list):
        raise RuntimeError(f"carried_inputs must be a tuple or list, got {type(carried_inputs)}")
    values = tuple(carried_inputs)
    while bool(cond_fn(*values)):
        found = body_fn(*values)
        found = tuple(found) if isinstance(found, tuple | list) else (found,)
        if len(found) != len(values):
            raise RuntimeError(
                f"body_fn should return the same number of values as it takes, {len(values)}, but returned {len(found)}"
            )
        values = found
    return values


for _fn in (
    sym_int, sym_float, sym_not, sym_max, sym_min, sym_sqrt, sym_ite, sym_sum, _assert, cond, while_loop,
):  # fmt: skip
    register(_fn.__name__, _fn)
